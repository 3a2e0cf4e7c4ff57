"""Unpack a frozen home."""

import tarfile
from pathlib import Path


def opened(name: str, folder: Path) -> Path:
    """Unpack the home of this name into a folder, and return where it then lies."""
    with tarfile.open(Path(__file__).parent / f"{name}.tar.xz") as packed:
        packed.extractall(folder, filter="tar")
    return folder / "deid"

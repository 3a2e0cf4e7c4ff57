"""Real public files that some tests read. They lie beside the repository and do not ship with it."""

from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[2] / "shared" / "data"


def public_data(*parts: str) -> Path:
    """A file or folder of the public data; the test that asks is skipped where it is not at hand."""
    path = FOLDER.joinpath(*parts)
    if not path.exists():
        pytest.skip(f"the public data {'/'.join(parts)} are not beside the repository (../shared/data)")
    return path

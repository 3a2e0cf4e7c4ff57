"""The version of this code, which manifests state. Every commit has its own.

Building a package reads it too, so that nothing of the product is imported here.
"""

import subprocess
from functools import lru_cache
from importlib import metadata
from pathlib import Path

BASE = "0.1.0"
"""The version without the commit; it stands for repositories without a tag, and in the digest of a release's inputs."""

_ROOT = Path(__file__).resolve().parents[1]


@lru_cache(maxsize=1)
def version() -> str:
    """The version: of the repository that holds this code or, without one, of the package's metadata.

    Returns
    -------
    str
        The last tag, how many commits follow it, and the commit: "0.1.0.post12+g5d17fc2". ".dirty" ends it where files of the
        repository differ from the commit, and "+unknown" where nothing tells the commit.
    """
    if (_ROOT / ".git").exists():
        return _of_repository(_ROOT)
    packed = _ROOT / "PKG-INFO"  # of a source distribution
    if packed.is_file():
        return next(line.removeprefix("Version: ") for line in packed.read_text().splitlines() if line.startswith("Version: "))
    try:
        return metadata.version("deid_assets")
    except metadata.PackageNotFoundError:
        return f"{BASE}+unknown"


def _of_repository(root: Path) -> str:
    """The version of a repository's commit; without git nothing tells it."""
    try:
        commit = _git(root, "rev-parse", "--short=7", "HEAD")
        changed = _git(root, "status", "--porcelain", "--untracked-files=no")
    except (OSError, subprocess.CalledProcessError):
        return f"{BASE}+unknown"
    try:
        tag, distance, _ = _git(root, "describe", "--tags", "--long", "--match", "v[0-9]*").rsplit("-", 2)
    except subprocess.CalledProcessError:
        tag, distance = BASE, _git(root, "rev-list", "--count", "HEAD")
    after = f".post{distance}" if int(distance) else ""
    return f"{tag.removeprefix('v')}{after}+g{commit}{'.dirty' if changed else ''}"


def _git(root: Path, *arguments: str) -> str:
    # A repository of another owner, as in a container, is read all the same: these commands run nothing that it names.
    command = ["git", "-c", f"safe.directory={root}", "-c", "core.fsmonitor=false", "-C", str(root), *arguments]
    ran = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)  # noqa: S603 - no word of it is given
    return ran.stdout.strip()

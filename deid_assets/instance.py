"""The Dagster instance under `.deid/home`: its settings, and where the workspace file is."""

from pathlib import Path

from deid_assets.errors import DeidError
from deid_assets.home import Home
from deid_assets.release import durable
from deid_assets.store import owner_only

_PACKAGE = Path(__file__).parent


def prepare_dagster_home(home: Home) -> None:
    """Put the instance's settings into its folder. Without DAGSTER_HOME the history would be lost on exit."""
    owner_only(home.dagster)
    file, settings = home.dagster / "dagster.yaml", _shipped("dagster.yaml").read_bytes()
    with durable.locked(home.dagster / ".lock"):
        if not file.exists() or file.read_bytes() != settings:
            durable.replace(file, settings, 0o600)


def workspace_file() -> Path:
    """The workspace file: that of the checkout, or the copy in the installed package."""
    return _shipped("workspace.yaml")


def _shipped(name: str) -> Path:
    for folder in (_PACKAGE.parent, _PACKAGE):
        if (folder / name).exists():
            return folder / name
    raise DeidError(f"{name} is missing from this installation; install deid_assets again")

"""What `deid lineage` does: describe a release as an OpenLineage event, write it, and send it if an endpoint is set."""

from pathlib import Path

from rich.console import Console
from rich.markup import escape

from deid_assets.command_line.audit import derived_columns_of, lineage_of_release
from deid_assets.errors import ReleaseError
from deid_assets.home_identity import public_name
from deid_assets.release.lineage.openlineage import SENT, endpoint_is_set, problem_of_telling, write_event
from deid_assets.release.lineage.published import PublishedRelease, published_release
from deid_assets.store.home import Home


def write_recorded_event(home: Home, published: PublishedRelease) -> tuple[Path, bool]:
    """Write the event of a release from what the event log has of it, and send it; as `telling.write_event`.

    Raises
    ------
    ReleaseError
        If the event log has no record of the release, or the endpoint does not take the event. The file is written in the
        latter case, too.
    """
    lineage = lineage_of_release(home, published)
    if lineage is None:
        raise ReleaseError(
            f"the event log has no materialization of release {published.name}, so that its lineage is not known"
        )
    columns, problems = derived_columns_of(published, lineage)
    if problems:
        raise ReleaseError("; ".join(problems))
    return write_event(home, published, columns, lineage.release.run, public_name(home))


def tell_approved(home: Home, release: Path, console: Console) -> None:
    """Send the lineage of a release that was approved, if an endpoint is set; say so, or why it failed.

    A run sends the lineage of what it publishes itself; what waits for approval is published by no run.
    """
    if not endpoint_is_set():
        return
    name = f"{release.parent.name}/{release.name}"
    problem = problem_of_telling(name, lambda: write_recorded_event(home, published_release(home, release)))
    console.print(escape(problem or SENT), soft_wrap=True)

"""What `deid lineage` does: describe a release as an OpenLineage event, write it, and send it if an endpoint is set."""

import json
import os
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from deid_assets.command_line.audit import derived_columns_of, lineage_of_release
from deid_assets.errors import DeidError, ReleaseError
from deid_assets.release.lineage.openlineage import KEY, URL, release_event, send
from deid_assets.release.lineage.published import PublishedRelease, published_release
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.store import durable
from deid_assets.store.home import Home
from deid_assets.store.reading import regular_bytes
from deid_assets.store.tables import owner_only


def write_event(home: Home, published: PublishedRelease) -> tuple[Path, bool]:
    """Write the event of a release beside its restricted manifest, and send it; return its file, and whether it was sent.

    Raises
    ------
    ReleaseError
        If the event log has no record of the release, or the endpoint does not take the event. The file is written then,
        too.
    """
    lineage = lineage_of_release(home, published)
    if lineage is None:
        raise ReleaseError(
            f"the event log has no materialization of release {published.name}, so that its lineage is not known"
        )
    columns, problems = derived_columns_of(published, lineage)
    if problems:
        raise ReleaseError("; ".join(problems))
    dictionary = json.loads(regular_bytes(published.folder / DICTIONARY))
    event = release_event(published.public, dictionary, columns, lineage.release.run)
    file = owner_only(home.store / "manifests" / published.policy) / f"{published.number:04d}.openlineage.json"
    with durable.locked(home.store / "manifests" / ".audit.lock"):
        durable.replace(file, json.dumps(event, indent=1).encode() + b"\n", 0o600)
    url = os.environ.get(URL)
    if url:
        send(event, url, os.environ.get(KEY))
    return file, bool(url)


def tell_lineage(home: Home, release: Path | None, console: Console) -> None:
    """Send the lineage of a release that a run has just published, if an endpoint is set; say so, or why it failed.

    The release is published, whatever comes of this.
    """
    if release is None or not os.environ.get(URL):
        return
    try:
        write_event(home, published_release(home, release))
    except (DeidError, OSError, ValueError, KeyError) as error:
        why = str(error) if isinstance(error, DeidError) else type(error).__name__
        console.print(
            f"Lineage was not sent; `deid lineage {escape(str(release))}` sends it again: {escape(why)}", soft_wrap=True
        )
    else:
        console.print("Lineage was sent to the endpoint.")

"""The OpenLineage event of a release: kept beside its restricted manifest, and sent if an endpoint is set."""

import json
import os
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

from deid_assets.errors import DeidError
from deid_assets.release.lineage.columns import DerivedColumn
from deid_assets.release.lineage.openlineage import KEY, URL, release_event, send
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.store import durable
from deid_assets.store.home import Home

SENT = "Lineage was sent to the endpoint."

TOLD = "lineage"
"""Metadata of a release: what came of sending its lineage."""


def write_event(
    home: Home, published: PublishedRelease, columns: Iterable[DerivedColumn], run: str, name: str
) -> tuple[Path, bool]:
    """Write the event of a release beside its restricted manifest, and send it; return its file, and whether it was sent.

    Parameters
    ----------
    columns
        What each published column derives from.
    run
        Identifier of Dagster's run.
    name
        Of the home, as in `release_event`.

    Raises
    ------
    ReleaseError
        If the endpoint does not take the event. The file is written then, too.
    """
    event = release_event(published.public, _described_tables(published), columns, run, name)
    file = durable.owner_only(home.store / "manifests" / published.policy) / f"{published.number:04d}.openlineage.json"
    with durable.locked(home.store / "manifests" / ".audit.lock"):
        durable.replace(file, json.dumps(event, indent=1).encode() + b"\n", 0o600)
    url = os.environ.get(URL)
    if url:
        send(event, url, os.environ.get(KEY))
    return file, bool(url)


def _described_tables(published: PublishedRelease) -> Mapping[str, Any]:
    """The release's dictionary or, where its version wrote none, the names of its tables, without columns."""
    if not published.without_dictionary:
        return published.dictionary()
    names = {PurePosixPath(file["path"]).stem for file in published.public["files"] if file["rows"] is not None}
    return {"tables": {name: {"columns": []} for name in sorted(names)}}


def problem_of_telling(name: str, tell: Callable[[], object]) -> str | None:
    """Tell the lineage of a release that was just published; return why it was not sent, None if it was.

    The release is published, whatever comes of this.

    Parameters
    ----------
    name
        Policy and number of the release.
    tell
        Writes the event and sends it.
    """
    try:
        tell()
    except (DeidError, OSError, ValueError, KeyError, TypeError) as error:
        why = str(error) if isinstance(error, DeidError) else type(error).__name__
        return f"Lineage was not sent; `deid lineage {name}` sends it again: {why}"
    return None


def endpoint_is_set() -> bool:
    """Whether lineage is sent at all."""
    return bool(os.environ.get(URL))

"""A release as an OpenLineage event, for catalogs of other systems.

The event holds what is public anyway: the public manifest, the dictionary of the columns, and the names that the policy
gives to columns of the delivery. The delivery is named by the keyed digest of its key, and the home in all namespaces by a
digest of its identity, so that two homes are not taken for one. Nothing names a path or a host, and no person but the owners
that the policy states. The client library of OpenLineage would add facts about the machine; it is not used to send the event.

It is kept beside its restricted manifest, and sent if an endpoint is set.

References
----------
OpenLineage specification 2-0-2, https://openlineage.io/spec/2-0-2/OpenLineage.json, and the facets named below.
"""

import http.client
import json
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Any

from deid_assets.errors import DeidError, ReleaseError
from deid_assets.release.lineage.columns import TABLES, DerivedColumn
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.registry.chain import delivery_named
from deid_assets.sources.flat import RECORDS
from deid_assets.store import durable
from deid_assets.store.digests import Json, parse_json
from deid_assets.store.home import Home

URL, KEY, PATH = "OPENLINEAGE_URL", "OPENLINEAGE_API_KEY", "api/v1/lineage"
"""Variables that name an endpoint, and its path, as OpenLineage's clients use them."""

_SPEC = "https://openlineage.io/spec"
_SECONDS = 10


def release_event(
    manifest: Mapping[str, Any], dictionary: Mapping[str, Any], columns: Iterable[DerivedColumn], run: str, home: str
) -> dict[str, Json]:
    """Describe a release as a completed run: the delivery's tables went in, the released tables came out.

    Parameters
    ----------
    manifest
        The public edition.
    dictionary
        `data/dictionary.json` of the release.
    columns
        What each released column derives from.
    run
        Identifier of Dagster's run, a UUID.
    home
        The name by which others know the home; the namespace of its jobs is `deid://<home>`, and those of its deliveries and
        releases lie below it.

    Returns
    -------
    dict
        A `RunEvent`.
    """
    producer = f"urn:deid-assets:{manifest['code_version']}"  # the namespace of a URN has no underscore
    policy = manifest["policy"]["name"]
    of_table: dict[str, list[DerivedColumn]] = {}
    for column in columns:
        of_table.setdefault(column.table, []).append(column)
    jobs = f"deid://{home}"
    delivery = _Tables(f"{jobs}/deliveries", delivery_named(manifest["delivery"]))
    sources = sorted({_field(delivery, one)["name"] for own in of_table.values() for c in own for one in c.delivered})
    stated = parse_json(manifest["policy"]["text"].encode())
    owners = [{"name": name, "type": "OWNER"} for name in stated.get("owners", [])]
    return {
        "eventType": "COMPLETE",
        "eventTime": manifest["created"],
        "producer": producer,
        "schemaURL": f"{_SPEC}/2-0-2/OpenLineage.json#/$defs/RunEvent",
        "run": {
            "runId": run,
            "facets": {
                "processing_engine": _facet(producer, "1-1-1", "ProcessingEngineRunFacet")
                | {"name": "deid_assets", "version": manifest["code_version"]}
            },
        },
        "job": {
            "namespace": jobs,
            "name": f"{policy}/release",
            "facets": {
                "jobType": _facet(producer, "2-0-4", "JobTypeJobFacet")
                | {"processingType": "BATCH", "integration": "DAGSTER", "jobType": "JOB"},
                "documentation": _facet(producer, "1-1-0", "DocumentationJobFacet") | _text(_about(stated)),
                "ownership": _facet(producer, "1-0-1", "OwnershipJobFacet") | {"owners": owners},
            },
        },
        "inputs": [{"namespace": delivery.namespace, "name": name, "facets": {}, "inputFacets": {}} for name in sources],
        "outputs": [
            {
                "namespace": f"{jobs}/releases",
                "name": f"{policy}/{manifest['number']:04d}/{table}",
                "facets": {
                    "schema": _facet(producer, "1-2-0", "SchemaDatasetFacet") | {"fields": _fields(described)},
                    "version": _facet(producer, "1-0-1", "DatasetVersionDatasetFacet")
                    | {"datasetVersion": _version(manifest, table)},
                    "columnLineage": _facet(producer, "1-2-0", "ColumnLineageDatasetFacet")
                    | {"fields": _lineage(delivery, of_table.get(table, ())), "dataset": []},
                    "documentation": _facet(producer, "1-1-0", "DocumentationDatasetFacet")
                    | _text(f"Table {table} of release {policy}/{manifest['number']:04d}. {_about(stated)}"),
                    "ownership": _facet(producer, "1-0-1", "OwnershipDatasetFacet") | {"owners": owners},
                },
                "outputFacets": _statistics(producer, manifest, table),
            }
            for table, described in sorted(dictionary["tables"].items())
        ],
    }


def _facet(producer: str, version: str, name: str) -> dict[str, Any]:
    return {"_producer": producer, "_schemaURL": f"{_SPEC}/facets/{version}/{name}.json#/$defs/{name}"}


def _about(policy: Mapping[str, Any]) -> str:
    """What a policy says of itself, and of those whom its releases are for."""
    recipients = policy.get("recipients") or {}
    told = {
        "title": policy.get("title"),
        "description": policy.get("description"),
        "recipients": recipients.get("recipient_class"),
        "terms": recipients.get("terms_of_use"),
    }
    shown = {name: " ".join(str(text).split()).rstrip(".") for name, text in told.items() if text}
    return " ".join(f"{_ABOUT[name]}{text}." for name, text in shown.items())


_ABOUT = MappingProxyType({"title": "", "description": "", "recipients": "For ", "terms": "Terms of use: "})


def _text(description: str) -> dict[str, Json]:
    return {"description": description, "contentType": "text/plain"}


def _statistics(producer: str, manifest: Mapping[str, Any], table: str) -> dict[str, Json]:
    """The rows of a released table, which its files reveal anyway; nothing of a table of which the manifest states none."""
    files = [file for file in manifest["files"] if PurePosixPath(file["path"]).stem == table and file.get("rows") is not None]
    if not files:
        return {}
    facet = _facet(producer, "1-0-2", "OutputStatisticsOutputDatasetFacet")
    counted = {"rowCount": files[0]["rows"], "size": sum(file["bytes"] for file in files), "fileCount": len(files)}
    return {"outputStatistics": facet | counted}


def _fields(described: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {"name": column["name"], "type": column["type"], "description": column["meaning"], "fields": []}
        for column in described["columns"]
    ]


def _version(manifest: Mapping[str, Any], table: str) -> str:
    """The digest of the table's rows, which CSV and Parquet share."""
    found = {file["rows_digest"] for file in manifest["files"] if PurePosixPath(file["path"]).stem == table}
    return str(next(iter(found - {None}), "unknown"))


@dataclass(frozen=True)
class _Tables:
    """The tables of a delivery: their namespace, and what their names begin with."""

    namespace: str
    name: str


def _lineage(delivery: _Tables, columns: Iterable[DerivedColumn]) -> dict[str, Any]:
    return {
        column.column: {"inputFields": [_field(delivery, one) | {"transformations": []} for one in column.delivered]}
        for column in columns
        if column.delivered
    }


def _field(delivery: _Tables, delivered: str) -> dict[str, Any]:
    """A delivered column: "members.column", "claims.column", or a column of the one table that was delivered."""
    table, _, column = delivered.partition(".")
    if table not in TABLES or not column:
        table, column = RECORDS, delivered
    return {"namespace": delivery.namespace, "name": f"{delivery.name}/{table}", "field": column}


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Following one would ask for a page instead of sending the event, and would give the key to whoever is named."""

    def redirect_request(self, *request: object) -> None:
        """Follow nothing: the redirect is an answer like any other error."""


def send(event: Mapping[str, Json], url: str, key: str | None) -> None:
    """Send an event to an endpoint.

    Parameters
    ----------
    url, key
        What the variables `OPENLINEAGE_URL` and `OPENLINEAGE_API_KEY` say.

    Raises
    ------
    ReleaseError
        If the endpoint does not take it. The message has neither the address nor the key.
    """
    headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
    address = f"{url.rstrip('/')}/{PATH}"
    if not address.startswith(("http://", "https://")):
        raise ReleaseError(f"{URL} must begin with http:// or https://")
    try:
        request = urllib.request.Request(address, json.dumps(event).encode(), headers, method="POST")  # noqa: S310
        with urllib.request.build_opener(_NoRedirects).open(request, timeout=_SECONDS):  # http or https, as checked above
            return
    except urllib.error.HTTPError as error:
        problem = f"it answers {error.code}"
    except (OSError, ValueError, http.client.HTTPException) as error:
        problem = f"it cannot be reached ({type(error).__name__})"
    raise ReleaseError(f"the endpoint that {URL} names did not take the event: {problem}")


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

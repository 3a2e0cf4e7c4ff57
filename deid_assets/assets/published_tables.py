"""The published tables as assets, which are made in the step that publishes their release, or not at all."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any, TypeAlias

import dagster as dg

from deid_assets.assets.step import Step, published_output
from deid_assets.assets.whole_stage import upstream
from deid_assets.errors import ReleaseError
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.event_log import current_lineage
from deid_assets.release.lineage.columns import DerivedColumn, derived_columns
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.publication.publish import Staging
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.release.published_tables import published_tables
from deid_assets.resources import sibling
from deid_assets.stages import STAGE_OF
from deid_assets.store.digests import Json, regular_bytes

Made: TypeAlias = tuple[dg.Output[Any], ...]
"""What a release returns: its files, and every published table."""


@dataclass(frozen=True)
class PublishedTables:
    """The tables of a release that is about to be published.

    Attributes
    ----------
    names
        As in `published_tables`.
    sources
        By table and column: the columns that it derives from.
    """

    names: tuple[str, ...]
    sources: Mapping[str, Mapping[str, Sequence[dg.TableColumnDep]]]

    @classmethod
    def of(cls, step: Step[AnyPolicy], staging: Staging) -> "PublishedTables":
        """Read from the staged dictionary and the event log what the columns derive from.

        Raises
        ------
        ReleaseError
            If other tables are staged than those that the definitions declare.
        """
        policy = step.policy
        names, own = published_tables(policy), step.own
        staged = {PurePosixPath(file.path).stem for file in staging.files if file.rows is not None}
        if staged != set(names):
            differing = ", ".join(sorted(staged ^ set(names)))
            raise ReleaseError(f"the staged tables are not those that policy {policy.name} publishes: {differing}")
        lineage = current_lineage(step.instance, own, upstream(policy, own), step.key)
        dictionary = json.loads(regular_bytes(staging.folder / DICTIONARY))
        delivered_by = {} if step.workplace.copies is None else step.workplace.copies.assets
        sources: dict[str, dict[str, list[dg.TableColumnDep]]] = {name: {} for name in names}
        for column in derived_columns(lineage, dictionary, policy.public_content()):
            found = _sources(own, column, delivered_by)
            if found:
                sources[column.table][column.column] = found
        return cls(names, sources)

    def to_json(self) -> dict[str, Json]:
        """As JSON values, which a release that waits for approval keeps."""
        return {
            table: {
                column: [[one.asset_key.to_user_string(), one.column_name] for one in found]
                for column, found in self.sources.get(table, {}).items()
            }
            for table in self.names
        }

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> "PublishedTables":
        """The inverse of `to_json`."""
        return cls(
            tuple(kept),
            {
                table: {
                    column: [dg.TableColumnDep(dg.AssetKey.from_user_string(key), name) for key, name in found]
                    for column, found in columns.items()
                }
                for table, columns in kept.items()
            },
        )

    def outputs(self, folder: Path) -> list[dg.Output[None]]:
        """One output for each table of the release in a folder, in the order of the definitions."""
        return [
            dg.Output(None, published_output(name), metadata=metadata, data_version=dg.DataVersion(version))
            for name, metadata, version in self.described(folder)
        ]

    def described(self, folder: Path) -> Iterator[tuple[str, dict[str, Any], str]]:
        """Yield name, metadata and data version of each table of the release in a folder.

        The data version is the digest of the Parquet file: who reads the table is stale only if it changed.
        """
        manifest = json.loads(regular_bytes(folder / MANIFEST))
        files = {file["path"]: file for file in manifest["files"]}
        columns = {
            table: described["columns"] for table, described in json.loads(regular_bytes(folder / DICTIONARY))["tables"].items()
        }
        for name in self.names:
            parquet, csv = files[f"data/{name}.parquet"], files[f"data/{name}.csv"]
            metadata: dict[str, Any] = {
                "path": dg.MetadataValue.path(str(folder / parquet["path"])),
                "csv": dg.MetadataValue.path(str(folder / csv["path"])),
                "dagster/row_count": parquet["rows"],
                "dagster/column_schema": _schema(columns[name]),
                "number": manifest["number"],
                "sha256": parquet["sha256"],
                "sha256_csv": csv["sha256"],
            }
            if self.sources.get(name):
                metadata["dagster/column_lineage"] = dg.TableColumnLineage(self.sources[name])
            yield name, metadata, parquet["sha256"]


def _sources(release: dg.AssetKey, column: DerivedColumn, delivered_by: Mapping[str, str]) -> list[dg.TableColumnDep]:
    """The column of the candidate, and where it begins: in the assets of the project, if known, else at the intake."""
    found = [] if column.candidate is None else [(sibling(release, column.candidate), column.column)]
    delivered = [one.partition(".") for one in column.delivered]
    upstream_columns = [
        (dg.AssetKey.from_user_string(delivered_by[table]), name) for table, _, name in delivered if table in delivered_by
    ]
    taken_in = [
        (sibling(release, table), name)
        for table, _, name in (step.partition(".") for step in column.steps)
        if STAGE_OF.get(table) == "intake"
    ]
    return [
        dg.TableColumnDep(asset_key=key, column_name=name)
        for key, name in dict.fromkeys(found + (upstream_columns or taken_in))
        if column.steps
    ]


def _schema(columns: Sequence[Mapping[str, Any]]) -> dg.TableSchema:
    """The columns as the dictionary describes them."""
    return dg.TableSchema([dg.TableColumn(one["name"], one["type"], one["meaning"]) for one in columns])

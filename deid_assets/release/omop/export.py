"""Write a verified release as an OMOP CDM, and find each of its cells again in what was written.

Nothing but the published files is read: what the gate has not judged cannot get into the tables. The same release gives the
same tables. What they say is read back, and compared with the files. Rows without a date, and what else the CDM has no place
for, are counted.
"""

import re
import shutil
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb

from deid_assets.errors import ReleaseError
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.omop.columns import Layout, layout_of
from deid_assets.release.omop.reading_back import Released, members_without_events, require_read_back
from deid_assets.release.omop.tables import CDM_VERSION, named, numbered_views, queries, vocabulary
from deid_assets.release.publication.export import write_ordered
from deid_assets.release.publication.verification import MANIFEST
from deid_assets.store.digests import file_digest, parse_json, regular_bytes
from deid_assets.store.tables import events_file, literal, quoted

_AGES = re.compile(r"([0-9]+)(?:-([0-9]+)|(\+))?\Z")


@dataclass(frozen=True)
class Exported:
    """What was written, and what the CDM has no place for.

    Attributes
    ----------
    rows
        Rows of each table.
    undated
        Rows without a date of each file of the release.
    without_events
        Members without an event with a date: the CDM has their sex and year of birth, and no day for anything else.
    left_out
        Other files of the release.
    """

    rows: Mapping[str, int]
    undated: Mapping[str, int]
    without_events: int
    left_out: tuple[str, ...]


def export_omop(release: Path, folder: Path) -> Exported:
    """Write a release as Parquet tables of the CDM.

    Parameters
    ----------
    release
        Folder of a release that was verified.
    folder
        Where to write; must not exist yet.

    Raises
    ------
    ReleaseError
        If the release has no dates or no dictionary, a file is not as its manifest lists it, or the tables that were written do
        not say what the release says.
    """
    manifest = parse_json(regular_bytes(release / MANIFEST))
    listed = {file["path"]: file["sha256"] for file in manifest["files"]}
    if DICTIONARY not in listed:
        raise ReleaseError(f"{release.name} has no {DICTIONARY}, which says what its columns are")
    with tempfile.TemporaryDirectory() as inside:
        told = parse_json(regular_bytes(_copied(release, DICTIONARY, listed, Path(inside))))
    policy: Mapping[str, Any] = parse_json(manifest["policy"]["text"].encode())
    of_people = {*_events_of(policy), "Members"}
    columns = {name: [one["name"] for one in table["columns"]] for name, table in told["tables"].items() if name in of_people}
    layout = layout_of(policy, columns)
    if folder.exists():
        raise ReleaseError(f"{folder.name} exists already; name a new folder")
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=".exporting-") as inside, duckdb.connect() as connection:
        for name in columns:
            copy = _copied(release, f"data/{name}.csv", listed, Path(inside))
            connection.execute(
                f"CREATE TEMP TABLE file_{name} AS FROM read_csv({literal(str(copy))}, header = true, all_varchar = true,"
                " delim = ',', quote = '\"', escape = '\"')"
            )
        for statement in numbered_views(layout, columns):
            connection.execute(statement)
        released = Released(
            layout,
            _first_year(connection, layout, columns),
            _ages(connection, layout),
            frozenset(file for file in layout.events if "ProviderID" in columns[file]),
            frozenset(file for file in layout.events if "Vendor" in columns[file]),
        )
        made = {**queries(layout, released.first_year, released.births), **vocabulary()}
        made["cdm_source"] = _source(manifest, policy)
        tables = Path(inside) / "tables"
        tables.mkdir()
        for name, query in made.items():
            write_ordered(connection, query, tables / f"{name}.parquet")
            connection.execute(f"CREATE TEMP VIEW written_{name} AS FROM {literal(str(tables / f'{name}.parquet'))}")
        require_read_back(connection, released)
        rows = {name: _count(connection, f"written_{name}") for name in made}
        undated = {name: _count(connection, f"file_{name} WHERE {quoted(layout.date)} IS NULL") for name in layout.events}
        without_events = _count(connection, members_without_events(layout))
        tables.rename(folder)
    left_out = tuple(name for name in told["tables"] if name not in columns)
    return Exported(rows, {name: count for name, count in undated.items() if count}, without_events, left_out)


def _events_of(policy: Mapping[str, Any]) -> tuple[str, ...]:
    declared = (table for table in policy.get("columns", {}) if table not in ("members", "claims"))
    return tuple(map(events_file, ("claims", *declared)))


def _copied(release: Path, path: str, listed: Mapping[str, str], inside: Path) -> Path:
    """A copy of a file of the release, which has the bytes that were signed: what is read is what was judged."""
    copy = inside / Path(path).name
    shutil.copyfile(release / path, copy, follow_symlinks=False)
    if path not in listed or copy.is_symlink() or file_digest(copy) != listed[path]:
        raise ReleaseError(f"{path} is not as the manifest lists it; run deid verify")
    return copy


def _first_year(connection: duckdb.DuckDBPyConnection, layout: Layout, columns: Mapping[str, Sequence[str]]) -> int | None:
    """The calendar year of Y1, which the dates of most events tell."""
    found = Counter[int]()
    for file in layout.events:
        if "Year" in columns[file]:
            first = f"year(cdm_day) - (TRY_CAST(substr({named('Year')}, 2) AS INTEGER) - 1)"
            query = f"SELECT {first}, count(*) FROM dated_{file} GROUP BY 1"
            found.update({int(year): count for year, count in connection.execute(query).fetchall() if year is not None})
    return max(found, key=lambda year: (found[year], -year)) if found else None


def _ages(connection: duckdb.DuckDBPyConnection, layout: Layout) -> Mapping[str, tuple[int, int | None]]:
    """Label of an age -> smallest and largest age, of the labels that name them."""
    if layout.age_label is None:
        return {}
    labels = [
        row[0] for row in connection.execute(f"SELECT DISTINCT {named(layout.age_label)} FROM persons").fetchall() if row[0]
    ]
    read = {label: match for label in sorted(labels) if (match := _AGES.match(label))}
    return {label: (int(match[1]), None if match[3] else int(match[2] or match[1])) for label, match in read.items()}


def _source(manifest: Mapping[str, Any], policy: Mapping[str, Any]) -> str:
    """The one row that says what the tables are."""
    day = literal(str(manifest["created"])[:10])
    name = f"{manifest['policy']['name']}/{manifest['number']:04d}"
    about = "De-identified release: dates are drawn anew, labels are in the columns of source values, and concepts are 0."
    return f"""SELECT {literal(str(policy["title"]))} AS cdm_source_name, {literal(name[:25])} AS cdm_source_abbreviation,
        {literal(", ".join(policy["owners"]))} AS cdm_holder, {literal(about)} AS source_description,
        DATE {day} AS source_release_date, DATE {day} AS cdm_release_date, '5.4' AS cdm_version,
        {CDM_VERSION} AS cdm_version_concept_id, 'none' AS vocabulary_version"""


def _count(connection: duckdb.DuckDBPyConnection, relation: str) -> int:
    return int(connection.execute(f"SELECT count(*) FROM {relation}").fetchall()[0][0])

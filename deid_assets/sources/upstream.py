"""A delivery that is a copy of tables which another project makes: how they are read, and what is kept of them.

The tables of an upstream change when it is made again. What is judged and published must not, so the intake copies them
into the restricted store's home, and everything later reads the copy.
"""

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.sources.delivery import Delivery, SourceOptions, TablesSource
from deid_assets.sources.duckdb_files import copy_to_parquet
from deid_assets.store import durable
from deid_assets.store.home import Home, plain_key

PARTITION = "{partition}"
"""Placeholder in a path for the partition of the upstream."""


@dataclass(frozen=True)
class DuckDBTable:
    """A table of a DuckDB file: the file's path, and `table` or `schema.table`."""

    path: str
    table: str


@dataclass(frozen=True)
class ParquetFiles:
    """A Parquet file, or a pattern that matches several."""

    path: str


@dataclass(frozen=True)
class CsvFiles:
    """A CSV file with a header (`.csv`, `.csv.gz`), or a pattern that matches several."""

    path: str


@dataclass(frozen=True)
class InMemory:
    """A value that the project's IO manager loads: a pandas frame, an Arrow table, or any other with Arrow's interface."""


Read = DuckDBTable | ParquetFiles | CsvFiles | InMemory
"""How a table of an upstream is read. A path may contain `{partition}`."""


@dataclass(frozen=True)
class Copies:
    """The copies of one policy's upstream tables, one folder for each delivery.

    Attributes
    ----------
    policy
        The policy's name.
    source
        The policy's source: its columns, but not its files, which are those of the copy.
    tables
        How each table is read, by `members` and `claims`.
    assets
        Key of the asset that makes each table, its parts joined by "/".

    Raises
    ------
    PolicyError
        If the policy reads deliveries that have no such tables, or names a table that no upstream provides.
    """

    policy: str
    source: SourceOptions
    tables: Mapping[str, Read]
    assets: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        needed = {"members", "claims"} if self._stated.claims else {"members"}
        if needed != set(self.tables):
            raise PolicyError(
                f"policy {self.policy}: its source has the tables {', '.join(sorted(needed, reverse=True))}; name an asset for "
                "each of them, and for no other"
            )

    @property
    def _stated(self) -> TablesSource:
        if isinstance(self.source, TablesSource):
            return self.source
        raise PolicyError(
            f"policy {self.policy}: source.kind is {self.source.kind}, but assets of another project are tables: use "
            "source.kind tables, which says how the columns are called"
        )

    def delivery(self, home: Home, key: str) -> Delivery:
        """The delivery under a key."""
        return Delivery(key, self.source.kind, (home.deliveries / self.policy / plain_key(key),))

    def as_copied(self) -> SourceOptions:
        """The policy's source with the files of the copies."""
        changed = {
            name: getattr(self._stated, name).model_copy(update={"file": _pattern(name, read), "table": None})
            for name, read in self.tables.items()
        }
        return self._stated.model_copy(update=changed)

    def take(self, home: Home, key: str, partitions: Mapping[str, Sequence[str]], values: Mapping[str, object]) -> None:
        """Copy the upstream's tables as they are now, instead of those that were copied before.

        Parameters
        ----------
        key
            The delivery.
        partitions
            By table: the partitions of the upstream that belong to the delivery.
        values
            By table: what the project's IO manager loaded, for tables that are in memory; by partition if several.

        Raises
        ------
        DeliveryError
            If a table is missing or cannot be read.
        """
        (folder,) = self.delivery(home, key).paths
        durable.owner_only(home.create().deliveries / self.policy)
        making = folder.with_name(f".making-{folder.name}")
        shutil.rmtree(making, ignore_errors=True)  # half made by a process that was killed
        durable.owner_only(making)
        try:
            for name, read in self.tables.items():
                _copy(read, name, making, partitions[name], values.get(name))
            for path in making.rglob("*"):
                os.chmod(path, 0o700 if path.is_dir() else 0o600)
            shutil.rmtree(folder, ignore_errors=True)
            making.rename(folder)
        finally:
            shutil.rmtree(making, ignore_errors=True)


def _pattern(name: str, read: Read) -> str:
    return f"{name}/*{_ending(Path(read.path)) if isinstance(read, CsvFiles) else '.parquet'}"


def _ending(path: Path) -> str:
    """What the name of a copy ends with, by which its format is known."""
    return "".join(path.suffixes[-2:] if path.suffix == ".gz" else path.suffixes[-1:])


def _copy(read: Read, name: str, folder: Path, partitions: Sequence[str], value: object) -> None:
    """Copy one table into files of the folder `name`."""
    target = durable.owner_only(folder / name)
    if isinstance(read, InMemory):
        for number, part in enumerate(_parts(value, name)):
            pq.write_table(part, target / f"{number:04}.parquet")
        return
    for number, path in enumerate(_paths(read.path, partitions, name)):
        if isinstance(read, DuckDBTable):
            copy_to_parquet(path, read.table, target / f"{number:04}.parquet")
        else:
            try:
                shutil.copyfile(path, target / f"{number:04}{_ending(path)}")
            except OSError as error:
                raise DeliveryError(f"{name}: {path.name} cannot be copied: {error.strerror}") from None


def _paths(text: str, partitions: Sequence[str], name: str) -> list[Path]:
    """The files of a table, in order; each partition has files of its own if the path says where."""
    texts = [text.replace(PARTITION, plain_key(partition)) for partition in partitions] if PARTITION in text else [text]
    found: list[Path] = []
    for one in texts:
        path = Path(one).absolute()
        matching = [path] if path.is_file() else sorted(path.parent.glob(path.name)) if path.parent.is_dir() else []
        if not matching:
            raise DeliveryError(f"{name}: there is no file {one}; materialize the upstream asset, or correct its path")
        found += matching
    return found


def _parts(value: object, name: str) -> list[pa.Table]:
    """A value in memory as Arrow tables; a mapping holds one for each partition."""
    values: list[Any] = [value[key] for key in sorted(value)] if isinstance(value, Mapping) else [value]
    try:
        return [
            pa.Table.from_pandas(one, preserve_index=False) if isinstance(one, pd.DataFrame) else pa.table(one)
            for one in values
        ]
    except (pa.ArrowException, TypeError, ValueError):
        # The messages of Arrow quote values.
        kinds = ", ".join(sorted({type(one).__name__ for one in values}))
        raise DeliveryError(
            f"{name}: the upstream asset returned {kinds}, which is no table, or has a column of mixed types; return a pandas "
            "frame or an Arrow table"
        ) from None

"""Planted truths for attacks that read tables: made-up rows whose outcome is certain, in a store file of their own.

An attack that silently breaks reports no risk. So every run lets it loose, by the very functions that judged the
release, on tables that have the columns of its inputs and hold canaries: rows that are alone in a class, alike with m
others, or in no class of the population. Each differs from a plain row in one column only, so that an attack that
overlooks a column finds another number. No real row is among them, because then shares of the whole are certain, too.
The file is in a folder of its own, away from delivery and release, and is gone afterwards.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from deid_assets.assessments.evidence import Measurement
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.store.tables import Table, connect, quoted

PLAIN = 1_000_000
"""The value that canaries have where they are like all others; values of their own come after it."""

Attack = Callable[[Mapping[str, Table]], Iterable[Measurement]]
"""Measures what it is given instead of the asset's inputs, by their names."""

_ABSENT = -1.0
_NOT_MEASURED = -2.0


@contextlib.contextmanager
def planted_store() -> Iterator[Path]:
    """A store file that nobody else sees, as long as the block lasts."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "canaries.duckdb"
        with connect(file):
            yield file


def plant(file: Path, like: Table, rows: Iterable[Mapping[str, object]], name: str | None = None) -> Table:
    """Write rows into a table that has the columns of another one and none of its rows; what a row lacks is missing.

    Raises
    ------
    ValueError
        If a row has a column that the table lacks.
    """
    rows, columns = list(rows), like.columns()
    unknown = {column for row in rows for column in row} - set(columns)
    if unknown:
        raise ValueError(f"table {like.name} has no column {', '.join(sorted(unknown))}")
    lists = ", ".join(f"unnest(?::{kind}[]) AS {quoted(column)}" for column, kind in columns.items())
    planted = Table(file, "planted", name or like.name)
    with connect(file) as connection:
        connection.execute("CREATE SCHEMA IF NOT EXISTS planted")
        connection.execute(
            f"CREATE OR REPLACE TABLE {planted.sql} AS SELECT {lists}",
            [[row.get(column) for row in rows] for column in columns],
        )
    return planted


@dataclass(frozen=True)
class Group:
    """Canaries who are alike.

    Attributes
    ----------
    own
        Values of the columns in which they differ from everybody; None: missing.
    people, released
        How many there are in the population, and how many of these in the release.
    told
        What the release shows instead, if it shows what the population lacks.
    """

    own: Mapping[str, object]
    people: int
    released: int
    told: Mapping[str, object] | None = None

    @property
    def found(self) -> int:
        """The class in which the attacker finds each of the released; 0: he finds nobody."""
        return self.people if self.told is None else 0

    @property
    def shown(self) -> Mapping[str, object]:
        """What the release shows of them."""
        return self.own if self.told is None else self.told


def own_values() -> Iterator[int]:
    """Values that nobody else has."""
    return iter(range(PLAIN + 1, 2 * PLAIN))


def released_sizes(groups: Iterable[Group]) -> list[int]:
    """The certain class size of every released canary."""
    return [group.found for group in groups for _ in range(group.released)]


def as_certain(certain: Mapping[str, float | None], measured: Iterable[Measurement]) -> Findings:
    """Count the measurements that are what they must be; None: nothing can be measured."""
    found = {one.name: one.value for one in measured}
    expected = [_number(value) for value in certain.values()]
    return compare(expected, [_number(found.get(name, _NOT_MEASURED)) for name in certain])


def _number(value: float | None) -> float:
    return _ABSENT if value is None else float(value)

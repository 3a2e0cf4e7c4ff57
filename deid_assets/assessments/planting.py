"""Canaries for attacks that read tables: made-up rows with a known outcome, in a separate store file.

An attack that silently breaks reports no risk. So every run also applies it, with the functions that judged the
release, to tables with the columns of its inputs and with canaries: rows that are unique in a class, share it with m
others, or are in no class of the population. Each differs from a plain row in one column only, so an attack that
ignores a column finds another number. The tables contain no real row, so that shares of the whole are known too. The
file is in a separate folder, away from delivery and release, and is deleted afterwards.
"""

import contextlib
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from deid_assets.assessments.evidence import Measurement
from deid_assets.methods.attacks.inpatient_classes import MEMBER_LEVEL
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.store.tables import Table, connect, quoted

PLAIN = 1_000_000
"""The value of canaries where they equal all others; distinct values come after it."""

Attack = Callable[[Mapping[str, Table]], Iterable[Measurement]]
"""Measures the given tables instead of the asset's inputs, by their names."""

_ABSENT = -1.0
_NOT_MEASURED = -2.0


@contextlib.contextmanager
def planted_store() -> Iterator[Path]:
    """A private store file for the duration of the block."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "canaries.duckdb"
        with connect(file):
            yield file


def plant(file: Path, like: Table, rows: Iterable[Mapping[str, object]], name: str | None = None) -> Table:
    """Write rows into an empty table with the columns of another one; values that a row lacks are missing.

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
    """Canaries that are alike.

    Attributes
    ----------
    own
        Values of the columns in which they differ from everybody else; None: missing.
    people, released
        How many there are in the population, and how many of these in the release.
    told
        What the release shows instead, if it shows something that the population lacks.
    """

    own: Mapping[str, object]
    people: int
    released: int
    told: Mapping[str, object] | None = None

    @property
    def found(self) -> int:
        """The class in which the attacker finds each released canary; 0: none is found."""
        return self.people if self.told is None else 0

    @property
    def shown(self) -> Mapping[str, object]:
        """What the release shows about them."""
        return self.own if self.told is None else self.told


def own_values() -> Iterator[int]:
    """Values that nobody else has."""
    return iter(range(PLAIN + 1, 2 * PLAIN))


def demographic_groups(columns: Sequence[str], enough: int) -> list[Group]:
    """Per column: one unique canary, two alike, one group just too small, one just large enough, and one not listed."""
    values = own_values()
    groups = [Group({}, enough, min(2, enough))]
    for column in columns:
        groups += [Group({column: next(values)}, 1, 1), Group({column: next(values)}, 2, 1)]
        groups += [Group({column: None}, 1, 1)] if column in MEMBER_LEVEL else []
    if enough > 1:
        groups.append(Group({columns[0]: next(values)}, enough - 1, enough - 1))
    groups.append(Group({columns[0]: next(values)}, 1, 1, told={columns[0]: next(values)}))
    return groups


def released_sizes(groups: Iterable[Group]) -> list[int]:
    """The known class size of every released canary."""
    return [group.found for group in groups for _ in range(group.released)]


def as_certain(certain: Mapping[str, float | None], measured: Iterable[Measurement]) -> Findings:
    """Count the measurements with the known result; None: nothing can be measured."""
    found = {one.name: one.value for one in measured}
    expected = [_number(value) for value in certain.values()]
    return compare(expected, [_number(found.get(name, _NOT_MEASURED)) for name in certain])


def _number(value: float | None) -> float:
    return _ABSENT if value is None else float(value)

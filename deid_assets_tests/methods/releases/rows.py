"""Kept rows of small made-up releases, and the same as plain Python for brute force."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from deid_assets.store.tables import Table
from deid_assets_tests.methods.small_tables import SmallStore

LAYOUT = (
    "tag UBIGINT, quasi_identifier VARCHAR, service_day INTEGER, value VARCHAR, label VARCHAR, known UINTEGER, held UINTEGER,"
    " released BOOLEAN"
)


@dataclass(frozen=True)
class Shown:
    """What a release shows of one member.

    `demographics` are labels by column. `claims` are (column, day, value, how often known, how often held).
    """

    demographics: Mapping[str, str | None]
    claims: tuple[tuple[str, int, str | None, int, int], ...] = ()
    released: bool = True


@dataclass(frozen=True)
class SmallRelease:
    """Members by tag, and the label of each value of each claim-level column; a value is its own label by default."""

    members: Mapping[int, Shown]
    labels: Mapping[str, Mapping[str, str]] = field(default_factory=dict)

    def label(self, column: str, value: str | None) -> str | None:
        return None if value is None else self.labels.get(column, {}).get(value, value)

    def table(self, store: SmallStore, name: str) -> Table:
        rows = []
        for tag, member in self.members.items():
            rows += [(tag, column, None, label, label, 1, 1, member.released) for column, label in member.demographics.items()]
            rows += [
                (tag, column, day, value, self.label(column, value), known if member.released else 0, held, member.released)
                for column, day, value, known, held in member.claims
            ]
        return store.table(name, LAYOUT, rows)

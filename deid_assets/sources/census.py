"""Population tables of the Census Bureau: people by state, sex, race and age.

The tables PCT12 (all people) and PCT12A-G (by race) of Census 2000 Summary File 1 have 209 columns: the total, and for each sex
its total, single years of age to 99, and 100-104, 105-109, and 110 and over (U.S. Census Bureau, Summary File 1 Technical
Documentation, 2001). Those of 2010 and 2020 have the same columns under other names. Other tables are read by a layout.

Every reader returns one row per state, sex, race and age, and adds up what can be added up: a table with holes, of wrong totals
or without a state that is asked for is refused, with counts (methods#census-tables).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.reference.geography import state_codes
from deid_assets.sources.files import SourceTable
from deid_assets.sources.text_tables import read_text_table

COLUMNS = ("state", "sex", "race", "age_from", "age_to", "people")
"""Columns of every frame: postal code | M or F | race | first and last age, inclusive | number of people, int64."""
ALL_RACES = "all"
RACES: Mapping[str, str] = {
    "A": "White",
    "B": "Black",
    "C": "American Indian",
    "D": "Asian",
    "E": "Pacific Islander",
    "F": "Other race",
    "G": "Two or more races",
}
"""Letter of the table to race. They exclude each other, and add up to everybody."""
LAST_AGE = 119
"""Last age of an open group: nobody in a census table is older (methods#census-tables)."""


@dataclass(frozen=True)
class AgeColumn:
    """One column of a table: its number, the sex, the ages (inclusive), and whether it is the total of the sex."""

    number: int
    sex: str
    age_from: int
    age_to: int
    total: bool = False


def _of_both_sexes(bands: Sequence[tuple[int, int]]) -> tuple[AgeColumn, ...]:
    """Columns in the order of all these tables: 1 is the total, then the males' total and ages, then the females'."""
    columns, number = [], 2
    for sex in ("M", "F"):
        columns.append(AgeColumn(number, sex, bands[0][0], bands[-1][1], total=True))
        columns += [AgeColumn(number + at, sex, first, last) for at, (first, last) in enumerate(bands, start=1)]
        number += len(bands) + 1
    return tuple(columns)


SINGLE_YEARS = _of_both_sexes([*((age, age) for age in range(100)), (100, 104), (105, 109), (110, LAST_AGE)])
"""The columns of PCT12 besides the total: 208."""
BANDS = _of_both_sexes(
    [(0, 4), (5, 9), (10, 14), (15, 17), (18, 19), (20, 20), (21, 21), (22, 24), *((age, age + 4) for age in range(25, 60, 5)),
     (60, 61), (62, 64), (65, 66), (67, 69), (70, 74), (75, 79), (80, 84), (85, LAST_AGE)]
)  # fmt: skip
"""The columns of P12 besides the total: 48."""


@dataclass(frozen=True)
class CensusLayout:
    """How a file spells the columns of a table.

    Attributes
    ----------
    spelling
        Name of a column, with `{table}` for the letter of the table and `{number}` for the number of the column.
    state, state_kind
        Column of the state, and the kind of its codes (`deid_assets.reference.geography.STATE_CODES`). Of a longer identifier,
        such as 0400000US27, the last two characters count if the kind is fips.
    columns
        The columns of the table besides its total.
    label_rows
        Rows below the header that explain the columns instead of counting people.
    delimiter
        Of the CSV file.
    """

    spelling: str = "PCT012{table}{number:03d}"
    state: str = "STATE"
    state_kind: str = "fips"
    columns: tuple[AgeColumn, ...] = SINGLE_YEARS
    label_rows: int = 0
    delimiter: str = ","

    def name(self, table: str, number: int) -> str:
        """Name of a column in the file."""
        return self.spelling.format(table=table, number=number)


CENSUS_2000 = CensusLayout()
"""Summary File 1 as CSV, as the Bureau names the columns of 2000, and those by race of 2010: PCT012A001."""
CENSUS_2020 = CensusLayout(spelling="PCT12{table}_{number:03d}N", state="GEO_ID", label_rows=1)
"""Demographic and Housing Characteristics of 2020, as data.census.gov exports them: PCT12A_001N, by GEO_ID."""
CENSUS_2000_BANDS = CensusLayout(spelling="P012{table}{number:03d}", columns=BANDS)
"""P12 of Summary File 1: 23 bands of age."""


@dataclass(frozen=True, eq=False)
class CensusTable:
    """A population by state, sex, race and age.

    Attributes
    ----------
    people
        Frame of `COLUMNS`, sorted by them; no row is missing, empty cells have 0 people.
    warnings
        What the reader must know, such as that the table is synthetic or that open ages were split by a model.
    """

    people: pd.DataFrame = field(repr=False)
    warnings: tuple[str, ...] = ()

    def total(self) -> int:
        """Everybody in the table."""
        return int(self.people["people"].sum())


SYNTHETIC_PREFIX = "synthetic"
"""A file whose name begins so is made up, and every table read from it says so."""


def read_census(
    files: Mapping[str, Path] | Path,
    layout: CensusLayout = CENSUS_2000,
    states: Sequence[str] = (),
    races: Mapping[str, str] = RACES,
) -> CensusTable:
    """Read PCT12A-G, or another family of tables, and check what adds up.

    Parameters
    ----------
    files
        Letter of the table to its CSV file (plain, gzip or zip); or one file with the columns of all tables.
    layout
        How the file spells its columns.
    states
        Postal codes that the table must have; the result has only these. All of the file if empty.
    races
        Letter of the table to race; the letter '' is that of the table of all people.

    Returns
    -------
    CensusTable
        Races as in `races`, ages as in the layout.

    Raises
    ------
    DeliveryError
        If a file is missing or unreadable, lacks a column, has cells that are not counts, a state twice, a code that is no
        state or a total that its parts do not add up to, or lacks a state that is asked for. All are listed, with the number
        of cells or rows.
    """
    named = dict.fromkeys(races, files) if isinstance(files, Path) else dict(files)
    lacking = [letter for letter in races if letter not in named]
    if lacking:
        raise DeliveryError(f"census: no file is named for the tables {', '.join(lacking)}")
    letters_of: dict[Path, list[str]] = {}
    for letter in races:
        letters_of.setdefault(named[letter], []).append(letter)
    read = [_read_file(path, {letter: races[letter] for letter in letters}, layout) for path, letters in letters_of.items()]
    people = pd.concat(read, ignore_index=True)
    if states:
        absent = sorted(set(states) - set(people["state"]))
        if absent:
            raise DeliveryError(f"census: the tables lack the states {', '.join(absent)}")
        people = people[people["state"].isin(list(states))]
    holes = people.groupby("state")["race"].nunique()
    incomplete = sorted(holes.index[holes < len(races)])
    if incomplete:
        raise DeliveryError(f"census: some tables lack the states {', '.join(incomplete)}, which others have")
    synthetic = sorted({path.name for path in named.values() if path.name.lower().startswith(SYNTHETIC_PREFIX)})
    return CensusTable(tidied(people), tuple(f"{name} is synthetic: its numbers are not a census" for name in synthetic))


def _read_file(path: Path, races: Mapping[str, str], layout: CensusLayout) -> pd.DataFrame:
    """The tables of one file as a tidy frame; their totals are checked and left out."""
    numbers = (1, *(column.number for column in layout.columns))
    columns = {f"{letter}_{number}": layout.name(letter, number) for letter in races for number in numbers}
    if len(set(columns.values())) < len(columns):
        raise DeliveryError(
            f"census: {path.name}: {len(races)} tables of one file would be read from the same columns: write {{table}} in the"
            " spelling, or name one file for each table"
        )
    text = read_text_table(SourceTable(path, delimiter=layout.delimiter), {"state": layout.state, **columns}, what="census")
    text = text.iloc[layout.label_rows :]
    state = _states(text["state"], layout.state_kind)
    problems = [
        (int(state.isna().sum()), f"column {layout.state}: {{:,}} rows whose code is no state"),
        (int(state.dropna().duplicated().sum()), f"column {layout.state}: {{:,}} rows of a state that occurs before"),
    ]
    counts = text.drop(columns="state").apply(pd.to_numeric, errors="coerce")
    tables = {}
    for letter in races:
        wide = counts[[f"{letter}_{number}" for number in numbers]].set_axis(list(numbers), axis=1)
        bad = int((wide.isna() | (wide < 0) | (wide % 1 != 0)).to_numpy().sum())
        problems.append((bad, f"table {letter or 'of all people'}: {{:,}} cells that are empty or not counts"))
        if not bad:
            problems += _wrong_totals(wide, layout, letter)
        tables[letter] = wide
    said = [problem.format(number) for number, problem in problems if number]
    if said:
        raise DeliveryError(f"census: {path.name}: {'; '.join(said)}")
    return pd.concat([_tidy(tables[letter], state, race, layout) for letter, race in races.items()])


def _tidy(wide: pd.DataFrame, state: pd.Series, race: str, layout: CensusLayout) -> pd.DataFrame:
    ages = {column.number: column for column in layout.columns if not column.total}
    tidy = wide[list(ages)].astype("int64").assign(state=state).melt("state", var_name="number", value_name="people")
    for name in ("sex", "age_from", "age_to"):
        tidy[name] = tidy["number"].map({number: getattr(column, name) for number, column in ages.items()})
    return tidy.assign(race=race)[list(COLUMNS)]


def _states(codes: pd.Series, kind: str) -> pd.Series:
    plain = codes.fillna("")
    if kind == "fips":
        plain = plain.str[-2:]
    known = state_codes(list(plain.unique()), kind)
    return plain.map(known.set_index("code")["state"])


def _wrong_totals(wide: pd.DataFrame, layout: CensusLayout, letter: str) -> list[tuple[int, str]]:
    totals = [column for column in layout.columns if column.total]
    both = wide[[column.number for column in totals]].sum(axis=1)
    found = [(int((both != wide[1]).sum()), f"{layout.name(letter, 1)}: {{:,}} rows whose sexes do not add up to it")]
    for total in totals:
        parts = [column.number for column in layout.columns if column.sex == total.sex and not column.total]
        differs = wide[parts].sum(axis=1) != wide[total.number]
        found.append((int(differs.sum()), f"{layout.name(letter, total.number)}: {{:,}} rows whose ages do not add up to it"))
    return found


def tidied(people: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a population table, sorted by all but the number of people."""
    kept = people[list(COLUMNS)].astype({"age_from": "int64", "age_to": "int64", "people": "int64"})
    return kept.sort_values(list(COLUMNS[:-1]), ignore_index=True)

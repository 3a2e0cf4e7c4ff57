"""Populations by state, sex, race and age: tables of a census, estimates, and the table that a cohort is compared with.

The tables PCT12 (all people) and PCT12A-G (by race) of Census 2000 Summary File 1 have 209 columns: the total, and for each sex
its total, single years of age to 99, and 100-104, 105-109, and 110 and over (U.S. Census Bureau, Summary File 1 Technical
Documentation, 2001). Those of 2010 and 2020 have the same columns under other names. Other tables are read by a layout.

Every reader returns one row per state, sex, race and age, and adds up what can be added up: a table with holes or of wrong
totals is refused, with counts (methods#census-tables).

State estimates of the Census Bureau are by sex and single year of age, or by race in bands of ages; both end with 85 and over,
an open group that is spread over single years by a stated model. The people of each sex are spread as those of the national
population of Census 2000, which counted them at 85-89, 90-94, 95-99, and 100 and over. From one age to the next, the count
falls by a factor exp(-a exp(b (age - 85))), the survival of a Gompertz hazard (Gompertz 1825). For each sex, a and b fit the
counts at 85-89, at 90-94, and at 95 and over exactly. Totals are kept: shares are rounded by largest remainders
(methods#census-tables).

Where the real file is not at hand, there is a synthetic PCT12 in the published layout, whose numbers are not a census. It is
made of two marginals: people by state, sex and single year of age, and the shares of the races by state, sex and five-year
band. Within a band, every age gets the shares of the band. The open group of 85 and over is spread by a model. Numbers are
whole, and the marginal by age is kept exactly (methods#census-tables).

References
----------
Gompertz B (1825). Philos Trans R Soc Lond 115:513-583. doi:10.1098/rstl.1825.0026

U.S. Census Bureau (2001). Census 2000 Summary File 1, table QT-P1: Age Groups and Sex.
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
import scipy

from deid_assets.errors import DeliveryError, PolicyError, how_many
from deid_assets.reference.geography import state_codes
from deid_assets.sources.files import SourceTable
from deid_assets.sources.report import rows_by_column
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
class CensusColumn:
    """One column of a table: its number, the sex, the ages (inclusive), and whether it is the total of the sex."""

    number: int
    sex: str
    age_from: int
    age_to: int
    total: bool = False


def _of_both_sexes(bands: Sequence[tuple[int, int]]) -> tuple[CensusColumn, ...]:
    """Columns in the order of all these tables: 1 is the total, then the males' total and ages, then the females'."""
    columns, number = [], 2
    for sex in ("M", "F"):
        columns.append(CensusColumn(number, sex, bands[0][0], bands[-1][1], total=True))
        columns += [CensusColumn(number + at, sex, first, last) for at, (first, last) in enumerate(bands, start=1)]
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
    state
        Column of the state, with FIPS codes; of a longer identifier, such as 0400000US27, the last two characters count.
    columns
        The columns of the table besides its total.
    label_rows
        Rows below the header that explain the columns instead of counting people.
    """

    spelling: str = "PCT012{table}{number:03d}"
    state: str = "STATE"
    columns: tuple[CensusColumn, ...] = SINGLE_YEARS
    label_rows: int = 0

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
    files: Mapping[str, Path] | Path, layout: CensusLayout = CENSUS_2000, races: Mapping[str, str] = RACES
) -> CensusTable:
    """Read PCT12A-G, or another family of tables, and check what adds up.

    Parameters
    ----------
    files
        Letter of the table to its CSV file (plain, gzip or zip); or one file with the columns of all tables.
    layout
        How the file spells its columns.
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
        state or a total that its parts do not add up to, or lacks a state that another table has. All are listed, with the
        number of cells or rows.
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
    text = read_text_table(SourceTable(path), {"state": layout.state, **columns}, what="census")
    text = text.iloc[layout.label_rows :]
    state = _states(text["state"])
    problems = [
        (n := int(state.isna().sum()), f"column {layout.state}: {how_many(n, 'row')} whose code is no state"),
        (
            n := int(state.dropna().duplicated().sum()),
            f"column {layout.state}: {how_many(n, 'row')} of a state that occurs before",
        ),
    ]
    counts = text.drop(columns="state").apply(pd.to_numeric, errors="coerce")
    tables = {}
    for letter in races:
        wide = counts[[f"{letter}_{number}" for number in numbers]].set_axis(list(numbers), axis=1)
        bad = int((wide.isna() | (wide < 0) | (wide % 1 != 0)).to_numpy().sum())
        problems.append((bad, f"table {letter or 'of all people'}: {how_many(bad, 'cell')} empty or no count"))
        if not bad:
            problems += _wrong_totals(wide, layout, letter)
        tables[letter] = wide
    said = [problem for number, problem in problems if number]
    if said:
        raise DeliveryError(f"census: {path.name}: {'; '.join(said)}")
    return pd.concat([_tidy(tables[letter], state, race, layout) for letter, race in races.items()])


def _tidy(wide: pd.DataFrame, state: pd.Series, race: str, layout: CensusLayout) -> pd.DataFrame:
    ages = {column.number: column for column in layout.columns if not column.total}
    tidy = wide[list(ages)].astype("int64").assign(state=state).melt("state", var_name="number", value_name="people")
    for name in ("sex", "age_from", "age_to"):
        tidy[name] = tidy["number"].map({number: getattr(column, name) for number, column in ages.items()})
    return tidy.assign(race=race)[list(COLUMNS)]


def _states(codes: pd.Series) -> pd.Series:
    plain = codes.fillna("").str[-2:]
    known = state_codes(list(plain.unique()), "fips")
    return plain.map(known.set_index("code")["state"])


def _wrong_totals(wide: pd.DataFrame, layout: CensusLayout, letter: str) -> list[tuple[int, str]]:
    totals = [column for column in layout.columns if column.total]
    both = wide[[column.number for column in totals]].sum(axis=1)
    found = [
        (n := int((both != wide[1]).sum()), f"{layout.name(letter, 1)}: {how_many(n, 'row')} whose sexes do not add up to it")
    ]
    for total in totals:
        parts = [column.number for column in layout.columns if column.sex == total.sex and not column.total]
        differ = int((wide[parts].sum(axis=1) != wide[total.number]).sum())
        said = f"{layout.name(letter, total.number)}: {how_many(differ, 'row')} whose ages do not add up to it"
        found.append((differ, said))
    return found


def tidied(people: pd.DataFrame) -> pd.DataFrame:
    """Return the columns of a population table, sorted by all but the number of people."""
    kept = people[list(COLUMNS)].astype({"age_from": "int64", "age_to": "int64", "people": "int64"})
    return kept.sort_values(list(COLUMNS[:-1]), ignore_index=True)


FIRST_OPEN, LAST_OPEN = 85, 119
"""First age of the group that is spread, and the last age that gets a share."""
CENSUS_2000_OLDEST: Mapping[str, tuple[int, int, int, int]] = {
    "M": (876_501, 282_325, 58_115, 10_057),
    "F": (1_913_317, 830_206, 228_669, 40_397),
}
"""People of the United States in 2000 at 85-89, 90-94, 95-99, and 100 and over."""


@functools.cache
def open_age_shares(sex: str) -> np.ndarray:
    """Return (35,) float64 shares of the people of a sex aged 85 and over at 85, 86, ..., 119.

    Raises
    ------
    ValueError
        If the sex is neither M nor F.

    Examples
    --------
    >>> shares = open_age_shares("F")
    >>> float(round(shares[:5].sum(), 4)), float(round(shares[15:].sum(), 4)), bool((np.diff(shares) < 0).all())
    (0.6351, 0.012, True)
    """
    if sex not in CENSUS_2000_OLDEST:
        raise ValueError("a sex is M or F")
    counted = np.array(CENSUS_2000_OLDEST[sex], dtype=float)
    wanted = np.array([counted[0], counted[1], counted[2:].sum()]) / counted.sum()

    def shares(logs: np.ndarray) -> np.ndarray:
        falls = np.exp(logs[0] + np.exp(logs[1]) * np.arange(LAST_OPEN - FIRST_OPEN))
        left = np.exp(-np.concatenate([[0.0], np.cumsum(falls)]))
        return left / left.sum()

    def missed(logs: np.ndarray) -> np.ndarray:
        found = shares(logs)
        return np.log([found[:5].sum() / wanted[0], found[5:10].sum() / wanted[1]])

    solved = scipy.optimize.root(missed, np.log([0.12, 0.08]), tol=1e-12)
    if not solved.success:
        raise RuntimeError("the model of the oldest ages has no solution")
    found = shares(solved.x)
    found.setflags(write=False)
    return found


def spread_open_ages(people: pd.DataFrame) -> pd.DataFrame:
    """Replace rows of people aged 85 and over by rows of single years; other rows stay.

    Parameters
    ----------
    people
        Columns sex ('M', 'F'), age_from, age_to, people, and others, which are copied.

    Returns
    -------
    pandas.DataFrame
        The same columns and the same number of people in whole numbers; the rows of single years stand at the end.

    Raises
    ------
    DeliveryError
        If an open group begins at another age: the model knows none but 85.
    """
    opened = people["age_to"] >= LAST_OPEN
    if (people.loc[opened, "age_from"] != FIRST_OPEN).any():
        raise DeliveryError(f"ages: an open group begins at another age than {FIRST_OPEN}, the only one the model can spread")
    rows = people[opened]
    if rows.empty:
        return people.reset_index(drop=True)
    shares = np.stack([open_age_shares(sex) for sex in rows["sex"]])
    spread = apportioned(rows["people"].to_numpy(), shares)
    ages = np.arange(FIRST_OPEN, LAST_OPEN + 1)
    single = rows.loc[rows.index.repeat(ages.size)].assign(
        age_from=np.tile(ages, len(rows)), age_to=np.tile(ages, len(rows)), people=spread.ravel()
    )
    return pd.concat([people[~opened], single], ignore_index=True)


def apportioned(totals: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Distribute whole numbers by shares, rounded by largest remainders, so that every total is kept.

    Parameters
    ----------
    totals
        (n,) int, at least 0.
    shares
        (n, m) float: shares of each total, with a sum of 1 in every row.

    Returns
    -------
    numpy.ndarray
        (n, m) int64 with row sums `totals`. Of equal remainders the first is rounded up.

    Examples
    --------
    >>> apportioned(np.array([10]), np.array([[0.25, 0.25, 0.5]])).tolist()
    [[3, 2, 5]]
    """
    exact = totals[:, np.newaxis] * shares
    whole = np.floor(exact + 1e-9).astype(np.int64)
    left = totals - whole.sum(axis=1)
    order = np.argsort(-(exact - whole), axis=1, kind="stable")
    rank = np.argsort(order, axis=1, kind="stable")
    return whole + (rank < left[:, np.newaxis])


_ALL_AGES, _BOTH_SEXES, _NATION = 999, 0, "00"
_SEXES = {1: "M", 2: "F"}
_RACES = {
    "white_only": RACES["A"],
    "black_only": RACES["B"],
    "american_indian_only": RACES["C"],
    "asian_only": RACES["D"],
    "nhopi_only": RACES["E"],
    "multiracial": RACES["G"],
}
MODEL = f"people of {FIRST_OPEN} and over are spread over single years by a model (methods#census-tables)"


def read_single_years(path: Path, count: str = "CENSUS2010POP") -> CensusTable:
    """Read state population estimates by single year of age and sex (ST-EST00INT-AGESEX and its successors).

    Parameters
    ----------
    path
        CSV with the columns STATE (FIPS), SEX (0 both, 1, 2), AGE (0-84, 85 and over, 999 all) and counts by year.
    count
        Column of the counts.

    Returns
    -------
    CensusTable
        The only race is `ALL_RACES`.

    Raises
    ------
    DeliveryError
        If cells are not numbers, rows are missing or occur twice, or totals are wrong.
    """
    columns = {"code": "STATE", "sex": "SEX", "age": "AGE", "people": count}
    rows = _numbers(read_text_table(SourceTable(path), columns, what="census"), ("sex", "age", "people"), columns, path.name)
    rows["code"] = rows["code"].str.zfill(2)
    rows = rows[rows["code"] != _NATION]
    wide = _pivoted(rows, ["code", "age", "sex"], [*range(FIRST_OPEN + 1), _ALL_AGES], [_BOTH_SEXES, *_SEXES], path.name)
    sexes = int((wide[:, :, 0] != wide[:, :, 1:].sum(axis=2)).sum())
    ages = int((wide[:, -1] != wide[:, :-1].sum(axis=1)).sum())
    if sexes or ages:
        raise DeliveryError(
            f"census: {path.name}: {how_many(sexes, 'total')} of both sexes and {how_many(ages, 'total')} of all ages are not "
            "the sums of parts"
        )
    kept = rows[(rows["age"] != _ALL_AGES) & (rows["sex"] != _BOTH_SEXES)]
    return _table(kept.assign(race=ALL_RACES, sex=kept["sex"].map(_SEXES)), 1, path.name)


def read_race_bands(path: Path, year: int) -> CensusTable:
    """Read state population estimates by five-year band of age, sex and race; Hispanic origins are added up.

    Parameters
    ----------
    path
        CSV with the columns state_fips, year, age (first of the band; 85 and over), sex, race, hispanic_origin and pop.
    year
        Year of the estimate.

    Returns
    -------
    CensusTable
        Six races: the estimates have no "other race", whose people they assign to the others.

    Raises
    ------
    DeliveryError
        If cells are not numbers, rows are missing or occur twice, a race is unknown, or the year is absent.
    """
    columns = {
        "code": "state_fips", "year": "year", "age": "age", "sex": "sex", "race": "race", "origin": "hispanic_origin",
        "people": "pop",
    }  # fmt: skip
    rows = _numbers(read_text_table(SourceTable(path), columns, what="census"), ("year", "age", "people"), columns, path.name)
    rows = rows[rows["year"] == year]
    if rows.empty:
        raise DeliveryError(f"census: {path.name}: column year: no row is of {year}")
    rows = rows.assign(
        sex=rows["sex"].map({"male": "M", "female": "F"}), race=rows["race"].map(_RACES), code=rows["code"].str.zfill(2)
    )
    unknown = {name: int(rows[name].isna().sum()) for name in ("sex", "race")}
    if any(unknown.values()):
        raise DeliveryError(f"census: {path.name}: unknown values ({rows_by_column(unknown)})")
    bands = list(range(0, FIRST_OPEN + 1, 5))
    for origin in ("hispanic", "non_hispanic"):
        of_origin = rows[rows["origin"] == origin].assign(cell=rows["sex"] + rows["race"])
        cells = [sex + race for sex in ("M", "F") for race in _RACES.values()]
        _pivoted(of_origin, ["code", "age", "cell"], bands, cells, path.name)
    added = rows.groupby(["code", "age", "sex", "race"], as_index=False)["people"].sum()
    return _table(added, 5, path.name)


def spread(table: CensusTable) -> CensusTable:
    """Spread people of 85 and over, over single years; the warning says so."""
    return CensusTable(tidied(spread_open_ages(table.people)), (*table.warnings, MODEL))


def _numbers(text: pd.DataFrame, names: Sequence[str], columns: dict[str, str], file: str) -> pd.DataFrame:
    numbers = text.assign(**{name: pd.to_numeric(text[name], errors="coerce") for name in names})
    bad = {columns[name]: int((~(numbers[name] >= 0) | (numbers[name] % 1 != 0)).sum()) for name in names}
    if any(bad.values()):
        raise DeliveryError(f"census: {file}: values that are not whole numbers of at least 0 ({rows_by_column(bad)})")
    return numbers.astype(dict.fromkeys(names, "int64"))


def _pivoted(rows: pd.DataFrame, keys: list[str], ages: Sequence[int], last: Sequence[object], file: str) -> np.ndarray:
    """(states, ages, last) counts; refuses rows that are missing, occur twice, or are of no listed age or value."""
    codes = sorted(rows["code"].unique())
    expected = pd.MultiIndex.from_product([codes, ages, last], names=keys)
    found = pd.MultiIndex.from_frame(rows[keys])
    holes, twice, other = len(expected.difference(found)), int(found.duplicated().sum()), int((~found.isin(expected)).sum())
    if holes or twice or other:
        raise DeliveryError(
            f"census: {file}: rows of a state, age and sex (or race): {holes:,} missing, {twice:,} twice, {other:,} of no "
            "known age or sex"
        )
    counts = pd.Series(rows["people"].to_numpy(), index=found).reindex(expected)
    return counts.to_numpy().reshape(len(codes), len(ages), len(last))


def _table(rows: pd.DataFrame, width: int, file: str) -> CensusTable:
    codes = state_codes(sorted(rows["code"].unique()), "fips")
    if codes["state"].isna().any():
        raise DeliveryError(f"census: {file}: {how_many(int(codes['state'].isna().sum()), 'code is', 'codes are')} of no state")
    state = rows["code"].map(codes.set_index("code")["state"])
    age_to = (rows["age"] + width - 1).where(rows["age"] < FIRST_OPEN, LAST_AGE)
    people = rows.assign(state=state, age_from=rows["age"], age_to=age_to)
    return CensusTable(tidied(people))


NO_OTHER_RACE = "the estimates have no people of other race: table F is 0"


def synthetic_census(by_age: CensusTable, by_race: CensusTable) -> CensusTable:
    """Cross people by age with the shares of the races.

    Parameters
    ----------
    by_age
        People by state, sex and single year of age (`read_single_years`); 85 and over is spread here.
    by_race
        People by state, sex, race and band (`read_race_bands`), of any year.

    Returns
    -------
    CensusTable
        People by state, sex, race and single year of age, for the states and sexes of `by_age`.

    Raises
    ------
    DeliveryError
        If `by_race` lacks a state of `by_age`.
    """
    absent = sorted(set(by_age.people["state"]) - set(by_race.people["state"]))
    if absent:
        raise DeliveryError(f"synthetic census: the shares of the races lack the states {', '.join(absent)}")
    single = spread(by_age)
    ages = single.people.drop(columns="race")
    keys = ["state", "sex", "band"]
    of_race = by_race.people.assign(band=by_race.people["age_from"])
    counts = of_race.pivot_table(index=keys, columns="race", values="people", aggfunc="sum", fill_value=0)
    counts = counts.reindex(columns=list(RACES.values()), fill_value=0).astype(float)
    # A band without anybody gives no shares; those of the whole state stand in.
    whole = counts.groupby(["state", "sex"]).transform("sum")
    counts = counts.where(counts.sum(axis=1) > 0, whole)
    shares = counts.div(counts.sum(axis=1), axis=0)
    bands = np.array(sorted(of_race["band"].unique()))
    ages["band"] = bands[np.searchsorted(bands, ages["age_from"].to_numpy(), side="right") - 1]
    own = shares.loc[pd.MultiIndex.from_frame(ages[keys])].to_numpy()
    crossed = pd.DataFrame(apportioned(ages["people"].to_numpy(), own), columns=list(RACES.values()), index=ages.index)
    long = (
        ages.drop(columns=["people", "band"])
        .join(crossed)
        .melt(["state", "sex", "age_from", "age_to"], var_name="race", value_name="people")
    )
    warnings = dict.fromkeys((*single.warnings, *by_race.warnings, "made up from two marginals: not a census", NO_OTHER_RACE))
    return CensusTable(tidied(long), tuple(warnings))


_OF_A_CENSUS: Mapping[str, CensusLayout] = {"pct12": CENSUS_2000, "pct12-2020": CENSUS_2020, "p12": CENSUS_2000_BANDS}
KINDS = (*_OF_A_CENSUS, "estimates", "tidy")
"""pct12: Summary File 1 of 2000 or 2010 by single years; pct12-2020: its successor; p12: bands; estimates: state estimates by
sex and single year to 85 and over; tidy: one row for each state, sex, race and span of ages."""


@dataclass(frozen=True)
class PopulationFiles:
    """Where a population table is, and what it is.

    Attributes
    ----------
    kind
        One of `KINDS`.
    files
        Letter of a table (A to G) to its file; the letter '' is one file with all of them.
    count
        Column of the counts of state estimates.
    race_bands, race_year
        State estimates by race and five-year band, and their year: the races of state estimates are made of their shares. Such
        a table is synthetic.
    """

    kind: str
    files: Mapping[str, Path]
    count: str = "CENSUS2010POP"
    race_bands: Path | None = None
    race_year: int | None = None

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise PolicyError(f"a population table is one of {', '.join(KINDS)}")
        lettered = self.kind in _OF_A_CENSUS and set(self.files) == set(RACES)
        if set(self.files) != {""} and not lettered:
            raise PolicyError("a population table is one file, or one for each letter A to G of a census")
        if (self.race_bands is None) != (self.race_year is None) or (self.race_bands and self.kind != "estimates"):
            raise PolicyError("shares of races need a file and its year, and are for state estimates")


def read_population(source: PopulationFiles, with_races: bool, places: Collection[str] = ()) -> CensusTable:
    """Read a population table, and check what adds up.

    Parameters
    ----------
    with_races
        Whether the cohort has races. Without them, a census is read from its table of all people.
    places
        Of county and zip: further columns of a tidy table, which the cohort has.

    Raises
    ------
    DeliveryError
        If a file cannot be read or cannot be right, or does not count what the cohort has.
    """
    if places and source.kind != "tidy":
        raise DeliveryError(f"population table: only a tidy table counts people by {' and '.join(sorted(places))}")
    if source.kind == "tidy":
        return _tidy_table(source.files[""], with_races, places)
    if source.kind == "estimates":
        return _estimates(source, with_races)
    layout = _OF_A_CENSUS[source.kind]
    if "" not in source.files:
        return read_census(source.files, layout)
    return read_census(source.files[""], layout, races=RACES if with_races else {"": ALL_RACES})


def _estimates(source: PopulationFiles, with_races: bool) -> CensusTable:
    by_age = read_single_years(source.files[""], source.count)
    if not with_races:
        return by_age
    if source.race_bands is None or source.race_year is None:
        raise DeliveryError(
            "population table: state estimates by single year have no races; leave the races of the cohort out, or name the "
            "estimates by race and band from which a synthetic table is made"
        )
    return synthetic_census(by_age, read_race_bands(source.race_bands, source.race_year))


def _tidy_table(path: Path, with_races: bool, places: Collection[str]) -> CensusTable:
    """A table with the columns state, county, zip, sex, race, age_from, age_to and people, as far as the cohort has them."""
    names = ["state", *sorted(places), "sex", *(["race"] if with_races else []), "age_from", "age_to", "people"]
    text = read_text_table(SourceTable(path), dict(zip(names, names, strict=True)), what="population table")
    known = state_codes(list(text["state"].dropna().unique()), "postal").set_index("code")["state"]
    read = text.assign(state=text["state"].map(known), age_to=text["age_to"].fillna(str(LAST_AGE)))
    numbers = {name: pd.to_numeric(read[name], errors="coerce") for name in ("age_from", "age_to", "people")}
    rules = {name: ~(column >= 0) | (column % 1 != 0) for name, column in numbers.items()}
    rules |= {"state": read["state"].isna(), "sex": ~read["sex"].isin(["M", "F"])}
    rules |= {name: read[name].isna() for name in [*places, *(["race"] if with_races else [])]}
    wrong = {name: int(broken.sum()) for name, broken in rules.items()}
    if any(wrong.values()):
        raise DeliveryError(
            f"population table: {path.name}: values that are missing or cannot be read ({rows_by_column(wrong)}): states are "
            "postal codes, sexes M and F, ages and people whole numbers"
        )
    people = read.assign(**{name: column.astype("int64") for name, column in numbers.items()})
    if "zip" in people:
        people["zip"] = people["zip"].str.zfill(5)
    counted_by = names[:-1]
    if repeated := int(people.duplicated(counted_by).sum()):
        raise DeliveryError(
            f"population table: {path.name}: {how_many(repeated, 'row repeats', 'rows repeat')} {', '.join(counted_by)} of "
            "another row; if the table counts people by more, such as race or ZIP code, add them up, or name those columns of "
            "the cohort"
        )
    if not with_races:
        people["race"] = ALL_RACES
    synthetic = path.name.lower().startswith(SYNTHETIC_PREFIX)
    return CensusTable(people, (f"{path.name} is synthetic: its numbers are not a census",) if synthetic else ())

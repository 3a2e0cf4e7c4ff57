"""Populations by state, sex, race and age other than the tables of a census, and the population that a cohort is compared with.

Spread an open group of ages, 85 and over, over single years by a stated model.

Estimates of the Census Bureau end with 85 and over. The people of each sex are spread as those of the national population of
Census 2000, which counted them at 85-89, 90-94, 95-99, and 100 and over. From one age to the next, the count falls by a factor
exp(-a exp(b (age - 85))), the survival of a Gompertz hazard (Gompertz 1825). For each sex, a and b fit the counts at 85-89, at
90-94, and at 95 and over exactly. Totals are kept: shares are rounded by largest remainders (methods#census-tables).

References
----------
Gompertz B (1825). Philos Trans R Soc Lond 115:513-583. doi:10.1098/rstl.1825.0026

U.S. Census Bureau (2001). Census 2000 Summary File 1, table QT-P1: Age Groups and Sex.

State population estimates of the Census Bureau: by sex and single year of age to 85 and over, and by race in bands.

A synthetic PCT12 in the published layout, for where the real file is not at hand: its numbers are not a census.

It is made of two marginals: people by state, sex and single year of age, and the shares of the races by state, sex and
five-year band. Within a band, every age gets the shares of the band. The open group of 85 and over is spread by a model.
Numbers are whole, and the marginal by age is kept exactly (methods#census-tables).

Population tables by the kind of file: PCT12 and P12 of a census, estimates, or a tidy table (methods#census-tables).
"""

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy.optimize import root

from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.reference.geography import state_codes
from deid_assets.sources.census import (
    ALL_RACES,
    CENSUS_2000,
    CENSUS_2000_BANDS,
    CENSUS_2020,
    LAST_AGE,
    RACES,
    SYNTHETIC_PREFIX,
    CensusLayout,
    CensusTable,
    read_census,
    tidied,
)
from deid_assets.sources.files import SourceTable
from deid_assets.sources.text_tables import read_text_table

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

    solved = root(missed, np.log([0.12, 0.08]), tol=1e-12)
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


def read_single_years(path: Path, count: str = "CENSUS2010POP", states: Sequence[str] = ()) -> CensusTable:
    """Read state population estimates by single year of age and sex (ST-EST00INT-AGESEX and its successors).

    Parameters
    ----------
    path
        CSV with the columns STATE (FIPS), SEX (0 both, 1, 2), AGE (0-84, 85 and over, 999 all) and counts by year.
    count
        Column of the counts.
    states
        Postal codes that the table must have; the result has only these. All of the file if empty.

    Returns
    -------
    CensusTable
        The only race is `ALL_RACES`.

    Raises
    ------
    DeliveryError
        If cells are not numbers, rows are missing or occur twice, totals are wrong, or a state is absent.
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
            f"census: {path.name}: {sexes:,} totals of both sexes and {ages:,} totals of all ages are not the sums of parts"
        )
    kept = rows[(rows["age"] != _ALL_AGES) & (rows["sex"] != _BOTH_SEXES)]
    return _table(kept.assign(race=ALL_RACES, sex=kept["sex"].map(_SEXES)), 1, states, path.name)


def read_race_bands(path: Path, year: int, states: Sequence[str] = ()) -> CensusTable:
    """Read state population estimates by five-year band of age, sex and race; Hispanic origins are added up.

    Parameters
    ----------
    path
        CSV with the columns state_fips, year, age (first of the band; 85 and over), sex, race, hispanic_origin and pop.
    year
        Year of the estimate.
    states
        As in `read_single_years`.

    Returns
    -------
    CensusTable
        Six races: the estimates have no "other race", whose people they assign to the others.

    Raises
    ------
    DeliveryError
        If cells are not numbers, rows are missing or occur twice, a race is unknown, or the year or a state is absent.
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
        said = "; ".join(f"column {name}: {number:,} rows" for name, number in unknown.items() if number)
        raise DeliveryError(f"census: {path.name}: unknown values ({said})")
    bands = list(range(0, FIRST_OPEN + 1, 5))
    for origin in ("hispanic", "non_hispanic"):
        of_origin = rows[rows["origin"] == origin].assign(cell=rows["sex"] + rows["race"])
        cells = [sex + race for sex in ("M", "F") for race in _RACES.values()]
        _pivoted(of_origin, ["code", "age", "cell"], bands, cells, path.name)
    added = rows.groupby(["code", "age", "sex", "race"], as_index=False)["people"].sum()
    return _table(added, 5, states, path.name)


def spread(table: CensusTable) -> CensusTable:
    """Spread people of 85 and over, over single years; the warning says so."""
    return CensusTable(tidied(spread_open_ages(table.people)), (*table.warnings, MODEL))


def _numbers(text: pd.DataFrame, names: Sequence[str], columns: dict[str, str], file: str) -> pd.DataFrame:
    numbers = text.assign(**{name: pd.to_numeric(text[name], errors="coerce") for name in names})
    bad = {columns[name]: int((~(numbers[name] >= 0) | (numbers[name] % 1 != 0)).sum()) for name in names}
    if any(bad.values()):
        said = "; ".join(f"column {name}: {number:,} rows" for name, number in bad.items() if number)
        raise DeliveryError(f"census: {file}: values that are not whole numbers of at least 0 ({said})")
    return numbers.astype(dict.fromkeys(names, "int64"))


def _pivoted(rows: pd.DataFrame, keys: list[str], ages: Sequence[int], last: Sequence[object], file: str) -> np.ndarray:
    """(states, ages, last) counts; refuses rows that are missing, occur twice, or are of no listed age or value."""
    codes = sorted(rows["code"].unique())
    expected = pd.MultiIndex.from_product([codes, ages, last], names=keys)
    found = pd.MultiIndex.from_frame(rows[keys])
    holes, twice, other = len(expected.difference(found)), int(found.duplicated().sum()), int((~found.isin(expected)).sum())
    if holes or twice or other:
        raise DeliveryError(
            f"census: {file}: {holes:,} rows of a state, age and sex (or race) are missing, {twice:,} occur twice, and"
            f" {other:,} are of no known age or sex"
        )
    counts = pd.Series(rows["people"].to_numpy(), index=found).reindex(expected)
    return counts.to_numpy().reshape(len(codes), len(ages), len(last))


def _table(rows: pd.DataFrame, width: int, states: Sequence[str], file: str) -> CensusTable:
    codes = state_codes(sorted(rows["code"].unique()), "fips")
    if codes["state"].isna().any():
        raise DeliveryError(f"census: {file}: {int(codes['state'].isna().sum())} codes are of no state")
    state = rows["code"].map(codes.set_index("code")["state"])
    absent = sorted(set(states) - set(state))
    if absent:
        raise DeliveryError(f"census: {file}: lacks the states {', '.join(absent)}")
    age_to = (rows["age"] + width - 1).where(rows["age"] < FIRST_OPEN, LAST_AGE)
    people = rows.assign(state=state, age_from=rows["age"], age_to=age_to)
    return CensusTable(tidied(people[people["state"].isin(list(states))] if states else people))


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
        return _tidy(source.files[""], with_races, places)
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


def _tidy(path: Path, with_races: bool, places: Collection[str]) -> CensusTable:
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
        said = "; ".join(f"column {name}: {rows:,} rows" for name, rows in wrong.items() if rows)
        raise DeliveryError(
            f"population table: {path.name}: values that are missing or cannot be read ({said}): states are postal codes, "
            "sexes M and F, ages and people whole numbers"
        )
    people = read.assign(**{name: column.astype("int64") for name, column in numbers.items()})
    if "zip" in people:
        people["zip"] = people["zip"].str.zfill(5)
    counted_by = names[:-1]
    if repeated := int(people.duplicated(counted_by).sum()):
        raise DeliveryError(
            f"population table: {path.name}: {repeated:,} rows repeat {', '.join(counted_by)} of another row; if the table "
            "counts people by more, such as race or ZIP code, add them up, or name those columns of the cohort"
        )
    if not with_races:
        people["race"] = ALL_RACES
    synthetic = path.name.lower().startswith(SYNTHETIC_PREFIX)
    return CensusTable(people, (f"{path.name} is synthetic: its numbers are not a census",) if synthetic else ())

"""State population estimates of the Census Bureau: by sex and single year of age to 85 and over, and by race in bands."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.reference.geography import state_codes
from deid_assets.sources.census import ALL_RACES, LAST_AGE, RACES, CensusTable, tidied
from deid_assets.sources.open_ages import FIRST_OPEN, spread_open_ages
from deid_assets.sources.text_tables import read_text_table

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
    rows = _numbers(read_text_table(path, columns, what="census"), ("sex", "age", "people"), columns, path.name)
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
    rows = _numbers(read_text_table(path, columns, what="census"), ("year", "age", "people"), columns, path.name)
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

"""A synthetic PCT12 in the published layout, for where the real file is not at hand: its numbers are not a census.

It is made of two marginals: people by state, sex and single year of age, and the shares of the races by state, sex and
five-year band. Within a band, every age gets the shares of the band. The open group of 85 and over is spread by a model.
Numbers are whole, and the marginal by age is kept exactly (methods#census-tables).
"""

from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError
from deid_assets.reference.geography import states
from deid_assets.sources.census import CENSUS_2000, RACES, SYNTHETIC_PREFIX, CensusLayout, CensusTable, tidied
from deid_assets.sources.census_estimates import spread
from deid_assets.sources.open_ages import apportioned

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


def write_pct12(path: Path, table: CensusTable, layout: CensusLayout = CENSUS_2000) -> None:
    """Write PCT12A-G and PCT12 as one CSV file in the published layout.

    Parameters
    ----------
    path
        File to write; its name begins with "synthetic", by which `read_census` tells that it is no census.
    table
        People by state, sex, race and single year of age.

    Raises
    ------
    ValueError
        If the name does not say that the file is synthetic, or if ages are wider than the columns of the layout.
    """
    if not path.name.lower().startswith(SYNTHETIC_PREFIX):
        raise ValueError(f"the name of a file of made-up numbers begins with {SYNTHETIC_PREFIX!r}")
    fips = {state.postal: state.fips for state in states()}
    names = {state.postal: state.name for state in states()}
    people = table.people.assign(number=_columns_of(table.people, layout), fips=table.people["state"].map(fips))
    order = sorted(people["fips"].unique())
    postal = {code: state for state, code in fips.items()}
    written = {layout.state: order, "NAME": [names[postal[code]] for code in order]}
    for letter, race in {"": None, **RACES}.items():
        of_race = people if race is None else people[people["race"] == race]
        counts = of_race.pivot_table(index="fips", columns="number", values="people", aggfunc="sum", fill_value=0)
        counts = counts.reindex(index=order, columns=[column.number for column in layout.columns], fill_value=0)
        for total in (column for column in layout.columns if column.total):
            counts[total.number] = counts[[c.number for c in layout.columns if c.sex == total.sex and not c.total]].sum(axis=1)
        counts[1] = counts[[column.number for column in layout.columns if column.total]].sum(axis=1)
        written |= {layout.name(letter, number): counts[number].to_numpy() for number in sorted(counts)}
    pd.DataFrame(written).to_csv(path, index=False)


def _columns_of(people: pd.DataFrame, layout: CensusLayout) -> np.ndarray:
    """(rows,) number of the column that counts each row."""
    number = np.zeros(len(people), dtype=np.int64)
    for column in layout.columns:
        if not column.total:
            inside = people["age_from"].ge(column.age_from) & people["age_to"].le(column.age_to)
            number[(inside & (people["sex"] == column.sex)).to_numpy()] = column.number
    if not number.all():
        raise ValueError("the table has ages that are wider than the columns of the layout")
    return number

"""Files of census tables, written for tests: PCT12A-G and PCT12 in the published layout."""

from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.reference.geography import states
from deid_assets.sources.census import CENSUS_2000, RACES, SYNTHETIC_PREFIX, CensusLayout, CensusTable


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

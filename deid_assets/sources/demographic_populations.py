"""Population tables by the kind of file: PCT12 and P12 of a census, estimates, or a tidy table (methods#census-tables)."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

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
)
from deid_assets.sources.census_estimates import read_race_bands, read_single_years
from deid_assets.sources.synthetic.census import synthetic_census
from deid_assets.sources.text_tables import read_text_table

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
    text = read_text_table(path, dict(zip(names, names, strict=True)), what="population table")
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

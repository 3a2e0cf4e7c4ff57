"""A cohort and a population table as the methods of demographics take them (methods#demographics-population).

Readers of tables and cohorts write states, races and ages in their own words. Here both become the attributes age, ethnicity,
geography and sex, with the levels that a policy may choose.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
import pandas as pd

from deid_assets.errors import DeliveryError, how_many
from deid_assets.methods.demographics.attributes import (
    CENSUS_RACES,
    WITHHELD,
    Attribute,
    CohortAttributes,
    age_attribute,
    ethnicity_attribute,
    sex_attribute,
)
from deid_assets.methods.demographics.population import EVENLY, FROM_85, Cells, GompertzSurvival, cells_of, population_of
from deid_assets.reference.geography import states
from deid_assets.sources.census import ALL_RACES, FIRST_OPEN, LAST_AGE, RACES

OTHER = "Other"
"""Race of a cohort that tells only White, Black and all others apart."""
WHITE, BLACK = RACES["A"], RACES["B"]
_OF_THE_CENSUS = dict(zip(RACES.values(), CENSUS_RACES, strict=True))
_THREE = {race: name if race in (WHITE, BLACK) else "other" for race, name in _OF_THE_CENSUS.items()} | {OTHER: "other"}
_FIRST_OF_THE_OLDEST = 110
MODEL = f"people of {FIRST_OPEN} and over are spread over single years by a model (methods#demographics-population)"
PLACES = ("state", "county", "zip")


def race_names(races: Collection[str]) -> Mapping[str, str]:
    """Return what each race is called as an ethnicity, for a cohort of these races.

    Parameters
    ----------
    races
        Races of the cohort: those of `RACES`; or White, Black and Other, which joins all the others; or none.

    Returns
    -------
    Mapping
        Race of the population table or the cohort to value of the attribute ethnicity. Values with the same name are joined.

    Raises
    ------
    DeliveryError
        If a race is none of them, or Other is mixed with a race that it includes.

    Examples
    --------
    >>> race_names(["White", "Other"])["Asian"], race_names(["White"])["Asian"], race_names([])["Asian"]
    ('other', 'asian', 'all')
    """
    if not races:
        return dict.fromkeys([*_OF_THE_CENSUS, OTHER, ALL_RACES], ALL_RACES)
    if set(races) <= {WHITE, BLACK, OTHER} and OTHER in races:
        return _THREE
    if not set(races) <= set(_OF_THE_CENSUS):
        raise DeliveryError(
            f"cohort: its races must be those of the census ({', '.join(_OF_THE_CENSUS)}), or {WHITE}, {BLACK} and {OTHER}"
        )
    return _OF_THE_CENSUS


def population_table(people: pd.DataFrame, races: Mapping[str, str]) -> pd.DataFrame:
    """Return a table of the census as `population_of` takes it.

    Parameters
    ----------
    people
        state | county and zip, if the table has them | sex | race | age_from, age_to: inclusive, `LAST_AGE` ends an open class
        | people.
    races
        As `race_names` returns it; people of races with one name are added up.

    Returns
    -------
    pandas.DataFrame
        geography | sex | ethnicity | youngest | oldest, missing in an open class | people.

    Raises
    ------
    DeliveryError
        If the table does not count a race; the message counts rows.
    """
    ethnicity = people["race"].map(dict(races))
    if ethnicity.isna().any():
        raise DeliveryError(
            f"population table: {how_many(int(ethnicity.isna().sum()), 'row is', 'rows are')} of no race that the cohort has; "
            "a table without races takes a cohort without them"
        )
    table = pd.DataFrame(
        {
            "geography": _places(people),
            "sex": people["sex"],
            "ethnicity": ethnicity,
            "youngest": people["age_from"],
            "oldest": people["age_to"]
            .where((people["age_to"] < LAST_AGE) | (people["age_from"] == LAST_AGE))
            .astype("Float64"),
            "people": people["people"],
            "race": people["race"],
        }
    )
    keys = ["geography", "sex", "ethnicity", "youngest", "oldest"]
    # Only different races are added up: a row that the table has twice stays twice, and `population_of` refuses it.
    table["copy"] = table.groupby([*keys, "race"], dropna=False).cumcount()
    added = table.groupby([*keys, "copy"], dropna=False, as_index=False).agg(
        people=("people", "sum"), races=("race", "nunique")
    )
    expected = table.groupby("ethnicity")["race"].nunique()
    holes = int((added["races"] != added["ethnicity"].map(expected)).sum())
    if holes:
        raise DeliveryError(
            f"population table: {how_many(holes, 'group')} of a place, sex and age without a race, or with a row twice; every "
            "race needs rows of the same ages, with 0 people where nobody lives"
        )
    return added.drop(columns=["copy", "races"])


def demographics_of(people: pd.DataFrame, races: Mapping[str, str], dates: Sequence[Attribute] = ()) -> CohortAttributes:
    """Return the attributes of a population table: ages, races, places and sexes, each also withheld, and the dates.

    Geography has the levels zip5, zip4, zip3 and county where the table has them, then state, region and withheld.
    """
    names = list(dict.fromkeys(races.values()))
    return CohortAttributes(
        age_attribute(LAST_AGE, withheld=True),
        ethnicity_attribute(True, names),
        _geography(people),
        sex_attribute(withheld=True),
        tuple(dates),
    )


def cells_of_cohort(
    cohort: pd.DataFrame, people: pd.DataFrame, cohort_races: Collection[str] = (), dates: Sequence[Attribute] = ()
) -> tuple[Cells, tuple[str, ...]]:
    """Place each person of a cohort in a population table.

    Parameters
    ----------
    cohort
        `Cohort.people`: age, sex, state, and race, county and zip if they are named.
    people
        As in `population_table`.
    cohort_races
        Races that the cohort tells apart, whether or not it has each of them; none if it has no column of races.
    dates
        Dates that policies may publish, such as `date_attribute`, each named as its column of the cohort.

    Returns
    -------
    (Cells, tuple of str)
        The cohort in its population, and what the reader must know of the table.

    Raises
    ------
    DeliveryError
        If the table cannot be right, or lacks a place of the cohort.
    """
    races = race_names(cohort_races)
    table, demographics = population_table(people, races), demographics_of(people, races, dates)
    missing = [name for name in PLACES if name in people and name not in cohort]
    if missing:
        raise DeliveryError(
            f"cohort: the population table is by {', '.join(missing)}, and no such column of the cohort is named"
        )
    places = _places(cohort[[name for name in PLACES if name in people]])
    absent = ~places.isin(demographics.geography.values)
    if absent.any():
        raise DeliveryError(
            f"cohort: {how_many(int(absent.sum()), 'record is', 'records are')} of a "
            f"{' or '.join(n for n in PLACES if n in people)} that the population table does not have"
        )
    known = cohort.assign(geography=places, ethnicity=cohort["race"].map(dict(races)) if cohort_races else ALL_RACES)
    open_ages, warnings = _open_ages(table)
    return cells_of(known, population_of(table, demographics, open_ages)), warnings


def _places(frame: pd.DataFrame) -> pd.Series:
    """The finest place of each row; a county belongs to a state, and a ZIP code may lie in several counties."""
    named = [frame[name].astype("str") for name in PLACES if name in frame]
    return named[0].str.cat(named[1:], sep=" | ")


def _geography(people: pd.DataFrame) -> Attribute:
    own = people[[name for name in PLACES if name in people]].drop_duplicates()
    levels: dict[str, pd.Series] = {}
    if "zip" in own:
        levels |= {f"zip{digits}": own["zip"].str[:digits] for digits in (5, 4, 3)}
    if "county" in own:
        levels["county"] = own["county"] + ", " + own["state"]
    regions = {state.postal: state.region or "territories" for state in states()}
    levels |= {"state": own["state"], "region": own["state"].map(regions), WITHHELD: pd.Series("*", own.index)}
    return Attribute.from_table("geography", pd.DataFrame(levels).set_axis(_places(own)))


def _open_ages(table: pd.DataFrame) -> tuple[GompertzSurvival, tuple[str, ...]]:
    first = np.unique(table.loc[table["oldest"].isna(), "youngest"].astype("int64"))
    if not len(first) or (first >= _FIRST_OF_THE_OLDEST).all():
        return EVENLY, ()
    if (first == FIRST_OPEN).all():
        return FROM_85, (MODEL,)
    raise DeliveryError(
        f"population table: open classes of ages begin at {', '.join(map(str, first))}; a model is known for {FIRST_OPEN} and "
        f"over, and for {_FIRST_OF_THE_OLDEST} and over"
    )

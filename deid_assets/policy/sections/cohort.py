"""The sections of a policy of kind cohort: columns, population, levels of the demographics, and risk."""

import datetime
from pathlib import PurePosixPath
from typing import Annotated, Literal, get_args

from pydantic import AfterValidator, Field

from deid_assets.policy.sections.longitudinal import ColumnName, Delimiter, Said, Section, Share

Attribute = Literal["age", "ethnicity", "geography", "sex", "date"]
"""Demographics that a policy generalizes, by their names in the methods."""
Race = Literal["White", "Black", "American Indian", "Asian", "Pacific Islander", "Other race", "Two or more races", "Other"]
"""Races of a census table; Other joins all but White and Black."""
RaceTable = Literal["A", "B", "C", "D", "E", "F", "G"]
AttributeRole = Literal["free", "year", "date"]
MeasureKind = Literal["total", "graduated", "non-graduated", "largest"]

ATTRIBUTES: tuple[str, ...] = get_args(Attribute)
ORDERED: frozenset[str] = frozenset({"age", "date"})
"""Demographics whose values have an order."""
PUBLISHED_POLICIES = ("safe_harbor", "gen_eth", "5_year", "5_year_gen_eth", "10_year", "10_year_gen_eth")
"""Safe Harbor and the policies of Malin et al. (2011, Table 2)."""


def below_the_folder(file: str) -> str:
    """Refuse a file that the digest of the delivery does not cover: it could change undetected."""
    path = PurePosixPath(file)
    if path.is_absolute() or ".." in path.parts:
        raise ValueError("must be a file name below the delivery's folder: not absolute, without '..'")
    return file


def _day(text: str) -> str:
    try:
        datetime.date.fromisoformat(text)
    except ValueError:
        raise ValueError("must be a day, written 2012-12-31") from None
    return text


FileBelow = Annotated[Said, AfterValidator(below_the_folder)]
Day = Annotated[str, Field(max_length=10), AfterValidator(_day)]


class CohortSource(Section):
    """One table with a record for each person: CSV, Parquet or DuckDB."""

    kind: Literal["cohort"] = "cohort"
    file: FileBelow = Field(description="file name below the delivery's folder")
    table: Said | None = Field(None, description="for a DuckDB file: table or schema.table")
    delimiter: Delimiter = ","


class PersonColumn(Section):
    """The column that identifies a person; it must not occur twice."""

    column: Said = Field(description="name of the column in the delivery")
    release_as: ColumnName | None = Field(
        None, description="name of the column of pseudonyms in the release; null: nothing identifies a person there"
    )


class AgeColumn(Section):
    """Exactly one of age, date of birth and year of birth."""

    age: Said | None = Field(None, description="column of the age in completed years")
    birth_date: Said | None = Field(None, description="column of the date of birth")
    birth_year: Said | None = Field(None, description="column of the year of birth; age is then the difference of years")
    reference: Day | None = Field(None, description="day to which ages are counted from a birth")
    release_as: ColumnName = Field("Age", description="name of the column in the release")


class SexColumn(Section):
    """Sex."""

    column: Said = Field(description="name of the column in the delivery")
    values: dict[Said, Literal["M", "F"]] = Field({"M": "M", "F": "F"}, min_length=1, description="M or F for each value")
    release_as: ColumnName = Field("Sex", description="name of the column in the release")


class RaceColumn(Section):
    """Race, in the words of the population's table."""

    column: Said = Field(description="name of the column in the delivery")
    values: dict[Said, Race] = Field(
        min_length=1, description="race of the census for each value; or White, Black and Other, which joins all others"
    )
    release_as: ColumnName = Field("Race", description="name of the column in the release")


class PlaceColumns(Section):
    """Where a person lives: a state, and as far as the population's table counts them a county and a ZIP code."""

    state: Said = Field(description="column of the state in the delivery")
    state_kind: Literal["postal", "fips", "ssa", "name"] = Field("postal", description="kind of the states' codes")
    county: Said | None = Field(None, description="column of the county")
    zip: Said | None = Field(None, description="column of the ZIP code")
    release_as: ColumnName = Field("Place", description="name of the column in the release")


class DateColumn(Section):
    """A date that an adversary may know, such as that of an admission; a person may have none."""

    column: Said = Field(description="name of the column in the delivery")
    first: Day = Field(description="first day of the period in which the dates lie")
    last: Day = Field(description="last day of the period")
    dated: Annotated[float, Field(gt=0, le=1)] = Field(
        description="share of the population with such a date in this period, spread evenly over its days"
    )
    release_as: ColumnName = Field("Date", description="name of the column in the release")


class CohortColumns(Section):
    """Which columns of the delivery hold the demographics."""

    person: PersonColumn = Field(description="what identifies a person")
    age: AgeColumn = Field(description="age, or a birth from which it is counted")
    sex: SexColumn = Field(description="sex")
    race: RaceColumn | None = Field(None, description="race; null: the cohort has none")
    place: PlaceColumns = Field(description="state, county, ZIP code")
    date: DateColumn | None = Field(None, description="a date that an adversary may know; null: none is published")
    date_format: Said = Field("%Y-%m-%d", description="format of all dates, as in Python's strptime")


class PopulationFile(Section):
    """A file of the population's table."""

    file: FileBelow = Field(description="file name below the delivery's folder")


class RaceShares(PopulationFile):
    """State estimates by race and band, from which the races of state estimates are made."""

    year: Annotated[int, Field(ge=1900, le=2100)] = Field(description="year of these estimates")


class CohortPopulation(Section):
    """The table of the population that the cohort belongs to (methods#census-tables)."""

    kind: Literal["pct12", "pct12-2020", "p12", "estimates", "tidy"] = Field(description="what the table is")
    file: FileBelow | None = Field(None, description="file name below the delivery's folder; null: one file for each race")
    by_race: dict[RaceTable, PopulationFile] = Field({}, description="file of each table of a census, by its letter")
    count: Said = Field("CENSUS2010POP", description="column of the counts of state estimates")
    race_shares: RaceShares | None = Field(
        None, description="estimates by race and band; the races of state estimates are made of their shares"
    )

    @property
    def files(self) -> dict[str, str]:
        """File by the letter of its table; the letter '' is one file with all of them."""
        return {"": self.file} if self.file is not None else {letter: own.file for letter, own in self.by_race.items()}


class OldAges(Section):
    """Local recoding of ages from 90 on: the finest level at which a group is no riskier than under Safe Harbor."""

    by: Literal["state", "ethnicity"] = Field(description="whose groups have levels of their own")
    levels: Annotated[tuple[Said, ...], Field(min_length=1)] = Field(
        description="levels of age from fine to coarse, such as 1 year; 5 years; 1 year, 90+"
    )


class ReleasedDemographics(Section):
    """The levels of the demographics in the release: a published policy, or one level of each attribute."""

    policy: Literal["safe_harbor", "gen_eth", "5_year", "5_year_gen_eth", "10_year", "10_year_gen_eth"] | None = Field(
        None, description="a published policy; null: the levels decide"
    )
    levels: dict[Attribute, Said] = Field(
        {}, description="a level of age, ethnicity, geography and sex, as discovery names them; with a policy, of the date only"
    )
    old_ages: OldAges | None = Field(None, description="finer ages from 90 on where the population carries them; null: none")


class CohortAttribute(Section):
    """A column that is published beside the demographics."""

    column: Said = Field(description="name of the column in the delivery")
    release_as: ColumnName = Field(description="name of the column in the release")
    role: AttributeRole = Field(
        "free", description="free: published as it is, and searched for identifiers; year: as it is; date: its year"
    )


class CohortRisk(Section):
    """When the demographics of a cohort may be published (methods#demographics-risk)."""

    no_riskier_than: Literal["safe_harbor"] | None = Field(
        "safe_harbor",
        description="refuse if the release is riskier than this policy, in the whole cohort or in a state; null: no gate",
    )
    measures: Annotated[tuple[MeasureKind, ...], Field(min_length=1)] = Field(
        ("total",), description="measures that decide; the release must be no riskier by each of them"
    )
    thresholds: tuple[Annotated[int, Field(ge=1, le=1_000_000)], ...] = Field(
        (10,), description="T of graduated and non-graduated risk"
    )
    exponent: Annotated[float, Field(gt=0, le=100)] = Field(
        1.0, description="a: a record in a class of g people has risk g to the power of -a"
    )
    compared: Literal["upper_bound", "expected"] = Field(
        "upper_bound",
        description="what must not exceed the expected risk of Safe Harbor: an upper bound of the risk, or the expected risk, "
        "which takes the model of ages that the table joins for the truth",
    )
    crowded_at_most: Share = Field(
        0.0, description="share of the cohort in rows of the table that are smaller than the cohort there"
    )
    largest_at_most: Annotated[float, Field(gt=0, le=1)] | None = Field(
        None, description="highest probability of re-identification of any record (upper bound); null: no gate"
    )

"""The policy of a cohort and its sections: demographics at no more risk than Safe Harbor leaves (methods#demographics-risk)."""

import datetime
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from types import MappingProxyType
from typing import Annotated, ClassVar, Literal, get_args

from pydantic import AfterValidator, Field

from deid_assets.errors import DeliveryError
from deid_assets.methods.demographics.attributes import (
    Attribute,
    DemographicPolicy,
    date_attribute,
    published_alternatives,
    safe_harbor,
)
from deid_assets.policy.base import Detail, ReleasePolicy
from deid_assets.policy.hierarchies.specs import AnyHierarchy
from deid_assets.policy.problems import Problem
from deid_assets.policy.rules.limits import limit_problems
from deid_assets.policy.rules.validation import first_problems, reason_problems, secret_list_problems
from deid_assets.policy.sections.counts import (
    PeopleCounts,
    count_noise_problems,
    level_or_values,
    listed_values_problems,
    table_problems,
)
from deid_assets.policy.sections.longitudinal import ColumnName, Delimiter, Intake, Name, Said, Section, Share
from deid_assets.policy.sections.releases import CohortReleases, Hiding
from deid_assets.sources.census import PopulationFiles
from deid_assets.sources.cohort import CohortLayout
from deid_assets.sources.demographics import race_names

AttributeName = Literal["age", "ethnicity", "geography", "sex", "date"]
"""Demographics that a policy generalizes, by their names in the methods."""
Race = Literal["White", "Black", "American Indian", "Asian", "Pacific Islander", "Other race", "Two or more races", "Other"]
"""Races of a census table; Other joins all but White and Black."""
RaceTable = Literal["A", "B", "C", "D", "E", "F", "G"]
AttributeRole = Literal["free", "year", "date"]
MeasureKind = Literal["total", "graduated", "non-graduated", "largest"]

ATTRIBUTES: tuple[str, ...] = get_args(AttributeName)
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

    def below(self, folder: Path, instead: Mapping[str, Path] = MappingProxyType({})) -> PopulationFiles:
        """The table as its reader takes it, with its files below a folder, or others instead of them."""
        bands, year = (None, None) if self.race_shares is None else (folder / self.race_shares.file, self.race_shares.year)
        files = dict(instead) or {letter: folder / name for letter, name in self.files.items()}
        return PopulationFiles(self.kind, files, self.count, bands, year)


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
    levels: dict[AttributeName, Said] = Field(
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


OWN_COLUMNS = ("record", "row_key", "rowid")
"""Columns that the store adds; a released column of this name would be mistaken for one."""
TAKEN_IN = ("person", "age", "sex", "race", "state", "zip", "county", "date")
"""Columns of the people as they are taken in; an attribute of this name would be mistaken for one."""


class CohortPolicy(ReleasePolicy):
    """What is published of a cohort's demographics, and how risky it may be beside Safe Harbor."""

    has_events: ClassVar[Literal[False]] = False
    dates: ClassVar[None] = None  # those that are released are of events
    kind: Literal["cohort"] = Field(description="cohort: demographics with one record per person, against a population")
    hierarchies: dict[Name, AnyHierarchy] = Field(
        {}, max_length=0, description="none: the levels of demographics are those of the methods"
    )
    detail_at_least: dict[ColumnName, Detail] = Field({}, max_length=0, description="none: the policy states the levels")
    publish_however_coarse: Literal[False] = Field(False, description="false: the policy states the levels")
    source: CohortSource = Field(description="where to find the table in a delivery")
    intake: Intake = Intake(quarantine_at_most=0.0)
    columns: CohortColumns = Field(description="which columns hold the demographics")
    population: CohortPopulation = Field(description="table of the population, of the cohort's time and place")
    demographics: ReleasedDemographics = Field(description="levels in the release")
    attributes: tuple[CohortAttribute, ...] = Field(
        (), description="columns published beside the demographics; columns that are not listed anywhere are not published"
    )
    risk: CohortRisk = CohortRisk()
    releases: CohortReleases = CohortReleases()
    counts: PeopleCounts = PeopleCounts()
    reviewed_attributes: dict[ColumnName, Said] = Field(
        {},
        description="attributes, by their names in the release, whose values have a form that ordinary values share with "
        "identifiers, or that tell more about demographics than the release does, each with the reason why it is published "
        "nevertheless; the report shows both",
    )

    @property
    def generalized(self) -> dict[str, str]:
        """None: the policy states the levels."""
        return {}

    @property
    def person_column(self) -> str:
        """Name of the column that identifies people."""
        return self.columns.person.column

    @property
    def hiding(self) -> Hiding:
        """Among whom people are hidden if the records of several releases are linked."""
        return Hiding(self.releases.differing_at_least, True, True, self.releases.standing_out_at_most)

    @property
    def demographic_columns(self) -> dict[str, str]:
        """Attribute of the demographics to column of the release, in the order of the release."""
        own = self.columns
        named = {"age": own.age, "sex": own.sex, "ethnicity": own.race, "geography": own.place, "date": own.date}
        return {name: section.release_as for name, section in named.items() if section is not None}

    @property
    def released_columns(self) -> tuple[str, ...]:
        """Columns of the release in their order."""
        person = self.columns.person.release_as
        named = (() if person is None else (person,), self.demographic_columns.values())
        return (*named[0], *named[1], *(one.release_as for one in self.attributes))

    @property
    def demographic_policy(self) -> DemographicPolicy:
        """The levels of all attributes, the date included."""
        levels: dict[str, str] = {str(name): level for name, level in self.demographics.levels.items()}
        if self.demographics.policy is None:
            named = {name: levels[name] for name in ATTRIBUTES if name in levels}
            return DemographicPolicy.of("; ".join(f"{name} {level}" for name, level in named.items()), named)
        by_name = dict(zip(PUBLISHED_POLICIES, (safe_harbor(), *published_alternatives()), strict=True))
        return by_name[self.demographics.policy].with_levels(**levels)

    @property
    def reference_day(self) -> datetime.date | None:
        """Day to which ages are counted from a birth."""
        day = self.columns.age.reference
        return None if day is None else datetime.date.fromisoformat(day)

    @property
    def reviewable(self) -> list[str]:
        """Columns that a reason may overrule."""
        return [one.release_as for one in self.attributes]

    @property
    def date_attributes(self) -> tuple[Attribute, ...]:
        """The dates that the release may publish, with their levels."""
        own = self.columns.date
        if own is None:
            return ()
        first, last = datetime.date.fromisoformat(own.first), datetime.date.fromisoformat(own.last)
        return (date_attribute("date", first, last, own.dated),)

    @property
    def layout(self) -> CohortLayout:
        """The columns as the reader of cohorts takes them."""
        own = self.columns
        return CohortLayout(
            person=own.person.column,
            sex=own.sex.column,
            state=own.place.state,
            age=own.age.age,
            birth_date=own.age.birth_date,
            birth_year=own.age.birth_year,
            reference=self.reference_day,
            sexes=own.sex.values,
            race=own.race.column if own.race else None,
            races=own.race.values if own.race else {},
            state_kind=own.place.state_kind,
            zip=own.place.zip,
            county=own.place.county,
            dates={"date": own.date.column} if own.date else {},
            date_format=own.date_format,
            texts={one.release_as: one.column for one in self.attributes},
            table=self.source.table,
            delimiter=self.source.delimiter,
            file=self.source.file,
            unusable_at_most=self.intake.quarantine_at_most,
        )


def cohort_problems(policy: CohortPolicy) -> tuple[Problem, ...]:
    """Return every problem that spans sections of a cohort policy."""
    rules = (secret_list_problems, _ages, _population, _levels, _measures, _distinct_columns, reason_problems, _counted)
    return first_problems(policy, (limit_problems, count_noise_problems), rules)


def _ages(policy: CohortPolicy) -> Iterator[Problem]:
    """Without an age there is no class; with two, one of them would be published unjudged."""
    own = policy.columns
    named = [column for column in (own.age.age, own.age.birth_date, own.age.birth_year) if column is not None]
    if len(named) != 1:
        yield Problem(("columns", "age"), "name exactly one of age, birth_date and birth_year")
    elif (own.age.age is None) != (own.age.reference is not None):
        yield Problem(("columns", "age", "reference"), "the day to which ages are counted belongs to a birth, and to it only")
    if own.race is not None:
        try:
            race_names(set(own.race.values.values()))
        except DeliveryError as error:
            yield Problem(("columns", "race", "values"), str(error).removeprefix("cohort: "))
    if own.date is not None and own.date.last < own.date.first:
        yield Problem(("columns", "date", "last"), "the period must not end before it starts")


def _population(policy: CohortPolicy) -> Iterator[Problem]:
    """A table that cannot be read as stated would be found out only after the intake."""
    own, letters = policy.population, tuple("ABCDEFG")
    if (own.file is None) == (not own.by_race):
        yield Problem(("population", "file"), "name one file, or one file for each race in by_race")
    if own.by_race and (own.kind in ("estimates", "tidy") or set(own.by_race) != set(letters)):
        yield Problem(("population", "by_race"), f"is for a census, with one file for each of {', '.join(letters)}")
    if own.by_race and policy.columns.race is None:
        yield Problem(("population", "by_race"), "counts by race need the cohort's races: add columns.race, or name one file")
    if own.kind == "estimates" and (policy.columns.race is None) != (own.race_shares is None):
        yield Problem(("population", "race_shares"), "races of state estimates are made of shares: name both, or neither")
    if own.race_shares is not None and own.kind != "estimates":
        yield Problem(("population", "race_shares"), "shares of races are for state estimates")
    if own.kind != "tidy" and (policy.columns.place.county or policy.columns.place.zip):
        yield Problem(("columns", "place"), "only a tidy table counts people by county or ZIP code")


def _levels(policy: CohortPolicy) -> Iterator[Problem]:
    """Every attribute is published at a level that the policy states; a default level would be a guess."""
    own, dated = policy.demographics, policy.columns.date is not None
    expected = {"date"} if own.policy else set(ATTRIBUTES)
    expected -= set() if dated else {"date"}
    if set(own.levels) != expected:
        yield Problem(
            ("demographics", "levels"),
            f"a level is needed of exactly: {', '.join(name for name in ATTRIBUTES if name in expected) or 'nothing'}",
        )


def _measures(policy: CohortPolicy) -> Iterator[Problem]:
    """At least one number must be able to refuse the release."""
    risk = policy.risk
    if risk.no_riskier_than is None and risk.largest_at_most is None:
        yield Problem(("risk",), "nothing could refuse the release: set no_riskier_than or largest_at_most")
    if risk.no_riskier_than is not None and "total" not in risk.measures:
        yield Problem(
            ("risk", "measures"),
            "total must be one of them: by the others alone, a release that discloses half of its people could be no riskier",
        )
    if not risk.thresholds and set(risk.measures) & {"graduated", "non-graduated"}:
        yield Problem(("risk", "thresholds"), "graduated and non-graduated risk need a threshold")


def _distinct_columns(policy: CohortPolicy) -> Iterator[Problem]:
    """Two columns cannot share a name, and demographics cannot be published a second time, as they are."""
    names: set[str] = set()
    for name in policy.released_columns:
        if name.lower() in names or name.lower() in OWN_COLUMNS:
            yield Problem(("columns",), f"the release has two columns {name}, or the store has one: choose another release_as")
        names.add(name.lower())
    own = policy.columns
    named: list[str | None] = [own.person.column, own.age.age, own.age.birth_date, own.age.birth_year, own.sex.column]
    named += [own.place.state, own.place.zip, own.place.county]
    named += [section.column for section in (own.race, own.date) if section is not None]
    used = {column.lower() for column in named if column}
    for number, one in enumerate(policy.attributes):
        if one.release_as.lower() in TAKEN_IN:
            yield Problem(
                ("attributes", number, "release_as"), f"{one.release_as} is a column of the store: choose another name"
            )
        if one.column.lower() in used:
            yield Problem(
                ("attributes", number, "column"),
                f"column {one.column} is listed twice: an attribute would publish it as it is delivered",
            )
        used.add(one.column.lower())


def _counted(policy: CohortPolicy) -> Iterator[Problem]:
    """Which levels there are depends on the table of the population: they are judged when people are counted."""
    section, known = policy.counts, tuple(policy.demographic_columns.values())
    yield from table_problems(section)
    yield from listed_values_problems(section, tuple(one.release_as for one in policy.attributes))
    for column in level_or_values(section.characteristics or {})[0]:
        if column not in known:
            yield Problem(
                ("counts", "characteristics", column),
                f"is not a column of demographics of this policy: {', '.join(known)}; of an attribute, list values",
            )

"""Read a cohort: one record for each person, with demographics.

Every value is read by a stated rule. A row with a value that cannot be read, or that has no meaning by the stated map, is
unusable: counted by column and rule, and left out. More unusable rows than the policy allows, which is none unless it says
otherwise, refuse the cohort, and so does a person with several records.

A delivery of a cohort: the people, and the table of the population that they belong to.
"""

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import duckdb
import pandas as pd

from deid_assets.errors import DeliveryError, PolicyError, how_many
from deid_assets.methods.preparation.eligibility import NOBODY, NOBODY_LEFT_OUT, LeftOut, OptedOut, OptOutMatch, match_query
from deid_assets.reference.geography import STATE_CODES, state_codes
from deid_assets.sources.census import CensusTable, PopulationFiles, read_population
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.files import UNSEEN, SourceTable, are_unseen
from deid_assets.sources.flat import OPTED_OUT
from deid_assets.sources.report import Metadata, RowsReport, too_many_unusable
from deid_assets.sources.text_tables import read_text_table

OLDEST_READ = 119
"""Greatest age of a person; a greater number stands for something else."""
_MISSING = "missing"

USUAL_SPELLINGS: Mapping[str, tuple[str, ...]] = {
    "White": ("caucasian",),
    "Black": ("african american", "black african american", "black or african american"),
    "American Indian": (
        "alaska native", "american indian alaska native", "american indian and alaska native",
        "american indian or alaska native", "native american", "aian",
    ),
    "Pacific Islander": (
        "native hawaiian", "native hawaiian pacific islander", "native hawaiian and other pacific islander",
        "native hawaiian or other pacific islander", "native hawaiian or pacific islander", "nhpi",
    ),
    "Other race": ("some other race",),
    "Two or more races": ("mixed", "more than one race", "multiracial", "multiple races", "two or more"),
}  # fmt: skip
"""Race of the census to other spellings, as `_plain` has them. "Other" is none: it may stand for all but White and Black."""


@dataclass(frozen=True)
class CohortLayout:
    """Which columns of a file say what about a person.

    Exactly one of `age`, `birth_date` and `birth_year` is named.

    Attributes
    ----------
    person
        Column of the person's identifier, which must not occur twice.
    age
        Age in completed years.
    birth_date, birth_year, reference
        Date or year of birth, and the day to which ages are counted. By a year of birth alone, age is the difference of years.
    birthday
        Whether the day of birth within its year is read, too; needs a date of birth.
    sex, sexes
        Column, and its values to M or F.
    race, races
        Column, and its values to the races of the population table; None for a cohort without.
    usual_spellings
        Whether races may also be written as `USUAL_SPELLINGS` has them, in upper or lower case. Otherwise `races` has every
        value.
    state, state_kind
        Column, and the kind of its codes.
    zip, county
        Columns, or None. ZIP codes of fewer than five digits get their zeros back, and lose four digits more.
    dates
        Name in the result to column of a date, such as an admission; dates may be missing.
    date_format
        Of all dates, as in `datetime.strptime`.
    texts
        Name in the result to a column that is passed on as text; cells may be missing.
    table, delimiter
        Table of a DuckDB file; delimiter of a CSV file.
    file
        Of the cohort, below the folder of a delivery; None if its path is named otherwise.
    unusable_at_most
        Greatest share of rows that may be unusable. They are left out and counted.
    """

    person: str
    sex: str
    state: str
    age: str | None = None
    birth_date: str | None = None
    birth_year: str | None = None
    reference: datetime.date | None = None
    birthday: bool = False
    sexes: Mapping[str, str] = field(default_factory=lambda: {"M": "M", "F": "F"})
    race: str | None = None
    races: Mapping[str, str] = field(default_factory=dict)
    usual_spellings: bool = False
    state_kind: str = "postal"
    zip: str | None = None
    county: str | None = None
    dates: Mapping[str, str] = field(default_factory=dict)
    date_format: str = "%Y-%m-%d"
    texts: Mapping[str, str] = field(default_factory=dict)
    table: str | None = None
    delimiter: str = ","
    file: str | None = None
    unusable_at_most: float = 0.0

    def __post_init__(self) -> None:
        if sum(column is not None for column in (self.age, self.birth_date, self.birth_year)) != 1:
            raise PolicyError("a cohort needs one of age, birth_date and birth_year")
        if (self.age is None) != (self.reference is not None):
            raise PolicyError("a cohort needs a reference day if it has births, and none if it has ages")
        if self.birthday and self.birth_date is None:
            raise PolicyError("a day of birth needs a column of dates of birth")
        if not set(self.sexes.values()) <= {"M", "F"}:
            raise PolicyError("sexes of a cohort become M or F")
        if (self.race is None) != (not self.races):
            raise PolicyError("a cohort needs a column of races and the meaning of its values, or neither")
        if self.state_kind not in STATE_CODES:
            raise PolicyError(f"a cohort's states are coded as one of {', '.join(STATE_CODES)}")
        taken = {"record", "person", "age", "sex", "race", "state", "zip", "county", "birthday"} & {*self.dates, *self.texts}
        taken |= set(self.dates) & set(self.texts)
        if taken:
            raise PolicyError(f"dates and texts of a cohort cannot be called {', '.join(sorted(taken))}")

    def of(self, path: Path) -> SourceTable:
        """The table in a file."""
        return SourceTable(path, self.table, self.delimiter)

    def columns(self) -> dict[str, str]:
        """Name in the staged rows to column of the file."""
        named = {
            "person": self.person, "age": self.age, "birth_date": self.birth_date, "birth_year": self.birth_year,
            "sex": self.sex, "race": self.race, "state": self.state, "zip": self.zip, "county": self.county,
            **{f"date_{at}": column for at, column in enumerate(self.dates.values())},
            **{f"text_{at}": column for at, column in enumerate(self.texts.values())},
        }  # fmt: skip
        return {name: column for name, column in named.items() if column is not None}


class CohortReport(RowsReport):
    """Counts of one reading of a cohort."""

    def metadata(self) -> Metadata:
        """For the event log."""
        return {"cohort": self.file, **super().metadata()}


@dataclass(frozen=True, eq=False)
class Cohort:
    """Persons and how they were read.

    Attributes
    ----------
    people
        One row per person, in file order: record int64 (row of the file, from 1) | person | age int64 | birthday, such
        as 02-29, if it is read | sex M or F | race, if
        named | state, postal code | zip of five digits and county, if named | one datetime column for each of
        `CohortLayout.dates` | one column for each of `CohortLayout.texts`.
    unusable
        record int64 | source_column | rule: what each unusable row breaks.
    report
        What was left out, as counts.
    left_out
        What was found of the people who opted out.
    """

    people: pd.DataFrame = field(repr=False)
    unusable: pd.DataFrame = field(repr=False)
    report: CohortReport
    left_out: LeftOut = NOBODY_LEFT_OUT


def read_cohort(path: Path, layout: CohortLayout, folder: Path, opted_out: OptedOut = NOBODY) -> Cohort:
    """Read a cohort from a CSV (plain, gzip or zip), Parquet or DuckDB file.

    Parameters
    ----------
    path, layout
        The file and the meaning of its columns.
    folder
        Folder of the restricted store, where the copy of the file lies while it is read.
    opted_out
        Whose rows are left out, which is no fault of the cohort.

    Raises
    ------
    DeliveryError
        If the file cannot be read, lacks a column or has no usable row, if a person occurs twice, if too many rows are
        unusable. It names column, rule and number of rows, never a value.
    """
    columns = layout.columns()
    text = read_text_table(layout.of(path), columns, folder, "cohort")
    broken = _Broken(columns)
    people = pd.DataFrame({"record": range(1, len(text) + 1), "person": text["person"]}, index=text.index)
    broken.add("person", _MISSING, text["person"].isna())
    broken.add("person", UNSEEN, are_unseen(text["person"].fillna("")))
    again = text["person"].notna() & text["person"].duplicated(keep=False)
    if again.any():
        raise DeliveryError(
            f"cohort: {path.name}: column {layout.person}: {how_many(int(again.sum()), 'row')} of persons who occur more than "
            "once; a cohort has one record for each person"
        )
    leaving = text["person"].isin(opted_out.everybody)
    left_out = LeftOut(tuple(text["person"][leaving]), _problems(text, layout, opted_out))
    left = pd.DataFrame({"record": people["record"][leaving], "source_column": layout.person, "rule": OPTED_OUT})
    text, people = text[~leaving], people[~leaving].copy()
    people["age"] = _ages(text, layout, broken)
    if layout.birthday:
        # A date that cannot be read is counted with the ages.
        people["birthday"] = pd.to_datetime(text["birth_date"], format=layout.date_format, errors="coerce").dt.strftime("%m-%d")
    people["sex"] = broken.read("sex", text["sex"], "unknown sex", lambda values: values.map(dict(layout.sexes)))
    if layout.race is not None:
        known = ", ".join(value if value == race else f"{value} ({race})" for value, race in layout.races.items())
        people["race"] = broken.read(
            "race", text["race"], f"unknown race; known: {known}", lambda values: _races(values, layout)
        )
    people["state"] = broken.read("state", text["state"], "unknown state", lambda values: _states(values, layout.state_kind))
    if layout.zip is not None:
        people["zip"] = broken.read("zip", text["zip"], "not a ZIP code of five or nine digits", _zip_codes)
    if layout.county is not None:
        people["county"] = broken.read("county", text["county"], "", lambda values: values)
    for at, name in enumerate(layout.dates):
        read = pd.to_datetime(text[f"date_{at}"], format=layout.date_format, errors="coerce")
        broken.add(f"date_{at}", "not a date of the stated format", text[f"date_{at}"].notna() & read.isna())
        people[name] = read
    for at, name in enumerate(layout.texts):
        people[name] = text[f"text_{at}"]
    if broken.share(len(text)) > layout.unusable_at_most:
        raise DeliveryError(f"cohort: {path.name}: {too_many_unusable(broken.counts, layout.unusable_at_most)}")
    used = people[~broken.rows(text.index)].reset_index(drop=True).astype({"record": "int64", "age": "int64"})
    if used.empty:
        raise DeliveryError(f"cohort: {path.name}: no row is usable")
    unusable = pd.concat([left, broken.listed(people["record"])], ignore_index=True)
    counts = {**broken.counts, **({(layout.person, OPTED_OUT): len(left)} if len(left) else {})}
    return Cohort(used, unusable, CohortReport(path.name, len(text) + len(left), len(used), counts), left_out)


def _problems(text: pd.DataFrame, layout: CohortLayout, opted_out: OptedOut) -> tuple[str, ...]:
    """Why the lists of people who opted out cannot be trusted."""
    everybody = text[["person"]].dropna()

    def match(listed: Sequence[str]) -> OptOutMatch:
        with duckdb.connect() as connection:
            connection.register("everybody", everybody)
            return OptOutMatch(*connection.execute(match_query("everybody", "person"), [list(listed)]).fetchall()[0])

    found = opted_out.problems(match) if opted_out.everybody else ()
    return tuple(f"column {layout.person}: {problem}" for problem in found)


class _Broken:
    """Unusable rows, by column and rule."""

    def __init__(self, columns: Mapping[str, str]) -> None:
        self._columns = columns
        self._found: list[tuple[str, str, pd.Series]] = []
        self.counts: dict[tuple[str, str], int] = {}

    def add(self, name: str, rule: str, rows: pd.Series) -> None:
        if rows.any():
            self.counts[self._columns[name], rule] = int(rows.sum())
            self._found.append((self._columns[name], rule, rows))

    def read(self, name: str, text: pd.Series, rule: str, read: Callable[[pd.Series], pd.Series]) -> pd.Series:
        """Values by a rule; missing cells and cells that the rule gives no value are unusable."""
        found = read(text)
        self.add(name, _MISSING, text.isna())
        self.add(name, rule, text.notna() & found.isna())
        return found

    def rows(self, index: pd.Index) -> pd.Series:
        broken = pd.Series(False, index=index)
        for _, _, found in self._found:
            broken |= found
        return broken

    def listed(self, records: pd.Series) -> pd.DataFrame:
        """One row for each unusable row and what it breaks."""
        listed = [
            pd.DataFrame({"record": records[found], "source_column": column, "rule": rule})
            for column, rule, found in self._found
        ]
        empty = pd.DataFrame({"record": pd.Series(dtype="int64"), "source_column": "", "rule": ""})
        return pd.concat(listed or [empty], ignore_index=True)

    def share(self, rows: int) -> float:
        return float(pd.concat([found for _, _, found in self._found], axis=1).any(axis=1).sum()) / rows if self._found else 0.0


def _races(values: pd.Series, layout: CohortLayout) -> pd.Series:
    """Races by their stated values, and by usual spellings if the layout has them; missing if neither is known."""
    if not layout.usual_spellings:
        return values.map(dict(layout.races))
    spelled = {one: race for race in layout.races.values() for one in (_plain(race), *USUAL_SPELLINGS.get(race, ()))}
    return values.map({value: layout.races.get(value, spelled.get(_plain(value))) for value in values.dropna().unique()})


def _plain(text: str) -> str:
    """In lower case, with single blanks for punctuation between words, without the census's "alone"."""
    return re.sub(r"[\s/_-]+", " ", text.casefold()).strip().removesuffix(" alone")


def _ages(text: pd.DataFrame, layout: CohortLayout, broken: _Broken) -> pd.Series:
    if layout.age is not None:
        return broken.read("age", text["age"], f"not a whole number from 0 to {OLDEST_READ}", _within)
    reference = layout.reference
    if reference is None:  # refused by the layout
        raise PolicyError("a cohort needs a reference day if it has births")
    outside = f"not born in the {OLDEST_READ} years before the reference day"
    if layout.birth_year is not None:
        return broken.read(
            "birth_year",
            text["birth_year"],
            f"not a year, or {outside}",
            lambda values: _within(reference.year - _number(values)),
        )

    def of_date(values: pd.Series) -> pd.Series:
        born = pd.to_datetime(values, format=layout.date_format, errors="coerce")
        later = (born.dt.month > reference.month) | ((born.dt.month == reference.month) & (born.dt.day > reference.day))
        return _within(reference.year - born.dt.year - later.astype("int64"))

    return broken.read("birth_date", text["birth_date"], f"not a date of the stated format, or {outside}", of_date)


def _number(text: pd.Series) -> pd.Series:
    return pd.to_numeric(text, errors="coerce").astype("float64")


def _within(values: pd.Series) -> pd.Series:
    """Whole numbers of years that an age can have; others are missing."""
    numbers = _number(values)
    return numbers.where(numbers.between(0, OLDEST_READ) & (numbers % 1 == 0))


def _states(codes: pd.Series, kind: str) -> pd.Series:
    known = state_codes(list(codes.dropna().unique()), kind)
    return codes.map(known.set_index("code")["state"])


def _zip_codes(codes: pd.Series) -> pd.Series:
    plain = codes.str.replace(r"[.]0+$", "", regex=True)
    first = plain.str.extract(r"^([0-9]{3,5})(?:-[0-9]{4})?$|^([0-9]{5})[0-9]{4}$")
    return first[0].fillna(first[1]).str.zfill(5)


PEOPLE, QUARANTINED, POPULATION = "cohort_people", "quarantined_people", "population_cells"


@dataclass(frozen=True)
class CohortDelivery:
    """What was read of a delivery.

    Attributes
    ----------
    cohort, population
        People and population table.
    digest
        Of the delivery's files, which did not change while they were read.
    """

    cohort: Cohort
    population: CensusTable
    digest: str


def read_cohort_delivery(
    delivery: Delivery, layout: CohortLayout, source: PopulationFiles, store: Path, opted_out: OptedOut = NOBODY
) -> CohortDelivery:
    """Read the cohort and its population from a delivery, which is one folder.

    Parameters
    ----------
    source
        The files of the population, below the delivery's folder.
    store
        Folder of the restricted store, where the copy of the cohort lies while it is read.

    Raises
    ------
    DeliveryError
        If a file is missing, cannot be read or cannot be right, or changes while it is read.
    """
    digest = delivery.digest()
    places = [name for name, column in (("county", layout.county), ("zip", layout.zip)) if column]
    bands = None if source.race_bands is None else _path(delivery, source.race_bands)
    files = {letter: _path(delivery, own) for letter, own in source.files.items()}
    population = read_population(replace(source, files=files, race_bands=bands), layout.race is not None, places)
    cohort = read_cohort(_path(delivery, layout.file or ""), layout, store, opted_out)
    if delivery.digest() != digest:
        raise DeliveryError(f"delivery {delivery.key}: its files changed while they were read; take it in again")
    return CohortDelivery(cohort, population, digest)


def _path(delivery: Delivery, file: str | Path) -> Path:
    """The path of a file that the digest of the delivery covers."""
    (folder,) = delivery.paths if len(delivery.paths) == 1 else (None,)
    if folder is None or not folder.is_dir():
        raise DeliveryError(
            f"delivery {delivery.key}: a cohort is one folder that contains its file and that of the population"
        )
    path = folder / file
    if path not in {own.path for own in delivery.files()}:
        raise DeliveryError(f"{path.name}: missing file; it should be in the folder of delivery {delivery.key}")
    return path

"""Demographic attributes and the levels to which a policy generalizes them (methods#demographics-policies).

The levels of an attribute need not form one chain: ZIP codes lead to three-digit ZIP codes or to counties, and neither refines
the other. Which level refines which is therefore computed from the levels, never declared.

The attributes that are here have the levels of Malin et al. (2011) and of census tables.

Policies are values: Safe Harbor and the five alternatives of Malin et al. (2011, Table 2) are among them.
"""

import datetime
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache

import numpy as np
import pandas as pd

from deid_assets.errors import PolicyError


@dataclass(frozen=True, eq=False)
class Level:
    """One generalization of an attribute.

    Parameters
    ----------
    name
        Name of the level, unique within its attribute.
    codes
        (base values,) int: the class of each base value; 0, 1, .. without gaps.
    labels
        Label of each class, as it is published.
    distinguishes
        False for a level of a date that is taken to distinguish nobody: the people who are not in the cohort are in each of
        its classes.
    """

    name: str
    codes: np.ndarray
    labels: tuple[str, ...]
    distinguishes: bool = True

    def __post_init__(self) -> None:
        codes = np.ascontiguousarray(self.codes, dtype=np.int64)
        if not np.array_equal(np.unique(codes), np.arange(len(self.labels))):
            raise ValueError(f"level {self.name}: codes must be 0, 1, .. without gaps, with one label each")
        object.__setattr__(self, "codes", codes)

    @classmethod
    def of(cls, name: str, labels: Sequence[str], distinguishes: bool = True) -> "Level":
        """Return the level that gives each base value one of these labels.

        Examples
        --------
        >>> Level.of("group", ["AA", "WH", "AA"]).codes.tolist()
        [0, 1, 0]
        """
        codes, found = pd.factorize(pd.Series(list(labels), dtype="str"))
        if np.any(codes < 0):
            raise ValueError(f"level {name}: every base value needs a label")
        return cls(name, codes, tuple(found), distinguishes)

    def refines(self, other: "Level") -> bool:
        """Whether values that this level joins are joined by the other level too; every level refines itself."""
        joined = self.codes * len(other.labels) + other.codes
        return len(np.unique(joined)) == len(self.labels)


@dataclass(frozen=True, eq=False)
class Attribute:
    """A demographic attribute: its base values and the levels that a policy may choose.

    Parameters
    ----------
    name
        Column of the cohort.
    values
        (base values,) distinct values as the cohort and the population table write them.
    levels
        In any order.
    shares
        (base values,) float, sum 1: how people are spread over the values, if the population table does not say. None for
        an attribute that the table counts.
    aliases
        Further names of levels: state is another name of county if there is one county.

    Raises
    ------
    ValueError
        If two levels have one name or join the same values.
    """

    name: str
    values: pd.Index
    levels: tuple[Level, ...]
    shares: np.ndarray | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    refines: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", pd.Index(self.values))
        object.__setattr__(self, "levels", tuple(self.levels))
        names = [*(level.name for level in self.levels), *self.aliases]
        if not self.values.is_unique or len(set(names)) != len(names) or not names:
            raise ValueError(f"{self.name}: values and names of levels must be distinct, and there must be a level")
        refines = np.array([[finer.refines(coarser) for coarser in self.levels] for finer in self.levels])
        if np.any(refines & refines.T & ~np.eye(len(self.levels), dtype=bool)):
            raise ValueError(f"{self.name}: two levels join the same values")
        object.__setattr__(self, "refines", refines)

    @classmethod
    def of(cls, name: str, values: pd.Index, levels: Iterable[Level], shares: np.ndarray | None = None) -> "Attribute":
        """Return an attribute in which levels that join the same values are one level, with the name of the first."""
        kept: list[Level] = []
        aliases = {}
        for level in levels:
            same = next((other for other in kept if level.refines(other) and other.refines(level)), None)
            if same is None:
                kept.append(level)
            else:
                aliases[level.name] = same.name
        return cls(name, values, tuple(kept), shares, aliases)

    @classmethod
    def from_table(cls, name: str, table: pd.DataFrame) -> "Attribute":
        """Return an attribute of a table with one row for each base value (the index) and one column of labels for each level.

        Examples
        --------
        >>> places = pd.DataFrame({"county": ["A", "A", "B"], "state": ["WA", "WA", "WA"]}, index=["98101", "98102", "98501"])
        >>> Attribute.from_table("geography", places).refines.tolist()
        [[True, True], [False, True]]
        """
        return cls.of(name, table.index, [Level.of(str(column), list(table[column])) for column in table])

    def number_of(self, level: str) -> int:
        """Return the position of a level.

        Raises
        ------
        PolicyError
            If there is no level of this name.
        """
        names = [own.name for own in self.levels]
        kept = self.aliases.get(level, level)
        if kept not in names:
            raise PolicyError(f"{self.name} has no level {level!r}; its levels are: {', '.join([*names, *self.aliases])}")
        return names.index(kept)

    def level(self, name: str) -> Level:
        """Return a level by its name."""
        return self.levels[self.number_of(name)]

    def codes_of(self, column: pd.Series) -> np.ndarray:
        """Return (n,) int, the position of each value among the base values; -1 where it is not one of them."""
        return np.asarray(self.values.get_indexer(pd.Index(column)), dtype=np.int64)

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Chains of levels, each from fine to coarse, of which every level is in exactly one."""
        chains: list[list[int]] = []
        for level in sorted(range(len(self.levels)), key=lambda level: -len(self.levels[level].labels)):
            chain = next((chain for chain in chains if self.refines[chain[-1], level]), None)
            if chain is None:
                chains.append([level])
            else:
                chain.append(level)
        return tuple(tuple(chain) for chain in chains)


@dataclass(frozen=True, eq=False)
class CohortAttributes:
    """The attributes of a cohort: age, ethnicity, geography and sex, which a population table counts, and perhaps dates.

    Raises
    ------
    ValueError
        If the values of age are not consecutive years, or two attributes have one name.
    """

    age: Attribute
    ethnicity: Attribute
    geography: Attribute
    sex: Attribute
    dates: tuple[Attribute, ...] = ()

    def __post_init__(self) -> None:
        years = self.age.values.to_numpy()
        if not np.issubdtype(years.dtype, np.integer) or np.any(np.diff(years) != 1):
            raise ValueError("the values of age must be consecutive years")
        if len({attribute.name for attribute in self.attributes}) != len(self.attributes):
            raise ValueError("attributes must have different names")

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes in the order of a node: age, ethnicity, geography, sex and the dates."""
        return (self.age, self.ethnicity, self.geography, self.sex, *self.dates)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute; their product is the number of policies."""
        return tuple(len(attribute.levels) for attribute in self.attributes)


CENSUS_RACES = ("white", "black", "american indian", "asian", "pacific islander", "other", "two or more")
"""Races of the tables PCT12A to PCT12G of the Census of 2000."""

WITHHELD = "withheld"
"""The level at which an attribute is not published."""

YEAR = "year"
"""The level of a date under Safe Harbor."""

NO_DATE = "no date"

BIRTHDAY = "birthday"
"""Name of the attribute of `birthday_attribute`."""

TOP_CODED = "1 year, 90+"
"""The level of age under Safe Harbor: ages over 89 are one class."""


def age_bands(years: Iterable[int], width: int, top: int | None = None) -> Level:
    """Return bands of ages, with all ages from `top` on in one class.

    Parameters
    ----------
    years
        The base values of age.
    width
        Number of years of a band; bands start at multiples of the width.
    top
        First age of the open class; None for no such class.

    Examples
    --------
    >>> age_bands(range(87, 93), 1, 90).labels
    ('87', '88', '89', '90+')
    """

    def label(age: int) -> str:
        if top is not None and age >= top:
            return f"{top}+"
        first = age - age % width
        last = first + width - 1 if top is None else min(first + width, top) - 1
        return str(first) if first == last else f"{first}-{last}"

    name = ("1 year" if width == 1 else f"{width} years") + ("" if top is None else f", {top}+")
    return Level.of(name, [label(int(age)) for age in years])


@lru_cache
def age_attribute(
    oldest: int = 119, widths: tuple[int, ...] = (1, 5, 10), tops: tuple[int | None, ...] = (None, 90), withheld: bool = False
) -> Attribute:
    """Return age in single years, with bands of all widths and open classes, and no age at all if `withheld`.

    Examples
    --------
    >>> [level.name for level in age_attribute(widths=(1, 5)).levels]
    ['1 year', '1 year, 90+', '5 years', '5 years, 90+']
    """
    years = range(oldest + 1)
    levels = [age_bands(years, width, top) for width in widths for top in tops]
    if withheld:
        levels.append(Level.of(WITHHELD, ["*"] * len(years)))
    return Attribute.of("age", pd.RangeIndex(oldest + 1), levels)


def ethnicity_attribute(withheld: bool = False, races: Iterable[str] = CENSUS_RACES) -> Attribute:
    """Return race as the census counts it, and as African-American, white and other (AA, WH, OT).

    Parameters
    ----------
    races
        The races that a table counts; all but white and black are OT.
    """
    values, groups = list(races), {"white": "WH", "black": "AA"}
    table = pd.DataFrame({"any": values, "AA/WH/OT": [groups.get(race, "OT") for race in values]}, values)
    return Attribute.from_table("ethnicity", table.assign(**{WITHHELD: "*"}) if withheld else table)


def sex_attribute(values: tuple[str, ...] = ("F", "M"), withheld: bool = False) -> Attribute:
    """Return sex as it is, and withheld."""
    table = pd.DataFrame({"sex": values}, index=list(values))
    return Attribute.from_table("sex", table.assign(**{WITHHELD: "*"}) if withheld else table)


def date_attribute(name: str, first: datetime.date, last: datetime.date, dated: float) -> Attribute:
    """Return the days of a period by day, week, month, quarter, year and withheld; a person may have no date.

    Safe Harbor publishes the year, and that a date is missing. So these are taken to distinguish nobody, under every policy:
    Safe Harbor looks no riskier because the cohort has dates (methods#demographics-population).

    Parameters
    ----------
    first, last
        The period of the cohort's dates, both included.
    dated
        Share of the population that has such a date in the period, spread evenly over its days.

    Examples
    --------
    >>> year = date_attribute("admission", datetime.date(2008, 1, 1), datetime.date(2008, 12, 31), dated=0.1)
    >>> [level.name for level in year.levels]
    ['day', 'week', 'month', 'quarter', 'year', 'withheld']
    """
    if last < first or not 0 < dated <= 1:
        raise ValueError("the period must not end before it starts, and some of the population must have a date in it")
    days = pd.date_range(first, last, freq="D")
    labels = {
        "day": days.strftime("%Y-%m-%d"),
        "week": days.strftime("%G-W%V"),
        "month": days.strftime("%Y-%m"),
        "quarter": days.to_period("Q").astype("str"),
    }
    levels = [Level.of(level, [*shown, NO_DATE]) for level, shown in labels.items()]
    levels.append(Level.of(YEAR, [*days.strftime("%Y"), NO_DATE], distinguishes=False))
    levels.append(Level.of(WITHHELD, ["*"] * (len(days) + 1)))
    shares = np.append(np.full(len(days), dated / len(days)), 1 - dated)
    return Attribute.of(name, days.append(pd.DatetimeIndex([pd.NaT])), levels, shares)


def birthday_attribute() -> Attribute:
    """Return the day of birth within its year, by day, month, quarter and year; the year itself is told by the age.

    Single years of age and the day of birth together are the date of birth. The population's births are spread evenly over the
    days of four years.

    Examples
    --------
    >>> [level.name for level in birthday_attribute().levels]
    ['day', 'month', 'quarter', 'year']
    """
    days = pd.date_range("2000-01-01", "2000-12-31", freq="D")
    values = pd.Index(days.strftime("%m-%d"))
    levels = [
        Level.of("day", list(values)),
        Level.of("month", list(days.strftime("%m"))),
        Level.of("quarter", list(days.quarter.astype("str"))),
        *(Level.of(name, ["*"] * len(values)) for name in (YEAR, WITHHELD)),
    ]
    return Attribute.of(BIRTHDAY, values, levels, np.where(values == "02-29", 1, 4) / 1461)


Node = tuple[int, ...]


@dataclass(frozen=True)
class DemographicPolicy:
    """A policy on demographics: one level for each attribute.

    Examples
    --------
    >>> safe_harbor().with_levels(geography="zip3").levels["geography"]
    'zip3'
    """

    name: str
    chosen: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, name: str, levels: Mapping[str, str]) -> "DemographicPolicy":
        """Return the policy with these levels, by attribute."""
        return cls(name, tuple(levels.items()))

    @property
    def levels(self) -> dict[str, str]:
        """Name of the level of each attribute."""
        return dict(self.chosen)

    def with_levels(self, **levels: str) -> "DemographicPolicy":
        """Return the policy of the same name with other or further levels."""
        return DemographicPolicy.of(self.name, self.levels | levels)

    def node(self, demographics: CohortAttributes) -> Node:
        """Return the position of the chosen level of each attribute.

        Raises
        ------
        PolicyError
            If the policy names an attribute that the cohort does not have, or none of an attribute that it has.
        """
        names = [attribute.name for attribute in demographics.attributes]
        if missing := [name for name in names if name not in self.levels]:
            raise PolicyError(f"policy {self.name}: choose a level of {', '.join(missing)}")
        if unknown := [name for name in self.levels if name not in names]:
            raise PolicyError(f"policy {self.name}: the cohort has no {', '.join(unknown)}")
        return tuple(attribute.number_of(self.levels[attribute.name]) for attribute in demographics.attributes)


def policy_at(node: Node, demographics: CohortAttributes) -> DemographicPolicy:
    """Return the policy of a node, named by its levels."""
    levels = {
        attribute.name: attribute.levels[number].name for attribute, number in zip(demographics.attributes, node, strict=True)
    }
    return DemographicPolicy.of("; ".join(f"{name} {level}" for name, level in levels.items()), levels)


def safe_harbor(geography: str = "state", **further: str) -> DemographicPolicy:
    """Return Safe Harbor: single years of age to 89, any ethnicity, a state (or the level named), sex.

    Parameters
    ----------
    further
        Levels of dates, such as admission='year'.

    References
    ----------
    45 CFR 164.514(b)(2); Malin B, Benitez K, Masys D (2011), Table 2, doi:10.1136/jamia.2010.004622
    """
    return DemographicPolicy.of(
        "Safe Harbor", {"age": TOP_CODED, "ethnicity": "any", "geography": geography, "sex": "sex"} | further
    )


def published_alternatives(**further: str) -> tuple[DemographicPolicy, ...]:
    """Return the five alternatives of Malin et al. (2011, Table 2): all by state and sex, and none with a top code.

    Examples
    --------
    >>> [policy.name for policy in published_alternatives()]
    ['GenEth', '5 year', '5 year-GenEth', '10 year', '10 year-GenEth']
    """
    return tuple(
        DemographicPolicy.of(name, {"age": age, "ethnicity": ethnicity, "geography": "state", "sex": "sex"} | further)
        for name, age, ethnicity in (
            ("GenEth", "1 year", "AA/WH/OT"),
            ("5 year", "5 years", "any"),
            ("5 year-GenEth", "5 years", "AA/WH/OT"),
            ("10 year", "10 years", "any"),
            ("10 year-GenEth", "10 years", "AA/WH/OT"),
        )
    )

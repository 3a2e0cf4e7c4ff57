"""Attributes in the levels of Malin et al. (2011) and of census tables (methods#demographics-policies)."""

import datetime
from collections.abc import Iterable

import numpy as np
import pandas as pd

from deid_assets.methods.demographics.attributes import Attribute, Level

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
    if width < 1:
        raise ValueError("a band of ages needs at least one year")

    def label(age: int) -> str:
        if top is not None and age >= top:
            return f"{top}+"
        first = age - age % width
        last = first + width - 1 if top is None else min(first + width, top) - 1
        return str(first) if first == last else f"{first}-{last}"

    name = ("1 year" if width == 1 else f"{width} years") + ("" if top is None else f", {top}+")
    return Level.of(name, [label(int(age)) for age in years])


def age_attribute(
    oldest: int = 119, widths: Iterable[int] = (1, 5, 10), tops: Iterable[int | None] = (None, 90), withheld: bool = False
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

"""States of the United States and their codes: postal, FIPS and SSA.

Sources: FIPS 5-2 codes, regions and divisions as in the Census Bureau's state population estimates (ST-EST00INT-AGESEX); SSA
codes as CMS lists them for Medicare files (SAF state codes). Several SSA codes stand for one state. SSA codes of countries and
continents are no states.

Three-digit ZIP prefixes and the people who live in their areas: which of them Safe Harbor lets stand.

Safe Harbor keeps the first three digits of a ZIP code if, by current census data, more than 20,000 people live in all ZIP codes
that begin with them, and changes the others to 000 (45 CFR 164.514(b)(2)(i)(B)); methods#safe-harbor.

Sources:

* people in 2020: Census 2020, Demographic and Housing Characteristics File, table P1, all 33,774 ZIP Code Tabulation Areas
  added up by prefix;
* restricted in 2000: the 17 prefixes in the guidance of the Department of Health and Human Services (2012);
* restricted in 2010: 14 prefixes as public de-identification tools list them; they were not recomputed here.

A prefix is known if the Census 2020 has a tabulation area with it. Others (military mail, post-office boxes, unassigned ranges)
have nobody whom the census counted there, and become 000 in every census year.
"""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from deid_assets.reference.tables import read_table, text_frame

STATE_CODES = ("postal", "fips", "ssa", "name")
"""The kinds of code that `state_codes` reads."""


@dataclass(frozen=True)
class State:
    """A state, the District of Columbia or a territory.

    Attributes
    ----------
    postal, fips
        Two letters, and two digits.
    ssa
        All two-digit SSA codes.
    name
        English name.
    region, division
        Of the Census Bureau; empty for territories.
    """

    postal: str
    fips: str
    ssa: tuple[str, ...]
    name: str
    region: str
    division: str


@functools.cache
def states() -> tuple[State, ...]:
    """Return the 50 states and the District of Columbia, then five territories.

    Examples
    --------
    >>> len(states()), states()[4].postal, states()[4].ssa
    (56, 'CA', ('05', '55'))
    """
    return tuple(
        State(row["postal"], row["fips"], tuple(row["ssa"].split()), row["name"], row["region"], row["division"])
        for row in read_table("states.csv")
    )


def state_codes(codes: Sequence[str], kind: str) -> pd.DataFrame:
    """Translate codes of states to postal codes.

    Parameters
    ----------
    codes
        Distinct codes or names, as delivered. Case and blanks around them do not matter. FIPS and SSA codes may lack a
        leading zero.
    kind
        One of `STATE_CODES`.

    Returns
    -------
    pandas.DataFrame
        `code` (as given) and `state`, one row per code in the given order; missing where no state has the code.

    Raises
    ------
    ValueError
        If the kind is unknown.

    Examples
    --------
    >>> state_codes(["24", "5", "54"], "ssa")["state"].tolist()
    ['MN', 'CA', nan]
    """
    known = _by_code(kind)
    return text_frame(code=codes, state=[known.get(_plain(code, kind)) for code in codes])


def _plain(code: str, kind: str) -> str:
    plain = code.strip().upper()
    return plain.zfill(2) if kind in ("fips", "ssa") and plain else plain


@functools.cache
def _by_code(kind: str) -> dict[str, str]:
    if kind not in STATE_CODES:
        raise ValueError(f"unknown kind of state code: one of {', '.join(STATE_CODES)}")
    if kind == "ssa":
        return {code: state.postal for state in states() for code in state.ssa}
    return {getattr(state, kind).upper(): state.postal for state in states()}


CENSUS_YEARS = (2000, 2010, 2020)
PEOPLE_AT_LEAST = 20_001
"""Smallest number of people in the area of a prefix that may stand."""
SUPPRESSED = "000"


@functools.cache
def people_by_prefix() -> Mapping[str, int]:
    """Return every known prefix with its people in 2020.

    Examples
    --------
    >>> len(people_by_prefix()), people_by_prefix()["036"]
    (894, 13153)
    """
    return {row["prefix"]: int(row["people_2020"]) for row in read_table("zip3.csv")}


@functools.cache
def restricted_prefixes(year: int = 2020) -> frozenset[str]:
    """Return the known prefixes that become 000 by the census of a year, one of `CENSUS_YEARS`.

    The rule asks for current data; 2000 and 2010 serve to reproduce earlier releases.

    Raises
    ------
    ValueError
        If there is no list for the year.

    Examples
    --------
    >>> [len(restricted_prefixes(year)) for year in CENSUS_YEARS]
    [17, 14, 18]
    """
    if year not in CENSUS_YEARS:
        raise ValueError(f"no list of restricted ZIP prefixes for {year}: one of {', '.join(map(str, CENSUS_YEARS))}")
    if year == 2020:
        return frozenset(people_by_prefix()) - kept_by_population(people_by_prefix())
    return frozenset(row["prefix"] for row in read_table("zip3.csv") if row[f"restricted_{year}"])


@functools.cache
def kept_prefixes(year: int = 2020) -> frozenset[str]:
    """Return the known prefixes that may stand by the census of a year.

    Examples
    --------
    >>> len(kept_prefixes()), "902" in kept_prefixes(), "055" in kept_prefixes()
    (876, True, False)
    """
    return frozenset(people_by_prefix()) - restricted_prefixes(year)


def kept_by_population(people: Mapping[str, int]) -> frozenset[str]:
    """Return the prefixes that may stand by a population table, such as a later census.

    Parameters
    ----------
    people
        People by ZIP code, or by any code that begins with the three digits.

    Raises
    ------
    ValueError
        If a code does not begin with three digits, or a number is negative.

    Examples
    --------
    >>> sorted(kept_by_population({"90210": 19_000, "90211": 1_001, "03601": 20_000}))
    ['902']
    """
    found: dict[str, int] = {}
    for code, number in people.items():
        prefix = code[:3]
        if len(prefix) < 3 or not prefix.isascii() or not prefix.isdigit() or number < 0:
            raise ValueError("a population of ZIP codes needs codes that begin with three digits, and numbers of at least 0")
        found[prefix] = found.get(prefix, 0) + number
    return frozenset(prefix for prefix, number in found.items() if number >= PEOPLE_AT_LEAST and prefix != SUPPRESSED)

"""States of the United States and their codes: postal, FIPS and SSA.

Sources: FIPS 5-2 codes, regions and divisions as in the Census Bureau's state population estimates (ST-EST00INT-AGESEX); SSA
codes as CMS lists them for Medicare files (SAF state codes). Several SSA codes stand for one state. SSA codes of countries and
continents are no states.
"""

import functools
from collections.abc import Sequence
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

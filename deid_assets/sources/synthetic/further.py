"""Further columns of a synthetic delivery, for policies that declare columns: homes, plans, amounts and codes.

They are drawn from random numbers of their own, so that a delivery with them has the same members and claims as one without.
Their distributions are our own choice: as uneven as those of an insurer of one state, and dependent where real ones are most (a
county on its ZIP code, an amount on whether there was a stay).
"""

import functools
from typing import Final

import numpy as np
import pyarrow as pa

from deid_assets.reference.geography import people_by_prefix

TEXT: Final = pa.dictionary(pa.int32(), pa.string())


def coded(numbers: np.ndarray, texts: pa.Array) -> pa.DictionaryArray:
    """Return numbers into texts as a column of text; negative ones are missing."""
    return pa.DictionaryArray.from_arrays(pa.array(numbers.astype(np.int32), mask=numbers < 0), texts)


MEMBER_FIELDS: Final = (
    pa.field("race", TEXT),
    pa.field("ethnicity", TEXT),
    pa.field("zip", TEXT),
    pa.field("county", TEXT),
    pa.field("plan", TEXT),
)
CLAIM_FIELDS: Final = (
    pa.field("paid", pa.float64()),
    pa.field("charged", pa.float64()),
    pa.field("revenue_code", TEXT),
    pa.field("discharge_status", TEXT),
    pa.field("network", TEXT),
)

_RACES: Final = {"white": 0.66, "Black": 0.12, "Asian": 0.08, "American Indian": 0.02, "other": 0.12}
_ETHNICITIES: Final = {"not Hispanic": 0.81, "Hispanic": 0.19}
_PLANS: Final = {"HMO": 0.48, "PPO": 0.34, "HDHP": 0.13, "EPO": 0.05}
_NETWORKS: Final = {"in network": 0.93, "out of network": 0.07}
# Revenue codes of a bill without a stay, and with one: clinic, emergency room, laboratory, imaging; room and board, pharmacy.
_REVENUE: Final = {"0510": 0.52, "0450": 0.1, "0300": 0.22, "0320": 0.1, "0250": 0.06}
_REVENUE_OF_STAYS: Final = {"0120": 0.6, "0200": 0.1, "0250": 0.2, "0360": 0.1}
_DISCHARGES: Final = {"01": 0.78, "03": 0.08, "06": 0.1, "07": 0.01, "20": 0.03}
_STATE: Final = ("900", "961")
"""First and last prefix of the state in which members live: California."""
_ZIPS_OF_A_PREFIX: Final = 20
_COUNTIES_OF_A_PREFIX: Final = 2
_MISSING: Final = 0.01
"""Share of blank races, ethnicities and ZIP codes."""


@functools.cache
def _prefixes() -> tuple[tuple[str, ...], np.ndarray]:
    """The ZIP prefixes of the state, and the share of its people in each."""
    people = {prefix: number for prefix, number in people_by_prefix().items() if _STATE[0] <= prefix <= _STATE[1] and number}
    numbers = np.array(list(people.values()), dtype=np.float64)
    return tuple(people), numbers / numbers.sum()


def further_of_members(random: np.random.Generator, members: int) -> list[pa.Array]:
    """Draw the columns of a block of members, in the order of `MEMBER_FIELDS`."""
    prefixes, shares = _prefixes()
    prefix = random.choice(len(prefixes), members, p=shares)
    # Within a prefix, post codes are as uneven as their squares.
    within = (random.random(members) ** 2 * _ZIPS_OF_A_PREFIX).astype(np.int64)
    zips = [f"{one}{number:02d}" for one in prefixes for number in range(1, _ZIPS_OF_A_PREFIX + 1)]
    counties = [f"06{number:03d}" for number in range(1, 2 * len(prefixes) * _COUNTIES_OF_A_PREFIX, 2)]
    county = prefix * _COUNTIES_OF_A_PREFIX + within * _COUNTIES_OF_A_PREFIX // _ZIPS_OF_A_PREFIX
    return [
        _drawn(random, members, _RACES, _MISSING),
        _drawn(random, members, _ETHNICITIES, _MISSING),
        coded(np.where(random.random(members) < _MISSING, -1, prefix * _ZIPS_OF_A_PREFIX + within), pa.array(zips)),
        coded(county, pa.array(counties)),
        _drawn(random, members, _PLANS),
    ]


def further_of_claims(random: np.random.Generator, stays: np.ndarray, paid: np.ndarray | None = None) -> list[pa.Array]:
    """Draw the columns of a block of claims, in the order of `CLAIM_FIELDS`.

    Parameters
    ----------
    stays
        (claims,) bool: whether the claim is of a stay in hospital.
    paid
        (claims,) float64: dollars paid, if they were drawn (`amounts`); all other columns but `charged` stay the same.
    """
    claims = len(stays)
    # Log-normal, as costs are: half of the visits below 90 dollars, half of the stays below 8,100.
    drawn = np.minimum(np.exp(random.normal(np.where(stays, 9.0, 4.5), np.where(stays, 0.9, 1.1))), 999_999.0)
    paid = drawn if paid is None else paid
    charged = np.minimum(paid * random.uniform(1.2, 3.5, claims), 999_999.0)
    of_visits = _drawn(random, claims, _REVENUE).cast(pa.string()).to_numpy(zero_copy_only=False)
    of_stays = _drawn(random, claims, _REVENUE_OF_STAYS).cast(pa.string()).to_numpy(zero_copy_only=False)
    discharges = random.choice(len(_DISCHARGES), claims, p=list(_DISCHARGES.values()))
    return [
        _dollars(paid),
        _dollars(charged),
        pa.array(np.where(stays, of_stays, of_visits), pa.string()).dictionary_encode(),
        coded(np.where(stays, discharges, -1), pa.array(list(_DISCHARGES))),
        _drawn(random, claims, _NETWORKS),
    ]


def _drawn(random: np.random.Generator, rows: int, shares: dict[str, float], missing: float = 0.0) -> pa.DictionaryArray:
    found = random.choice(len(shares), rows, p=list(shares.values()))
    return coded(np.where(random.random(rows) < missing, -1, found) if missing else found, pa.array(list(shares)))


def _dollars(amounts: np.ndarray) -> pa.Array:
    """Amounts as numbers with two decimals."""
    return pa.array(np.round(amounts, 2))

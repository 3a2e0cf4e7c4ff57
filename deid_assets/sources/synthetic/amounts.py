"""Amounts paid in a synthetic delivery: of claims by procedure, place and length of stay, of fills by drug and days of supply.

They are log-normal, as costs are, and some are 0, where the member paid. The numbers are our own choice; prices of drugs are in
`drugs.csv`. Amounts are drawn from random numbers of their own, so that everything else is the same without them.
"""

import functools
from typing import Final

import numpy as np

from deid_assets.reference.groups import procedure_groups
from deid_assets.reference.tables import read_table
from deid_assets.sources.synthetic.claims import ClaimBlock
from deid_assets.sources.synthetic.events import FillBlock, drugs
from deid_assets.sources.synthetic.tables import Tables

_OF_GROUPS: Final = {
    "EM": 95, "MED": 70, "PL": 22, "RAD": 110, "ANES": 420, "SIS": 190, "SMS": 450, "SDS": 520, "SCS": 480, "SUS": 380,
    "SGS": 520, "SMCD": 640, "SEOA": 480, "SRS": 420, "SNS": 560, "SO": 450,
}  # fmt: skip
"""Median dollars by group of the procedure."""
_OTHERWISE: Final = 120
"""Median of procedures without a group: bills of facilities, transport, supplies; and of blanks."""
_OF_PLACES: Final = {"21": 3.2, "22": 1.9, "23": 2.4, "24": 2.1, "31": 1.5, "41": 3.0, "65": 2.6, "81": 0.8}
"""Factor by place of service; elsewhere 1."""
_PER_DAY: Final = 0.5
"""What each further day of a stay adds, as a part of the first."""
_SPREAD, _SPREAD_OF_FILLS = 0.7, 0.25
"""Standard deviations of the logarithm."""
_UNPAID_SHARE: Final = 0.06
_LARGEST: Final = 999_999.0
_SUPPLY_OF_PRICE: Final = 30
"""Days of supply that the price of a drug is for."""


@functools.cache
def _by_procedure(procedures: tuple[str, ...]) -> np.ndarray:
    """Median dollars by number of the procedure; the last is of a blank."""
    groups = procedure_groups(procedures)["group"]
    return np.array([*(_OF_GROUPS.get(group, _OTHERWISE) for group in groups), _OTHERWISE], dtype=np.float64)


@functools.cache
def _prices() -> np.ndarray:
    return np.array([float(row["price"]) for row in read_table("drugs.csv", package=__package__)])


def paid_for_claims(random: np.random.Generator, claims: ClaimBlock, lookups: Tables) -> np.ndarray:
    """Draw the dollars paid for each claim of a block."""
    of_places = np.array([*(_OF_PLACES.get(place, 1.0) for place in lookups.places), 1.0])
    median = _by_procedure(lookups.procedures)[claims.procedure] * of_places[claims.place]
    return _paid(random, median * (1 + _PER_DAY * np.maximum(claims.length_of_stay - 1, 0)), _SPREAD)


def paid_for_fills(random: np.random.Generator, fills: FillBlock) -> np.ndarray:
    """Draw the dollars paid for each fill of a block."""
    supplies = drugs().days_supply[fills.drug] / _SUPPLY_OF_PRICE
    return _paid(random, _prices()[fills.drug] * supplies, _SPREAD_OF_FILLS)


def _paid(random: np.random.Generator, median: np.ndarray, spread: float) -> np.ndarray:
    amounts = median * np.exp(spread * random.standard_normal(len(median)))
    return np.where(random.random(len(median)) < _UNPAID_SHARE, 0.0, np.minimum(np.round(amounts, 2), _LARGEST))

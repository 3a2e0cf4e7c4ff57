"""A made-up population of Heritage size to measure the kernel on: the same arrays for the same numbers and seed.

Shapes follow the published ones only roughly: 113,000 members with 23.6 claims each on average and a long tail, four
level-1 quasi-identifiers and six claim-level ones, whose values repeat within a member. The lattice has 240 nodes;
shares at high risk run from nearly 1 at the finest to somewhat below a MaxSup of .008 at the coarsest.
"""

import numpy as np

from deid_assets.methods.adversary.adversary_power import power_of, value_pairs
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData

MEMBERS = 113_000
CLAIMS = 2_669_000
K = 20
NODES = {
    "finest": (0, 0, 0, 0),
    "middle": (2, 2, 1, 2),
    "next to MaxSup": (4, 3, 1, 2),
}

DIMENSIONS = (
    Dimension("age", (0,), (), 5),
    Dimension("days in hospital", (2, 3), (), 4),
    Dimension("length of stay", (), (3,), 3),
    Dimension("days since first claim", (), (4,), 4),
)

_KEPT_AT_MOST = 120
"""Claims of a member beyond this are the long tail, and are cut from D'."""
_POWER = 5


def _intervals(values: int, *widths: int) -> Domain:
    """Codes 0 .. values - 1, joined into intervals of each width."""
    codes = np.arange(values)
    return Domain((codes, *(codes // width for width in widths)))


def _fixed(values: int) -> Domain:
    return Domain((np.arange(values),))


def _days_in_hospital() -> Domain:
    """0 to 15 days, and 16 for 'not enrolled'; then 0, 1-7, 8-15; then none or any; then everybody alike."""
    days = np.arange(17)
    weeks = np.digitize(days, [1, 8, 16])
    return Domain((days, weeks, np.digitize(days, [1, 16]), np.zeros(17, int)))


def _days(generator: np.random.Generator, members: int) -> np.ndarray:
    """Days in hospital of one year: seven in ten are enrolled, and most of these have none."""
    days = np.where(generator.random(members) < 0.85, 0, np.minimum(generator.geometric(0.3, members), 15))
    return np.where(generator.random(members) < 0.7, days, 16)


def _zipf(generator: np.random.Generator, values: int, size: int) -> np.ndarray:
    """`size` codes of which a few are frequent and most are rare; int16."""
    weights = 1 / np.arange(1, values + 1) ** 1.2
    return np.searchsorted(np.cumsum(weights) / weights.sum(), generator.random(size)).astype(np.int16)


def _repeating(generator: np.random.Generator, values: int, owners: np.ndarray, members: int) -> np.ndarray:
    """A code for each claim; three in four repeat one of two codes that are the member's own."""
    own = _zipf(generator, values, 2 * members)[2 * owners + (generator.random(len(owners)) < 0.3)]
    return np.where(generator.random(len(owners)) < 0.75, own, _zipf(generator, values, len(owners)))


def heritage_size(members: int = MEMBERS, claims: int = CLAIMS, released: int | None = None, seed: int = 1) -> LongitudinalData:
    """The population, with everybody released, or `released` of them chosen at random.

    Parameters
    ----------
    claims
        Roughly how many claims all members have together, at least one each.
    """
    generator = np.random.default_rng(seed)
    counts = 1 + generator.poisson(generator.gamma(0.8, (claims / members - 1) / 0.8, members))
    owners = np.repeat(np.arange(members), counts)
    offsets = np.concatenate([[0], np.cumsum(counts)])
    in_tail = np.arange(len(owners)) - offsets[owners] >= _KEPT_AT_MOST

    with_stay = generator.random(len(owners)) < 0.25
    columns = [
        (_fixed(12), _repeating(generator, 12, owners, members), None),
        (_fixed(9), _repeating(generator, 9, owners, members), None),
        (_fixed(17), _repeating(generator, 17, owners, members), None),
        (_intervals(60, 7, 63), _zipf(generator, 60, len(owners)), with_stay),
        (_intervals(364, 7, 28, 84), generator.integers(0, 364, len(owners)).astype(np.int16), None),
        (_fixed(45), _repeating(generator, 45, owners, members), None),
    ]
    targets = np.sort(generator.permutation(members)[: members if released is None else released])
    held, known, power = [], [], []
    for _, codes, present in columns:
        there = np.ones(len(codes), dtype=bool) if present is None else present
        everything = _histories(codes, owners, there, members)
        held.append(_histories(codes, owners, there & ~in_tail, members))
        known.append(everything.take(targets))
        pairs = value_pairs(known[-1].offsets, known[-1].codes)
        power.append(power_of(counts[targets], pairs, _POWER))

    return LongitudinalData(
        demographics=np.stack(
            [
                np.clip(generator.normal(45, 22, members), 0, 99).astype(np.int64),
                generator.integers(0, 2, members),
                _days(generator, members),
                _days(generator, members),
            ],
            axis=1,
        ),
        demographic_domains=(_intervals(100, 5, 10, 20, 40), _fixed(2), _days_in_hospital(), _days_in_hospital()),
        held=held,
        history_domains=[domain for domain, _, _ in columns],
        targets=targets,
        known=known,
        power=power,
    )


def size_in_bytes(data: LongitudinalData) -> int:
    """Memory that members, claims and power take."""
    histories = [array for values in (*data.held, *data.known) for array in (values.offsets, values.codes)]
    return sum(array.nbytes for array in (data.demographics, data.targets, *data.power, *histories))


def _histories(codes: np.ndarray, owners: np.ndarray, there: np.ndarray, members: int) -> Histories:
    counts = np.bincount(owners[there], minlength=members)
    return Histories(np.concatenate([[0], np.cumsum(counts)]), codes[there])

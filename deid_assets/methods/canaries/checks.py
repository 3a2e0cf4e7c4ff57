"""Check whether each attack finds the canaries, by running the code that judged the release on a planted copy."""

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from deid_assets.methods.attacks.attack_sensitivity import Knows, SensitivityAnalysis
from deid_assets.methods.attacks.neighbor_attack import neighbor_attack, success_given_membership
from deid_assets.methods.attacks.worst_classes import classes_of_members, flagged_by_class, risk_by_member
from deid_assets.methods.canaries import planting
from deid_assets.methods.kernel.knowledge import draws_of_targets
from deid_assets.methods.kernel.node_computation import Exemption, NodeComputation
from deid_assets.methods.population.claim_records import EvaluationRecords
from deid_assets.methods.population.longitudinal_data import Generalization, LongitudinalData

DRAWS = 1000
"""Number of attacks on canaries; each of some forty canaries is drawn many times."""
_NO_BOUND = (0.0, 1.0)


def flags_of_canaries(
    data: LongitudinalData, levels: Generalization[int | None], k: int, stream_key: bytes, draws: int = DRAWS
) -> planting.Findings:
    """Check whether the node computation flags exactly the canaries in classes below k, including k - 1.

    Parameters
    ----------
    data
        Input of the node computation; `levels` is the generalization that it judged.
    """
    planted, sizes = planting.plant_in_data(data, levels, [size for size in (k - 1, k) if size > 1])
    flags = NodeComputation(planted, (), k).measure((), stream_key, draws, keep_flags=True).kept_flags
    drawn = sizes[draws_of_targets(planted, stream_key, draws)]
    return planting.compare((drawn > 0) & (drawn < k), flags)


def classes_of_canaries(
    data: LongitudinalData, levels: Generalization[int | None], k: int, stream_key: bytes, draws: int = DRAWS
) -> planting.Findings:
    """Check whether the shares by class and by member are those of the canaries, whose flags are certain.

    All canaries but those with a demographic value of their own are of one class. Of each class, in both readings of exemption,
    exactly its draws about canaries in classes below k must be flagged, and of each canary all draws or none.

    Parameters
    ----------
    data
        Input of the node computation; `levels` is the generalization that it judged.
    """
    alike = [size for size in (k - 1, k) if size > 1]
    planted, sizes = planting.plant_in_data(data, levels, alike)
    kinds = planting.canaries(len(planted.demographic_domains), len(planted.held), alike)
    computation, certain = NodeComputation(planted, (), k), (sizes > 0) & (sizes < k)
    classes = classes_of_members(computation, ())
    expected = []
    for number in range(len(classes)):
        own = classes.of_target == number
        expected.append(int(certain[own][draws_of_targets(planted.keeping(own), stream_key, draws)].sum()))
    readings: tuple[Exemption, ...] = ("once", "literal")
    found = planting.compare([canary.own_column is None for canary in kinds], classes.of_target == classes.of_target[0])
    for exemption in readings:
        asked = np.full(len(classes), draws)
        found += planting.compare(expected, flagged_by_class(computation, (), classes, asked, stream_key, exemption))
    return found + planting.compare(certain, risk_by_member(computation, (), stream_key, stream_key).share)


def neighbors_of_canaries(data: LongitudinalData, stream_key: bytes, draws: int = DRAWS) -> planting.Findings:
    """Check whether attack 1 picks canaries as often as it must: in each trial, and on average for unique ones.

    Parameters
    ----------
    data
        The released rows as read by `released_population.released_data`.
    """
    levels = Generalization((0,) * len(data.demographic_domains), (0,) * len(data.history_domains))
    planted, sizes = planting.plant_in_data(data, levels)
    found = NodeComputation(planted, (), k=1).drawn_classes((), stream_key, draws)
    drawn = sizes[draws_of_targets(planted, stream_key, draws)]
    trial_by_trial = planting.compare(planting.certain_success(drawn), _success(~found.exempt, found.sizes))
    alone = drawn == 1
    attack = neighbor_attack(
        ~found.exempt[alone] & (found.sizes[alone] > 0), np.maximum(found.sizes[alone], 1), 1.0, np.zeros(alone.sum()),
        np.linspace(0, 1, alone.sum(), endpoint=False), lambda _: _NO_BOUND, lambda *_: _NO_BOUND,
    )  # fmt: skip
    averages = attack.literal.value, attack.unconditional.value, attack.given_membership.value
    return trial_by_trial + planting.compare(np.ones(3), averages)


def gains_of_canaries(
    data: LongitudinalData,
    levels: Generalization[int | None],
    stream_key: bytes,
    attack: Callable[[LongitudinalData, bytes, int], np.ndarray],
    draws: int = DRAWS,
) -> planting.Findings:
    """Check the gain of an adversary who counts matching members in the release and in the delivery.

    Of a group of equal canaries, one is in the release; all other members who match what is known of a canary are in it too.

    Parameters
    ----------
    data
        The population, with the released members as targets; `levels` is the generalization of the release.
    attack
        Returns (draws,) gains from data, the key of a stream, and the number of draws.
    """
    groups = (2, 5)
    # Everybody is counted twice; with fewer real members this stays cheap.
    planted, sizes = planting.plant_in_data(data, levels, groups, at_most=5_000)
    kinds = [canary.kind for canary in planting.canaries(len(planted.demographic_domains), len(planted.held), groups)]
    alike = np.array(kinds) == "alike"
    kept = ~alike
    kept[np.flatnonzero(alike)[np.concatenate([[0], np.cumsum(groups)[:-1]])]] = True
    planted, sizes, alike = planted.keeping(kept), sizes[kept], alike[kept]
    alpha = len(planted.targets) / planted.members
    # 1 if everybody who matches is in the release, 0 if nobody does (a truncated claim); by Bayes' rule in between.
    certain = np.where(alike, np.maximum(0.0, 1 - (sizes - 1) * alpha / (1 - alpha)), (sizes > 0).astype(float))
    return planting.compare(certain[draws_of_targets(planted, stream_key, draws)], attack(planted, stream_key, draws))


def sensitivity_of_canaries(
    records: EvaluationRecords,
    kinds: Iterable[Knows],
    stream_key: bytes,
    draws: int = DRAWS,
    jointly: Sequence[Sequence[int] | None] = (None,),
) -> planting.Findings:
    """Check whether every kind of knowledge finds the canaries, and whether entirely wrong knowledge finds none.

    Parameters
    ----------
    jointly
        The quasi-identifiers of each table of events of which one row may be known jointly; None: a row of any.
    """
    planted, targets, canaries = planting.plant_in_records(records, jointly)
    attack = SensitivityAnalysis(planted, planting.POWER)
    first, total = planted.members - len(targets), planting.Findings(0, 0)
    for knows in kinds:
        power = planting.canary_power(planted, with_year=knows == "year")
        for table, joint in enumerate(jointly if knows == "claim" else (None,)):
            found = attack.trials(knows, power, stream_key, draws, targets=targets, joint=joint)
            sizes = np.array([canary.class_size(knows, table) for canary in canaries])
            expected = planting.certain_success(sizes[found.targets - first])
            total += planting.compare(expected, _success(found.matched, found.sizes))
    # Of targets with one known claim, all of whose known values are wrong, none is right by chance.
    of_one_claim = targets[np.diff(planted.known.offsets)[targets] == 1]
    mistaken = attack.trials("values", planting.canary_power(planted, with_year=False), stream_key, draws, 1.0, of_one_claim)
    return total + planting.compare(np.zeros(draws), _success(mistaken.matched, mistaken.sizes))


def _success(matched: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Return 1/f for each attack; -1, which is never right, if the class that should contain the target is empty."""
    empty = matched & (sizes < 1)
    return np.where(empty, -1.0, success_given_membership(matched & ~empty, sizes))

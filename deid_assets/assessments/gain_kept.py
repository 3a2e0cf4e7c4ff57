"""How much of what the delivery tells about the next year the release keeps, and whether its labels tell more than they may.

Predicted are days in hospital and three condition groups: a common, a middling and a rare one.

Nodes that pass are compared by the share of the gain that their releases keep (methods#nodes-by-gain). The best of several
shares is too high on the folds that made it the best. So shares on some folds choose and are not published, and the nodes
that are reported are measured again on fresh folds.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd

from deid_assets.assessments import compared_tables
from deid_assets.assessments.candidate_rows import ReleasedRows
from deid_assets.assessments.evidence import (
    PART_OF_GAIN,
    PART_OF_LOSS,
    Estimated,
    Measurement,
    Method,
    rounded_down,
    rounded_up,
)
from deid_assets.assessments.kernel_input import levels_at, node_in_words
from deid_assets.figures.rendering import Published, percent, plain, words
from deid_assets.figures.utility_figures import gain_figure
from deid_assets.methods.lattice.certificate import STEPS_OF_GAIN
from deid_assets.methods.lattice.choice import Choice
from deid_assets.methods.lattice.predictive_tagging import Node, node_text, parse_node
from deid_assets.methods.population.encoding import released_ids
from deid_assets.methods.utility.gains import (
    CONFIDENCE,
    FOLDS,
    LEAK_AT,
    REPEATS,
    Gain,
    Interval,
    Target,
    can_split,
    gain_of,
    in_standard_errors,
    member_losses,
    resampled_losses,
    shares_of_all_gains,
)
from deid_assets.methods.utility.prediction import folds_of, row_keys
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, scratch_table

KEPT, LABEL_KEPT, GAIN, LABEL_GAIN, LEAK, LEAK_OF_LABELS = (
    "share_of_gain_kept", "share_of_label_gain_kept", "gain", "label_gain", "leak", "leak_of_labels",
)  # fmt: skip
"""Of a target: "days_in_hospital/share_of_gain_kept"."""
UPPER = "_upper_bound"
"""Of a share, the other end of its interval: "days_in_hospital/share_of_gain_kept_upper_bound"."""
MEMBERS = 8_000
"""At most so many members are predicted, for the time that it takes: of 20,000, intervals would be about .6 times as wide."""
FEWEST = 800
"""Of fewer members nothing is predicted: shares are rounded to the effect of 25 of them, and would say nothing."""
DAYS_IN_HOSPITAL = "days_in_hospital"
FREQUENCIES = {"common": 0.3, "middling": 0.1, "rare": 0.02}
"""Share of member-years with a claim of the group; the group with the nearest share, by their ratio, is chosen."""


def condition_group_targets(grouped: Table) -> dict[str, str]:
    """The condition groups that are predicted: "common", "middling" and "rare", as far as there are so many.

    Shares are of member-years with claims, after the first year, of all members of the delivery.
    """
    found = grouped.query(
        "SELECT condition_group AS name, count(DISTINCT (member_id, year))::DOUBLE AS n"
        f" FROM {grouped.sql} WHERE year > 1 GROUP BY ALL ORDER BY name NULLS LAST"
    )
    years = grouped.query(f"SELECT count(DISTINCT (member_id, year)) AS n FROM {grouped.sql} WHERE year > 1")["n"].iloc[0]
    left = {row.name: row.n / years for row in found.dropna(subset="name").itertuples(index=False)}
    chosen = {}
    for kind, share in FREQUENCIES.items():
        if left:
            chosen[kind] = min(left, key=lambda name: abs(np.log(left[name] / share)))
            del left[chosen[kind]]
    return chosen


def targets_of(found: compared_tables.NextYear, grouped: Table) -> tuple[Target, ...]:
    """Days in hospital of the next year, and whether it has a claim of each chosen condition group, as delivered."""
    member, year = found.delivered.member, found.year
    targets = [Target(DAYS_IN_HOSPITAL, found.delivered.truth, event=False)]
    for kind, group in condition_group_targets(grouped).items():
        have = found.people.arrays(
            f"SELECT DISTINCT p.number::BIGINT AS member, (c.year - 1)::BIGINT AS year FROM {grouped.sql} AS c"
            f" JOIN {found.people.sql} AS p USING (member_id) WHERE c.year > 1 AND c.condition_group = ?",
            [group],
        )
        truth = np.isin(row_keys(member, year), row_keys(have["member"], have["year"]))
        targets.append(Target(f"{kind}_condition_group_{group}", truth.astype(np.float64), event=True))
    return tuple(targets)


@dataclass(frozen=True)
class Predicted:
    """What was found of a target.

    Attributes
    ----------
    gain
        The gain and what is kept of it.
    leak_of_labels
        The leak beside what the release tells without its labels: numbers of released claims, of which a cut of the long tail
        may tell something. None where there is no leak.
    """

    gain: Gain
    leak_of_labels: float | None


def gains(
    targets: Sequence[Target], found: compared_tables.NextYear, resamples: int, generator: np.random.Generator
) -> dict[str, Predicted | None]:
    """What was found of each target, by its name; None of all if there are fewer than `FEWEST` members.

    All targets and sources have the same members and folds, and share the bootstrap samples. Of more than `MEMBERS` members, a
    random sample is predicted.
    """
    members, row_member = np.unique(found.delivered.member, return_inverse=True)
    if len(members) < FEWEST:
        return {target.name: None for target in targets}
    chosen = np.sort(generator.choice(len(members), min(MEMBERS, len(members)), replace=False))
    asked = np.isin(row_member, chosen)
    member = np.unique(row_member[asked], return_inverse=True)[1]
    folds = np.stack([folds_of(member, FOLDS, generator) for _ in range(REPEATS)])
    coarsest, released, delivered = (of[asked] for of in (found.coarsest, found.released.features, found.with_classes))
    sources = [can_split(of) for of in (coarsest, released, delivered, np.hstack([delivered, released]))]
    asked_of = [Target(target.name, target.truth[asked], target.event) for target in targets]
    sums = member_losses(asked_of, sources, member, folds)
    measured = [
        gain_of(*losses) for losses in resampled_losses(list(zip(asked_of, sums, strict=True)), member, resamples, generator)
    ]
    without = np.hstack([delivered, coarsest])
    told: dict[str, Predicted | None] = {}
    for target, gain in zip(asked_of, measured, strict=True):
        of_labels = None
        if gain.leak >= LEAK_AT:
            pair = [can_split(of) for of in (without, np.hstack([without, released]))]
            (again,) = member_losses([target], pair, member, folds)
            ((losses, drawn),) = resampled_losses([(target, again)], member, resamples, generator)
            of_labels = in_standard_errors(losses[1] - losses[2], drawn[:, 1] - drawn[:, 2])
        told[target.name] = Predicted(gain, of_labels)
    return told


def gain_measurements(found: Mapping[str, Predicted | None], released: int, commitment: str) -> Iterator[Measurement]:
    """Of each target: gain, label gain, the shares of them that are kept with the ends of their intervals, and the leak.

    A share is None where nothing can be predicted, or labels of claims add nothing, beyond chance and beyond 25 members.
    """
    method = Method("gain_kept", "methods#share-of-the-gain-kept", commitment)

    def part(name: str, unit: str, interval: Interval | None, steps: int = 1) -> Measurement:
        """The value, rounded down, with the lower end of its two-sided interval."""
        ends = (None, None) if interval is None else (interval.value, interval.low)
        value, low = (None if end is None else rounded_down(end, released, steps) for end in ends)
        return method.estimated(name, unit, Estimated(value, low, (1 + CONFIDENCE) / 2), decides="lower_bound")

    for target, predicted in found.items():
        gain = None if predicted is None else predicted.gain
        wholes = (None, None) if gain is None else (gain.gain, gain.label_gain)
        shares = (None, None) if gain is None else (gain.kept, gain.label_kept)
        for name, whole in zip((GAIN, LABEL_GAIN), wholes, strict=True):
            yield part(f"{target}/{name}", PART_OF_LOSS, whole)
        for name, whole, share in zip((KEPT, LABEL_KEPT), wholes, shares, strict=True):
            told = share if whole is not None and rounded_down(whole.low, released) > 0 else None
            yield part(f"{target}/{name}", PART_OF_GAIN, told, STEPS_OF_GAIN)
            upper = None if told is None else rounded_up(told.high, released, STEPS_OF_GAIN)
            yield method.at_most(f"{target}/{name}{UPPER}", PART_OF_GAIN, upper)
        leaks = (None, None) if predicted is None else (predicted.gain.leak, predicted.leak_of_labels)
        for name, number in zip((LEAK, LEAK_OF_LABELS), leaks, strict=True):
            value = None if number is None else math.ceil(number * 10) / 10
            yield method.at_most(f"{target}/{name}", "standard errors", value)


def predicted_targets(found: Published) -> tuple[str, ...]:
    """The targets of which something was measured, in their order."""
    return tuple(name.removesuffix(f"/{KEPT}") for name in found if name.endswith(f"/{KEPT}"))


def target_in_words(target: str, between: str = " ") -> str:
    """The name of a target; a condition group with what it stands for.

    Examples
    --------
    >>> target_in_words("days_in_hospital"), target_in_words("rare_condition_group_AMI")
    ('days in hospital', 'rare group AMI')
    """
    kind, of_group, group = target.partition("_condition_group_")
    return f"{kind} group{between}{group}" if of_group else words(target)


def share_in_words(found: Published, target: str, name: str) -> str:
    """A share (`KEPT` or `LABEL_KEPT`) with the ends of its interval, or why there is none."""
    share = _share(found, target, name)
    return share if isinstance(share, str) else f"{percent(share[0])} ({plain(100 * share[1])} to {plain(100 * share[2])})"


def kept_figure(found: Published) -> bytes:
    """Draw the shares of all targets."""
    return gain_figure(
        [
            (target_in_words(target, "\n"), [_share(found, target, name) for name in (KEPT, LABEL_KEPT)])
            for target in predicted_targets(found)
        ]
    )


def kept_in_words(found: Published) -> str:
    """What the figure shows."""
    return "; ".join(
        f"{target_in_words(target)}: kept of the gain: {share_in_words(found, target, KEPT)}, of what labels of claims add: "
        f"{share_in_words(found, target, LABEL_KEPT)}"
        for target in predicted_targets(found)
    )


def _share(found: Published, target: str, name: str) -> tuple[float, float, float] | str:
    """A share with the ends of its interval; in words why there is none."""
    share, whole = found[f"{target}/{name}"], GAIN if name == KEPT else LABEL_GAIN
    if share["value"] is not None:
        return share["value"], share["bound"], found[f"{target}/{name}{UPPER}"]["value"]
    if found[f"{target}/{whole}"]["value"] is None:
        return "too few members"
    return "delivery predicts nothing" if name == KEPT else "labels add nothing"


_RESAMPLES = 500
"""Bootstrap samples of members for the intervals."""
_TOLD = 3
"""Nodes that are reported beside that of least loss."""
COMPARED, PUBLISHED_NODE, OTHER_NODE = "nodes_compared", "published_node", "other_node"
SHARE, LOWER, NODE_UPPER, LOSS = "kept_of_gain", "kept_of_gain_lower_bound", "kept_of_gain_upper_bound", "loss"
"""Of a node: "published_node/1,0,2/kept_of_gain"."""
_COLUMNS = {
    "node": "str", "loss": "float64", "share_of_gain_kept": "float64", "judged": "float64", "judged_lower": "float64",
    "judged_upper": "float64", "chosen": "bool",
}  # fmt: skip


@dataclass(frozen=True)
class KeptGain:
    """What releases keep of the gain of all targets.

    Attributes
    ----------
    shares
        Of each node; empty if nothing can be predicted.
    judged
        Of the nodes that are reported, by their places: the share on fresh folds.
    """

    shares: tuple[float, ...] = ()
    judged: Mapping[int, Interval] = field(default_factory=dict)

    @property
    def most(self) -> int:
        """The place of the node that keeps most; of equal ones, the first, which loses least. 0 if nothing is predicted."""
        return int(np.argmax(self.shares)) if self.shares else 0


def gain_kept_at(
    policy: Policy, passing: Sequence[Choice], tables: Mapping[str, Table], generator: np.random.Generator
) -> KeptGain:
    """Compare the releases at several nodes.

    All are compared on the same members, whom none of them leaves out, at most `MEMBERS`, and on the same folds. The gain is
    that of the delivery, with the labels of the first node beside the values.

    Parameters
    ----------
    passing
        Nodes, that of least loss first.
    tables
        Profiles, eligible, known and held claims, patterns of care, domains and crosswalk, by their assets. What is made of
        them is written to the scratch schema, and overwritten by the next node.
    """
    ids = tables["member_profiles"].query(released_ids(tables["member_profiles"]))
    everywhere = np.flatnonzero(~np.any([one.suppressed for one in passing], axis=0))
    chosen = generator.choice(everywhere, min(MEMBERS, len(everywhere)), replace=False)
    others = ids.drop(index=ids.index[chosen]).reset_index(drop=True)
    of = {**tables, "suppressed_members": scratch_table(tables["member_profiles"], "not_compared", others)}
    first = _released_at(policy, passing[0].node, of)
    compared = compared_tables.compared_tables(first)
    found = compared_tables.next_year(first, compared, generator)
    members, row_member = np.unique(found.delivered.member, return_inverse=True)
    if len(members) < FEWEST:
        return KeptGain()
    releases = [found.released.features]
    for one in passing[1:]:
        other = _released_at(policy, one.node, of)
        releases.append(compared_tables.released_features(other, compared_tables.with_another_release(compared, other), found))
    return compared_on_folds(targets_of(found, tables["known"]), found.with_classes, releases, row_member, generator)


def compared_on_folds(
    targets: Sequence[Target],
    delivered: np.ndarray,
    releases: Sequence[np.ndarray],
    row_member: np.ndarray,
    generator: np.random.Generator,
) -> KeptGain:
    """The share that each release keeps on some folds, and of those that are reported on fresh ones.

    Parameters
    ----------
    delivered
        (n, f) float: what the delivery says of each row.
    releases
        (n, f) float: the same of each release.
    row_member
        (n,) int64: position of the member of each row.
    """
    whole, parts = can_split(delivered), [can_split(of) for of in releases]

    def shares(places: Sequence[int]) -> tuple[Interval, ...]:
        folds = np.stack([folds_of(row_member, FOLDS, generator) for _ in range(REPEATS)])
        sources = [whole, *(parts[place] for place in places)]
        sums = member_losses(targets, sources, row_member, folds)
        return shares_of_all_gains(resampled_losses(list(zip(targets, sums, strict=True)), row_member, _RESAMPLES, generator))

    found = tuple(share.value for share in shares(range(len(releases))))
    if not found:
        return KeptGain()
    told = _reported(found)
    # There is nothing to tell if the delivery predicts nothing on the fresh folds.
    return KeptGain(found, dict(zip(told, shares(told), strict=False)))


def _reported(shares: Sequence[float]) -> list[int]:
    """The places of the nodes that are reported: that of least loss, and those that keep most, best first."""
    return list(dict.fromkeys([0, *np.argsort(-np.array(shares), kind="stable")[:_TOLD].tolist()]))


def _released_at(policy: Policy, node: Node, tables: Mapping[str, Table]) -> ReleasedRows:
    """The release at a node, whose tables are written to the scratch schema."""
    rows = ReleasedRows(policy, levels_at(policy, node), tables)
    made = {name: rows.write(f"compared_{name}", sql) for name, sql in rows.rows().items()}
    return rows.on({**tables, **made})


def compared_frame(passing: Sequence[Choice], kept: KeptGain, losses: Mapping[Node, float], chosen: int) -> pd.DataFrame:
    """The table of compared nodes, that of least loss first; without a row if nothing was compared.

    Parameters
    ----------
    losses
        Loss of each node, as a part of the largest in the lattice.
    chosen
        The place of the node to be published.
    """
    nothing = Interval(np.nan, np.nan, np.nan)
    rows = []
    for place, one in enumerate(passing):
        share, judged = kept.shares[place] if kept.shares else np.nan, kept.judged.get(place, nothing)
        rows.append((node_text(one.node), losses[one.node], share, judged.value, judged.low, judged.high, place == chosen))
    return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)


def keeping_most(compared: pd.DataFrame) -> pd.DataFrame:
    """The rows that are reported: the node of least loss, and the three that keep most, best first."""
    shares = compared["share_of_gain_kept"]
    return compared.iloc[[0] if shares.isna().any() else _reported(shares.tolist())]


def reported_frame(policy: Policy, compared: pd.DataFrame, sampled: int) -> pd.DataFrame:
    """The same for the UI, with the names of levels; rounded to the effect of 25 of the sampled members."""
    told = keeping_most(compared)
    return pd.DataFrame(
        {
            "generalization": [node_in_words(policy, parse_node(node)) for node in told["node"]],
            "part of the largest loss": [rounded_down(loss, sampled) for loss in told["loss"]],
            **{
                name: [None if np.isnan(share) else way(share, sampled, STEPS_OF_GAIN) for share in told[column]]
                for name, column, way in (
                    ("share of the gain kept", "judged", rounded_down),
                    ("at least", "judged_lower", rounded_down),
                    ("at most", "judged_upper", rounded_up),
                )
            },
            "published": ["yes" if chosen else "no" for chosen in told["chosen"]],
        }
    )


def node_measurements(compared: pd.DataFrame, released: int, commitment: str) -> Iterator[Measurement]:
    """Of each reported node: its loss, and the share of the gain that it keeps on fresh folds with the ends of its interval.

    Yields nothing if nothing was compared.
    """
    if not len(compared):
        return
    method = Method("nodes_by_gain", "methods#nodes-by-gain")
    drawn = replace(method, commitment=commitment)
    yield method.at_most(COMPARED, "nodes", len(compared))
    for row in keeping_most(compared).itertuples():
        name = f"{PUBLISHED_NODE if row.chosen else OTHER_NODE}/{row.node}"
        yield method.at_most(f"{name}/{LOSS}", PART_OF_LOSS, rounded_down(row.loss, released))
        for end, number, way in (
            (SHARE, row.judged, rounded_down),
            (LOWER, row.judged_lower, rounded_down),
            (NODE_UPPER, row.judged_upper, rounded_up),
        ):
            value = None if np.isnan(number) else way(number, released, STEPS_OF_GAIN)
            yield drawn.at_most(f"{name}/{end}", PART_OF_GAIN, value)

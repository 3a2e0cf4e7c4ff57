"""Nodes that pass, compared by the share of the gain that their releases keep (methods#nodes-by-gain).

The best of several shares is too high on the folds that made it the best. So shares on some folds choose and are not published,
and the nodes that are reported are measured again on fresh folds.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from deid_assets.assessments.candidate_rows import ClaimTables, claims_query, days_query, members_query
from deid_assets.assessments.chosen_generalization import levels_at, named
from deid_assets.assessments.compared_tables import compared_tables, with_another_release
from deid_assets.assessments.evidence import Measurement, counted
from deid_assets.assessments.exposure import PART_OF_GAIN, PART_OF_LOSS
from deid_assets.assessments.gain_kept import FEWEST, MEMBERS, targets_of
from deid_assets.assessments.next_year import next_year, released_features
from deid_assets.assessments.rounding import rounded_down, rounded_up
from deid_assets.methods.lattice.certificate import STEPS_OF_GAIN
from deid_assets.methods.lattice.choice import Choice
from deid_assets.methods.lattice.predictive_tagging import Node, node_text, parse_node
from deid_assets.methods.population.encoding import released_ids
from deid_assets.methods.utility.gains import (
    FOLDS,
    REPEATS,
    Interval,
    Target,
    can_split,
    member_losses,
    resampled_losses,
    shares_of_all_gains,
)
from deid_assets.methods.utility.prediction import folds_of
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, write_table

_RESAMPLES = 500
"""Bootstrap samples of members for the intervals."""
_TOLD = 3
"""Nodes that are reported beside that of least loss."""
_METHOD, _SECTION = "nodes_by_gain", "methods#nodes-by-gain"
COMPARED, PUBLISHED_NODE, OTHER_NODE = "nodes_compared", "published_node", "other_node"
SHARE, LOWER, UPPER, LOSS = "kept_of_gain", "kept_of_gain_lower_bound", "kept_of_gain_upper_bound", "loss"
"""Of a node: "published_node/1,0,2/kept_of_gain"."""
_COLUMNS = {
    "node": "str", "loss": "float64", "share_of_gain_kept": "float64", "judged": "float64", "judged_lower": "float64",
    "judged_upper": "float64", "chosen": "bool",
}  # fmt: skip
_RELEASED = ("release_members", "release_days_in_hospital", "release_claims")


@dataclass(frozen=True)
class Kept:
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
) -> Kept:
    """Compare the releases at several nodes.

    All are compared on the same members, whom none of them leaves out, at most `MEMBERS`, and on the same folds. The gain is
    that of the delivery, with the labels of the first node beside the values.

    Parameters
    ----------
    passing
        Nodes, that of least loss first.
    tables
        Profiles, eligible, grouped and truncated claims, domains and crosswalk, by their assets. What is made of them is
        written to the scratch schema, and overwritten by the next node.
    """
    ids = tables["member_profiles"].query(released_ids(tables["member_profiles"]))
    everywhere = np.flatnonzero(~np.any([one.suppressed for one in passing], axis=0))
    chosen = generator.choice(everywhere, min(MEMBERS, len(everywhere)), replace=False)
    others = Table(tables["member_profiles"].file, "scratch", "not_compared")
    write_table(others, ids.drop(index=ids.index[chosen]).reset_index(drop=True))
    levels = levels_at(policy, passing[0].node)
    made = dict(tables) | _release(policy, levels, tables, others)
    compared = compared_tables(policy, levels, made)
    found = next_year(policy, levels, made, compared, generator)
    members, row_member = np.unique(found.delivered.member, return_inverse=True)
    if len(members) < FEWEST:
        return Kept()
    releases = [found.released.features]
    for one in passing[1:]:
        levels = levels_at(policy, one.node)
        another = with_another_release(policy, compared, _release(policy, levels, tables, others))
        releases.append(released_features(policy, levels, tables["value_domains"], another, found))
    return compared_on_folds(targets_of(found, tables["grouped_claims"]), found.with_classes, releases, row_member, generator)


def compared_on_folds(
    targets: Sequence[Target],
    delivered: np.ndarray,
    releases: Sequence[np.ndarray],
    row_member: np.ndarray,
    generator: np.random.Generator,
) -> Kept:
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
        sums = [(target, member_losses(target, sources, row_member, folds)) for target in targets]
        return shares_of_all_gains(resampled_losses(sums, row_member, _RESAMPLES, generator))

    found = tuple(share.value for share in shares(range(len(releases))))
    if not found:
        return Kept()
    told = _reported(found)
    # There is nothing to tell if the delivery predicts nothing on the fresh folds.
    return Kept(found, dict(zip(told, shares(told), strict=False)))


def _reported(shares: Sequence[float]) -> list[int]:
    """The places of the nodes that are reported: that of least loss, and those that keep most, best first."""
    return list(dict.fromkeys([0, *np.argsort(-np.array(shares), kind="stable")[:_TOLD].tolist()]))


def _release(policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table], left_out: Table) -> dict[str, Table]:
    """Write the tables of the release at some levels, without some members, to the scratch schema."""
    profiles, crosswalk, domains = (tables[name] for name in ("member_profiles", "pseudonym_crosswalk", "value_domains"))
    claims = ClaimTables(*(tables[f"{kind}_claims"] for kind in ("eligible", "grouped", "truncated")))
    queries = (
        members_query(policy, levels, profiles, left_out, crosswalk, domains),
        days_query(policy, levels, profiles, left_out, crosswalk, domains),
        claims_query(policy, levels, profiles, left_out, crosswalk, domains, claims),
    )
    made = {}
    for name, sql in zip(_RELEASED, queries, strict=True):
        made[name] = Table(profiles.file, "scratch", f"compared_{name}")
        write_table(made[name], sql)
    return made


def compared_frame(passing: Sequence[Choice], kept: Kept, losses: Mapping[Node, float], chosen: int) -> pd.DataFrame:
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
            "generalization": [named(policy, parse_node(node)) for node in told["node"]],
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
    yield counted(COMPARED, "nodes", len(compared), None, _METHOD, _SECTION, None)
    for row in keeping_most(compared).itertuples():
        name = f"{PUBLISHED_NODE if row.chosen else OTHER_NODE}/{row.node}"
        yield counted(f"{name}/{LOSS}", PART_OF_LOSS, rounded_down(row.loss, released), None, _METHOD, _SECTION, None)
        for end, number, way in (
            (SHARE, row.judged, rounded_down),
            (LOWER, row.judged_lower, rounded_down),
            (UPPER, row.judged_upper, rounded_up),
        ):
            value = None if np.isnan(number) else way(number, released, STEPS_OF_GAIN)
            yield counted(f"{name}/{end}", PART_OF_GAIN, value, None, _METHOD, _SECTION, None, commitment=commitment)

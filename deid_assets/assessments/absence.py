"""What absence from releases discloses: the factor of each demographic class, its limit, and what would help."""

import math
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deid_assets.assessments.earlier_releases import EverReleased, Tags, because_of
from deid_assets.assessments.evidence import FACTOR, Measurement, Method
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.assessments.membership_changes import DISAPPEARANCE_FACTOR
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.rendering import Published, ReportTable, shown, words, written
from deid_assets.methods.disclosure.absence import (
    NO_BOUND,
    AbsenceByClass,
    absence_by_class,
    absence_posterior,
    absence_shares,
    absent_query,
    classes_query,
    released_at_most,
    removed_for_claims,
)
from deid_assets.methods.lattice.candidate_gates import Absence, OtherGates
from deid_assets.methods.population.longitudinal_data import top_node
from deid_assets.methods.preparation.sampling import SIZE_SD
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, quoted

BY_ABSENCE = Method("absence", "methods#absence")
ABSENCE = "what absence from the release discloses"
ABSENCE_FACTOR, ABSENCE_PRIOR, ABSENCE_POSTERIOR = "absence_factor", "absence_prior", "absence_posterior"
"""Measurements: the largest factor of any class; over all classes, the share removed before any release, and given absence."""

_NO_LABEL = "missing"
_SHOWN_AT_MOST, _SMALLEST = 40, 11
"""Classes that a figure shows, and eligible members of a class that is shown, at least."""


def absence_in_search(policy: Policy, profiles: Table, eligible: Table, ever: EverReleased, tags: Tags) -> Absence | None:
    """How absence is judged when a generalization is chosen; None where the policy sets no limit on its factor.

    Parameters
    ----------
    profiles
        All delivered members.
    eligible
        Those who may be released.
    ever
        Members of earlier releases.
    """
    limit = policy.removal.factor_at_most
    if limit is None:
        return None
    found = profiles.query(
        f"SELECT member_id, member_id IN (SELECT member_id FROM {eligible.sql}) AS eligible FROM {profiles.sql}"
        " ORDER BY member_number"
    )
    before = ever.contain(tags(found["member_id"].tolist()))
    return Absence(limit, found["eligible"].to_numpy(dtype=bool), before, ever.of_others)


@dataclass(frozen=True, eq=False)
class AbsentMembers:
    """What absence discloses by demographic class, and what the classes are.

    Attributes
    ----------
    by_class
        Counts; class 0 holds members without demographics.
    labels
        The labels of classes 1 to c, one row each, by column of the members.
    """

    by_class: AbsenceByClass
    labels: pd.DataFrame

    def named(self, number: int) -> str:
        """The labels of a class, as text."""
        if number < 1:
            return "no demographics"
        row = self.labels.iloc[number - 1]
        return ", ".join(f"{column}: {_NO_LABEL if pd.isna(value) else value}" for column, value in row.items())


def absent_members(candidate: Candidate, ever: EverReleased, tags: Tags) -> AbsentMembers:
    """Count the members of each released demographic class: eligible, ever released, and removed for their claims.

    Parameters
    ----------
    candidate
        With profiles, domains, crosswalk, eligible and removed members, and the members about to be released.
    ever
        Members of earlier releases.
    """
    tables, columns = candidate.tables, candidate.policy.member_columns
    profiles = tables["member_profiles"]
    classes = classes_query(candidate.demographics, columns)
    removed = removed_for_claims(tables["removed_members"])
    found = profiles.query(absent_query(classes, tables["eligible_members"], removed, candidate.originals))
    names = ", ".join(map(quoted, columns))
    labels = profiles.query(f"SELECT DISTINCT class, {names} FROM ({classes}) ORDER BY class")
    released = found["released"].to_numpy(dtype=bool) | ever.contain(tags(found["member_id"].tolist()))
    flags = (found[name].to_numpy(dtype=bool) for name in ("eligible", "removed"))
    eligible, gone = flags
    by_class = absence_by_class(found["class"].to_numpy(), eligible, released, gone, ever.of_others)
    return AbsentMembers(by_class, labels.drop(columns="class"))


def absence_measurements(policy: Policy, found: AbsenceByClass) -> tuple[Measurement, ...]:
    """The largest factor of any class, a gate where the policy sets a limit, and the prior."""
    return (
        BY_ABSENCE.at_most(ABSENCE_FACTOR, FACTOR, min(found.largest, NO_BOUND), policy.removal.factor_at_most),
        BY_ABSENCE.at_most(ABSENCE_PRIOR, "share of members", found.prior),
    )  # fmt: skip


def report_table(found: Published) -> ReportTable:
    """What absence discloses, for the report; the prior is in the restricted edition only."""
    rows = (
        (ABSENCE_PRIOR, "Before any release: members removed for such a condition, of these and the eligible ones"),
        (ABSENCE_FACTOR, "Factor of the odds, in the demographic class where it is largest"),
        (ABSENCE_POSTERIOR, "Given absence: removed members, of all who are absent"),
        (DISAPPEARANCE_FACTOR, "Factor of the odds of a new condition, at most, for who was in an earlier release and is gone"),
    )
    return ReportTable(
        "absence",
        "What absence discloses",
        "Members are removed for what their claims disclose, so that a known member's absence may disclose it. Releases add "
        "the factor: absence from all of them multiplies the odds of such a condition by it, whatever they were before. The "
        "probability given absence also depends on how frequent the conditions are. Published numbers are rounded up.",
        (("Number", "name"), ("Measured", "number"), ("At most", "number")),
        tuple(
            (
                text,
                written(found, name),
                "" if found[name]["threshold"] is None else shown(found[name]["threshold"], found[name]["unit"]),
            )
            for name, text in rows
            if name in found and found[name]["value"] is not None
        ),
    )


def table_by_class(found: AbsentMembers) -> pd.DataFrame:
    """Labels, prior, posterior and factor of each class with enough eligible members; the largest factor first. Restricted."""
    by_class = found.by_class
    table = found.labels.astype("str").set_axis(range(1, len(found.labels) + 1))
    table = table.reindex(range(len(by_class.eligible))).fillna(_NO_LABEL)
    table["prior"], table["posterior"] = by_class.priors, by_class.posteriors
    table["factor"] = np.minimum(by_class.factors, NO_BOUND)
    told = table[by_class.eligible >= _SMALLEST].sort_values(["factor", *found.labels.columns], ascending=False)
    return told.round(4).reset_index(drop=True)


def figures_by_class(policy: Policy, table: pd.DataFrame) -> Iterator[tuple[str, bytes]]:
    """Yield a text and a figure of prior and posterior, and of what absence adds to the odds. Restricted.

    Parameters
    ----------
    table
        `table_by_class`.
    """
    first_ones, limit = table.head(_SHOWN_AT_MOST), policy.removal.factor_at_most
    if not len(first_ones):
        return
    first = "" if len(first_ones) == len(table) else f", for the {_SHOWN_AT_MOST} classes with the largest factors"
    labels = first_ones.drop(columns=["prior", "posterior", "factor"])
    names = [textwrap.fill(", ".join(row), 36) for row in labels.itertuples(index=False)]
    of = f" ({', '.join(map(words, labels.columns))})"
    pairs = list(zip(names, zip(first_ones["prior"], first_ones["posterior"], strict=True), strict=True))
    yield (
        f"Probability of a condition for which members are removed, before any release and given absence, by class{of}{first}",
        dots_figure(pairs, ("before any release", "given absence"), "removed members [%]"),
    )
    added = [
        (name, (factor - 1, None if limit is None else limit - 1))
        for name, factor in zip(names, first_ones["factor"], strict=True)
    ]
    if first_ones["factor"].max() < NO_BOUND:
        yield (
            f"How much absence adds to the odds of such a condition, by class{of}{first}",
            dots_figure(added, ("by absence", "allowed"), "added to the odds [%]"),
        )


def what_makes_the_factor(policy: Policy, gates: OtherGates, eligible: int, before: int, earlier: Sequence[str]) -> str:
    """Why the factor of absence is too large at every node, and the remedy; empty if it is not, or has no limit.

    Parameters
    ----------
    gates
        The gates of the search.
    eligible, before, earlier
        Eligible members; members in earlier releases, other than those of this one, and these releases as policy/number.
    """
    absence, share = gates.absence, policy.risk.suppression.at_most
    top = top_node(gates.dimensions)
    if absence is None or not gates.absence_however_suppressed(top, share):
        return ""
    alone = replace(gates, absence=replace(absence, before=np.zeros_like(absence.before), of_others=0))
    if not alone.absence_however_suppressed(top, share):
        return because_of(earlier)
    return what_helps_against_factor(eligible, before, absence.factor_at_most)


def what_helps_against_factor(eligible: int, before: int, factor_at_most: float) -> str:
    """How many members may be released so that absence multiplies the odds by no more than allowed.

    Parameters
    ----------
    eligible
        Eligible members.
    before
        Members in earlier releases, other than those of this one.
    """
    share = 1 - 1 / factor_at_most
    # The number of a class that is drawn is random; a tenth less leaves room for it.
    most = math.floor(0.9 * share * eligible) - before - math.ceil(4 * SIZE_SD)
    limit = (
        f"a factor of {factor_at_most:g} lets a share of {share:.4g} of the eligible members of every demographic class be "
        "released, in all releases together"
    )
    if most <= 0:
        return f"{limit}, and earlier releases leave no room for others: draw members by member (sample.keyed_by), who repeat"
    step = 10 ** max(0, len(str(most)) - 2)
    return (
        f"{limit}: about {most // step * step:,} of {eligible:,} (--release, under another --key), and fewer where classes are "
        "so small that one has more by chance"
    )


def absence_tells_too_much(
    policy: Policy, removed_and_eligible: tuple[int, int], sampled: int, before: int, earlier: Sequence[str]
) -> tuple[str, str]:
    """The gate on absence if the whole sample fails it, with a sentence on the cause and the remedy; else empty.

    Ignores suppression, which lowers the number slightly: what is offered passes without it.

    Parameters
    ----------
    removed_and_eligible
        Members removed because of what their claims reveal, and eligible members.
    sampled
        Members drawn for the release.
    before, earlier
        Members in earlier releases, other than those of this one, and these releases as policy/number.
    """
    removed, eligible = removed_and_eligible
    most = policy.removal.absence_posterior_at_most
    if most is None:
        return "", ""

    def fails(released: int) -> bool:
        return absence_posterior(*absence_shares(removed, eligible, released)) > most

    if not fails(sampled + before):
        return "", ""
    if not fails(sampled):
        return ABSENCE, because_of(earlier)
    return ABSENCE, what_helps_against_absence(removed, eligible, before, most)


def what_helps_against_absence(removed: int, eligible: int, before: int, posterior_at_most: float) -> str:
    """How few members may be released so that absence discloses no more than allowed, or that no number is few enough.

    Parameters
    ----------
    removed, eligible
        Members removed because of what their claims reveal, and eligible members.
    before
        Members in earlier releases, other than those of this one.
    """
    # The size of a sample is random, so the number keeps a margin; two digits are enough.
    most = released_at_most(removed, eligible, posterior_at_most) - before - math.ceil(4 * SIZE_SD)
    if most > 0:
        step = 10 ** max(0, len(str(most)) - 2)
        return (
            f"at most about {most // step * step:,} of {eligible:,} eligible members may be released "
            "(--release, under another --key)"
        )
    return (
        f"{removed:,} of {removed + eligible:,} members were removed for what their claims disclose, which is too many "
        "however few others are released; removed_members gives the reasons, and names members left out for a claim in "
        "quarantine or a code that cannot be read, whom a corrected file would bring back"
    )

"""Changes that a refusal offers if no node passes: they passed when tried, and are given as policy sections."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg
import pandas as pd
import yaml

from deid_assets.assessments.cumulative_attacks import because_of
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure.absence import (
    absence_numbers,
    absence_posterior,
    released_at_most,
    removed_and_eligible,
)
from deid_assets.methods.lattice.candidate_gates import TOO_LITTLE
from deid_assets.methods.lattice.diagnosis import Change
from deid_assets.methods.preparation.sampling import SIZE_SD
from deid_assets.policy.loading import with_sections
from deid_assets.policy.models import Policy
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table

ABSENCE = "what absence from the release discloses"
_TRIED = (
    "every gate that can be checked before a release is made: share at high risk in both readings, demographic classes, "
    "attack 1, and absence"
)


def changed_sections(policy: Policy, change: Change) -> str | None:
    """The changed sections, complete, as YAML to replace the policy's own; None if no valid policy can have them.

    It contains no personal data, only names of columns, dimensions and thresholds.
    """
    sections: dict[str, Any] = {}
    if change.without:
        sections |= _sections(policy, "quasi_identifiers", "dimensions")
        listed = sections["quasi_identifiers"]
        for part in listed:
            listed[part] = [entry for entry in listed[part] if entry["column"] not in change.without]
        for dimension in sections["dimensions"]:
            dimension["columns"] = [column for column in dimension["columns"] if column not in change.without]
        sections["dimensions"] = [dimension for dimension in sections["dimensions"] if dimension["columns"]]
        sections |= _reference_left(policy, {dimension["name"]: dimension["columns"] for dimension in sections["dimensions"]})
    if change.suppress_at_most is not None:
        sections |= _sections(policy, "risk")
        sections["risk"]["suppression"] = {"at_most": change.suppress_at_most}
    try:
        with_sections(policy, **sections)
    except PolicyError:
        return None
    return yaml.safe_dump(sections, sort_keys=False, allow_unicode=True, width=120)


def _reference_left(policy: Policy, dimensions: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The section number_of_claims with the levels of the remaining member dimensions; empty if it is unchanged.

    Claims are then cut in classes that contain those in which they were cut when the change was tried, so fewer are
    cut.

    Parameters
    ----------
    dimensions
        Columns of each remaining dimension, by its name.
    """
    if policy.number_of_claims is None:
        return {}
    first = {
        name: columns[0] for name, columns in dimensions.items() if set(columns) & set(policy.quasi_identifiers.member_columns)
    }
    # Levels are named by the first column, which may have changed.
    reference = {
        name: policy.hierarchy_of(first[name]).level_names[policy.reference_level(first[name])]
        for name in policy.number_of_claims.reference
        if name in first
    }
    if reference == policy.number_of_claims.reference:
        return {}
    section = _sections(policy, "number_of_claims")
    section["number_of_claims"]["reference"] = reference
    return section


def _sections(policy: Policy, *names: str) -> dict[str, Any]:
    return policy.model_dump(mode="json", by_alias=True, include=set(names), exclude_unset=True)


def absence_tells_too_much(
    policy: Policy, eligible: Table, removed: Table, profiles: Table, workplace: Workplace
) -> tuple[str, str]:
    """The gate on absence if the whole sample fails it, with a sentence on the cause and the remedy; else empty.

    Ignores suppression, which lowers the number slightly: what is offered passes without it.
    """
    sample = f"SELECT member_id FROM {profiles.sql} WHERE released"
    own, before = profiles.query(sample).shape[0], workplace.released_before(profiles, sample)

    def fails(released: int) -> bool:
        return absence_posterior(*absence_numbers(eligible, removed, released)) > policy.removal.absence_posterior_at_most

    if not fails(own + before):
        return "", ""
    if not fails(own):
        return ABSENCE, because_of(workplace.releases_before(profiles, sample))
    sensitive, remaining = removed_and_eligible(eligible, removed)
    return ABSENCE, what_helps_against_absence(sensitive, remaining, before, policy.removal.absence_posterior_at_most)


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
        "quarantine, whom a corrected file would bring back"
    )


def no_choice(
    passed_over: Mapping[tuple[int, ...], str], diagnosis: pd.DataFrame, suppress_at_most: float, because: str
) -> dg.Failure:
    """The refusal if no node passes: which gates failed how many nodes, and what passed when tried.

    Parameters
    ----------
    because
        About absence, if it is why nothing can pass; else empty.
    """
    gates = Counter(passed_over.values())
    against = ", ".join(f"{gate} at {count} node{'s' * (count != 1)}" for gate, count in gates.items())
    against = against or "too many members at high risk at every node, even with maximum suppression"
    return dg.Failure(
        f"refused: no generalization of this policy passes. Failed gates: {against}. "
        f"{_advice(diagnosis, suppress_at_most)}{f' For absence: {because}.' if because else ''}"
        + (
            " Nodes that keep less information than detail_at_least requires were not tried; lower it to try them."
            if TOO_LITTLE in gates
            else ""
        ),
        metadata={"refused": True, "nodes_passed_over": len(passed_over)},
        allow_retries=False,
    )


def _advice(diagnosis: pd.DataFrame, suppress_at_most: float) -> str:
    """What passed when tried; if nothing did, what failed it."""
    tried = f"with at most {suppress_at_most:g} of the sampled members suppressed unless said otherwise"
    passed = [
        f"{row.kind} {row.what} (share at high risk {row.share:.4f} before suppression, at most {row.threshold:.4f}; "
        f"{row.suppressed:.4f} of the sampled members left out)"
        for row in diagnosis[diagnosis["would_pass"]].itertuples()
    ]
    if passed:
        return (
            f"Tried at the coarsest node, {tried}, these changes passed {_TRIED}: {'; '.join(passed)}. The best one is in "
            "lattice_diagnosis as YAML, and `deid run` prints it. Other gates of the policy, such as the voter list, are "
            "judged when it runs."
        )
    stood = Counter(diagnosis.loc[diagnosis["kind"].isin(["without", "suppressing"]), "against"])
    listed = ", ".join(f"{gate} against {count}" for gate, count in stood.items())
    return f"None of the changes tried at the coarsest node, {tried}, passed {_TRIED} ({listed}); see lattice_diagnosis."

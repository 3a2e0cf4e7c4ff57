"""Why no node passes: the gates that failed, and the changes of the policy that passed when they were tried.

Of a flat table it is said without an exact count of records.
"""

from collections import Counter
from collections.abc import Mapping

import pandas as pd

from deid_assets.errors import how_many
from deid_assets.methods.lattice.candidate_gates import PINNED, TOO_LITTLE
from deid_assets.methods.lattice.certificate import rounding_step
from deid_assets.policy.flat import FlatPolicy

_TRIED = (
    "every gate that can be checked before a release is made: share at high risk in both readings, that of the worst class if "
    "the policy limits it, demographic classes, attack 1, and absence"
)


def why_no_choice(
    passed_over: Mapping[tuple[int, ...], str],
    diagnosis: pd.DataFrame,
    suppress_at_most: float,
    because: str,
    left_open: int = 0,
    worst_class: str = "",
    listed: bool = True,
) -> str:
    """The refusal if no node passes: which gates failed how many nodes, and what passed when tried.

    Parameters
    ----------
    because
        About absence, if it is why nothing can pass; else empty.
    left_open
        Number of nodes that the search left open.
    worst_class
        Which class is the worst one, with its share and the limit, where a node failed for it; else empty.
    listed
        Whether the search lists every node.
    """
    gates = Counter(passed_over.values())
    against = ", ".join(f"{gate} at {how_many(count, 'node')}" for gate, count in gates.items())
    everywhere = "every node" if not left_open else "every node that was tried"
    against = against or f"too many members at high risk at {everywhere}, even with maximum suppression"
    return (
        f"refused: {_all_or_some(left_open)} passes. Failed gates: {against}. "
        f"{_advice(diagnosis, suppress_at_most)}{f' For absence: {because}.' if because else ''}"
        f"{f' {worst_class}' if worst_class else ''}"
        + (
            " Nodes that keep less information than detail_at_least requires were not tried; lower it to try them, or "
            "publish the release however coarse it is (publish_however_coarse: true), which its headline then says."
            if TOO_LITTLE in gates
            else ""
        )
        + (
            " The generalization is pinned to that of the last release (releases.generalization), which no longer passes; with "
            "free, another one may, if both releases together pass."
            if PINNED in gates
            else ""
        )
        + (
            f" Of so many nodes the search lists only the best that it finds, and {left_open:,} are not among them."
            if left_open and not listed
            else f" The search left {how_many(left_open, 'node open that loses', 'nodes open that lose')} more; a "
            "larger risk.search.enough searches further."
            if left_open
            else ""
        )
    )


def failed_gates(passed_over: Mapping[tuple[int, ...], str], left_open: int) -> str:
    """Which gates failed, and where the remedy is, without any number of people: for those who may not see the refusal."""
    gates = ", ".join(dict.fromkeys(passed_over.values())) or "share at high risk, even with maximum suppression"
    return (
        f"{_all_or_some(left_open)} passes (failed gates: {gates}); the report of the refusal, in the restricted store, says "
        "which changes of the policy would pass, or that a larger population is needed"
    )


def _all_or_some(left_open: int) -> str:
    """What does not pass: nothing is known about nodes that the search left open."""
    return "none of the generalizations that were tried" if left_open else "no generalization of this policy"


def _advice(diagnosis: pd.DataFrame, suppress_at_most: float) -> str:
    """What passed when tried; if nothing did, what failed it; and how many members would do."""
    needed = "".join(
        f" By the share at high risk alone, the coarsest node needs {what}."
        for what in diagnosis.loc[diagnosis["kind"] == "population", "what"]
    )
    return _changes_tried(diagnosis, suppress_at_most) + needed


def _changes_tried(diagnosis: pd.DataFrame, suppress_at_most: float) -> str:
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


def why_pinned_fails(policy: FlatPolicy, last: str) -> str:
    """The refusal if too many records are in small classes at the pinned node, whose levels are those of the last release."""
    return (
        f"the generalization is pinned (releases.generalization), and at its levels ({last}) too many records are in classes "
        f"of fewer than {policy.risk.k}; allow more suppression (risk.max_suppressed), or say free"
    )


def why_no_node_passes(policy: FlatPolicy, least_share: float, records: int, noisy_blanks: Mapping[str, int]) -> str:
    """The refusal if too many records are in small classes at every node.

    Parameters
    ----------
    least_share
        Smallest share of records in small classes at any node.
    records
        Number of records.
    noisy_blanks
        Noisy number of blanks, by the released name of the columns whose blanks keep records in small classes.
    """
    risk = policy.risk
    node, less = ("the coarsest node", "")
    if policy.detail_required:
        node, less = ("the coarsest node that keeps what detail_at_least requires", ", require less detail")
    return (
        f"even at {node} {_about(least_share, risk.max_suppressed, records)} in classes of fewer than {risk.k}, and at most "
        f"{risk.max_suppressed:g} may be suppressed: list fewer quasi-identifiers, add a coarser level to a hierarchy{less}, "
        f"or allow more suppression{_of_blanks(policy, noisy_blanks)}"
    )


def _of_blanks(policy: FlatPolicy, noisy_blanks: Mapping[str, int]) -> str:
    """The columns whose blanks are classes of their own, about how many, and what to do."""
    if not noisy_blanks:
        return ""
    blank = [qi for qi in policy.quasi_identifiers if qi.release_as in noisy_blanks]
    counted = [f"{qi.column} (about {noisy_blanks[qi.release_as]:,})" for qi in blank]
    return (
        f". In the columns {', '.join(counted)} blanks are classes of their own, also at the coarsest level: set "
        "`missing_joins: LEVEL` in the hierarchy, where LEVEL is a single class such as *, to put them into that class"
    )


def _about(share: float, threshold: float, records: int) -> str:
    """A share of records above the threshold, as precisely as it may be disclosed: rounded, or omitted.

    Examples
    --------
    >>> _about(0.0312, 0.01, 5_000), _about(0.0312, 0.01, 40), _about(0.0012, 0.001, 5_000)
    ('a share of about 0.03 of the records is', 'too many records are', 'too many records are')
    """
    step = rounding_step(records)
    told = round(share / step) * step
    return f"a share of about {told:.3g} of the records is" if step <= 0.1 and told > threshold else "too many records are"

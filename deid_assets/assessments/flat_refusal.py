"""Why no node of a flat table passes, without an exact count of records."""

from collections.abc import Mapping

from deid_assets.methods.lattice.certificate import rounding_step
from deid_assets.policy.flat import FlatPolicy


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

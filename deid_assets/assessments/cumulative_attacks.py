"""Attack 1 for any member, at the alpha of the moment of release (methods#attack-1).

Members published elsewhere in the meantime count. The assessments measured alpha times the success given membership,
with alpha at that time. Success given membership depends only on the staged rows, but alpha changes, so the gate
multiplies again.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from deid_assets.assessments.absence import ABSENCE_FACTOR, ABSENCE_POSTERIOR
from deid_assets.assessments.attack_sensitivity import WORST
from deid_assets.assessments.earlier_releases import because_of
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.neighbor_attack import GIVEN_MEMBERSHIP, UNCONDITIONAL
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import AttackGate

_FIGURES = {
    "neighbor_attack": (GIVEN_MEMBERSHIP, UNCONDITIONAL),
    "attack_sensitivity": (WORST["given_membership"], WORST["unconditional"]),
}
"""By assessment: the figure given membership and the figure for any member."""


def cumulative_refusals(policy: Policy, evidence: Sequence[Evidence], alpha: float) -> list[Refusal]:
    """Refuse if alpha times the success given membership exceeds what the policy allows for any member.

    Parameters
    ----------
    evidence
        As stored; other code checks that it is about the staged rows.
    alpha
        Members released now or before, over members of the population.

    Returns
    -------
    list of Refusal
        Rules: `absent_measurement` and `failed_measurement`; none for attacks without a policy gate for any member.
    """
    return [refusal for asset, gate in _gates(policy) for refusal in _judged(asset, gate, evidence, alpha)]


def naming_releases(refusals: Sequence[Refusal], releases: Sequence[str]) -> list[Refusal]:
    """The refusals, with the earlier releases that their numbers count."""
    cumulative = (
        {ABSENCE_POSTERIOR, ABSENCE_FACTOR, *(unconditional for _, unconditional in _FIGURES.values())} if releases else set()
    )
    return [
        replace(found, text=f"{found.text}: {because_of(releases)}")
        if found.rule == "failed_measurement" and found.name.rpartition("/")[2] in cumulative else found
        for found in refusals
    ]  # fmt: skip


def _gates(policy: Policy) -> Iterator[tuple[str, AttackGate]]:
    for asset in _FIGURES:
        gate = getattr(policy, asset).unconditional
        if gate is not None:
            yield asset, gate


def _judged(asset: str, gate: AttackGate, evidence: Sequence[Evidence], alpha: float) -> list[Refusal]:
    given, name = _FIGURES[asset]
    found = [one for item in evidence if item.asset == asset for one in item.measurements if one.name == given]
    success = [_compared(one, gate) for one in found]
    if len(found) != 1 or success[0] is None:
        text = f"{asset}/{name}: its success given membership was not measured, so it cannot be judged at the current alpha"
        return [Refusal("absent_measurement", f"{asset}/{name}", None, gate.at_most, text)]
    now = alpha * success[0]
    if now <= gate.at_most:
        return []
    text = f"{asset}/{name}: with the members that other releases now contain, the neighbor finds any member too often"
    return [Refusal("failed_measurement", f"{asset}/{name}", now, gate.at_most, text, "probability")]


def _compared(found: Measurement, gate: AttackGate) -> float | None:
    """The number that the gate uses; None if there is none."""
    number = found.bound if gate.statistic == "upper_bound" else found.value
    return number if number is not None and number == number else None

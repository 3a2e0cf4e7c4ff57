"""Convert the cells of the sensitivity analysis to measurements, and back to the table in report and UI."""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Protocol

from deid_assets.assessments.estimates import estimated_success
from deid_assets.assessments.evidence import Measurement, Requirement
from deid_assets.methods.attacks.attack_sensitivity import Cell, worst_cell
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy

ASSET = "attack_sensitivity"
WORST = {"unconditional": "worst_sensitivity", "given_membership": "worst_sensitivity_given_membership"}
"""Names of the gating measurements, by figure."""
WITH_VALUES = "number_of_claims_known_with_values"
"""Measurement of a neighbour who knows values and the number of claims to within the policy's bin."""
FIGURES = ("unconditional", "given_membership")


def wrong_values(share: float) -> str:
    """Name of the row in which a share of the known values is wrong.

    Examples
    --------
    >>> wrong_values(0.05), wrong_values(0.125)
    ('wrong_values_5_percent', 'wrong_values_12_5_percent')
    """
    return f"wrong_values_{100 * share:.6g}_percent".replace(".", "_")


def number_known(width: int) -> str:
    """Name of the row in which the number of claims is known to within a bin of `width` numbers.

    Examples
    --------
    >>> number_known(1), number_known(5)
    ('number_of_claims_known', 'number_of_claims_known_within_5')
    """
    return "number_of_claims_known" + (f"_within_{width}" if width > 1 else "")


def rows_of(policy: Policy) -> tuple[str, ...]:
    """Names of the rows of the analysis, in order."""
    section = policy.attack_sensitivity
    return (
        *section.variants,
        *(wrong_values(share) for share in section.wrong_shares),
        *(number_known(width) for width in section.number_of_claims_widths),
    )


def cell_name(variant: str, power: int, figure: str) -> str:
    """Name of a cell's measurement."""
    return f"{variant}_power_{power}_{figure}"


def sensitivity_required(policy: Policy) -> tuple[Requirement, ...]:
    """The gating measurements that the policy requires of this assessment."""
    gates = policy.attack_sensitivity.gates
    sure = joint_confidence(policy)
    required = tuple(Requirement(ASSET, WORST[figure], gate.at_most, sure) for figure, gate in gates.items())
    gate = policy.measured_number_of_claims.with_values
    return required if gate is None else (*required, Requirement(ASSET, WITH_VALUES, gate.at_most, sure))


def joint_confidence(policy: Policy) -> float:
    """Confidence at which the bounds of all cells hold jointly, over all tries: the highest that a gate requires."""
    gate = policy.measured_number_of_claims.with_values
    return max(policy.attack_sensitivity.confidence, gate.confidence if gate else 0.0)


def sensitivity_measurements(policy: Policy, cells: Sequence[Cell], commitment: str, number: int) -> tuple[Measurement, ...]:
    """Both figures of every cell, and the worst plausible ones, which are gates if the policy says so.

    Parameters
    ----------
    cells
        With bounds for the given try.
    number
        The number of the try.

    Raises
    ------
    ValueError
        If a cell of the policy was not measured.
    """
    section = policy.attack_sensitivity
    plausible = [
        cell for cell in cells
        if cell.variant in section.plausible.variants and cell.power in section.plausible.powers
    ]  # fmt: skip
    wanted = {(row, power) for row in rows_of(policy) for power in section.powers}
    if {(cell.variant, cell.power) for cell in cells} != wanted:
        raise ValueError("the cells measured are not those that the policy names")
    worst, known = worst_cell(plausible), policy.measured_number_of_claims
    row = number_known(known.width)
    numbered = worst_cell([cell for cell in cells if cell.variant == row and cell.power in section.plausible.powers])

    measured = partial(
        estimated_success,
        confidence=confidence_of_try(joint_confidence(policy), number),
        method="attack_sensitivity",
        section="methods#sensitivity; El Emam et al. 2012, Table 7",
        commitment=commitment,
    )
    return (
        *(measured(WORST[figure], worst[figure], section.gates.get(figure), section.trials) for figure in FIGURES),
        measured(WITH_VALUES, numbered["given_membership"], known.with_values, section.trials),
        *(
            measured(cell_name(cell.variant, cell.power, figure), getattr(cell, figure), None, cell.trials)
            for cell in cells
            for figure in FIGURES
        ),
    )


class Valued(Protocol):
    """A measurement, or one as the public edition shows it."""

    @property
    def name(self) -> str:
        """What was measured."""

    @property
    def value(self) -> float | None:
        """What was found; None where nothing was."""

    @property
    def bound(self) -> float | None:
        """Its upper bound; None where there is none."""


def table_rows(
    policy: Policy, measurements: Iterable[Valued]
) -> list[tuple[str, int, Mapping[str, tuple[float | None, float | None]]]]:
    """(row, power, {figure: (value, bound)}) of every measured cell, in policy order."""
    by_name = {found.name: found for found in measurements}
    rows: list[tuple[str, int, Mapping[str, tuple[float | None, float | None]]]] = []
    for row in rows_of(policy):
        for power in policy.attack_sensitivity.powers:
            named = {figure: cell_name(row, power, figure) for figure in FIGURES}
            if all(name in by_name for name in named.values()):
                found = {figure: by_name[name] for figure, name in named.items()}
                rows.append((row, power, {figure: (one.value, one.bound) for figure, one in found.items()}))
    return rows

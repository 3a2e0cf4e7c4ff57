"""Section on the other assumptions under which attack 1 is simulated, and which of them are gates.

See methods#sensitivity; El Emam et al. 2012, Table 7.
"""

from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST, confidence_of_try, empirical_bernstein_upper_bound
from deid_assets.policy.sections.longitudinal import AttackGate, Probability, Section, Trials

Power = Annotated[int, Field(ge=1, le=127)]
VariantName = Literal[
    "original",
    "one_claim_jointly",
    "one_pair_ordered",
    "year_known",
    "year_of_each_value_known",
    "power_rounded_down",
    "power_rounded_up",
]
OF_THE_ARTICLE: tuple[VariantName, ...] = ("original", "one_claim_jointly", "one_pair_ordered")
ALL: tuple[VariantName, ...] = (
    *OF_THE_ARTICLE,
    "year_known",
    "year_of_each_value_known",
    "power_rounded_down",
    "power_rounded_up",
)


class Plausible(Section):
    """Cells that an adversary may plausibly reach; the worst of them is the gate."""

    variants: tuple[VariantName, ...] = Field(OF_THE_ARTICLE, min_length=1, description="rows of the analysis")
    powers: tuple[Power, ...] = Field((5, 10, 15), min_length=1, description="columns of the analysis")


class AttackSensitivity(Section):
    """Attack 1 under other assumptions: greater power, linked or ordered claims, known years, errors."""

    trials: Trials = Field(10_000, description="number of simulated neighbors in each cell")
    powers: tuple[Power, ...] = Field((5, 10, 15), min_length=1, description="columns: highest power of the adversary")
    variants: tuple[VariantName, ...] = Field(ALL, min_length=1, description="rows: what the adversary knows")
    wrong_shares: tuple[Probability, ...] = Field(
        (0.05, 0.1), description="further rows: the share of the known values that are wrong"
    )
    number_of_claims_widths: tuple[Annotated[int, Field(ge=1, le=1000)], ...] = Field(
        (1, 5, 10, 50), description="further rows: the number of claims is also known, to within a bin of this width"
    )
    plausible: Plausible = Plausible()
    unconditional: AttackGate | None = Field(
        None,
        description="gate on the worst plausible cell, for any member; at most alpha by construction; null: no gate",
    )
    given_membership: AttackGate | None = Field(
        None, description="gate on the worst plausible cell, for a member who is in the release; null: no gate"
    )

    @model_validator(mode="after")
    def _plausible_cells_are_measured(self) -> "AttackSensitivity":
        for name in ("variants", "powers"):
            listed, plausible = getattr(self, name), getattr(self.plausible, name)
            if len(set(listed)) < len(listed):
                raise ValueError(f"{name} contains duplicates")
            unmeasured = [str(found) for found in plausible if found not in listed]
            if unmeasured:
                raise ValueError(
                    f"plausible.{name} lists {', '.join(unmeasured)}, which {name} does not: a gate on it could not fail"
                )
        for name in ("wrong_shares", "number_of_claims_widths"):
            if len(set(getattr(self, name))) < len(getattr(self, name)):
                raise ValueError(f"{name} contains duplicates")
        return self

    @model_validator(mode="after")
    def _enough_trials(self) -> "AttackSensitivity":
        for name, gate in self.gates.items():
            bound = empirical_bernstein_upper_bound(
                np.zeros(max(self.trials, 2)),
                1.0,
                confidence_of_each(confidence_of_try(gate.confidence, TRIES_AT_MOST), self.cells),
            )
            if bound > gate.at_most:
                raise ValueError(
                    f"{self.trials} trials are too few for {name}: even without any success, the upper bound of the last try "
                    f"is {bound:.4g}, as {self.cells} bounds hold together, above at_most {gate.at_most:g}"
                )
        return self

    @property
    def gates(self) -> dict[str, AttackGate]:
        """The gates that the policy sets, by figure."""
        both = {"unconditional": self.unconditional, "given_membership": self.given_membership}
        return {figure: gate for figure, gate in both.items() if gate is not None}

    @property
    def cells(self) -> int:
        """Number of measured figures."""
        return len(self.powers) * (len(self.variants) + len(self.wrong_shares) + len(self.number_of_claims_widths))

    @property
    def confidence(self) -> float:
        """Confidence at which the bounds of all cells hold jointly, over all tries: the highest that a gate requires."""
        return max((gate.confidence for gate in self.gates.values()), default=0.99)

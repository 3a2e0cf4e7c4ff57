"""Sections on attack 1 under other assumptions: what is known of claims and of their number, and which of it are gates.

See methods#sensitivity; El Emam et al. 2012, Table 7.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from deid_assets.methods.attacks.attack_sensitivity import confidence_of_each
from deid_assets.methods.statistics.confidence import TRIES_AT_MOST, confidence_of_try, empirical_bernstein_upper_bound
from deid_assets.policy.problems import Path, Problem, did_you_mean
from deid_assets.policy.sections.longitudinal import AttackGate, Name, Probability, Section, Trials
from deid_assets.store.tables import ALL_EVENTS

if TYPE_CHECKING:
    from deid_assets.policy.models import Policy


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


OF_CLAIMS, OF_LISTED = "number_of_claims", "numbers_of_events"
"""How the names of measurements begin: of the number of claims alone, and of whatever else `number_of_claims` lists."""


class NumberOfClaims(Section):
    """The number of claims, or of other events, as a quasi-identifier of members (Anonymizing Health Data, ch. 5)."""

    of: tuple[Name, ...] = Field(
        ("claims",),
        min_length=1,
        description="whose numbers are known: tables of events, the number of each, or all_events, the number of all together",
    )
    per: Literal["member", "member_year"] = Field(
        description="whether the number of all claims of a member is known, or the numbers of each year"
    )
    width: Annotated[int, Field(ge=1, le=1000)] = Field(5, description="numbers of claims per bin")
    reference: dict[Name, str] = Field(
        description="dimension: name of a level. Claims are cut until every bin of every demographic class at these levels is "
        "empty or large enough; coarser classes are then safe too, and finer ones are not chosen"
    )
    with_values: AttackGate | None = Field(
        None,
        description="gate on a neighbor who knows the bin, values of claims, and that the target is in the release: the "
        "worst of attack_sensitivity's rows of this width at its plausible powers; null: only reported",
    )

    @property
    def named(self) -> str:
        """How the names of its measurements begin."""
        return OF_CLAIMS if self.of == ("claims",) else OF_LISTED

    @property
    def whose(self) -> tuple[str, ...]:
        """In words, whose numbers are known."""
        return tuple("events" if one == ALL_EVENTS else one.replace("_", " ") for one in self.of)

    @property
    def none_is_told(self) -> bool:
        """Whether a released member may have none, so that this is a bin like any other: everybody has a claim."""
        return len(self.of) > 1 or self.of[0] not in ("claims", ALL_EVENTS)

    @property
    def leaves_some_without_claims(self) -> bool:
        """Whether the cut may take all claims of a member."""
        return self.per == "member_year" or self.of != ("claims",)


REPORTED = NumberOfClaims(per="member", width=5, reference={})
"""Measured without a gate if a policy has no such section: the range of five that the book names."""


def number_of_claims_problems(policy: "Policy") -> Iterator[Problem]:
    """Claims can be cut only within classes that are known before the lattice is searched."""
    section, analysis = policy.number_of_claims, policy.attack_sensitivity
    width = policy.measured_number_of_claims.width
    if width not in analysis.number_of_claims_widths:
        yield Problem(
            ("attack_sensitivity", "number_of_claims_widths"),
            f"does not list {width}, the width of number_of_claims: a neighbor who knows the number and values would not "
            "be measured",
        )
    if section is None:
        return
    yield from _tables_problems(policy, section)
    yield from _gate_problems(section, analysis)
    of_members = {one.name: one for one in policy.dimensions if set(one.columns) & set(policy.member_columns)}
    path: Path = ("number_of_claims", "reference")
    for name in section.reference:
        if name not in of_members:
            yield Problem(
                (*path, name), f"is not a dimension of members; dimensions of members: {', '.join(of_members) or 'none'}"
            )
    for name, dimension in of_members.items():
        if name not in section.reference:
            yield Problem(path, f"names no level of {name}: the classes in which claims are cut would depend on what is chosen")
        elif any(
            qi.column == dimension.columns[0] and qi.hierarchy in policy.hierarchies for qi in policy.quasi_identifiers.all
        ):
            names = policy.hierarchy_of(dimension.columns[0]).level_names
            if section.reference[name] not in names:
                yield Problem((*path, name), f"has no level '{section.reference[name]}'; levels: {', '.join(names)}")
    tail = policy.long_tail
    if tail.method != "percentile" and (tail.unit != section.per or tail.width % section.width):
        yield Problem(
            ("number_of_claims", "width"),
            f"does not fit the bins of long_tail (width {tail.width}, per {tail.unit}): claims are cut twice, and the "
            "first bins stay intact only if they consist of the second ones, with the same unit",
        )
    if section.per == "member_year" and policy.dates is not None:
        yield Problem(
            ("number_of_claims", "per"),
            "is member_year, but the year of a claim follows from its released date, after claims are cut; with dates, "
            "use member",
        )


def _tables_problems(policy: "Policy", section: NumberOfClaims) -> Iterator[Problem]:
    """Numbers are of tables that are delivered, and every row counts in one of them at most."""
    path: Path = ("number_of_claims", "of")
    tables = (*policy.event_tables, ALL_EVENTS)
    for name in section.of:
        if name not in tables:
            yield Problem(path, f"names no table of events '{name}'{did_you_mean(name, tables)}; tables: {', '.join(tables)}")
    if len(set(section.of)) < len(section.of):
        yield Problem(path, "names a table twice")
    if ALL_EVENTS in section.of and len(section.of) > 1:
        yield Problem(path, f"{ALL_EVENTS} counts every row, so that each would be cut for two numbers: name it alone")
    if ALL_EVENTS in section.of and not policy.has_other_events:
        # Another name of the same number would have draws and noise of its own.
        yield Problem(path, f"{ALL_EVENTS} are the claims where there is no other table of events: name claims")
    if ALL_EVENTS in section.of and policy.long_tail.method != "percentile":
        yield Problem(
            path,
            f"{ALL_EVENTS} does not go with bins of long_tail, which are of each table by itself and would not stay intact",
        )


def _gate_problems(section: NumberOfClaims, analysis: AttackSensitivity) -> Iterator[Problem]:
    """A gate that no release could pass, because too few attacks are simulated."""
    gate = section.with_values
    if gate is None:
        return
    joint = confidence_of_try(max(gate.confidence, analysis.confidence), TRIES_AT_MOST)
    each = confidence_of_each(joint, analysis.cells)
    bound = empirical_bernstein_upper_bound(np.zeros(max(analysis.trials, 2)), 1.0, each)
    if bound > gate.at_most:
        yield Problem(
            ("number_of_claims", "with_values", "at_most"),
            f"{analysis.trials} trials of attack_sensitivity are too few: even without any success, the upper bound of "
            f"the last try is {bound:.4g}, as {analysis.cells} bounds hold together, above {gate.at_most:g}",
        )

"""Attack 1 under other assumptions, on exactly the rows that would be published (methods#sensitivity).

It corresponds to Table 7 of El Emam et al. 2012.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import pandas as pd

from deid_assets.assessments import kernel_input
from deid_assets.assessments.assessment import CANDIDATE, HERITAGE, Adversary, Assessed, Assessment, Gate, Image, Limit, Work
from deid_assets.assessments.evidence import Estimated, Measurement, Method
from deid_assets.assessments.neighbor_attack import mean_interval
from deid_assets.figures.sensitivity_figures import sensitivity_figure
from deid_assets.methods.adversary.adversary_power import Rounding
from deid_assets.methods.adversary.adversary_power import adversary_power as power_of
from deid_assets.methods.adversary.value_diversity import ValuePairs
from deid_assets.methods.attacks.attack_sensitivity import (
    AttackSensitivity,
    Cell,
    Knows,
    cell_of,
    confidence_of_each,
    worst_cell,
)
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.methods.canaries.checks import sensitivity_of_canaries
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.population.claim_records import EvaluationRecords
from deid_assets.methods.population.released_claims import DAY, delivered_days, released_records
from deid_assets.methods.population.released_population import own_positions
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import AttackGate
from deid_assets.store.tables import Table, write_table

NAME = "attack_sensitivity"
WORST = {"unconditional": "worst_sensitivity", "given_membership": "worst_sensitivity_given_membership"}
"""Names of the gating measurements, by figure."""
WITH_VALUES = "number_of_claims_known_with_values"
"""Measurement of a neighbor who knows values and the number of claims to within the policy's bin."""
FIGURES = ("unconditional", "given_membership")


@dataclass(frozen=True)
class Variant:
    """A row of the analysis: what is known, how power is rounded (None: as in the policy), what share is wrong.

    `width` is the numbers of claims per bin, if the number is known.
    """

    name: str
    knows: Knows = "values"
    rounding: Rounding | None = None
    wrong: float = 0.0
    width: int = 1


VARIANTS = {
    "original": Variant("original"),
    "one_claim_jointly": Variant("one_claim_jointly", "claim"),
    "one_pair_ordered": Variant("one_pair_ordered", "order"),
    "year_known": Variant("year_known", "year"),
    "year_of_each_value_known": Variant("year_of_each_value_known", "dated_values"),
    "power_rounded_down": Variant("power_rounded_down", rounding="floor"),
    "power_rounded_up": Variant("power_rounded_up", rounding="ceiling"),
}


def variants_of(policy: Policy) -> tuple[Variant, ...]:
    """The rows of the analysis that a policy requires."""
    section = policy.attack_sensitivity
    number: Knows = "number" if policy.measured_number_of_claims.per == "member" else "yearly_numbers"
    return (
        *(VARIANTS[name] for name in section.variants),
        *(Variant(wrong_values(share), wrong=share) for share in section.wrong_shares),
        *(Variant(number_known(width), number, width=width) for width in section.number_of_claims_widths),
    )


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: attack 1 with more power, linked or ordered claims, known years or numbers of claims, and errors."""
    policy, section = work.policy, work.policy.attack_sensitivity
    profiles, tables = work.tables["member_profiles"], work.tables
    levels = kernel_input.chosen_levels(policy, tables["chosen_generalization"])
    tried = work.history.try_at(levels)
    released = kernel_input.original_members(tables["pseudonym_crosswalk"], tables["release_members"])
    shown = Table(profiles.file, "scratch", "sensitivity_profiles")
    members = write_table(
        shown, kernel_input.profiles_query(policy, tables["release_members"].sql, tables["release_days_in_hospital"].sql)
    )
    records = _records(policy, levels, tables, shown, released)
    before = work.history.released_before(profiles, released)
    alpha = kernel_input.sampling_fraction(policy, members + before, profiles.count())
    own = own_positions(shown, tables["pseudonym_crosswalk"])
    power = _Power(policy, profiles, tables["value_diversity"], own, members)
    attack = AttackSensitivity(records, max(section.powers))
    joint = confidence_of_try(joint_confidence(policy), tried.number)
    interval = mean_interval(confidence_of_each(joint, section.cells))

    def cells() -> Iterator[Cell]:
        variants = variants_of(policy)
        for number, variant in enumerate(variants, 1):
            started = time.monotonic()
            for most in section.powers:
                key = work.stream_key(f"{variant.name} {most}", tried.number)
                found = attack.trials(
                    variant.knows, power.of(variant, most), key, section.trials, variant.wrong, width=variant.width
                )
                yield cell_of(variant.name, most, found, alpha, interval)
            said = f"{number} of {len(variants)} variants"
            work.note(f"{said}: {variant.name.replace('_', ' ')}: {time.monotonic() - started:.1f} s")

    measured = sensitivity_measurements(policy, list(cells()), work.commitment, tried.number)
    kinds = dict.fromkeys(variant.knows for variant in variants_of(policy))
    figure = sensitivity_figure(table_rows(policy, measured), *figure_limits(policy))
    return Assessed(
        measured,
        sensitivity_of_canaries(records, kinds, work.stream_key("canaries of sensitivity")),
        tried,
        {
            "trials_per_cell": section.trials,
            "alpha": alpha,
            "table": sensitivity_table(policy, measured),
            "figure": Image(figure, "success of simulated neighbors by what they know, with that of the Heritage Health Prize"),
        },
    )


def _records(
    policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table], shown: Table, released: str
) -> EvaluationRecords:
    """The released records with what may be known of each, and in which order it happened."""
    grouped, domains, file = tables["known"], tables["value_domains"], shown.file
    names = policy.claim_names
    known = Table(file, "scratch", "sensitivity_known")
    of_columns = {column: levels[column] for column in names}
    write_table(known, generalized_claims(grouped, domains, of_columns, members=released))
    ordered, date = grouped, None
    if policy.dates is not None:
        date = policy.dates.release_as
        ordered = Table(file, "scratch", "sensitivity_days")
        write_table(ordered, delivered_days(grouped, tables["eligible_claims"]))
    return released_records(
        shown, tables["release_claims"], known, ordered, tables["pseudonym_crosswalk"], domains,
        kernel_input.member_columns(policy), names, levels.get(DAY), date,
    )  # fmt: skip


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

    method = Method(NAME, "methods#sensitivity; El Emam et al. 2012, Table 7", commitment)
    confidence = confidence_of_try(joint_confidence(policy), number)

    def measured(name: str, found: Estimate, gate: AttackGate | None, trials: int) -> Measurement:
        return method.judged(name, "probability", Estimated(found.value, found.high, confidence, trials), gate)

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


def sensitivity_table(policy: Policy, measured: Sequence[Measurement]) -> pd.DataFrame:
    """The analysis as a table: value and joint upper bound of each figure, by row and power."""
    rows = [
        (row, power, *found["unconditional"], *found["given_membership"]) for row, power, found in table_rows(policy, measured)
    ]
    columns = ["known", "power", "unconditional", "its bound", "given membership", "its bound "]
    return pd.DataFrame(rows, columns=columns)


def figure_limits(policy: Policy) -> tuple[float | None, float | None]:
    """The thresholds shown in the figure: unconditional, and given membership."""
    gates = policy.attack_sensitivity.gates
    one, other = (gates[figure].at_most if figure in gates else None for figure in ("unconditional", "given_membership"))
    return one, other


class _Power:
    """p of each released member, for any greatest power and rounding; the year is the last quasi-identifier."""

    def __init__(self, policy: Policy, profiles: Table, diversity: Table, own: str, released: int):
        self._default, self._released = policy.adversary.rounding, released
        # As for adversary_power: the largest ratio is over the whole sample, including suppressed members.
        self._rows = [
            profiles.arrays(
                f"SELECT p.claims, v.n_values, v.differing_pairs FROM {diversity.sql} AS v "
                f"""JOIN {profiles.sql} AS p USING (member_id)
                    LEFT JOIN {own} AS o USING (member_id) WHERE v.quasi_identifier = ?
                    ORDER BY o.position NULLS LAST, member_id""",
                [column],
            )
            for column in (*kernel_input.claim_columns(policy), "year")
        ]

    def of(self, variant: Variant, most: int) -> list[np.ndarray]:
        rows = self._rows if variant.knows == "year" else self._rows[:-1]
        return [
            power_of(
                np.asarray(own["claims"]),
                ValuePairs.of_values(own["differing_pairs"], own["n_values"]),
                most,
                variant.rounding or self._default,
            )[: self._released]
            for own in rows
        ]


def _limit(policy: Policy, gate: AttackGate | None) -> Limit | None:
    return None if gate is None else Limit(gate.at_most, joint_confidence(policy))


_ADVERSARY = Adversary(
    "Stronger and weaker neighbors: they know more values, which values belong to one claim, their order, the year, the "
    "number of claims; or they are mistaken.",
    "Assumptions about knowledge are uncertain; the dossier must say what happens when they do not hold.",
    f"{HERITAGE}, Table 7, reports such attacks without a threshold",
)

ATTACK_SENSITIVITY = Assessment(
    NAME,
    adversary=_ADVERSARY,
    version="7",
    policy_sections=("attack_sensitivity", "adversary", "dates", "number_of_claims"),
    inputs=(
        "member_profiles", "eligible_claims", "known", "value_domains", "value_diversity", "pseudonym_crosswalk",
        "chosen_generalization", *CANDIDATE,
    ),
    measure=assess,
    draws="judged",
    gates=(
        Gate(
            WORST["unconditional"],
            "worst_sensitivity_within_threshold",
            "Under the worst plausible assumption, a neighbor of any member succeeds with at most the allowed probability.",
            "Probability that a neighbor succeeds under the worst plausible assumption.",
            lambda policy: _limit(policy, policy.attack_sensitivity.gates.get("unconditional")),
            disclosed=None,
        ),
        Gate(
            WORST["given_membership"],
            "worst_sensitivity_given_membership_within_threshold",
            "Under the worst plausible assumption, a neighbor who knows that the target is in the release succeeds with at "
            "most the allowed probability.",
            "Probability that a neighbor succeeds under the worst plausible assumption, knowing that the record is in the "
            "release.",
            lambda policy: _limit(policy, policy.attack_sensitivity.gates.get("given_membership")),
        ),
        Gate(
            WITH_VALUES,
            "number_of_claims_known_with_values_within_threshold",
            "A neighbor who knows values of claims, the number of claims to within a bin, and that the target is in the "
            "release succeeds with at most the allowed probability.",
            "Probability that a neighbor succeeds who knows values, the number of claims to within a bin, and that the record "
            "is in the release.",
            lambda policy: _limit(policy, policy.measured_number_of_claims.with_values),
        ),
    ),
)  # fmt: skip

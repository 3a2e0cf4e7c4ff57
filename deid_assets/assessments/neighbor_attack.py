"""Attack 1: a nosey neighbor who knows demographics and some claims of one person (methods#attack-1).

Its sensitivity is the same attack under other assumptions, on exactly the rows that would be published
(methods#sensitivity). It corresponds to Table 7 of El Emam et al. 2012.

Members published elsewhere in the meantime count. The assessments measured alpha times the success given membership, with
alpha at that time. Success given membership depends only on the staged rows, but alpha changes, so the gate multiplies
again.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Protocol

import numpy as np
import pandas as pd

from deid_assets.assessments import kernel_input
from deid_assets.assessments.absence import ABSENCE_FACTOR, ABSENCE_POSTERIOR
from deid_assets.assessments.assessment import HERITAGE, Adversary, Assessed, Assessment, Gate, Image, Limit, Work
from deid_assets.assessments.earlier_releases import because_of
from deid_assets.assessments.evidence import Estimated, Evidence, Measurement, Method, Refusal
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.figures.sensitivity_figures import sensitivity_figure
from deid_assets.methods.adversary.adversary_power import Rounding, ValuePairs, power_of
from deid_assets.methods.attacks import attack_sensitivity
from deid_assets.methods.attacks.neighbor_attack import (
    Estimate,
    MeanInterval,
    NeighborAttackResult,
    neighbor_attack,
    success_given_membership,
)
from deid_assets.methods.canaries.checks import neighbors_of_canaries, sensitivity_of_canaries
from deid_assets.methods.candidate.released_tables import generalized_claims
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.population.claim_records import EvaluationRecords
from deid_assets.methods.population.longitudinal_data import EVERYTHING, LongitudinalData
from deid_assets.methods.population.released_population import (
    DAY,
    ReleasedTables,
    delivered_days,
    own_positions,
    released_data,
    released_records,
)
from deid_assets.methods.statistics.confidence import (
    clopper_pearson_interval,
    confidence_of_try,
    empirical_bernstein_upper_bound,
)
from deid_assets.methods.statistics.streams import generator_of
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import DATE_COLUMNS, AttackGate
from deid_assets.policy.sections.sensitivity import OF_CLAIMS, OF_LISTED, NumberOfClaims
from deid_assets.store.tables import Table, write_table

NAME = "neighbor_attack"
UNCONDITIONAL, GIVEN_MEMBERSHIP = "neighbor_success", "neighbor_success_given_membership"
EVERYTHING_KNOWN = "everything_known_neighbor_success_given_membership"
"""Measurement of a neighbor who knows everything, where the policy's knows less; reported."""


def assess(work: Work[Policy]) -> Assessed:
    """Evidence: success of simulated nosey neighbors on the release, for any member and given membership."""
    policy, profiles, candidate = work.policy, work.tables["member_profiles"], Candidate.of(work.policy, work.tables)
    tried = work.history.try_at(candidate.levels)
    shown, data = attacked_release(candidate)
    before = work.history.released_before(profiles, candidate.originals)
    alpha = kernel_input.sampling_fraction(policy, shown.count() + before, profiles.count())
    trials = policy.neighbor_attack.trials
    neighbors, picks = (work.stream_key(purpose, tried.number) for purpose in ("neighbors", "membership and pick"))
    classes = NodeComputation(data, (), k=1).drawn_classes((), neighbors, trials)
    uniform = generator_of(picks)
    confidence = confidence_of_try(attack_confidence(policy), tried.number)
    attack = neighbor_attack(
        ~classes.exempt,
        classes.sizes,
        alpha,
        uniform.random(trials),
        uniform.random(trials),
        mean_interval(confidence),
        lambda hits, of: clopper_pearson_interval(hits, of, 2 * confidence - 1),
    )
    measured = neighbor_measurements(policy, attack, work.commitment, tried.number)
    if policy.adversary.knows_less:
        everything = NodeComputation(data.known_as(EVERYTHING), (), k=1).drawn_classes((), neighbors, trials)
        success = success_given_membership(~everything.exempt, everything.sizes)
        bound = mean_interval(confidence)(success)[1]
        method = Method(NAME, "methods#knowing-less", work.commitment)
        known = Estimated(float(success.mean()), bound, confidence, trials)
        measured += (method.judged(EVERYTHING_KNOWN, "probability", known, None),)
    figure = neighbor_attack_figure([(found.name, found.value, found.bound, found.threshold) for found in measured])
    return Assessed(
        measured,
        neighbors_of_canaries(data, work.stream_key("canaries of neighbors")),
        tried,
        {"trials": trials, "attack": Image(figure, "success of simulated neighbors with bounds and thresholds")},
    )


def attacked_release(candidate: Candidate) -> tuple[Table, LongitudinalData]:
    """Read the release as its own population, with what neighbors may know.

    Returns
    -------
    tuple
        MemberID and the released member-level columns; and the data, whose members are in the order of MemberID.
    """
    tables = released_tables(candidate)
    data = released_data(tables, candidate.tables["adversary_power"])
    return tables.profiles, data.known_as(kernel_input.knows_of(candidate.policy))


def released_tables(candidate: Candidate) -> ReleasedTables:
    """The release, and the claims that may be known of its members, at the levels of the release."""
    policy, tables = candidate.policy, candidate.tables
    shown, known = candidate.scratch("released_profiles"), candidate.scratch("known_claims")
    write_table(shown, candidate.shown_profiles)
    of_members = candidate.originals
    write_table(known, generalized_claims(tables["known"], tables["value_domains"], candidate.claim_levels, members=of_members))
    crosswalk, columns = tables["pseudonym_crosswalk"], policy.member_columns
    return ReleasedTables(shown, tables["release_claims"], known, crosswalk, columns, policy.claim_names)


def neighbor_measurements(
    policy: Policy, attack: NeighborAttackResult, commitment: str, number: int
) -> tuple[Measurement, ...]:
    """The success of simulated nosey neighbors, over all members and given that the target is in the release.

    `number` is that of the try for which `attack` has its bounds.
    """
    gates = policy.neighbor_attack
    method = Method(NAME, "methods#attack-1; El Emam et al. 2012", commitment)
    confidence = confidence_of_try(attack_confidence(policy), number)
    return tuple(
        method.judged(name, "probability", Estimated(found.value, found.high, confidence, attack.trials), gate)
        for name, found, gate in (
            (UNCONDITIONAL, attack.unconditional, gates.unconditional),
            (GIVEN_MEMBERSHIP, attack.given_membership, gates.given_membership),
            ("neighbor_success_literal", attack.literal, None),
        )
    )


def attack_confidence(policy: Policy) -> float:
    """Confidence of attack 1's bounds over all tries: the highest that one of its gates requires."""
    gates = (policy.neighbor_attack.unconditional, policy.neighbor_attack.given_membership)
    return max((gate.confidence for gate in gates if gate is not None), default=0.99)


def mean_interval(confidence: float) -> MeanInterval:
    """Return a function that bounds a mean of values in [0, 1] on both sides (empirical Bernstein, each at `confidence`)."""

    def interval(values: np.ndarray) -> tuple[float, float]:
        high = min(1.0, empirical_bernstein_upper_bound(values, 1.0, confidence))
        low = max(0.0, 1.0 - empirical_bernstein_upper_bound(1.0 - values, 1.0, confidence))
        return low, high

    return interval


NEIGHBOR_ATTACK = Assessment(
    NAME,
    adversary=Adversary(
        "The same neighbor, who picks a record that fits: without knowing that the person is in the release, and knowing it.",
        "The attack that the article simulates; knowing that a person is in the release is the worst case for that person.",
        f"{HERITAGE}, attack 1: accepts .05",
    ),
    version="3",
    policy_sections=("neighbor_attack", "adversary"),
    inputs=(
        "member_profiles", "known", "value_domains", "adversary_power", "pseudonym_crosswalk",
        "chosen_generalization", *CANDIDATE,
    ),
    measure=assess,
    draws="judged",
    gates=(
        Gate(
            UNCONDITIONAL,
            "neighbor_attack_risk_within_threshold",
            "A simulated nosey neighbor of any member succeeds with at most the allowed probability (attack 1).",
            "Probability that a simulated neighbor picks the right record, without knowing that it is in the release.",
            lambda policy: Limit.of(policy.neighbor_attack.unconditional, attack_confidence(policy)),
            disclosed=None,
        ),
        Gate(
            GIVEN_MEMBERSHIP,
            "neighbor_attack_given_membership_within_threshold",
            "A simulated nosey neighbor who knows that the target is in the release succeeds with at most the allowed "
            "probability (attack 1).",
            "Probability that a simulated neighbor picks the right record, knowing that it is in the release (prosecutor "
            "risk).",
            lambda policy: Limit.of(policy.neighbor_attack.given_membership, attack_confidence(policy)),
        ),
    ),
)  # fmt: skip


SENSITIVITY = "attack_sensitivity"
WORST = {"unconditional": "worst_sensitivity", "given_membership": "worst_sensitivity_given_membership"}
"""Names of the gating measurements, by figure."""
FIGURES = tuple(WORST)


def number_known(section: NumberOfClaims, width: int) -> str:
    """Name of the row in which the numbers of events that a policy lists are known to within a bin of `width` numbers.

    Examples
    --------
    >>> fills = NumberOfClaims(of=("fills",), per="member", reference={})
    >>> number_known(fills, 1), number_known(fills, 5)
    ('numbers_of_events_known', 'numbers_of_events_known_within_5')
    """
    return f"{section.named}_known" + (f"_within_{width}" if width > 1 else "")


def with_values(section: NumberOfClaims) -> str:
    """Name of the measurement of who knows values, and the numbers that a policy lists to within its bins: one of these."""
    return f"{section.named}_known_with_values"


WITH_VALUES, LISTED_WITH_VALUES = (f"{named}_known_with_values" for named in (OF_CLAIMS, OF_LISTED))


@dataclass(frozen=True)
class Variant:
    """A row of the analysis: what is known, how power is rounded (None: as in the policy), what share is wrong.

    `width` is the numbers of events per bin, if numbers are known.
    """

    name: str
    knows: attack_sensitivity.Knows = "values"
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
    listed = policy.measured_number_of_claims
    number: attack_sensitivity.Knows = "number" if listed.per == "member" else "yearly_numbers"
    return (
        *(VARIANTS[name] for name in section.variants),
        *(Variant(wrong_values(share), wrong=share) for share in section.wrong_shares),
        *(Variant(number_known(listed, width), number, width=width) for width in section.number_of_claims_widths),
    )


def assess_sensitivity(work: Work[Policy]) -> Assessed:
    """Evidence: attack 1 with more power, linked or ordered claims, known years or numbers of events, and errors."""
    policy, section = work.policy, work.policy.attack_sensitivity
    profiles, candidate = work.tables["member_profiles"], Candidate.of(policy, work.tables)
    tried = work.history.try_at(candidate.levels)
    tables = released_tables(candidate)
    members, records = tables.profiles.count(), _records(candidate, tables)
    before = work.history.released_before(profiles, candidate.originals)
    alpha = kernel_input.sampling_fraction(policy, members + before, profiles.count())
    own = own_positions(tables.profiles, tables.crosswalk)
    power = _Power(policy, profiles, work.tables["value_diversity"], own, members)
    joint = confidence_of_try(joint_confidence(policy), tried.number)
    interval = mean_interval(attack_sensitivity.confidence_of_each(joint, section.cells))

    tables_known = _tables_known_jointly(policy)
    kinds = dict.fromkeys(variant.knows for variant in variants_of(policy))
    canaries = sensitivity_of_canaries(records, kinds, work.stream_key("canaries of sensitivity"), jointly=tables_known)

    @lru_cache(maxsize=1)  # what one kind of knowledge is looked up in takes memory, and is of little use to the next
    def attack_of(knows: attack_sensitivity.Knows) -> attack_sensitivity.SensitivityAnalysis:
        return attack_sensitivity.SensitivityAnalysis(records, max(section.powers))

    def cells() -> Iterator[attack_sensitivity.Cell]:
        variants = variants_of(policy)
        for number, variant in enumerate(variants, 1):
            started = time.monotonic()
            for most in section.powers:
                key = work.stream_key(f"{variant.name} {most}", tried.number)
                # A row of one table of events is known jointly: of the table that tells most.
                jointly = tables_known if variant.knows == "claim" else (None,)
                own, trials = power.of(variant, most), attack_of(variant.knows).trials
                found = max(
                    [
                        trials(variant.knows, own, key, section.trials, variant.wrong, None, variant.width, joint)
                        for joint in jointly
                    ],
                    key=lambda trials: float(trials.success.mean()),
                )
                yield attack_sensitivity.cell_of(variant.name, most, found, alpha, interval)
            said = f"{number} of {len(variants)} variants"
            work.note(f"{said}: {variant.name.replace('_', ' ')}: {time.monotonic() - started:.1f} s")

    measured = sensitivity_measurements(policy, list(cells()), work.commitment, tried.number)
    figure = sensitivity_figure(table_rows(policy, measured), *figure_limits(policy))
    return Assessed(
        measured,
        canaries,
        tried,
        {
            "trials_per_cell": section.trials,
            "alpha": alpha,
            "table": sensitivity_table(policy, measured),
            "figure": Image(figure, "success of simulated neighbors by what they know, with that of the Heritage Health Prize"),
        },
    )


def _tables_known_jointly(policy: Policy) -> tuple[list[int] | None, ...]:
    """The places of the quasi-identifiers of each table of events; None where there is one table."""
    if not policy.has_other_events:
        return (None,)
    columns = list(policy.claim_names)
    own = ([columns.index(column) for column in policy.claim_columns_of(table)] for table in policy.event_tables)
    return tuple([place for place in places if columns[place] not in DATE_COLUMNS] for places in own)


def _records(candidate: Candidate, tables: ReleasedTables) -> EvaluationRecords:
    """The released records with what may be known of each, and in which order it happened."""
    dates, ordered, date = candidate.policy.dates, candidate.tables["known"], None
    if dates is not None:
        date, days = dates.release_as, delivered_days(ordered, candidate.tables["eligible_claims"])
        ordered = candidate.write("sensitivity_days", days)
    counted = candidate.policy.measured_number_of_claims.of
    return released_records(tables, ordered, candidate.tables["value_domains"], candidate.levels.get(DAY), date, counted)


def wrong_values(share: float) -> str:
    """Name of the row in which a share of the known values is wrong.

    Examples
    --------
    >>> wrong_values(0.05), wrong_values(0.125)
    ('wrong_values_5_percent', 'wrong_values_12_5_percent')
    """
    return f"wrong_values_{100 * share:.6g}_percent".replace(".", "_")


def analysis_rows(policy: Policy) -> tuple[str, ...]:
    """Names of the rows of the analysis, in order."""
    return tuple(variant.name for variant in variants_of(policy))


def cell_name(variant: str, power: int, figure: str) -> str:
    """Name of a cell's measurement."""
    return f"{variant}_power_{power}_{figure}"


def joint_confidence(policy: Policy) -> float:
    """Confidence at which the bounds of all cells hold jointly, over all tries: the highest that a gate requires."""
    gate = policy.measured_number_of_claims.with_values
    return max(policy.attack_sensitivity.confidence, gate.confidence if gate else 0.0)


def sensitivity_measurements(
    policy: Policy, cells: Sequence[attack_sensitivity.Cell], commitment: str, number: int
) -> tuple[Measurement, ...]:
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
    wanted = {(row, power) for row in analysis_rows(policy) for power in section.powers}
    if {(cell.variant, cell.power) for cell in cells} != wanted:
        raise ValueError("the cells measured are not those that the policy names")
    worst, known = attack_sensitivity.worst_cell(plausible), policy.measured_number_of_claims
    row = number_known(known, known.width)
    numbered = attack_sensitivity.worst_cell(
        [cell for cell in cells if cell.variant == row and cell.power in section.plausible.powers]
    )

    method = Method(SENSITIVITY, "methods#sensitivity; El Emam et al. 2012, Table 7", commitment)
    confidence = confidence_of_try(joint_confidence(policy), number)

    def measured(name: str, found: Estimate, gate: AttackGate | None, trials: int) -> Measurement:
        return method.judged(name, "probability", Estimated(found.value, found.high, confidence, trials), gate)

    return (
        *(measured(WORST[figure], worst[figure], section.gates.get(figure), section.trials) for figure in FIGURES),
        measured(with_values(known), numbered["given_membership"], known.with_values, section.trials),
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
    for row in analysis_rows(policy):
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
    one, other = (gates[figure].at_most if figure in gates else None for figure in FIGURES)
    return one, other


class _Power:
    """p of each released member, for any greatest power and rounding; the year is the last quasi-identifier."""

    def __init__(self, policy: Policy, profiles: Table, diversity: Table, own: str, released: int):
        self._default, self._released = policy.adversary.rounding, released
        # As for adversary_power: the largest ratio is over the whole sample, including suppressed members.
        self._rows = [
            profiles.arrays(
                f"SELECT {' + '.join(policy.numbers_of_events(column))} AS claims, v.n_values, v.differing_pairs"
                f" FROM {diversity.sql} AS v "
                f"""JOIN {profiles.sql} AS p USING (member_id)
                    LEFT JOIN {own} AS o USING (member_id) WHERE v.quasi_identifier = ?
                    ORDER BY o.position NULLS LAST, member_id""",
                [column],
            )
            for column in (*policy.claim_names, "year")
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


def _of_numbers(name: str, values: str, numbers: str) -> Gate[Policy]:
    """The gate of who knows values and numbers of events, in words, of policies whose numbers are measured under this name."""
    return Gate(
        name,
        f"{name}_within_threshold",
        f"A neighbor who knows {values}, {numbers} to within a bin, and that the target is in the release succeeds with at "
        "most the allowed probability.",
        f"Probability that a neighbor succeeds who knows values, {numbers} to within a bin, and that the record is in the "
        "release.",
        lambda policy: Limit.of(policy.measured_number_of_claims.with_values, joint_confidence(policy)),
        applies=lambda policy: with_values(policy.measured_number_of_claims) == name,
    )


ATTACK_SENSITIVITY = Assessment(
    SENSITIVITY,
    adversary=Adversary(
        "Stronger and weaker neighbors: they know more values, which values belong to one claim, their order, the year, the "
        "number of claims; or they are mistaken.",
        "Assumptions about knowledge are uncertain; the dossier must say what happens when they do not hold.",
        f"{HERITAGE}, Table 7, reports such attacks without a threshold",
    ),
    version="8",
    policy_sections=("attack_sensitivity", "adversary", "dates", "number_of_claims"),
    inputs=(
        "member_profiles", "eligible_claims", "known", "value_domains", "value_diversity", "pseudonym_crosswalk",
        "chosen_generalization", *CANDIDATE,
    ),
    measure=assess_sensitivity,
    draws="judged",
    gates=(
        Gate(
            WORST["unconditional"],
            "worst_sensitivity_within_threshold",
            "Under the worst plausible assumption, a neighbor of any member succeeds with at most the allowed probability.",
            "Probability that a neighbor succeeds under the worst plausible assumption.",
            lambda policy: Limit.of(policy.attack_sensitivity.gates.get("unconditional"), joint_confidence(policy)),
            disclosed=None,
        ),
        Gate(
            WORST["given_membership"],
            "worst_sensitivity_given_membership_within_threshold",
            "Under the worst plausible assumption, a neighbor who knows that the target is in the release succeeds with at "
            "most the allowed probability.",
            "Probability that a neighbor succeeds under the worst plausible assumption, knowing that the record is in the "
            "release.",
            lambda policy: Limit.of(policy.attack_sensitivity.gates.get("given_membership"), joint_confidence(policy)),
        ),
        _of_numbers(WITH_VALUES, "values of claims", "the number of claims"),
        _of_numbers(LISTED_WITH_VALUES, "values", "the numbers of the events that number_of_claims lists"),
    ),
)  # fmt: skip


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

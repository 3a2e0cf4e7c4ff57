"""Ranges of the numbers that decide: beyond them, a gate could not refuse what it exists to refuse.

A field's type says which numbers are possible: a share is between 0 and 1. That is not enough: at .999 a gate compares
and passes everything. So every number that decides has a range here, with a reason. They all follow one rule: each gate
alone must refuse a release that discloses half its members (`assessments/registry.py` compares the gate's own
numbers with such a release), and no limit is laxer than those used in the literature or in practice.

Thresholds in use range from .05 to .33, class sizes from 20 to 3: El Emam & Arbuckle, Anonymizing Health Data (2013),
ch. 2. EMA Policy 0070 and Health Canada require .09.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pydantic import BaseModel

from deid_assets.policy.problems import Problem

THIRD = Fraction(1, 3)

_THRESHOLD = "thresholds in use run from .05 to .33, classes of 20 to 3; above that a class of two, or of one, would be safe"
_SUCCESS = "thresholds in use run from .05 to .33; an attack that finds more than one in three is not prevented"
_MAX_SUP = "shares in use run from .01 to .1; a larger one lets members through whom everybody can single out"
_CLASS = "classes in use have 3 to 20 members; in a class of two each member knows the other"
_READ = "where less than half can be read the rule misses more than it finds; switch it off instead"
_FOUND = "so few are found by chance where hardly a code can be read; say null if the list may match nothing"
_CODED = "where so few claims have a code the rule finds next to nothing; say null if there may be none"


@dataclass(frozen=True)
class NumberRange:
    """The range of one number of a policy.

    Attributes
    ----------
    field
        Its path: keys from the top, joined by dots.
    least, most
        Smallest and largest allowed value; None: the field's type bounds it.
    reason
        Why, as stated in the refusal.
    """

    field: str
    reason: str
    least: float | Fraction | None = None
    most: float | Fraction | None = None

    def problem(self, value: float) -> str | None:
        """What is wrong with a value; None if it is in the range."""
        if self.most is not None and value > self.most:
            return f"{value:.12g} is not allowed: it must be at most {float(self.most):.4g}: {self.reason}"
        if self.least is not None and value < self.least:
            return f"{value:.12g} is not allowed: it must be at least {float(self.least):.4g}: {self.reason}"
        return None


def _gate(field: str) -> tuple[NumberRange, ...]:
    return (
        NumberRange(f"{field}.at_most", _SUCCESS, most=THIRD),
        NumberRange(f"{field}.confidence", "a bound that holds less often than nine times in ten bounds little", least=0.9),
    )


def _attack(section: str) -> tuple[NumberRange, ...]:
    return _gate(f"{section}.unconditional") + _gate(f"{section}.given_membership")


_DISCLOSURE = (
    NumberRange(
        "attribute_disclosure.homogeneous_share_at_most",
        "the class would disclose the attribute of more than one member in three",
        most=THIRD,
    ),
    NumberRange(
        "attribute_disclosure.l_at_least",
        "l is 1 where a class discloses the attribute of everybody in it, and below 1.5 where it nearly does",
        least=1.5,
    ),
    NumberRange(
        "attribute_disclosure.t_at_most",
        "classes of one member have distances of .5 and more, so a larger limit could not fail",
        most=0.4999,
    ),
)

_NOISE = (
    NumberRange("counts.sd", "noise in use has 1.33 people and more (Klann et al. 2018)", least=1.33),
    NumberRange(
        "counts.budget.rho", "beyond it, anybody's presence could be told for certain from the counts alone", most=100.0
    ),
    NumberRange(
        "counts.budget.epsilon", "beyond it, anybody's presence could be told for certain from the counts alone", most=170.0
    ),
    NumberRange("counts.budget.delta", "with so large a delta, counts of everybody would count as private", most=1e-3),
    NumberRange("counts.masking.threshold", "counts of 1 to 10 are hidden in practice, and counts of 1 and 2 always", least=3),
    NumberRange("counts.masking.values", "a count with two possible values is nearly known", least=3),
)

_RECURRING = NumberRange("releases.recurring_at_most", "a release of which more rows recur is of the same people", most=0.5)

LONGITUDINAL = (
    _RECURRING,
    NumberRange("intake.quarantine_at_most", "a delivery with more unusable rows is not the one that was asked for", most=0.2),
    NumberRange(
        "removal.absence_factor_at_most",
        "beyond it, more than half of the eligible members of a class may be released, and absence more than doubles the odds",
        most=2.0,
    ),
    NumberRange(
        "removal.absence_posterior_at_most",
        "beyond one half, an absent member is more likely than not to have a sensitive condition",
        most=0.5,
    ),
    NumberRange(
        "removal.disappearance_posterior_at_most",
        "beyond one half, a member who is missing is more likely than not to have a new sensitive condition",
        most=0.5,
    ),
    NumberRange("removal.readable_codes_at_least", _READ, least=0.5),
    NumberRange("removal.sensitive_members_at_least", _FOUND, least=0.0001),
    NumberRange("removal.rare_visible_members_at_least", _FOUND, least=0.00001),
    NumberRange("removal.known_newborn_claims_at_least", _READ, least=0.5),
    NumberRange("removal.coded_claims_at_least.diagnosis", _CODED, least=0.1),
    NumberRange("removal.coded_claims_at_least.procedure", _CODED, least=0.1),
    NumberRange("removal.coded_claims_at_least.place", _CODED, least=0.1),
    NumberRange("top_coding.percentile", "beyond it, hardly any value would be top-coded", most=99.9),
    NumberRange("long_tail.percentile", "beyond it, hardly any claim would be cut", most=99.9),
    NumberRange("long_tail.risk", _THRESHOLD, most=THIRD),
    NumberRange("dates.narrower.class_size_at_least", _CLASS, least=3),
    NumberRange("dates.ordered_services_at_most", _SUCCESS, most=THIRD),
    NumberRange("risk.threshold", _THRESHOLD, most=THIRD),
    NumberRange("risk.max_high_risk_share", _MAX_SUP, most=0.1),
    NumberRange("risk.worst_class_share_at_most", _SUCCESS, most=THIRD),
    NumberRange("risk.gate.confidence", "a bound that holds less often than nine times in ten bounds little", least=0.9),
    NumberRange("risk.suppression.at_most", "the rest would no longer be a random sample of the members", most=0.5),
    *_attack("neighbor_attack"),
    *_attack("attack_sensitivity"),
    NumberRange("voter_list_attack.at_most", _SUCCESS, most=THIRD),
    NumberRange("inpatient_attack.at_most", _SUCCESS, most=THIRD),
    NumberRange("demographics.class_size_at_least", _CLASS, least=3),
    NumberRange(
        "number_of_claims.width",
        "the book assumes that the number is known to within five; with wider bins the gate equals that of demographics alone",
        most=50,
    ),
    *_gate("number_of_claims.with_values"),
    NumberRange("provider_suppression.providers_at_least", _CLASS, least=3),
    NumberRange("population_estimates.small_class_share_at_most", _MAX_SUP, most=0.1),
    NumberRange("population_estimates.unique_share_at_most", _MAX_SUP, most=0.1),
    *_DISCLOSURE,
    NumberRange("membership.presence_at_most", "beyond it an adversary is nearly certain who is in the release", most=0.9),
    NumberRange(
        "membership.advantage_at_most",
        "beyond it an adversary mostly infers correctly who is in the release",
        most=THIRD,
    ),
    NumberRange("provider_graph.pattern_success_at_most", _SUCCESS, most=THIRD),
    NumberRange("provider_graph.all_patterns_success_at_most", _SUCCESS, most=THIRD),
    NumberRange("provider_graph.graph_success_at_most", _SUCCESS, most=THIRD),
    NumberRange(
        "inference.gain.at_most",
        "where two codes are equally frequent, a release that gives away the code of half the members has a gain of .25",
        most=0.2499,
    ),
    NumberRange("inference.gain.confidence", "a bound that holds less often than nine times in ten bounds little", least=0.9),
    NumberRange("inference.members_in_group", "larger groups would hide a channel among groups without one", most=1_000),
    NumberRange("inference.codes_at_most", "a channel that gives away rarer codes would be missed", least=64),
    *_NOISE,
)

FLAT = (
    _RECURRING,
    NumberRange("intake.quarantine_at_most", "a delivery with more unusable rows is not the one that was asked for", most=0.2),
    NumberRange("risk.k", _CLASS, least=3),
    NumberRange("risk.max_suppressed", "the rest would no longer be the table that was delivered", most=0.2),
    *_DISCLOSURE,
    *_NOISE,
)

COHORT = (
    _RECURRING,
    NumberRange("releases.differing_at_least", "in a group of two each member knows the other", least=3),
    NumberRange("releases.standing_out_at_most", "the rest would no longer be the cohort that was measured", most=0.2),
    NumberRange("intake.quarantine_at_most", "a delivery with more unusable rows is not the one that was asked for", most=0.2),
    NumberRange(
        "risk.exponent",
        "above, only people who are alone in their class would count; below, people in large classes as much as in small ones",
        least=0.5,
        most=3.0,
    ),
    NumberRange("risk.crowded_at_most", "the table would not be that of the cohort's population", most=0.2),
    NumberRange("risk.largest_at_most", _THRESHOLD, most=THIRD),
    *_NOISE,
)

NO_LIMIT = {
    "risk.suppression.values_at_most": "read for earlier versions only: above 0, nothing is run",
    "adversary.power": "who knows one value of each quasi-identifier is an adversary; the type bounds it",
    "approval.within_days": "how long a judgement may wait for a person; the type bounds it to a year",
    "attack_sensitivity.plausible.powers": "as adversary.power",
    "attack_sensitivity.powers": "as adversary.power",
    "attack_sensitivity.trials": "too few for a gate are refused, whatever the gate",
    "attack_sensitivity.number_of_claims_widths": "further rows of an analysis; they gate nothing",
    "attack_sensitivity.wrong_shares": "further rows of an analysis; they gate nothing",
    "counts.claims_per_member": "the noise of a count of claims is as many times wider",
    "counts.lockout": "judged together with the width of the noise",
    "detail_at_least": "it asks for use, not for privacy: the type bounds it, and more only refuses more",
    "columns.date.dated": "a statement about the population, which the report shows; the type bounds it",
    "dates.narrower.width": "measured as what an adversary knows; the risk decides",
    "dates.width": "measured as what an adversary knows; the risk decides",
    "inference.folds": "how many members teach; with two, half of them",
    "inference.members_at_most": "fewer members widen the bounds, which only refuses more",
    "inpatient_attack.table.people_at_most": "a statement about the table, compared with it",
    "inpatient_attack.table.year.top": "how a table is read",
    "inpatient_attack.table.year.width": "how a table is read",
    "long_tail.cap": "bins are held to risk, with or without it",
    "long_tail.width": "bins are held to risk, of whatever width",
    "membership.draws": "it measures; nothing that is drawn gates",
    "neighbor_attack.trials": "too few for a gate are refused",
    "opt_outs.matched_at_least": "0 asks for no match, as a list of everywhere needs; it has to be written",
    "population.race_shares.year": "how a table is read",
    "provider_graph.draws": "the number of adversaries who are simulated",
    "provider_graph.patterns_known": "the adversary's knowledge; more is worse for the release",
    "removal.newborn_days": "0 is the day of birth, null switches the rule off",
    "risk.thresholds": "the release and Safe Harbor are compared at the same thresholds",
    "risk.gate.draws": "too few are refused",
    "risk.population_size": "a statement about the delivery, which must not have more members; alpha is judged with it",
    "risk.search.aim": "it chooses a node; the gate judges it",
    "risk.search.draws_at_most": "it chooses a node; the gate judges it",
    "risk.search.enough": "it chooses a node; the gate judges it",
    "risk.search.error": "it chooses a node; the gate judges it",
    "rotation": "the limit on disappearance is judged with it; a larger one discloses less, and only loses members",
    "sample.fraction": "gates are measured on what it gives; the type bounds it",
    "sample.members": "gates are measured on what it gives",
    "source.records_per_person": "the noise of a count of records is as many times wider, and risk.k must be larger",
    "source.members.gaps_at_most": "how spans are read; only what is derived of enrolment depends on it",
    "source.claims.conflicts_at_most": "how lines are read; no code of them is lost, whichever line decides",
    "source.years.first": "how a table is read",
    "source.years.last": "how a table is read",
    "utility.association_change_at_most": "it asks for use, not for privacy: the type bounds it, and less only refuses more",
    "utility.distance_at_most": "as utility.association_change_at_most",
    "utility.folds": "how predictions are measured; the type bounds it",
    "utility.members_at_most": "how predictions are measured; the type bounds it",
    "utility.members_lost_at_most": "as utility.association_change_at_most",
    "utility.resamples": "how predictions are measured; the type bounds it",
    "utility.score_loss_at_most": "as utility.association_change_at_most",
    "voter_list_attack.table.people_at_most": "a statement about the table, compared with it",
}
"""Numbers without a range of their own, each with the reason why it needs none."""


def limits_of(policy: BaseModel) -> tuple[NumberRange, ...]:
    """The ranges for a policy's family."""
    return limits_of_kind(getattr(policy, "kind", None))


def limits_of_kind(kind: str | None) -> tuple[NumberRange, ...]:
    """The ranges for a kind of policy, as its text states it."""
    return {"flat": FLAT, "cohort": COHORT}.get(kind or "", LONGITUDINAL)


def limit_problems(policy: BaseModel) -> Iterator[Problem]:
    """Yield a problem for each number of a policy outside its range; null or missing numbers are not checked."""
    for limit in limits_of(policy):
        path = tuple(limit.field.split("."))
        value = value_at(policy, path)
        if value is not None and (message := limit.problem(value)):
            yield Problem(path, message)


def value_at(policy: BaseModel, path: tuple[str, ...]) -> float | None:
    """The number at a path; None if it, or a section on the way, is null."""
    value: object = policy
    for part in path:
        value = getattr(value, part, None)
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError(f"{'.'.join(path)} is no number, so that its range cannot be checked")

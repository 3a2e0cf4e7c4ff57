"""What the rules of a policy need from a delivery, and whether the delivery has it.

A rule that cannot apply protects nobody: a list of sensitive codes removes nobody if the codes cannot be read. So each
rule states its needs here. They are measured in the delivery (`methods/preparation/rule_figures.py`) before anybody is
drawn for a release, and again at the gate. An unmet need refuses the delivery; the policy states explicitly what a
delivery may lack.

Only rules that protect released people have needs. A rule that coarsens or caps the values of a column (top codes,
hierarchies, suppressed providers, redrawn dates) has none: where the column is blank, a blank is published, and an
attack that finds nothing to measure is refused by its gate.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import scipy

from deid_assets.methods.preparation.rule_figures import (
    AGE_AND_SEX,
    NEWBORN,
    OF_ICD9,
    OF_SYSTEM,
    POPULATION,
    RARE_VISIBLE,
    SENSITIVE,
    Figure,
    coded_claims,
    coded_rows,
    readable,
)
from deid_assets.policy.models import Policy
from deid_assets.sources.delivery import SYSTEM_AT_LEAST
from deid_assets.sources.layout import CLAIM_CODE_COLUMNS

CODED_ROWS = 0.5
"""Smallest share of the rows of another table of events that must have a code; no policy lowers it."""
TOLD_FROM, TOLD_STEP = 100, 5
"""Codes or rows from which their share is told, and its steps in per cent: one code more or less hardly ever shows."""
CHANCE = 0.01
"""A number of matches less probable than this is not attributed to chance."""


@dataclass(frozen=True)
class Need:
    """A need of one rule.

    Attributes
    ----------
    rule
        Key of the rule in the policy.
    figure
        Name of the measured figure; see `methods.rule_figures`.
    what
        The measured share, in words.
    at_least
        Its smallest allowed value.
    remedy
        What to do if it is not met.
    by_chance
        Whether a smaller value may be chance: it is then refused only if its probability is below `CHANCE`.
    of_codes
        Whether it is a share of codes, or of rows with codes, which a refusal may tell.
    """

    rule: str
    figure: str
    what: str
    at_least: float
    remedy: str
    by_chance: bool = False
    of_codes: bool = False

    def met(self, figure: Figure) -> bool:
        """Whether the delivery meets it; an empty delivery has no needs."""
        if figure.count >= self.at_least * figure.of:
            return True
        return self.by_chance and float(scipy.stats.binom.cdf(figure.count, figure.of, min(self.at_least, 1.0))) >= CHANCE

    @property
    def stated(self) -> str:
        """The need in words."""
        least = f"at least {self.at_least:.4g} of {self.what}"
        return f"{self.rule} needs {least}" + (", unless so few can be due to chance" if self.by_chance else "")


@dataclass(frozen=True)
class JudgedNeed:
    """A need and its measured value."""

    need: Need
    figure: Figure

    @property
    def met(self) -> bool:
        """Whether the delivery has what the rule needs."""
        return self.need.met(self.figure)

    @property
    def text(self) -> str:
        """Why the delivery is refused. Of members there are no numbers, nor of a few codes: they may be about one person."""
        count, of = self.figure.count, self.figure.of
        told = self.need.of_codes and of >= TOLD_FROM
        has = f"about {100 * count // (TOLD_STEP * of) * TOLD_STEP} %" if told else "fewer"
        return f"{self.need.stated}; this delivery has {has}. {self.need.remedy}"


def judged_needs(policy: Policy, figures: Mapping[str, Figure]) -> tuple[JudgedNeed, ...]:
    """Compare every need of the policy with its measured value.

    Raises
    ------
    KeyError
        If a required figure was not measured.
    """
    return tuple(JudgedNeed(need, figures[need.figure]) for need in needs_of(policy))


def needs_of(policy: Policy) -> tuple[Need, ...]:
    """Every need of a policy's rules, in the order in which the rules apply."""
    return (
        *_diagnoses(policy),
        *_lists(policy),
        *_matches(policy),
        *_newborns(policy),
        *_procedures(policy),
        *_narrower_dates(policy),
        *_population(policy),
    )


def _diagnoses(policy: Policy) -> Iterator[Need]:
    """Groups and the Charlson index are made of diagnoses, whomever the policy removes."""
    figure = OF_ICD9 if policy.diagnosis_codes == "icd9cm" else OF_SYSTEM
    yield Need(
        "diagnosis_codes", figure, "the diagnoses in another form than that of the other coding system", SYSTEM_AT_LEAST,
        "Lists, groups and indices are of the system that diagnosis_codes says: correct it, or the source section",
    )  # fmt: skip
    if not policy.removal.removes_members:
        yield from _readable(policy, "diagnosis_codes", "diagnosis")


def _lists(policy: Policy) -> Iterator[Need]:
    """Lists can match codes only if claims have codes, and these can be read."""
    removal = policy.removal
    if removal.removes_members:
        rule = removal.rule_of_codes if removal.lists_codes else "removal.rare_visible_diseases"
        for kind in removal.listed_kinds:
            yield from _codes(policy, rule, kind)
        for column in policy.listed_columns:
            yield _readable_in(policy, rule, column)
        for table, columns in policy.listed_columns_of_events.items():
            yield Need(
                rule, coded_rows(table), f"the rows of {table} with a code in {' or '.join(columns)}", CODED_ROWS,
                "Read another column of codes (columns), or leave the table out", of_codes=True,
            )  # fmt: skip


def _codes(policy: Policy, rule: str, kind: str) -> Iterator[Need]:
    removal = policy.removal
    share = getattr(removal.coded_claims_at_least, kind)
    if share is not None:
        yield Need(
            rule, coded_claims(kind), f"the claims with a readable {kind} code", share,
            f"Map the column of {kind} codes, or set removal.coded_claims_at_least.{kind}: null if deliveries have none",
            of_codes=True,
        )  # fmt: skip
    yield from _readable(policy, rule, kind)


def _readable(policy: Policy, rule: str, kind: str) -> Iterator[Need]:
    for column in CLAIM_CODE_COLUMNS[kind]:
        yield _readable_in(policy, rule, column)


def _readable_in(policy: Policy, rule: str, column: str) -> Need:
    return Need(
        rule, readable(column), f"the codes in {column} known to the product", policy.removal.readable_codes_at_least,
        "Correct the codes or the source section, or complete the policy's table of codes; to accept fewer, lower "
        "removal.readable_codes_at_least", of_codes=True,
    )  # fmt: skip


def _matches(policy: Policy) -> Iterator[Need]:
    """A list that matches nobody in a large delivery was not read as intended."""
    removal = policy.removal
    if removal.lists_codes and removal.sensitive_members_at_least is not None:
        yield Need(
            removal.rule_of_codes, SENSITIVE, "the members with claims found by the list", removal.sensitive_members_at_least,
            "Check that the mapped columns contain codes; if the delivery may have so few, lower "
            "removal.sensitive_members_at_least, or set it to null: the list may match nothing",
            by_chance=True,
        )  # fmt: skip
    if removal.rare_visible_diseases and removal.rare_visible_members_at_least is not None:
        yield Need(
            "removal.rare_visible_diseases", RARE_VISIBLE, "the members with claims found by the list",
            removal.rare_visible_members_at_least,
            "Check that the mapped columns contain codes; if the delivery may have so few, lower "
            "removal.rare_visible_members_at_least, or set it to null: the list may match nothing",
            by_chance=True,
        )  # fmt: skip


def _newborns(policy: Policy) -> Iterator[Need]:
    if policy.removal.newborn_days is not None:
        yield Need(
            "removal.newborn_days", NEWBORN,
            "the claims of members under 3 years (or those of a longer history), or of unknown age, with dates of birth and "
            "service",
            policy.removal.known_newborn_claims_at_least,
            "Map birth_date and service_date; if deliveries have none, set removal.newborn_days: null, which releases claims "
            "of newborns",
        )  # fmt: skip


def _procedures(policy: Policy) -> Iterator[Need]:
    removal = policy.removal
    if removal.non_procedure_claims:
        yield from _codes(policy, "removal.non_procedure_claims", "procedure")


def _narrower_dates(policy: Policy) -> Iterator[Need]:
    if policy.dates is not None and policy.dates.narrower is not None:
        yield Need(
            "dates.narrower", AGE_AND_SEX, "the members with age and sex", 0.9,
            "Members without them have no class that could be large: map age or birth_date, and sex, or set narrower: null",
        )  # fmt: skip


def _population(policy: Policy) -> Iterator[Need]:
    if not policy.counts_population:
        yield Need(
            "risk.population_size", POPULATION, "the members of the delivery in the population stated", 1.0,
            "An extract cannot be larger than its population: state the size of the population",
        )  # fmt: skip

"""What an assessment is. Its asset, checks, gate requirements, canaries, meanings and report table follow from one value.

Canaries are planted truths: an attack that does not find all of them is refused, whatever risk it reports.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Protocol, TypeAlias, TypeVar

import numpy as np
import pandas as pd

from deid_assets.assessments.earlier_releases import EarlierRelease, EverReleased
from deid_assets.assessments.evidence import Measurement, Method, Requirement, made_up
from deid_assets.assessments.membership_changes import Leavers
from deid_assets.figures.rendering import Published, ReportTable
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.counts.published_tables import EarlierTables
from deid_assets.methods.disclosure.membership_changes import Roll
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.sections.disclosure import InferenceGate
from deid_assets.policy.sections.longitudinal import AttackGate
from deid_assets.store.tables import Table

CANARIES = "canaries_found"


def canaries_measurement(found: Findings, commitment: str | None = None) -> Measurement:
    """The share of attacks on canaries with the required outcome; all must have it.

    Parameters
    ----------
    commitment
        Commitment to the stream that attacks were drawn from; None if nothing was drawn.
    """
    return Method("canaries", "methods#canaries", commitment).at_least(CANARIES, "ratio", found.share, 1.0, found.draws)


P = TypeVar("P", bound=ReleasePolicy)

HALF = 0.5
"""What most gates measure in a release that discloses half of its members."""

COUNT, DIFFERENCE = (0.0, math.inf), (-1.0, 1.0)
"""Ranges of counts and factors, and of differences of shares."""


@dataclass(frozen=True)
class Adversary:
    """Whom an assessment imitates: who they are, why they were chosen, and what a source accepted."""

    who: str
    why: str
    precedent: str


@dataclass(frozen=True)
class Limit:
    """What a policy requires of a measurement.

    Attributes
    ----------
    threshold
        The policy's threshold; inclusive.
    confidence
        Confidence of the bound over all tries; None if the number is counted, not estimated from draws.
    """

    threshold: float
    confidence: float | None = None

    @classmethod
    def of(cls, gate: AttackGate | InferenceGate | None, confidence: float) -> "Limit | None":
        """The limit of a policy's gate; None if it has none."""
        return None if gate is None else cls(gate.at_most, confidence)


@dataclass(frozen=True)
class Gate(Generic[P]):
    """A number that can refuse a release.

    Attributes
    ----------
    measurement
        Its name in the evidence.
    check
        Name of the asset check; it says what must be true.
    statement
        The same as a sentence, for the UI.
    meaning
        What the number means, for readers of the report.
    stated
        The policy's limit, a plain number if the measurement is counted; None if it sets none, so that the number is only
        reported.
    disclosed
        What is measured in a release that discloses half of its members: a threshold that passes it is refused. None if
        the number is at most alpha by construction; then `check_vacuous` judges the threshold at the alpha of the release.
        None too if the number says what a release is good for, and nothing about what it discloses.
    applies
        Whether the number is measured at all under a policy.
    remedy
        What to do if it refuses, where its numbers do not say so.
    range
        The least and the greatest value that the number can have. The gate refuses any other: something measured it wrongly.
    noise
        Unit and method of the number, if the public edition shows it with noise: its cell is part of the noise plan.
    precedent
        What a source accepted, for the determination; by default as the assessment says of its adversary.
    """

    measurement: str
    check: str
    statement: str
    meaning: str
    stated: Callable[[P], Limit | float | None]
    disclosed: float | None = HALF
    applies: Callable[[P], bool] = field(default=lambda policy: True)
    remedy: str = ""
    range: tuple[float, float] = (0.0, 1.0)
    noise: tuple[str, str] | None = None
    precedent: str = ""

    def limit(self, policy: P) -> Limit | None:
        """What a policy requires; None if it sets no limit, so that the number is only reported."""
        stated = self.stated(policy)
        return stated if stated is None or isinstance(stated, Limit) else Limit(stated)

    def in_words(self, policy: P) -> str:
        """The statement with the limit of a policy, for `deid policy check`; what the number means, where there is no limit."""
        limit = self.limit(policy)
        if limit is None:
            return _as_clause(self.meaning)
        judged = "" if limit.confidence is None else f", judged by the {limit.confidence * 100:.4g} % confidence bound"
        return f"{_as_clause(self.statement)} (limit {limit.threshold:g}{judged})"


def _as_clause(sentence: str) -> str:
    return sentence[:1].lower() + sentence[1:].removesuffix(".")


def none_allowed(measurement: str, check: str, statement: str, meaning: str, remedy: str = "") -> Gate[Any]:
    """A gate on a count of which a single one refuses, whatever the policy."""
    return Gate(measurement, check, statement, meaning, lambda policy: 0.0, disclosed=1.0, remedy=remedy, range=COUNT)


@dataclass(frozen=True)
class Image:
    """A figure for the UI: SVG or PNG, and what it shows in words."""

    image: bytes
    alt: str


Shown: TypeAlias = "str | int | float | list[str] | Image | pd.DataFrame"
"""What the UI shows beside the measurements; nothing about single people."""


class Try(Protocol):
    """The try in which draws judge a generalization."""

    @property
    def number(self) -> int:
        """1 for the first."""


class StreamKey(Protocol):
    """Derives the keys of random streams from the secret and the delivery."""

    def __call__(self, purpose: str, number: int = 1) -> bytes:
        """The 16-byte key of the stream for a purpose, in the try of this number."""


class History(Protocol):
    """What earlier releases and tries mean for this one. The registry of releases answers."""

    def try_at(self, levels: Mapping[str, int]) -> Try:
        """The try in which draws are to judge a generalization; an error if none is left."""

    def released_before(self, population: Table, own: str) -> int:
        """Count the members of the population in earlier releases, other than those that the SELECT `own` returns."""

    def ever_released(self) -> EverReleased:
        """The members of all earlier releases of members and claims."""

    def releases_before(self, population: Table, own: str) -> tuple[str, ...]:
        """Name the earlier releases with such members."""

    def rolls(self) -> Iterable[tuple[str, Roll]]:
        """Name and roll of each earlier release that can be compared with this one."""

    def leavers(self) -> Leavers:
        """Members of earlier releases who may not be in this one; of members and claims only."""

    def earlier_releases(self) -> Sequence[EarlierRelease]:
        """Every earlier release, whether it can be compared with this one or not."""

    def tags_in_order(self, member_ids: Iterable[str]) -> np.ndarray:
        """(n,) uint64: the tag of each member."""

    def earlier_tables(self) -> EarlierTables:
        """The tables of counts of every earlier release."""

    def earlier_noise(self, published: Table) -> Mapping[str, Sequence[float]]:
        """By definition: the standard deviations with which the cells of tables were published before."""


@dataclass(frozen=True)
class Work(Generic[P]):
    """What an assessment works on, and what it may ask.

    Attributes
    ----------
    policy
        The policy.
    tables
        The tables named by `Assessment.inputs`.
    commitment
        Commitment to the secret from which random streams are derived; it is recorded with what they estimate.
    stream_key
        Derives the keys of random streams.
    history
        Earlier releases and tries.
    note
        Writes a line about progress to the log; it must not name anybody.
    """

    policy: P
    tables: Mapping[str, Table]
    commitment: str
    stream_key: StreamKey
    history: History
    note: Callable[[str], None]


@dataclass(frozen=True)
class Assessed:
    """What an assessment found.

    Attributes
    ----------
    measurements
        All numbers but that of the canaries.
    canaries
        What the same functions found in made-up rows of known risk.
    made_in
        The try, if its number decides how strict the bounds are.
    shown
        Figures, tables and facts for the UI.
    """

    measurements: tuple[Measurement, ...]
    canaries: Findings
    made_in: Try | None = None
    shown: Mapping[str, Shown] = field(default_factory=dict)


@dataclass(frozen=True)
class Assessment(Generic[P]):
    """One attack or measurement of the rows about to be released.

    Attributes
    ----------
    name
        Name of its asset and of its evidence.
    adversary
        Whom it imitates.
    version
        Increase it when the method computes something else: the gate accepts evidence of this version only.
    policy_sections
        Sections of the policy that it reads; its results are stale when one of them changes.
    inputs
        Tables that it reads, by asset.
    measure
        Measures the tables. Its docstring describes the asset in the UI.
    gates
        The numbers that can refuse; `all_gates` adds the canaries.
    draws
        "none" if everything is counted, "reported" if random draws estimate numbers, "judged" if such a number is a
        gate: then the number of the try decides how strict its bound is.
    shaped_by
        By measuring method: the policy sections that affect a number about people, besides those that affect the rows.
        The noise of protected counts depends on them.
    noisy
        Numbers besides the gates that the manifest shows with noise, each with made-up values.
    report_table
        Makes the report's table from the published measurements; None for none.
    """

    name: str
    adversary: Adversary
    version: str
    policy_sections: tuple[str, ...]
    inputs: tuple[str, ...]
    measure: Callable[[Work[P]], Assessed]
    gates: tuple[Gate[P], ...]
    draws: Literal["none", "reported", "judged"] = "none"
    shaped_by: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    noisy: Callable[[P], Iterable[Measurement]] = field(default=lambda policy: ())
    report_table: Callable[[Published], ReportTable] | None = None

    @property
    def description(self) -> str:
        """What it measures, for the UI."""
        return inspect.getdoc(self.measure) or ""

    @property
    def all_gates(self) -> tuple[Gate[P], ...]:
        """The gates, with that of the canaries first: an attack that misses them is broken, whatever it reports."""
        return (
            Gate(
                CANARIES,
                f"{self.name}_canaries_within_threshold",
                "The assessment finds every canary, planted with known risk, as often as it must.",
                "Canaries: whether the attack finds planted members, providers or records of known risk as often as it must.",
                lambda policy: 1.0,
                precedent="None: an attack that misses what was planted proves nothing, so that all has to be found",
            ),
            *self.gates,
        )

    def required(self, policy: P) -> tuple[Requirement, ...]:
        """The measurements that must be within the policy's limits."""
        found = ((gate, gate.limit(policy)) for gate in self.all_gates if gate.applies(policy))
        return tuple(
            Requirement(self.name, gate.measurement, limit.threshold, limit.confidence, gate.range)
            for gate, limit in found
            if limit is not None
        )

    def noise_plan(self, policy: P) -> Iterator[Measurement]:
        """The numbers that the manifest shows with noise, known from the policy before anything is measured.

        Their values are made up. The budget judges them together with the tables of counts, before the first number is drawn
        (methods#budget-of-noise); those that turn out to have no value are among them.
        """
        for gate in self.gates:
            if gate.noise is not None and gate.applies(policy):
                unit, method = gate.noise
                yield made_up(gate.measurement, unit, method)
        yield from self.noisy(policy)


HERITAGE = (
    "El Emam K, Arbuckle L, Koru G, et al. De-identification methods for open health data: the case of the Heritage Health "
    "Prize claims dataset. J Med Internet Res 2012;14(1):e33"
)
OWNERS_DECIDE = "No source gives a threshold; the owners of the policy set it, and the expert judges it."
MARKETER = "Dankar FK, El Emam K. A method for evaluating marketer re-identification risk. EDBT/ICDT Workshops 2010"
SAFE_HARBOR = (
    "Malin B, Benitez K, Masys D. Never too old for anonymity. J Am Med Inform Assoc 2011;18(1):3-10: no more risk than Safe "
    "Harbor leaves"
)
K_ANONYMITY = "Sweeney L. k-Anonymity: a model for protecting privacy. Int J Uncertain Fuzziness Knowl-Based Syst 2002;10(5)"
COLUMNS = (
    "Article 29 Working Party, Opinion 05/2014: singling out, linking, inference; 45 CFR 164.514(b)(2): identifiers. The "
    "numbers are the product's"
)

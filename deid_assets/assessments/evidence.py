"""Evidence: numbers measured on rows identified by their digest, and the judgement whether they suffice.

An assessment measures, compares each number with its threshold and stores the result as `Evidence`. The gate reads it
back and calls `judge`, which rejects anything that is missing, stale, of another delivery or policy, or not finite.

Numbers about the use of a release are rounded to the effect of 25 members before they become evidence.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from enum import Enum
from types import MappingProxyType
from typing import Literal, TypeGuard, TypeVar

import pandas as pd

from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.certificate import rounding_step
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.policy.sections.disclosure import InferenceGate
from deid_assets.policy.sections.longitudinal import AttackGate
from deid_assets.store.digests import Json, bytes_digest, canonical_json, is_digest, parse_json


def rounded(number: float, released: int, times: int = 1) -> float:
    """A number at the precision at which it may be published, see `rounding_step`.

    Examples
    --------
    >>> rounded(0.4567, 20_000), rounded(6.4432, 20_000, times=10)
    (0.456, 6.44)
    """
    step = rounding_step(released) * times
    return round(round(number / step) * step, 9)


def rounded_up(number: float, released: int, times: int = 1) -> float:
    """The same, rounded up: a loss never looks smaller than it is.

    Examples
    --------
    >>> rounded_up(0.4561, 20_000), rounded_up(0.0, 20_000)
    (0.458, 0.0)
    """
    step = rounding_step(released) * times
    return round(math.ceil(number / step - 1e-9) * step, 9)


def rounded_down(share: float, released: int, times: int = 1) -> float:
    """The same, rounded down: what is left never looks more than it is.

    Examples
    --------
    >>> rounded_down(0.4579, 20_000)
    0.456
    """
    return down(share, rounding_step(released) * times)


def down(number: float, step: float) -> float:
    """The largest multiple of a step that is not above a number.

    Examples
    --------
    >>> down(0.4579, 0.002), down(0.3, 0.1)
    (0.456, 0.3)
    """
    return round(math.floor(number / step + 1e-9) * step, 9)


INFORMATION = "share of information"
"""Unit of the share of information that a column keeps: rounded like the public certificate's losses."""

PART_OF_LOSS, PART_OF_GAIN = "share of loss", "share of gain"
"""Units of what a prediction is better than the best constant, as a share of the constant's loss; and of a share of that."""

LEFT_OUT = "share of records left out"
"""Unit of the records or sampled members that suppression removed."""

FACTOR, OF_THE_ABSENT = "factor of odds", "share of absent members"


class Exposure(Enum):
    """What the public edition shows of a number, and why that is all that it discloses."""

    NOBODY = "as it is, because it counts nobody"
    CHANCE = "with its bound, rounded up to two digits: exact ratios of chances would give the size of the population"
    LARGE_COUNTS = "rounded up to two digits without its bound: it follows from large counts, and no noise is spent on it"
    ATTRITION = "as the public attrition gives it"
    IN_FILES = "as it is, because the released files reveal it and the number that it is a share of"
    WHOLE_IN_FILES = "with noise; the number that it is a share of is shown, because the released files reveal it"
    PEOPLE = "with noise, and so is the number that it is a share of"

    @property
    def counts_people(self) -> bool:
        """Whether the exact number is about people, and stays in the restricted store unless the files reveal it."""
        return self not in (Exposure.NOBODY, Exposure.CHANCE)


EXPOSURES: Mapping[str, Exposure] = MappingProxyType(
    dict.fromkeys(
        (
            *(INFORMATION, PART_OF_LOSS, PART_OF_GAIN),
            *("share of draws", "share of trials", "ratio", "correlation", "bits"),
            *("draws", "trials", "nodes", "cells", "disagreements", "seconds", "megabytes", "releases"),
            # Numbers that can be counted in the published rows: values in a class, distances of distributions.
            *("values", "distance", "attributes", "share of published values", "groups"),
            # What a release is good for: errors of predictions and of answers, rounded before they become evidence.
            *("log error", "standard errors", "questions"),
        ),
        Exposure.NOBODY,
    )
    | {"probability": Exposure.CHANCE, LEFT_OUT: Exposure.ATTRITION}
    | dict.fromkeys((FACTOR, OF_THE_ABSENT), Exposure.LARGE_COUNTS)
    | dict.fromkeys(
        (
            *("published members", "published records", "published values"),
            *("share of published rows", "share of published providers"),
        ),
        Exposure.IN_FILES,
    )
    | dict.fromkeys(
        ("share of released members", "share of released records", "share of released providers"), Exposure.WHOLE_IN_FILES
    )
)  # fmt: skip
"""Exposure by unit. Numbers of any other unit are about people and protected."""


def exposure_of(unit: str) -> Exposure:
    """The exposure of numbers of a unit; an unknown unit is about people.

    Examples
    --------
    >>> exposure_of("bits").name, exposure_of("share of released members").name, exposure_of("share of pupils").name
    ('NOBODY', 'WHOLE_IN_FILES', 'PEOPLE')
    """
    return EXPOSURES.get(unit, Exposure.PEOPLE)


Comparison = Literal["at_most", "at_least"]
Statistic = Literal["value", "upper_bound", "lower_bound"]

_Number = TypeVar("_Number", int, float)
_WRITTEN = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_ROUND_OFF = 1e-9
_COLUMNS = ["asset", "partition", "policy_hash", "rows_digest", "method_version", "try_number", "measurements"]


@dataclass(frozen=True)
class Measurement:
    """One measured number and the condition it must satisfy.

    Parameters
    ----------
    name
        What was measured, as a noun phrase in snake_case, unique within its evidence. Measurements of the same people
        may share a group, written before a slash: their number is protected once for all of them.
    unit
        Decides what the public edition shows, see `exposure_of`. Of a share whose whole is in the released files, the
        whole is `sample_size`.
    value
        The estimate or exact number. None if nothing could be measured.
    bound
        Confidence bound on `value`, on the side that `statistic` names; None without one. It covers Monte Carlo
        error only (methods#confidence).
    threshold
        Limit for the gated statistic; inclusive.
    comparison
        "at_most" or "at_least".
    statistic
        Which number is compared: "value", or `bound` as "upper_bound" (at_most) or "lower_bound" (at_least).
    confidence
        Confidence of the bound, between 0 and 1; None without a bound.
    method
        The measuring function, such as "neighbor_attack".
    section
        Where it is specified, such as "methods#node-risk".
    sample_size
        Number of draws, trials or rows behind `value`; None if not applicable.
    seed_commitment
        Commitment to the seed of the random stream; None if nothing is random.
    gating
        Whether a failure refuses the release.

    Raises
    ------
    ReleaseError
        If the fields contradict each other.

    Examples
    --------
    >>> share = Measurement("high_risk_share", "share of draws", .0041, .0047, .008, "at_most", "upper_bound", .99,
    ...                     "node_risk", "methods#node-risk", 1_000_000, None, gating=True)
    >>> share.compared, share.passed
    (0.0047, True)
    """

    name: str
    unit: str
    value: float | None
    bound: float | None
    threshold: float | None
    comparison: Comparison
    statistic: Statistic
    confidence: float | None
    method: str
    section: str
    sample_size: int | None
    seed_commitment: str | None
    gating: bool

    def __post_init__(self) -> None:
        for name in ("value", "bound", "threshold", "confidence"):
            object.__setattr__(self, name, _plain(float, name, getattr(self, name)))
        object.__setattr__(self, "sample_size", _plain(operator.index, "sample_size", self.sample_size))
        problem = self._contradiction()
        if problem:
            raise ReleaseError(f"measurement {self.name!r}: {problem}")

    def _contradiction(self) -> str | None:
        """What is wrong with the combination of fields; None if nothing is."""
        if not _texts(self.name, self.unit, self.method, self.section):
            return "name, unit, method and section must be non-empty text"
        if self.comparison not in ("at_most", "at_least"):
            return "comparison must be at_most or at_least"
        allowed = ("value", "upper_bound" if self.comparison == "at_most" else "lower_bound")
        if self.statistic not in allowed:
            return f"with {self.comparison} the statistic must be one of {', '.join(allowed)}"
        if not isinstance(self.gating, bool):
            return "gating must be true or false"
        if self.gating and not _finite(self.threshold):
            return "a gating measurement needs a finite threshold"
        if self.confidence is not None and not 0 < self.confidence < 1:
            return "confidence must lie between 0 and 1"
        if (self.statistic != "value" or self.bound is not None) and self.confidence is None:
            return "a bound needs its confidence"
        if self.sample_size is not None and self.sample_size < 0:
            return "sample_size must not be negative"
        if not (_finite(self.value) and _finite(self.bound)) or self.bound == self.value:
            return None
        if (self.bound < self.value) == (self.comparison == "at_most"):
            return "the bound is on the wrong side of the value"
        return None

    @property
    def compared(self) -> float | None:
        """The number that is compared with the threshold."""
        return self.value if self.statistic == "value" else self.bound

    @property
    def passed(self) -> bool:
        """Whether the compared number satisfies the threshold; False for None, NaN or an infinity."""
        compared, threshold = self.compared, self.threshold
        if not (_finite(compared) and _finite(threshold) and _finite(self.value)):
            return False
        return compared <= threshold if self.comparison == "at_most" else compared >= threshold

    @property
    def failed_by_draws(self) -> bool:
        """Whether it is a gate, based on random draws, and failed; a value that could not be measured does not count."""
        drawn = self.gating and self.confidence is not None
        return drawn and _finite(self.compared) and _finite(self.value) and not self.passed

    @property
    def failed_by_chance(self) -> bool:
        """Whether the value is within the threshold but its bound is not: other draws might have passed."""
        return self.failed_by_draws and self.statistic != "value" and replace(self, statistic="value").passed

    @property
    def ungated(self) -> "Measurement":
        """The same, beside its threshold for information only."""
        return replace(self, gating=False)

    @property
    def exposure(self) -> Exposure:
        """What the public edition shows of it."""
        return exposure_of(self.unit)

    def to_json(self) -> dict[str, Json]:
        """Return JSON values; non-finite numbers become "NaN", "Infinity" or "-Infinity"."""
        return {key: _written(value) for key, value in vars(self).items()} | {"passed": self.passed}

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> "Measurement":
        """The inverse of `to_json`.

        Raises
        ------
        ReleaseError
            If a field is missing or unknown, or `passed` contradicts the numbers.
        """
        names = {field.name for field in fields(cls)}
        if not isinstance(value, Mapping) or set(value) != names | {"passed"}:
            raise ReleaseError("a stored measurement has missing or unknown fields")
        numbers = {name: _read(value[name]) for name in ("value", "bound", "threshold", "confidence")}
        made = cls(**{name: value[name] for name in names} | numbers)
        if made.passed is not value["passed"]:
            raise ReleaseError(f"measurement {made.name!r}: stored as passed={value['passed']}, its numbers disagree")
        return made


@dataclass(frozen=True)
class Evidence:
    """The measurements of one assessment, bound to the rows, the policy and the method.

    Parameters
    ----------
    asset
        Name of the assessment, without policy prefix, such as "neighbor_attack".
    partition
        Delivery key.
    policy_hash
        Hash of the whole policy.
    rows_digest
        `rows_digest` of the judged table, or `combined_digest` of several.
    method_version
        Code version of the method.
    measurements
        At least one, each with a unique name.
    try_number
        The try in which the release was measured, if it determines the confidence of its bounds; else None.
    """

    asset: str
    partition: str
    policy_hash: str
    rows_digest: str
    method_version: str
    measurements: tuple[Measurement, ...]
    try_number: int | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "measurements", tuple(self.measurements))
        if self.try_number is not None and (type(self.try_number) is not int or self.try_number < 1):
            raise ReleaseError(f"evidence {self.asset!r}: tries are counted from 1")
        if not _texts(self.asset, self.partition, self.policy_hash, self.method_version):
            raise ReleaseError("evidence must name asset, partition, policy hash and method version")
        if not is_digest(self.rows_digest):
            raise ReleaseError(f"evidence {self.asset!r}: rows_digest must be 64 hexadecimal digits")
        names = [measurement.name for measurement in self.measurements]
        if not names or len(set(names)) != len(names):
            raise ReleaseError(f"evidence {self.asset!r}: it needs measurements, each with its own name")

    def digest(self) -> str:
        """SHA-256 of its whole content; the event log keeps it, so that edits in the store are detected."""
        return bytes_digest(canonical_json(self.to_json()))

    def to_json(self) -> dict[str, Json]:
        """As JSON values."""
        rest = {name: getattr(self, name) for name in _COLUMNS if name != "measurements"}
        return rest | {"measurements": [measurement.to_json() for measurement in self.measurements]}

    @classmethod
    def from_json(cls, value: Mapping[str, Json]) -> "Evidence":
        """The inverse of `to_json`; validates everything again."""
        if not isinstance(value, Mapping) or set(value) != set(_COLUMNS) or not isinstance(value["measurements"], list):
            raise ReleaseError("stored evidence has missing or unknown fields")
        measured = tuple(Measurement.from_json(item) for item in value["measurements"])
        return cls(**dict(value) | {"measurements": measured})


def to_frame(evidence: Iterable[Evidence]) -> pd.DataFrame:
    """Evidence as a table: one row each, all columns text; `measurements` is canonical JSON, `try_number` may be empty."""
    rows = [item.to_json() for item in evidence]
    rows = [
        row | {"measurements": canonical_json(row["measurements"]).decode().strip(), "try_number": str(row["try_number"] or "")}
        for row in rows
    ]
    return pd.DataFrame(rows, columns=_COLUMNS, dtype="object")


def from_frame(frame: pd.DataFrame) -> tuple[Evidence, ...]:
    """The inverse of `to_frame`; validates everything again.

    Raises
    ------
    ReleaseError
        If `to_frame` did not write the table, or a later change made it inconsistent.
    """
    if list(frame.columns) != _COLUMNS:
        raise ReleaseError("stored evidence has missing or unknown columns")
    rows = frame.astype("object").to_dict("records")
    return tuple(
        Evidence.from_json(
            row | {"measurements": parse_json(row["measurements"].encode()), "try_number": _try_number(row["try_number"])}
        )
        for row in rows
    )


def _try_number(text: object) -> int | None:
    if text == "":
        return None
    if not (isinstance(text, str) and text.isascii() and text.isdigit()):
        raise ReleaseError("stored evidence has a try number that is not valid")
    return int(text)


@dataclass(frozen=True)
class Requirement:
    """A gating measurement that a policy requires, by the names of the assessment and of the measurement.

    Evidence compared with a `threshold` other than the policy's is refused; None accepts any. A bound with less
    confidence than this try requires is refused too, if the policy states a `confidence`; and so is a number outside the
    `range` of what can be measured.
    """

    asset: str
    measurement: str
    threshold: float | None = None
    confidence: float | None = None
    range: tuple[float, float] = (-math.inf, math.inf)


@dataclass(frozen=True)
class Context:
    """What evidence must be about.

    Parameters
    ----------
    partition, policy_hash
        The delivery and the policy about to be released.
    digests
        Per assessment, the digest of the rows that it must have judged: those of the staged files, read back.
    methods
        Per assessment, the current code version of its method; None accepts any.
    numbers
        Per assessment based on draws, the number of this try.
    """

    partition: str
    policy_hash: str
    digests: Mapping[str, str]
    methods: Mapping[str, str] | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """One reason not to release.

    `text` may be shown to anybody, because it contains no number about people. `measured` is exact and stays in the
    restricted store if `unit` is about people (methods#protected-counts).
    """

    rule: str
    name: str
    measured: float | None
    threshold: float | None
    text: str
    unit: str = ""

    @property
    def is_judgement(self) -> bool:
        """Whether the gate judged the rows and refused them; otherwise something prevented the judgement."""
        return self.rule not in NOT_JUDGED


RELEASED_MEANWHILE = "released_meanwhile"
"""The rule of a release that cannot be judged beside the earlier releases that there are now; made anew, it may pass."""

NOT_JUDGED = frozenset({
    # Evidence that is missing, about something else, or not as required.
    "missing_evidence", "repeated_evidence", "stale_evidence", "released_meanwhile", "evidence_of_another_partition",
    "evidence_of_another_policy", "evidence_of_another_method", "evidence_of_another_try", "absent_measurement", "not_gating",
    "another_threshold", "laxer_confidence", "not_finite", "unreadable_evidence", "edited_evidence",
    # Data that is missing, changed, stale or broken. A check that failed by its number also has a failed measurement.
    "missing_asset", "stale_policy", "other_policy_text", "changed_policy", "changed_policy_file", "stale_input",
    "edited_table", "changed_delivery", "check_not_passed", "broken_contract", "broken_certificate", "other_counts",
})  # fmt: skip
"""Rules of refusals that say nothing about privacy; all other rules do."""


def judge(evidence: Sequence[Evidence], required: Iterable[Requirement], context: Context) -> tuple[Refusal, ...]:
    """Return why a release is refused; an empty tuple if it is not (methods#gate).

    Evidence that is not required is judged too: a failed gating measurement always refuses.

    Returns
    -------
    tuple of Refusal
        Rules: `missing_evidence`, `repeated_evidence`, `stale_evidence`, `evidence_of_another_partition`,
        `evidence_of_another_policy`, `evidence_of_another_method`, `evidence_of_another_try`, `absent_measurement`,
        `not_gating`, `another_threshold`, `laxer_confidence`, `not_finite` and `failed_measurement`; in the order of
        assessments' names.
    """
    required = tuple(required)
    refusals: list[Refusal] = []
    assets = {item.asset for item in evidence} | {requirement.asset for requirement in required}
    for asset in sorted(assets):
        found = [item for item in evidence if item.asset == asset]
        if len(found) == 1:
            wanted = [requirement for requirement in required if requirement.asset == asset]
            refusals += _unbound(found[0], context) + _unmet(found[0], wanted, context) + _failed(found[0])
        elif found:
            text = f"{asset}: there is more than one evidence; materialize it again"
            refusals.append(Refusal("repeated_evidence", asset, None, None, text))
        else:
            text = f"{asset}: no evidence; materialize it for this delivery"
            refusals.append(Refusal("missing_evidence", asset, None, None, text))
    return tuple(refusals)


def _unbound(item: Evidence, context: Context) -> list[Refusal]:
    """Refusals of evidence that is about something else."""
    found = []
    if item.partition != context.partition:
        found.append(("evidence_of_another_partition", "it judged another delivery"))
    if item.policy_hash != context.policy_hash:
        found.append(("evidence_of_another_policy", "it was measured under another policy, or an earlier text of it"))
    if context.methods is not None and item.method_version != context.methods.get(item.asset):
        found.append(("evidence_of_another_method", "it was measured by another version of its method"))
    if item.try_number != context.numbers.get(item.asset):
        found.append(("evidence_of_another_try", "it was measured in another try than this one; run the whole job again"))
    if item.rows_digest != context.digests.get(item.asset):
        found.append(("stale_evidence", "it judged rows other than those staged; materialize it again"))
    return [Refusal(rule, item.asset, None, None, f"{item.asset}: {text}") for rule, text in found]


def _unmet(item: Evidence, wanted: Iterable[Requirement], context: Context) -> list[Refusal]:
    """Refusals of required measurements that are absent, are not gates, or have another threshold or less confidence."""
    measured = {measurement.name: measurement for measurement in item.measurements}
    found = []
    for requirement in wanted:
        name = f"{item.asset}/{requirement.measurement}"
        measurement = measured.get(requirement.measurement)
        if measurement is None:
            rule, text = "absent_measurement", "the policy requires it, but it was not measured"
        elif not measurement.gating:
            rule, text = "not_gating", "the policy gates on it, but it was only measured for information"
        elif requirement.threshold is not None and measurement.threshold != requirement.threshold:
            rule, text = "another_threshold", "it was compared with a threshold other than the policy's"
        elif not _is_as_sure(measurement, requirement, context):
            rule, text = (
                "laxer_confidence",
                "its bound holds with less confidence than this try requires; run the whole job again",
            )
        elif _finite(measurement.value) and not _is_possible(measurement.value, requirement.range):
            least, most = requirement.range
            rule, text = "impossible_value", f"it lies outside {least:g} to {most:g}, so it was measured wrongly"
        else:
            continue
        found.append(Refusal(rule, name, None, requirement.threshold, f"{name}: {text}"))
    return found


def _is_possible(value: float, within: tuple[float, float]) -> bool:
    """Whether a number can have been measured; the last digits of a sum may pass an end of its range."""
    least, most = within
    return least - _ROUND_OFF <= value <= most + _ROUND_OFF


def _is_as_sure(measurement: Measurement, requirement: Requirement, context: Context) -> bool:
    """Whether a bound has the confidence that the policy requires of this try; nothing is required without draws."""
    if requirement.confidence is None:
        return True
    number = context.numbers.get(requirement.asset)
    if number is None or measurement.confidence is None:
        return False
    return measurement.confidence >= confidence_of_try(requirement.confidence, number)


def _failed(item: Evidence) -> list[Refusal]:
    """Refusals of gating measurements over their threshold, or without a number."""
    found = []
    for measurement in item.measurements:
        if not measurement.gating or measurement.passed:
            continue
        name = f"{item.asset}/{measurement.name}"
        finite = _finite(measurement.compared) and _finite(measurement.value)
        rule = "failed_measurement" if finite else "not_finite"
        text = f"{name}: {_comparison_text(measurement) if finite else 'it could not be measured'}"
        found.append(Refusal(rule, name, measurement.compared, measurement.threshold, text, measurement.unit))
    return found


def _comparison_text(measurement: Measurement) -> str:
    """What was compared with what; without the number if it is about people."""
    number = "a number about people" if measurement.exposure.counts_people else f"{measurement.compared:.6g}"
    wanted = f"{measurement.comparison.replace('_', ' ')} {measurement.threshold:.6g}"
    return f"{measurement.statistic.replace('_', ' ')} {number} must be {wanted} ({measurement.unit})"


@dataclass(frozen=True)
class Estimated:
    """A number estimated from `size` draws, with the bound that holds with `confidence`."""

    value: float | None
    bound: float | None
    confidence: float
    size: int | None = None


@dataclass(frozen=True)
class Method:
    """What measures numbers, where that is explained, and the commitment to the random streams, if it draws any.

    A number is a gate if it is given a limit.
    """

    name: str
    section: str
    commitment: str | None = None

    def at_most(
        self, name: str, unit: str, value: float | None, limit: float | None = None, size: int | None = None
    ) -> Measurement:
        """A number that was counted or computed, of which less is better."""
        return Measurement(
            name, unit, value, None, limit, "at_most", "value", None, self.name, self.section, size, self.commitment,
            gating=limit is not None,
        )  # fmt: skip

    def at_least(
        self, name: str, unit: str, value: float | None, limit: float | None = None, size: int | None = None
    ) -> Measurement:
        """The same, of which more is better."""
        return replace(self.at_most(name, unit, value, limit, size), comparison="at_least")

    def estimated(
        self, name: str, unit: str, found: Estimated, limit: float | None = None, decides: Statistic = "upper_bound"
    ) -> Measurement:
        """A number that was estimated from draws; its bound or, if that `decides`, its value is compared with the limit."""
        return replace(
            self.at_most(name, unit, found.value, limit, found.size),
            bound=found.bound, confidence=found.confidence, statistic=decides,
            comparison="at_least" if decides == "lower_bound" else "at_most",
        )  # fmt: skip

    def judged(self, name: str, unit: str, found: Estimated, gate: AttackGate | InferenceGate | None) -> Measurement:
        """An estimate that a policy's gate judges; only reported if the policy has none."""
        decides: Statistic = "upper_bound" if gate is None or gate.statistic == "upper_bound" else "value"
        return self.estimated(name, unit, found, gate.at_most if gate else None, decides)


def _texts(*values: object) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _finite(number: float | None) -> TypeGuard[float]:
    return number is not None and math.isfinite(number)


def _plain(convert: Callable[[Json], _Number], field: str, number: Json) -> _Number | None:
    """A Python number for a number from NumPy or DuckDB."""
    if number is None:
        return None
    try:
        if isinstance(number, str | bytes | bool):
            raise TypeError
        return convert(number)
    except (TypeError, ValueError, OverflowError):
        raise ReleaseError(f"{field} of a measurement must be a number or None") from None


def _written(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    return value


def _read(value: Json) -> float | None:
    if isinstance(value, str) and value not in _WRITTEN:
        raise ReleaseError("a stored measurement contains text instead of a number")
    number: float | None = _WRITTEN[value] if isinstance(value, str) else value
    return number


def made_up(name: str, unit: str, method: str) -> Measurement:
    """A number about people of which only name, unit and method matter, for the noise plan."""
    share = unit.startswith("share of ")
    return Method(method, "methods#budget-of-noise").at_most(name, unit, 0.5 if share else 1.0, size=2 if share else None)

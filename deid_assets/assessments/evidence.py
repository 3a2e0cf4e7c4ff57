"""Evidence: numbers that were measured on rows known by their digest, and the judgement whether they suffice.

An assessment measures, compares each number with its threshold and stores the result as `Evidence`. The gate reads it
back and asks `judge`, which accepts nothing that is absent, stale, of another delivery or policy, or not finite.
"""

import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Literal

import pandas as pd

from deid_assets.errors import ReleaseError
from deid_assets.methods.statistics.confidence import confidence_of_try
from deid_assets.store.digests import bytes_digest, canonical_json, is_digest, parse_json

Comparison = Literal["at_most", "at_least"]
Statistic = Literal["value", "upper_bound", "lower_bound"]

INFORMATION = "share of information"
"""Unit of what a column keeps of its information: rounded, as the public certificate's losses are."""

PLAIN_UNITS = frozenset(
    {INFORMATION}
    | {"share of draws", "share of trials", "probability", "ratio", "correlation", "bits"}
    | {"draws", "trials", "nodes", "disagreements", "seconds", "megabytes"}
    # What the published rows themselves tell to whoever counts them: values in a class, distances of distributions.
    | {"values", "distance", "attributes", "share of published values"}
)
"""Units of numbers that count nobody. A number of any other unit is about people and protected in public."""

LEFT_OUT = "share of records left out"
"""Unit of what suppression left out of the records of a flat table: the public edition makes it of its attrition."""

_TOLD = ("published ", "share of published ")
_WHOLE_TOLD = "share of released "

_WRITTEN = {"NaN": math.nan, "Infinity": math.inf, "-Infinity": -math.inf}
_COLUMNS = ["asset", "partition", "policy_hash", "rows_digest", "method_version", "try_number", "measurements"]


@dataclass(frozen=True)
class Measurement:
    """One measured number and what it had to satisfy.

    Parameters
    ----------
    name
        What was measured, as a noun phrase in snake_case, unique within its evidence. Measurements of the same people
        may share a group, written before a slash: their number is protected once for all of them.
    unit
        What one is a unit of: one of `PLAIN_UNITS`, or of people ("members", "share of members", "claims", "rows").
        "published ..." and "share of published ..." are numbers that the released files tell to whoever counts their
        rows. Of a "share of released ..." they tell the whole, `sample_size`, but not the part.
    value
        The estimate or exact number. None if nothing could be measured.
    bound
        Confidence bound on `value`, on the side that `statistic` names; None without one. It covers Monte Carlo
        error only (methods#confidence).
    threshold
        What the gated statistic is compared with; inclusive.
    comparison
        "at_most" or "at_least".
    statistic
        Which number is compared: "value", or `bound` as "upper_bound" (at_most) or "lower_bound" (at_least).
    confidence
        Of the bound, between 0 and 1; None without a bound.
    method
        The function that measured, such as "neighbor_attack".
    section
        Where it is specified, such as "methods#node-risk".
    sample_size
        Number of draws, trials or rows behind `value`; None if that has no meaning.
    seed_commitment
        Commitment to the seed of the random stream; None where nothing is random.
    gating
        Whether a failure refuses the release.

    Raises
    ------
    ReleaseError
        If the fields contradict one another.

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
        """What is wrong with the fields taken together; None if nothing is."""
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
        differ = _finite(self.value) and _finite(self.bound) and self.bound != self.value
        if differ and (self.bound < self.value) == (self.comparison == "at_most"):
            return "the bound is on the wrong side of the value"
        return None

    @property
    def compared(self) -> float | None:
        """The number that is compared with the threshold."""
        return self.value if self.statistic == "value" else self.bound

    @property
    def passed(self) -> bool:
        """Whether the compared number satisfies the threshold; never for None, NaN or an infinity."""
        if not (_finite(self.compared) and _finite(self.threshold) and _finite(self.value)):
            return False
        return self.compared <= self.threshold if self.comparison == "at_most" else self.compared >= self.threshold

    @property
    def failed_by_draws(self) -> bool:
        """Whether it gates, was made of random draws, and did not pass; what could not be measured told nothing."""
        drawn = self.gating and self.confidence is not None
        return drawn and _finite(self.compared) and _finite(self.value) and not self.passed

    @property
    def failed_by_chance(self) -> bool:
        """Whether the value is within the threshold, and its bound beyond: other draws might have passed."""
        return self.failed_by_draws and self.statistic != "value" and replace(self, statistic="value").passed

    @property
    def counts_people(self) -> bool:
        """Whether the exact number must stay in the restricted store."""
        return self.unit not in PLAIN_UNITS

    @property
    def told_by_files(self) -> bool:
        """Whether the released files tell the number and its sample size: once they are out, nothing is left to protect."""
        return self.unit.startswith(_TOLD)

    @property
    def whole_told_by_files(self) -> bool:
        """Whether the released files tell the sample size of a share, but not the share."""
        return self.unit.startswith(_WHOLE_TOLD)

    def to_json(self) -> dict:
        """JSON values; a number that is not finite as "NaN", "Infinity" or "-Infinity"."""
        return {key: _written(value) for key, value in asdict(self).items()} | {"passed": self.passed}

    @classmethod
    def from_json(cls, value: Mapping) -> "Measurement":
        """The inverse of `to_json`.

        Raises
        ------
        ReleaseError
            If a field is missing or unknown, or `passed` is not what the numbers say.
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
    """The measurements of one assessment, bound to the rows, the policy and the method that it judged.

    Parameters
    ----------
    asset
        Name of the assessment, without policy prefix, such as "neighbor_attack".
    partition
        Delivery key.
    policy_hash
        Hash of the whole policy.
    rows_digest
        `rows_digest` of the table judged, or `combined_digest` of several.
    method_version
        Code version of the method.
    measurements
        At least one, each with a name of its own.
    try_number
        In which try the release was measured, where that decides the confidence of its bounds; None elsewhere.
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
        """SHA-256 of all it says: the event log keeps it, so that evidence edited in the store is found out."""
        return bytes_digest(canonical_json(self.to_json()))

    def to_json(self) -> dict:
        """As JSON values."""
        rest = {name: getattr(self, name) for name in _COLUMNS if name != "measurements"}
        return rest | {"measurements": [measurement.to_json() for measurement in self.measurements]}

    @classmethod
    def from_json(cls, value: Mapping) -> "Evidence":
        """The inverse of `to_json`; validates everything again."""
        if not isinstance(value, Mapping) or set(value) != set(_COLUMNS) or not isinstance(value["measurements"], list):
            raise ReleaseError("stored evidence has missing or unknown fields")
        measured = tuple(Measurement.from_json(item) for item in value["measurements"])
        return cls(**dict(value) | {"measurements": measured})


def to_frame(evidence: Iterable[Evidence]) -> pd.DataFrame:
    """Evidence as a table: one row each, all columns text; `measurements` holds canonical JSON, `try_number` may be empty."""
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
        If the table was not written by `to_frame`, or was changed since in a way that contradicts itself.
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
    """A gating measurement that a policy demands, by the names of the assessment and of the measurement.

    Evidence that was compared with another `threshold` than the policy's is refused; None: any will do. So is a bound that
    holds less surely than in this try it must, where the policy states a `confidence`.
    """

    asset: str
    measurement: str
    threshold: float | None = None
    confidence: float | None = None


@dataclass(frozen=True)
class Context:
    """What evidence must be about.

    Parameters
    ----------
    partition, policy_hash
        The delivery and the policy about to be released.
    digests
        Per assessment, the digest of the rows it has to have judged: of the staged files, read back.
    methods
        Per assessment, the code version of its method now; None: any.
    numbers
        Per assessment that is made of draws, which try this is.
    """

    partition: str
    policy_hash: str
    digests: Mapping[str, str]
    methods: Mapping[str, str] | None = None
    numbers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Refusal:
    """One reason not to release.

    `text` may be shown to anybody: it repeats no number about people. `measured` is exact and stays in the
    restricted store where `unit` is about people (methods#protected-counts).
    """

    rule: str
    name: str
    measured: float | None
    threshold: float | None
    text: str
    unit: str = ""

    @property
    def is_judgement(self) -> bool:
        """Whether the gate judged the rows and said no; else something kept it from judging them."""
        return self.rule not in NOT_JUDGED


NOT_JUDGED = frozenset({
    # Evidence that is missing, of something else, or not what was demanded.
    "missing_evidence", "repeated_evidence", "stale_evidence", "evidence_of_another_partition", "evidence_of_another_policy",
    "evidence_of_another_method", "evidence_of_another_try", "absent_measurement", "not_gating", "another_threshold",
    "laxer_confidence", "not_finite", "unreadable_evidence", "edited_evidence",
    # Data that is missing, changed, stale, or broken. A check that failed by its number has a failed measurement beside it.
    "missing_asset", "stale_policy", "other_policy_text", "changed_policy", "changed_policy_file", "stale_input",
    "edited_table", "changed_delivery", "check_not_passed", "broken_contract", "broken_certificate",
})  # fmt: skip
"""Rules of refusals that say nothing about privacy; a rule that is not listed here does."""


def judge(evidence: Sequence[Evidence], required: Iterable[Requirement], context: Context) -> tuple[Refusal, ...]:
    """Say why a release is refused; an empty tuple says that it is not (design section 5, the gate).

    Evidence that nobody required is judged too: a gating measurement that failed refuses whoever asked for it.

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
    """Refusals of demanded measurements that are absent, do not gate, or gate at another threshold or less surely."""
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
        else:
            continue
        found.append(Refusal(rule, name, None, requirement.threshold, f"{name}: {text}"))
    return found


def _is_as_sure(measurement: Measurement, requirement: Requirement, context: Context) -> bool:
    """Whether a bound has the confidence that the policy demands of this try; of what is not drawn nothing is demanded."""
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
    """What was compared with what; without the number where it is about people."""
    number = "a number about people" if measurement.counts_people else f"{measurement.compared:.6g}"
    wanted = f"{measurement.comparison.replace('_', ' ')} {measurement.threshold:.6g}"
    return f"{measurement.statistic.replace('_', ' ')} {number} must be {wanted} ({measurement.unit})"


def _texts(*values: object) -> bool:
    return all(isinstance(value, str) and value for value in values)


def _finite(number: float | None) -> bool:
    return number is not None and math.isfinite(number)


def _plain(convert: Callable, field: str, number: object) -> float | int | None:
    """A Python number of whatever number NumPy or DuckDB gave."""
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


def _read(value: object) -> float | None:
    if isinstance(value, str) and value not in _WRITTEN:
        raise ReleaseError("a stored measurement contains text instead of a number")
    return _WRITTEN[value] if isinstance(value, str) else value

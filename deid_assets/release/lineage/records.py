"""What the event log recorded, as values that know nothing of Dagster."""

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Materialized:
    """One materialization of an asset.

    Attributes
    ----------
    asset
        Its key, parts joined by "/".
    event
        Number of the event in the log.
    run
        Identifier of the run that made it.
    made
        When, in ISO 8601.
    partition
        The delivery; None for an asset without partitions.
    data_version, code_version
        As recorded; None if they were not.
    inputs
        By key of each asset that was read: number of the event that made it; None if that asset had none.
    columns
        Names of the columns of its table.
    sources
        By column: the (asset, column) pairs that it was made from.
    evidence_digest
        Digest of the evidence that an assessment measured; None for other assets.
    """

    asset: str
    event: int
    run: str
    made: str
    partition: str | None
    data_version: str | None
    code_version: str | None
    inputs: Mapping[str, int | None]
    columns: tuple[str, ...] = ()
    sources: Mapping[str, tuple[tuple[str, str], ...]] = field(default_factory=dict)
    evidence_digest: str | None = None

    @property
    def name(self) -> str:
        """The last part of the key."""
        return self.asset.rpartition("/")[2]


@dataclass(frozen=True)
class RecordedRelease:
    """A materialization of a release, with what it says of its publication.

    Attributes
    ----------
    head
        Head of the registry afterwards: the hash of the release's entry, unless nothing new was published.
    number
        Number of the release.
    unchanged
        Whether an earlier release of the same inputs stood instead.
    journal
        Head of the home's journal afterwards; None if there was no journal yet.
    """

    made: Materialized
    head: str
    number: int
    unchanged: bool
    journal: str | None = None


@dataclass(frozen=True)
class Evaluated:
    """One evaluation of an asset check.

    Attributes
    ----------
    asset, check
        Key of the asset, and name of the check.
    event
        Number of the materialization that it judged; None if it names none.
    passed, blocking
        Its outcome, and whether a failure stops the run.
    gating
        Whether a number was compared with a limit of the policy; otherwise it was only reported.
    measured, threshold
        What was compared with what; None if the check states no number.
    run, made
        The run, and when, in ISO 8601.
    """

    asset: str
    check: str
    event: int | None
    passed: bool
    blocking: bool
    gating: bool
    measured: float | None
    threshold: float | None
    run: str
    made: str


@dataclass(frozen=True)
class RecordedRun:
    """A run: its job, how and when it ended (ISO 8601; None if it has not), and its tags."""

    run: str
    job: str
    status: str
    started: str | None
    ended: str | None
    tags: Mapping[str, str]

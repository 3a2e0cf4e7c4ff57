"""The graph of materializations behind a release, as the event log recorded it when each was made.

What the event log recorded, as values that know nothing of Dagster.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property


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


Fetch = Callable[[str, int], Materialized | None]
"""Reads the materialization of an asset by the number of its event; None if the log has no such event."""


@dataclass(frozen=True)
class Lineage:
    """Everything that a release was made from.

    Attributes
    ----------
    release
        The materialization of the release.
    before
        Every materialization that it was made from, by key of its asset, and those that its manifest names besides.
    lost
        (asset, input) pairs: the asset was made from an event of the input that the log no longer contains.
    differing
        Assets of which two versions were read on the way to the release.
    outside
        Assets of others that were read and have no event in the log, such as a table that another system writes.
    """

    release: Materialized
    before: Mapping[str, Materialized]
    lost: tuple[tuple[str, str], ...] = ()
    differing: tuple[str, ...] = ()
    outside: tuple[str, ...] = ()

    @property
    def prefix(self) -> str:
        """The part of the keys that the release and the assets of its policy share."""
        return self.release.asset.rpartition("/")[0]

    def named(self, name: str) -> Materialized | None:
        """The materialization of the policy's asset with this name."""
        return self.before.get(f"{self.prefix}/{name}")

    @cached_property
    def depths(self) -> dict[str, int]:
        """By asset: the number of arrows on the longest path that leads to it; inputs come before what is made of them."""
        found: dict[str, int] = {}
        for asset in self._in_order:
            known = self._all[asset].inputs
            found[asset] = 1 + max((found[one] for one in known if one in found), default=-1)
        return found

    def arrows(self) -> list[tuple[str, str]]:
        """Input and asset of each arrow, without those that a longer path already shows.

        Examples
        --------
        >>> def made(asset, event, **inputs):
        ...     return Materialized(asset, event, "run", "", None, None, None, inputs)
        >>> lineage = Lineage(made("c", 3, a=1, b=2), {"a": made("a", 1), "b": made("b", 2, a=1)})
        >>> lineage.arrows()
        [('a', 'b'), ('b', 'c')]
        """
        reach: dict[str, set[str]] = {}
        shown = []
        for asset in self._in_order:
            inputs = [one for one in self._all[asset].inputs if one in self._all]
            behind = {one: set().union(*(reach[other] for other in inputs if other != one)) for one in inputs}
            shown += [(one, asset) for one in inputs if one not in behind[one]]
            reach[asset] = set(inputs).union(*(reach[one] for one in inputs))
        return shown

    @property
    def _all(self) -> dict[str, Materialized]:
        return {**self.before, self.release.asset: self.release}

    @cached_property
    def _in_order(self) -> tuple[str, ...]:
        """Every asset after its inputs: an event is newer than those it was made from."""
        return tuple(made.asset for made in sorted(self._all.values(), key=lambda one: one.event))


def lineage_of(release: Materialized, fetch: Fetch, besides: Iterable[Materialized] = ()) -> Lineage:
    """Follow the inputs of a release through the log, whatever assets they are.

    Parameters
    ----------
    release
        The materialization of the release.
    fetch
        Reads the event log.
    besides
        Materializations that the manifest names although the release did not read them.
    """
    before = {made.asset: made for made in besides}
    prefix = release.asset.rpartition("/")[0]
    lost: set[tuple[str, str]] = set()
    differing: set[str] = set()
    outside: set[str] = set()
    waiting = [release, *before.values()]
    while waiting:
        made = waiting.pop()
        for asset, event in made.inputs.items():
            known = before.get(asset)
            if known is not None:
                if known.event != event:
                    differing.add(asset)
                continue
            found = None if event is None else fetch(asset, event)
            if found is not None:
                before[asset] = found
                waiting.append(found)
            elif event is None and asset.rpartition("/")[0] != prefix:
                outside.add(asset)
            else:
                lost.add((made.asset, asset))
    return Lineage(release, before, tuple(sorted(lost)), tuple(sorted(differing)), tuple(sorted(outside)))

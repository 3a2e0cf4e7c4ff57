"""What becomes of a release that waits for a person's approval: approved or rejected, and what the event log records of it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from deid_assets.assets.published_tables import PublishedTables
from deid_assets.automation.ended_runs import OUTCOMES
from deid_assets.dagster_internals import DATA_VERSION_TAG, StepMaterializationData
from deid_assets.errors import PUBLISHED, DeidError, ReleaseError
from deid_assets.release.event_log import recorded_releases, require_journal
from deid_assets.release.journal.chain import JOURNAL_HEAD
from deid_assets.release.publication.approval import approve_waiting, forget_waiting, obstacles, reject_waiting
from deid_assets.release.publication.publish import Published, Releases
from deid_assets.release.publication.waiting import Waiting, read_waiting, waiting_folder, waiting_folders, waiting_manifest
from deid_assets.release.registry import clock
from deid_assets.release.verdict import verdict_in
from deid_assets.resources import OUTCOME_TAG, published_key
from deid_assets.store.digests import Json, parse_json, regular_bytes

REJECTED = "rejected"


@dataclass(frozen=True)
class Awaiting:
    """A release that waits, as `deid approvals` lists it.

    Attributes
    ----------
    policy, number
        The release.
    delivery
        Key of its delivery.
    staged, expires
        When it passed the gate, and until when it may be approved.
    by
        Who may approve it.
    files
        Folder with the files as they would be published; restricted.
    problems
        Why it cannot be approved; empty if it can.
    verdict
        What it passed and what a person overruled, in sentences.
    """

    policy: str
    number: int
    delivery: str | None
    staged: str | None
    expires: str | None
    by: tuple[str, ...]
    files: str
    problems: tuple[str, ...]
    verdict: tuple[str, ...] = ()


def awaiting(releases: Releases, reading: Callable[[str], str]) -> list[Awaiting]:
    """Every release that waits, by policy and number.

    Parameters
    ----------
    reading
        Returns `ReleasePolicy.reading` of the policy of a name.
    """
    return [_awaiting(releases, folder, reading) for folder in waiting_folders(releases.waiting)]


def _awaiting(releases: Releases, folder: Path, reading: Callable[[str], str]) -> Awaiting:
    policy, number, files = folder.parent.name, int(folder.name), str(folder / "release")
    try:
        waiting = read_waiting(folder, releases.key.public)
        chain = releases.registry.chain()
        staged = parse_json(regular_bytes(waiting_manifest(releases.restricted, f"{policy}/{number:04d}")))
        problems = obstacles(releases, waiting, staged["secret_commitment"], clock.now(chain.last_time), reading(policy))
        if chain.find(policy, number) is not None:
            problems = ("it is published already: `deid approve` again completes the record of it",)
    except DeidError as error:
        return Awaiting(policy, number, None, None, None, (), files, (str(error),))
    own = waiting.terms
    verdict = verdict_in(waiting_manifest(releases.restricted, f"{policy}/{number:04d}"))
    told = () if verdict is None else verdict.sentences
    return Awaiting(policy, number, own.delivery_key, waiting.staged, waiting.expires, own.by, files, problems, told)


def approve_release(
    instance: dg.DagsterInstance, releases: Releases, policy: str, number: int, by: str, reading: Callable[[], str]
) -> Published:
    """Publish a release that waits, record it in the event log, and remove its staged copy.

    What a crash interrupted is completed by calling it again.

    Raises
    ------
    ReleaseError
        If it may not be approved; `approval.approve_waiting`.
    """
    require_journal(instance, releases.journal.file.read())
    published = approve_waiting(releases, policy, number, by, reading)
    waiting = read_waiting(waiting_folder(releases.waiting, policy, number), releases.key.public)
    manifest = parse_json((published.folder / "manifest.json").read_bytes())
    record_published(instance, waiting, published, str(manifest["approval"]["by"]), releases.journal.head)
    forget_waiting(releases, policy, number)
    return published


def record_published(instance: dg.DagsterInstance, waiting: Waiting, published: Published, by: str, journal: str) -> None:
    """Record that a release that was approved and its tables are materialized, in the run that made it, unless that was done.

    The tables come first: once the release itself is recorded, all of it is.
    """
    # A run that found an earlier release unchanged states the head of that moment, which may be this release's hash.
    if any(one.head == published.entry.hash and not one.unchanged for one in recorded_releases(instance)):
        return
    told = waiting.terms.event
    release = dg.AssetKey(told["asset"])
    made = [
        dg.AssetMaterialization(
            published_key(release, name),
            description=f"Approved by {by}",
            partition=told["partition"],
            metadata=metadata,
            tags={DATA_VERSION_TAG: version},
        )
        for name, metadata, version in PublishedTables.from_json(told["tables"]).described(published.folder)
    ]
    of_release = dg.AssetMaterialization(
        release,
        description=f"Approved by {by}",
        partition=told["partition"],
        metadata={
            "release": dg.MetadataValue.path(str(published.folder)),
            "report": dg.MetadataValue.path(str(published.folder / "report.html")),
            "number": published.entry.number,
            "registry_head": published.entry.hash,
            JOURNAL_HEAD: journal,
            "approved_by": by,
        },
        tags=told["tags"],
    )
    run = instance.get_run_by_id(told["run"])
    for one in (*made, of_release):
        _record(instance, run, one)
    if run is not None:
        instance.add_run_tags(run.run_id, {OUTCOME_TAG: OUTCOMES[PUBLISHED]})


def _record(instance: dg.DagsterInstance, run: dg.DagsterRun | None, made: dg.AssetMaterialization) -> None:
    """Record a materialization in a run; in none if the history of the run was lost, or is that of another instance."""
    if run is None:
        instance.report_runless_asset_event(made)
        return
    event = dg.DagsterEvent(
        event_type_value=dg.DagsterEventType.ASSET_MATERIALIZATION.value,
        job_name=run.job_name,
        event_specific_data=StepMaterializationData(made),
        message=made.description,
    )
    instance.report_dagster_event(event, run_id=run.run_id)


def reject_release(instance: dg.DagsterInstance, releases: Releases, policy: str, number: int, by: str, reason: str) -> None:
    """Record that a release that waits is not published, remove its files, and tag the run that made it.

    Raises
    ------
    ReleaseError
        If it does not wait; `approval.reject_waiting`.
    """
    run = _run_of(releases, policy, number)
    reject_waiting(releases, policy, number, by, reason)
    if run is not None and instance.get_run_by_id(run) is not None:
        instance.add_run_tags(run, {OUTCOME_TAG: REJECTED})


def _run_of(releases: Releases, policy: str, number: int) -> str | None:
    """The run that made a release; None if its record is not as it was staged: it may be rejected all the same."""
    try:
        told: Json = read_waiting(waiting_folder(releases.waiting, policy, number), releases.key.public).terms.event
    except ReleaseError:
        return None
    return str(told["run"])

"""Independent evidence: what Dagster's event log says about the checks and inputs of a release.

The only module of `release` that uses Dagster. Evidence tables could be edited. The event log shows independently that
every gating check passed for this partition on the current materialization.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from itertools import takewhile

import dagster as dg

from deid_assets.assessments.evidence import Refusal
from deid_assets.dagster_internals import PARTITION_NAME_TAG as PARTITION_TAG
from deid_assets.dagster_internals import (
    AssetCheckExecutionRecord,
    AssetCheckExecutionRecordStatus,
    PartitionKeyFilter,
    serialize_value,
)
from deid_assets.errors import ReleaseError
from deid_assets.release.journal.chain import JOURNAL_HEAD, Journal, unknown_to
from deid_assets.release.lineage.graph import Evaluated, Lineage, Materialized, RecordedRelease, RecordedRun, lineage_of


def current_materialization(instance: dg.DagsterInstance, key: dg.AssetKey, partition: str) -> dg.EventLogRecord | None:
    """The newest materialization of an asset for a partition."""
    records = instance.fetch_materializations(
        dg.AssetRecordsFilter(asset_key=key, asset_partitions=[partition]), limit=1
    ).records
    return records[0] if records else None


@dataclass(frozen=True)
class Current:
    """The newest materialization of each asset for a delivery, read when it is first asked for.

    A gate asks of each several times, and while it judges no other run can write the store of the delivery.
    """

    instance: dg.DagsterInstance
    partition: str
    _read: dict[dg.AssetKey, dg.EventLogRecord | None] = field(default_factory=dict)

    def of(self, key: dg.AssetKey) -> dg.EventLogRecord | None:
        """That of an asset; None if it has none."""
        if key not in self._read:
            self._read[key] = current_materialization(self.instance, key, self.partition)
        return self._read[key]


def witness(log: Current, checks: Iterable[dg.AssetCheckKey], run_id: str) -> list[Refusal]:
    """Refuse unless every check passed for the delivery on the asset's current materialization.

    A planned evaluation that never began is no evidence: a run that was locked out, or killed before it reached the
    check, leaves one behind. The following count against a check:

    * an evaluation of the current materialization that failed, whatever passed before or after it;
    * a failure that names no materialization and may be newer than the pass;
    * an evaluation that may be newer than the pass, has begun, and has no result;
    * an evaluation that the present run has planned and not finished.

    Parameters
    ----------
    checks
        The gating checks.
    run_id
        The run that asks.
    """
    found = []
    for key in checks:
        problem = _problem(log, key, run_id)
        if problem:
            name = f"{key.asset_key.path[-1]}/{key.name}"
            found.append(_refused("check_not_passed", name, problem))
    return found


def _refused(rule: str, name: str, problem: str) -> Refusal:
    return Refusal(rule, name, None, None, f"{name}: {problem}")


_Status = AssetCheckExecutionRecordStatus
_PAGE = 20


def _problem(log: Current, key: dg.AssetCheckKey, run_id: str) -> str | None:
    instance, partition, materialization = log.instance, log.partition, log.of(key.asset_key)
    if materialization is None:
        return "its asset has never been materialized for this delivery"
    current = materialization.storage_id
    records = list(_records(instance, key, partition, _Status.SUCCEEDED, _Status.FAILED, _Status.PLANNED))
    passed = next((one for one in records if one.status == _Status.SUCCEEDED and _target(one) == current), None)
    # A record's number shows when its evaluation was planned, not when it ended. The evaluation planned first may have
    # ended last, so a failure of the current materialization counts in any order.
    newest = passed.id if passed else 0
    for record in (one for one in records if one.status == _Status.FAILED):
        if _target(record) == current or (_target(record) is None and record.id > newest):
            return "the check did not pass"
    for record in (one for one in records if one.status == _Status.PLANNED):
        if record.run_id == run_id:
            return "the check has not finished in this run"
        began = _began(instance, record)
        if began is not None and (record.id > newest or began >= materialization.timestamp):
            return "the check started again and has no result"
    if passed is not None:
        return None
    evaluated = any(one.status != _Status.PLANNED for one in records)
    return "the check judged an earlier materialization" if evaluated else "the check has never run for this delivery"


def _records(
    instance: dg.DagsterInstance, key: dg.AssetCheckKey, partition: str | None, *statuses: AssetCheckExecutionRecordStatus
) -> Iterator[AssetCheckExecutionRecord]:
    """Yield the records of a check for a partition, the most recently planned first."""
    cursor = None
    while True:
        page = instance.event_log_storage.get_asset_check_execution_history(
            key,
            limit=_PAGE,
            cursor=cursor,
            status=set(statuses),
            partition_filter=None if partition is None else PartitionKeyFilter(key=partition),
        )
        yield from page
        if len(page) < _PAGE:
            return
        cursor = page[-1].id


def _target(record: AssetCheckExecutionRecord) -> int | None:
    """Number of the materialization that an evaluation judged; None if it names none, or contradicts its own status."""
    evaluation = record.evaluation
    if evaluation is None or evaluation.passed != (record.status == _Status.SUCCEEDED):
        return None
    target = evaluation.target_materialization_data
    return None if target is None else target.storage_id


def _began(instance: dg.DagsterInstance, record: AssetCheckExecutionRecord) -> float | None:
    """When a planned evaluation began; None if it never did. If unknown, after everything else."""
    if record.event is None or record.event.step_key is None or not instance.has_run(record.run_id):
        return float("inf")
    starts = instance.get_records_for_run(record.run_id, of_type=dg.DagsterEventType.STEP_START).records
    return max((start.timestamp for start in starts if start.event_log_entry.step_key == record.event.step_key), default=None)


_DATA_VERSION = "dagster/data_version"
_INPUT_EVENT = "dagster/input_event_pointer/"


def stale_inputs(log: Current, made_under: Mapping[dg.AssetKey, str]) -> list[Refusal]:
    """Refuse assets made from inputs other than the current ones, or under another text of the policy.

    Materializing some of the assets leaves the others unchanged. A candidate made before its claims were taken in again
    is not the release of these claims; one made before a member opted out still contains that member.

    Parameters
    ----------
    made_under
        For every asset before the release, the digest of the policy sections that it must have been made with.
    """
    records = {key.to_user_string(): log.of(key) for key in made_under}
    found = []
    for key, expected in made_under.items():
        name, short = key.to_user_string(), key.path[-1]
        record = records[name]
        if record is None or record.asset_materialization is None:
            found.append(_refused("missing_asset", short, "it has never been materialized for this delivery"))
            continue
        stated = record.asset_materialization.metadata.get("made_under")
        if stated is None or stated.value != expected:
            text = "it was made under another policy, or an earlier text of it; materialize it again"
            found.append(_refused("stale_policy", short, text))
        for tag, pointer in (record.asset_materialization.tags or {}).items():
            upstream = records.get(tag.removeprefix(_INPUT_EVENT)) if tag.startswith(_INPUT_EVENT) else None
            # The tag of an input's data version is a digest over partitions; the event that was read states it plainly.
            if upstream is not None and str(upstream.storage_id) != pointer:
                text = f"it was made from an earlier {tag.split('/')[-1]}; materialize it again"
                found.append(_refused("stale_input", short, text))
    return found


def stale_stages(log: Current, stages: Mapping[dg.AssetKey, Iterable[dg.AssetKey]]) -> list[Refusal]:
    """Refuse stages that do not stand for the tables that are there.

    A release depends on the assets of stages, and these on their tables. If a table was made again after its stage, the log
    would say that the release was made from the earlier one.

    Parameters
    ----------
    stages
        By key of a stage's asset: the keys of its tables.
    """
    found = []
    for stage, tables in stages.items():
        short = stage.path[-1]
        record = log.of(stage)
        if record is None or record.asset_materialization is None:
            found.append(_refused("missing_asset", short, "this stage has never been materialized for this delivery"))
            continue
        tags = record.asset_materialization.tags or {}
        for table in tables:
            current = log.of(table)
            pointer = tags.get(f"{_INPUT_EVENT}{table.to_user_string()}")
            if current is None or pointer != str(current.storage_id):
                text = f"this stage was not made from the current {table.path[-1]}; materialize the stage again"
                found.append(_refused("stale_input", short, text))
    return found


@dataclass(frozen=True)
class RecordedTable:
    """What the log says of the current table of an asset.

    Attributes
    ----------
    name
        The last part of the asset's key.
    event
        Number of its materialization; None if it was never made.
    rows
        How many it has; None if that was not recorded.
    content
        Its keyed fingerprint; empty if that was not recorded.
    """

    name: str
    event: int | None
    rows: int | None = None
    content: str = ""


def recorded_tables(instance: dg.DagsterInstance, keys: Iterable[dg.AssetKey], partition: str) -> list[RecordedTable]:
    """The current tables of assets, as they were when they were written."""
    found = []
    for key in keys:
        record = current_materialization(instance, key, partition)
        if record is None or record.asset_materialization is None:
            found.append(RecordedTable(key.path[-1], None))
            continue
        metadata = record.asset_materialization.metadata
        rows, content = metadata.get("dagster/row_count"), metadata.get("content")
        found.append(
            RecordedTable(
                key.path[-1],
                record.storage_id,
                rows.value if isinstance(rows, dg.IntMetadataValue) else None,
                "" if content is None else str(content.value),
            )
        )
    return found


@dataclass(frozen=True)
class Stated:
    """What the materialization of an asset states, and what is wrong if it is not so.

    Attributes
    ----------
    entry
        Of its metadata, with a keyed fingerprint.
    rule, problem
        Of the refusal.
    about
        What is refused; None: the asset.
    """

    entry: str
    rule: str
    problem: str
    about: str | None = None


TABLE = Stated(
    "content", "edited_table",
    "its table is not the one that was materialized: it was changed, or written by another version of DuckDB; materialize it "
    "again",
)  # fmt: skip
"""A table of the restricted store is the one that its asset wrote. Otherwise the change was never judged."""

POLICY_TEXT = Stated(
    "policy_reading", "other_policy_text",
    "it was measured under another text of the policy, or of a file that it names; materialize it again",
)  # fmt: skip
"""An assessment was made under the bytes of the policy, and of the files that it names."""

EVIDENCE = Stated("evidence_digest", "edited_evidence", "the stored evidence is not what was measured; materialize it again")
"""Evidence is what its asset measured."""


def not_as_stated(log: Current, stated: Stated, now: Iterable[tuple[dg.AssetKey, str | None]]) -> list[Refusal]:
    """Refuse assets whose current materialization is missing, or does not state what is so now.

    Parameters
    ----------
    now
        Assets, and the fingerprint of each as it is now; None if there is nothing to take it of.
    """
    found = []
    for key, fingerprint in now:
        record = log.of(key)
        told = record.asset_materialization.metadata.get(stated.entry) if record and record.asset_materialization else None
        if told is None or fingerprint is None or told.value != fingerprint:
            found.append(_refused(stated.rule, stated.about or key.path[-1], stated.problem))
    return found


def data_versions(log: Current, keys: Iterable[dg.AssetKey]) -> dict[str, str]:
    """The current data version of each asset: the lineage of a release."""
    versions = {}
    for key in keys:
        record = log.of(key)
        tags = (record.asset_materialization.tags or {}) if record and record.asset_materialization else {}
        versions[key.path[-1]] = tags.get(_DATA_VERSION, "unknown")
    return versions


def recorded_releases(instance: dg.DagsterInstance) -> list[RecordedRelease]:
    """Every materialization of a release that the log contains, oldest first, of any policy."""
    found = []
    for key in instance.all_asset_keys():
        if key.path[-1] != "release":
            continue
        for record in _materializations(instance, key):
            made = record.asset_materialization
            head = made.metadata.get("registry_head") if made else None
            number = made.metadata.get("number") if made else None
            if made is None or head is None or number is None:
                continue
            told = made.metadata.get(JOURNAL_HEAD)
            journal = None if told is None else str(told.value)
            unchanged = "unchanged" in made.metadata
            found.append(RecordedRelease(_materialized(record), str(head.value), _whole(number.value), unchanged, journal))
    return sorted(found, key=lambda one: one.made.event)


def require_journal(instance: dg.DagsterInstance, journal: Journal) -> None:
    """Refuse to decide anything while the home's journal lacks a line that the log knows.

    Raises
    ------
    ReleaseError
        If it does.
    """
    found = unknown_to(journal, recorded_releases(instance))
    if found:
        raise ReleaseError(f"nothing is decided until this is resolved: {'; '.join(found)}")


def recorded_lineage(instance: dg.DagsterInstance, release: Materialized, named: Iterable[str]) -> Lineage:
    """Follow the inputs of a release through the log, to whatever assets they lead.

    Parameters
    ----------
    named
        Names of assets of the same policy that the manifest names. One that the release did not read is taken as it was
        when the release was made.
    """
    prefix = release.asset.rpartition("/")[0]

    def fetch(asset: str, event: int) -> Materialized | None:
        records = _events(instance, asset, event)
        return _materialized(records[0]) if records else None

    read = lineage_of(release, fetch)
    besides = []
    for asset in sorted({f"{prefix}/{name}" for name in named} - set(read.before)):
        wanted = dg.AssetRecordsFilter(
            asset_key=dg.AssetKey.from_user_string(asset),
            asset_partitions=None if release.partition is None else [release.partition],
            before_storage_id=release.event,
        )
        besides += [_materialized(record) for record in instance.fetch_materializations(wanted, limit=1).records]
    return lineage_of(release, fetch, besides) if besides else read


def current_lineage(
    instance: dg.DagsterInstance, release: dg.AssetKey, before: Iterable[dg.AssetKey], partition: str
) -> Lineage:
    """What a release that is being made derives from: the current materializations, and what they were made from.

    Parameters
    ----------
    before
        The tables before the release.
    """
    inputs: dict[str, int | None] = {}
    for key in before:
        record = current_materialization(instance, key, partition)
        inputs[key.to_user_string()] = record.storage_id if record else None
    event = 1 + max((number for number in inputs.values() if number is not None), default=0)
    making = Materialized(release.to_user_string(), event, "", "", partition, None, None, inputs)
    return recorded_lineage(instance, making, ())


def recorded_checks(instance: dg.DagsterInstance, lineage: Lineage) -> list[Evaluated]:
    """Every evaluation of an asset check in the runs of a release's delivery, and in those that its assets were made in."""
    found = []
    for run in _runs_behind(instance, lineage):
        for record in instance.get_records_for_run(run, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION).records:
            event = record.event_log_entry.dagster_event
            if event is not None:
                found.append(_evaluated(event.asset_check_evaluation_data, record))
    return found


def _runs_behind(instance: dg.DagsterInstance, lineage: Lineage) -> list[str]:
    """The runs of a release's delivery, and those that its assets were made in."""
    partition = lineage.release.partition
    filters = None if partition is None else dg.RunsFilter(tags={PARTITION_TAG: partition})
    runs = [record.dagster_run.run_id for record in instance.get_run_records(filters=filters, ascending=True)]
    runs += [made.run for made in (*lineage.before.values(), lineage.release)]
    return list(dict.fromkeys(runs))


def differing_records(instance: dg.DagsterInstance, lineage: Lineage, approved: bool = False) -> list[str]:
    """Where the log contradicts itself about a release, each as a sentence.

    Dagster keeps what is about an asset twice: in the log of the run, and by asset. In files these are two files for each run,
    and somebody who edits one of them, or deletes a check from it, leaves the other as it was.

    Parameters
    ----------
    approved
        Whether a person approved the release, according to its manifest. It was recorded after its run, whose checks of the
        release itself had nothing to judge.
    """
    every = {(made.asset, made.event): made for made in (*lineage.before.values(), lineage.release)}
    differing: set[str] = set()
    missing: set[str] = set()
    made_in_runs: set[str] = set()
    evaluated: dict[tuple[str, str, int], list[dg.EventLogEntry]] = {}
    planned: set[tuple[str, str, str]] = set()
    for run in _runs_behind(instance, lineage):
        for record in instance.get_records_for_run(run, of_type=_TOLD_TWICE).records:
            entry, event = record.event_log_entry, record.event_log_entry.dagster_event
            if event is None:
                continue
            if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
                made_in_runs.add(serialize_value(entry))
            elif event.event_type == dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED:
                plan = event.asset_check_planned_data
                planned.add((run, plan.asset_key.to_user_string(), plan.check_name))
            else:
                evaluation = event.asset_check_evaluation_data
                target = evaluation.target_materialization_data
                if target is not None:
                    judged = (evaluation.asset_key.to_user_string(), evaluation.check_name, target.storage_id)
                    evaluated.setdefault(judged, []).append(entry)
    for made in every.values():
        if made.run and serialize_value(_entry_of(instance, made)) not in made_in_runs:
            differing.add(made.asset)
        if approved and made == lineage.release:
            continue
        for run, asset, check in sorted(planned):
            if (run, asset) == (made.run, made.asset) and (asset, check, made.event) not in evaluated:
                missing.add(f"{asset}/{check}")
    for (asset, check, number), entries in evaluated.items():
        if (asset, number) not in every:
            continue
        key = dg.AssetCheckKey(dg.AssetKey.from_user_string(asset), check)
        by_asset = {
            serialize_value(one.event)
            for partition in {_partition_of(entry) for entry in entries}
            for one in _records(instance, key, partition, _Status.SUCCEEDED, _Status.FAILED)
            if one.event is not None and _target(one) == number
        }
        if any(serialize_value(entry) not in by_asset for entry in entries):
            differing.add(f"{asset}/{check}")
    found = []
    if differing:
        found.append(
            "the event log keeps what is about an asset twice, and the two records differ, or one is gone, for "
            f"{', '.join(sorted(differing))}"
        )
    if missing:
        found.append(f"the event log has no evaluation of checks that were planned: {', '.join(sorted(missing))}")
    return found


_TOLD_TWICE = {
    dg.DagsterEventType.ASSET_MATERIALIZATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION,
    dg.DagsterEventType.ASSET_CHECK_EVALUATION_PLANNED,
}


def _partition_of(evaluated: dg.EventLogEntry) -> str | None:
    """The partition that an evaluation is kept under; None for a check of the newest delivery, whichever that is."""
    event = evaluated.dagster_event
    return None if event is None else event.asset_check_evaluation_data.partition


def _entry_of(instance: dg.DagsterInstance, made: Materialized) -> dg.EventLogEntry:
    """The event of a materialization as it is kept by asset; it was read from there before."""
    return _events(instance, made.asset, made.event)[0].event_log_entry


def _events(instance: dg.DagsterInstance, asset: str, event: int) -> Sequence[dg.EventLogRecord]:
    """The materialization of an asset with this number, if the log has it."""
    wanted = dg.AssetRecordsFilter(asset_key=dg.AssetKey.from_user_string(asset), storage_ids=[event])
    return instance.fetch_materializations(wanted, limit=1).records


def recorded_run(instance: dg.DagsterInstance, run: str) -> RecordedRun | None:
    """A run as the log describes it; None if it has none of this identifier."""
    record = instance.get_run_record_by_id(run)
    return None if record is None else _run_of(record)


def recorded_runs_before(instance: dg.DagsterInstance, own: RecordedRun) -> tuple[RecordedRun, ...]:
    """The runs of the same job and delivery that were created before a run, oldest first: tries that were refused or failed."""
    tags = {name: value for name, value in own.tags.items() if name == PARTITION_TAG}
    if not tags:
        return ()
    records = instance.get_run_records(filters=dg.RunsFilter(job_name=own.job, tags=tags), ascending=True)
    runs = [_run_of(record) for record in records]
    return tuple(takewhile(lambda run: run.run != own.run, runs))


def _run_of(record: dg.RunRecord) -> RecordedRun:
    run = record.dagster_run
    started, ended = (None if at is None else _iso(at) for at in (record.start_time, record.end_time))
    return RecordedRun(run.run_id, run.job_name, run.status.value, started, ended, dict(run.tags))


def _materializations(instance: dg.DagsterInstance, key: dg.AssetKey) -> Iterator[dg.EventLogRecord]:
    cursor, more = None, True
    while more:
        page = instance.fetch_materializations(key, limit=_EVENTS, cursor=cursor)
        yield from page.records
        cursor, more = page.cursor, page.has_more


_EVENTS = 200


def _materialized(record: dg.EventLogRecord) -> Materialized:
    made = record.asset_materialization
    if made is None:
        raise ReleaseError("the event log contains an event of an asset that is no materialization")
    tags, metadata = made.tags or {}, made.metadata
    schema, columns = metadata.get("dagster/column_schema"), metadata.get("dagster/column_lineage")
    digest = metadata.get("evidence_digest")
    inputs = {
        tag.removeprefix(_INPUT_EVENT): int(pointer) if pointer.isdigit() else None
        for tag, pointer in tags.items()
        if tag.startswith(_INPUT_EVENT)
    }
    return Materialized(
        asset=made.asset_key.to_user_string(),
        event=record.storage_id,
        run=record.run_id,
        made=_iso(record.timestamp),
        partition=record.partition_key,
        data_version=tags.get(_DATA_VERSION),
        code_version=tags.get("dagster/code_version"),
        inputs=inputs,
        columns=tuple(column.name for column in schema.value.columns)
        if isinstance(schema, dg.TableSchemaMetadataValue)
        else (),
        sources={
            column: tuple((source.asset_key.to_user_string(), source.column_name) for source in sources)
            for column, sources in columns.value.deps_by_column.items()
        }
        if isinstance(columns, dg.TableColumnLineageMetadataValue)
        else {},
        evidence_digest=None if digest is None else str(digest.value),
    )


def _evaluated(evaluation: dg.AssetCheckEvaluation, record: dg.EventLogRecord) -> Evaluated:
    metadata = {name: found.value for name, found in evaluation.metadata.items()}
    target = evaluation.target_materialization_data
    measured, threshold = (
        float(number) if isinstance(number, int | float) else None
        for number in (metadata.get("measured"), metadata.get("threshold"))
    )
    return Evaluated(
        asset=evaluation.asset_key.to_user_string(),
        check=evaluation.check_name,
        event=None if target is None else target.storage_id,
        passed=evaluation.passed,
        blocking=evaluation.blocking is not False,
        gating=metadata.get("gating") is not False,
        measured=measured,
        threshold=threshold,
        run=record.run_id,
        made=_iso(record.timestamp),
    )


def _whole(number: object) -> int:
    if not isinstance(number, int):
        raise ReleaseError("the event log contains a release whose number is not a whole number")
    return number


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")

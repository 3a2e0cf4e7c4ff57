"""A release as one asset of another project: its step runs the whole pipeline of the policy in the home's own instance.

Dagster cannot hide assets. Where the project's catalog shows only the release and its published tables, the tables, stages
and checks are assets of the home's instance alone. The gate reads that instance's event log, as it does for `deid run`. The
step here decides nothing: it passes on what the run in the home has published, or why that was refused.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import dagster as dg

from deid_assets.assets.publishing import REQUESTED_BY, REQUIREMENTS
from deid_assets.assets.stage_asset import published_output, refusals_fail
from deid_assets.assets.upstream_intake import take_in
from deid_assets.assets.waiting_release import WAITING
from deid_assets.automation.ended_runs import report_refusal, unfulfilled_in
from deid_assets.automation.instance import add_partition, clean_orphans, dagster_instance, prepare_dagster_home
from deid_assets.automation.outcomes import RunSummary, outcome_of, tag_outcome
from deid_assets.dagster_internals import make_new_run_id
from deid_assets.definitions import PolicyParts, resources_of
from deid_assets.errors import PUBLISHED as IS_PUBLISHED
from deid_assets.errors import REFUSED, REFUSED_MARK, PolicyError, ReleaseError, StoreError
from deid_assets.forecast import ANNOUNCED
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.resources import (
    PUBLISHED,
    REPETITION_TAG,
    REQUESTED_TAG,
    Keys,
    Workplace,
    again_tag,
    ended_in,
    job_name,
    overtaken,
    overtaken_policies,
)
from deid_assets.sources.upstream import Copies
from deid_assets.stages import RELEASE
from deid_assets.store.digests import combined_digest
from deid_assets.store.guard import without_values
from deid_assets.store.lock import StoreLock

_LINEAGE = "dagster/column_lineage"
_DATA_VERSION = "dagster/data_version"
_INTERRUPTED = (dg.DagsterExecutionInterruptedError.__name__, KeyboardInterrupt.__name__)


@dataclass(frozen=True)
class HomeRun:
    """A run of the whole pipeline in the home's instance that has ended.

    Attributes
    ----------
    run_id
        The run in the home's instance.
    events
        Its events.
    """

    run_id: str
    events: Sequence[dg.DagsterEvent]

    @property
    def summary(self) -> RunSummary:
        """What came of it."""
        return outcome_of(self.events)

    @property
    def is_interrupted(self) -> bool:
        """Whether a signal or a termination ended it."""
        ended = [event for event in self.events if event.event_type == dg.DagsterEventType.PIPELINE_FAILURE]
        errors = [event.job_failure_data.error for event in ended]
        return any(error is not None and error.cls_name in _INTERRUPTED for error in errors)

    def materializations(self) -> Iterator[dg.AssetMaterialization]:
        """What it made, in order."""
        for event in self.events:
            if event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
                yield event.step_materialization_data.materialization

    def told_of_failures(self) -> dict[str, Any]:
        """The metadata of its refusals, the latest last."""
        told: dict[str, Any] = {}
        for event in self.events:
            if event.event_type == dg.DagsterEventType.STEP_FAILURE:
                failure = event.step_failure_data.user_failure_data
                told |= dict(failure.metadata) if failure is not None else {}
        return told


def whole_release(
    policy: AnyPolicy,
    keys: Keys,
    partitions_def: dg.PartitionsDefinition,
    workplace: Workplace,
    inputs: Mapping[str, dg.AssetIn],
    mapped: Iterable[str],
) -> PolicyParts:
    """The release and its published tables, which depend on the upstream assets directly.

    Parameters
    ----------
    keys
        Their keys in the project, and that of the `Workplace`. In the home's instance keys have no prefix.
    partitions_def
        The deliveries in the project.
    workplace
        The home, with the policy as given and the copies of the upstream's tables.
    inputs
        The upstream assets by the names of inputs.
    mapped
        Tables whose upstream has a partition mapping.

    Raises
    ------
    PolicyError
        If the workplace has no copies, so that deliveries are no assets.
    """
    copies = workplace.copies
    if copies is None:
        raise PolicyError(f"policy {policy.name}: its deliveries are no assets of this project")
    parts = PolicyParts.of(policy, Keys(policy.name))
    specs = {spec.key: spec for asset in parts.assets for spec in asset.specs}
    # Whatever changes an asset of the pipeline makes this one stale.
    version = combined_digest({key.path[-1]: str(spec.code_version) for key, spec in specs.items()})[:12]
    own = {RELEASE: parts.keys.asset(RELEASE)} | {
        published_output(key.path[-1]): key for key, spec in specs.items() if PUBLISHED in spec.metadata
    }
    shown = {name: dg.AssetKey([*keys.prefix, *key.path]) for name, key in own.items()}
    outs = {
        name: dg.AssetOut.from_spec(
            specs[own[name]].replace_attributes(key=key, deps=[], code_version=version, partitions_def=None),
            dagster_type=dg.Nothing,
            is_required=False,
        )
        for name, key in shown.items()
    }
    upstream = {one.key for one in inputs.values() if isinstance(one.key, dg.AssetKey)}

    @dg.multi_asset(
        name="__".join((*keys.prefix, keys.policy, RELEASE)),
        outs=outs,
        ins=dict(inputs),
        internal_asset_deps={name: upstream if name == RELEASE else {keys.asset(RELEASE)} for name in outs},
        partitions_def=partitions_def,
        required_resource_keys={keys.resource},
    )
    def released(context: dg.AssetExecutionContext, **values: object):  # type: ignore[no-untyped-def]  # Dagster reads it
        here: Workplace = getattr(context.resources, keys.resource)
        with refusals_fail(), without_values(f"{keys.scope}/{RELEASE}", here.home.store, (dg.Failure,)):
            made = _run_in_home(context, parts, here, copies, mapped, values)
        summary = made.summary
        tag_outcome(context.instance, context.run.run_id, summary)
        by_key = {one.asset_key: one for one in made.materializations()}
        if summary.release is not None:
            for name in [name for name in outs if own[name] in by_key]:
                yield _output(name, by_key[own[name]], made.run_id, upstream)
        if summary.exit_code != IS_PUBLISHED:
            raise _failure(made, summary)
        _tell_waiting(context, made, keys.asset(RELEASE))

    return PolicyParts(policy, keys, partitions_def, (released,), ())


def _run_in_home(
    context: dg.AssetExecutionContext,
    parts: PolicyParts,
    workplace: Workplace,
    copies: Copies,
    mapped: Iterable[str],
    values: Mapping[str, object],
) -> HomeRun:
    """Copy the upstream's tables, and run the policy's job on the copies; the lock of the store is held meanwhile.

    Raises
    ------
    StoreError
        If another run uses the store, or the project's instance is that of the home.
    DeliveryError
        If the upstream's tables cannot be copied.
    """
    home, policy, delivery, run_id = workplace.home.create(), parts.policy, context.partition_key, make_new_run_id()
    if context.instance.is_persistent and Path(context.instance.root_directory).resolve() == home.dagster.resolve():
        raise StoreError(
            f"the home {home.root} needs a Dagster instance of its own, but DAGSTER_HOME of this project is the folder "
            f"{home.dagster}: both would record the release under the same keys. Set DAGSTER_HOME to another folder"
        )
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        lock = StoreLock.of(home, policy.name, delivery, run_id, ended_in(instance))
        lock.acquire()
        try:
            take_in(context, copies, home, mapped, values)
            clean_orphans(home, instance, lock)
            add_partition(instance, policy.name, delivery)
            context.log.info(f"the pipeline of the policy {policy.name} is run {run_id} in the home {home.root}")
            instance.add_event_listener(run_id, partial(_pass_on, context))
            made = _executed(instance, parts, workplace, delivery, run_id, _requested(context.run))
            tag_outcome(instance, run_id, made.summary)
            _repeat_if_overtaken(context, instance, policy.name, run_id)
            report_refusal(home, workplace.policies.named(policy.name), delivery, made.summary)
            return made
        finally:
            lock.release()


def _pass_on(context: dg.AssetExecutionContext, record: dg.EventLogEntry) -> None:
    """Say in the project's log, too, how far the run in the home is."""
    if not record.is_dagster_event and record.user_message.startswith(ANNOUNCED):
        context.log.info(record.user_message)


def _requested(run: dg.DagsterRun) -> dict[str, str]:
    """What the run in the home must know of the project's: whether the daemon requested it, and how often."""
    told = {} if REQUESTED_BY.isdisjoint(run.tags) else {REQUESTED_TAG: "true"}
    return told | ({REPETITION_TAG: run.tags[REPETITION_TAG]} if REPETITION_TAG in run.tags else {})


def _repeat_if_overtaken(context: dg.AssetExecutionContext, instance: dg.DagsterInstance, policy: str, run_id: str) -> None:
    """Mark the project's run as one to be made again, if another release overtook the run in the home."""
    inner = instance.get_run_by_id(run_id)
    if inner is not None and policy in overtaken_policies(inner):
        instance.add_run_tags(run_id, {again_tag(policy): f"by the project, after its run {context.run.run_id}"})
        context.instance.add_run_tags(context.run.run_id, overtaken(context.run, policy))


def _executed(
    instance: dg.DagsterInstance,
    parts: PolicyParts,
    workplace: Workplace,
    delivery: str,
    run_id: str,
    tags: Mapping[str, str],
) -> HomeRun:
    """Execute the whole job of a policy in an instance.

    Raises
    ------
    dagster.DagsterExecutionInterruptedError
        If it was interrupted; the run is recorded as canceled.
    """
    defined = dg.Definitions(
        assets=parts.assets,
        asset_checks=parts.checks,
        jobs=[parts.job()],
        resources=resources_of(workplace, [parts.keys]),
    )
    result = defined.resolve_job_def(job_name(parts.policy.name)).execute_in_process(
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        instance=instance,
        partition_key=delivery,
        run_id=run_id,
        tags={"deid/policy_hash": parts.policy.public_hash[:16], **tags},
        raise_on_error=False,
    )
    made = HomeRun(run_id, result.all_events)
    if made.is_interrupted:
        left = instance.get_run_by_id(run_id)
        if left is not None:
            instance.report_run_canceled(left)
            tag_outcome(instance, run_id, made.summary)
        raise dg.DagsterExecutionInterruptedError
    return made


def _output(name: str, made: dg.AssetMaterialization, run_id: str, upstream: Collection[dg.AssetKey]) -> dg.Output[None]:
    """What the run in the home made, as an output of the step; its columns derive from upstream assets only."""
    metadata: dict[str, Any] = {**made.metadata, "run_in_home": run_id}
    lineage = metadata.pop(_LINEAGE, None)
    if isinstance(lineage, dg.TableColumnLineageMetadataValue):
        columns = {
            column: [one for one in found if one.asset_key in upstream]
            for column, found in lineage.column_lineage.deps_by_column.items()
        }
        metadata[_LINEAGE] = dg.TableColumnLineage({column: found for column, found in columns.items() if found})
    return dg.Output(None, name, metadata=metadata, data_version=dg.DataVersion((made.tags or {})[_DATA_VERSION]))


def _failure(made: HomeRun, summary: RunSummary) -> Exception:
    """The refusal with the gate's reasons and numbers, or an error if the run was not refused for privacy."""
    said = "; ".join((*summary.reasons, *summary.failed_checks)) or "the run in the home published nothing"
    said += f" (run {made.run_id} in the home)"
    if summary.exit_code != REFUSED:
        return ReleaseError(said)
    unfulfilled = dg.MetadataValue.json([asdict(one) for one in unfulfilled_in(made.events)])
    metadata = made.told_of_failures() | {"refused": True, REQUIREMENTS: unfulfilled, "run_in_home": made.run_id}
    return dg.Failure(f"{REFUSED_MARK}{said}", metadata=metadata, allow_retries=False)


def _tell_waiting(context: dg.AssetExecutionContext, made: HomeRun, release: dg.AssetKey) -> None:
    """Show in the project's catalog, too, that the release waits for a person's approval."""
    for event in made.events:
        if event.event_type == dg.DagsterEventType.ASSET_OBSERVATION:
            observed = event.asset_observation_data.asset_observation
            if WAITING in observed.metadata:
                context.log_event(
                    dg.AssetObservation(
                        release,
                        partition=context.partition_key,
                        description=observed.description,
                        metadata={**observed.metadata, "run_in_home": made.run_id},
                    )
                )

"""A release as part of another Dagster project: its deliveries are assets there.

Dagster cannot hide assets. Where the project's catalog shows only the release and its published tables, these are made by one
step, which runs the whole pipeline of the policy in the home's own instance: the tables, stages and checks are assets of that
instance alone. The gate reads that instance's event log, as it does for `deid run`. The step decides nothing: it passes on
what the run in the home has published, or why that was refused.
"""

import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Literal, get_args

import dagster as dg

from deid_assets import resources
from deid_assets.assets.intake import intake
from deid_assets.assets.publishing import REQUESTED_BY, REQUIREMENTS
from deid_assets.assets.step import published_output, refusals_fail
from deid_assets.assets.upstream_intake import further_inputs, intake_of, take_in
from deid_assets.assets.waiting_release import WAITING
from deid_assets.automation import ended_runs
from deid_assets.automation.instance import add_partition, clean_orphans, dagster_instance, prepare_dagster_home
from deid_assets.building import PolicyParts, resources_of, stage_assets_of
from deid_assets.dagster_internals import make_new_run_id
from deid_assets.errors import PUBLISHED as IS_PUBLISHED
from deid_assets.errors import REFUSED, REFUSED_MARK, PolicyError, ReleaseError, StoreError
from deid_assets.forecast import ANNOUNCED
from deid_assets.partitions import deliveries_of
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.loading import load_policy
from deid_assets.policy.models import Policy
from deid_assets.sources.upstream import Copies, InMemory, Read
from deid_assets.stages import RELEASE
from deid_assets.store.digests import combined_digest
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home, StoreLock

Exposed = Literal["all", "release"]
EXPOSED: tuple[Exposed, ...] = get_args(Exposed)
"""What `build_release` can show in a project's catalog."""

_IN_MEMORY = InMemory()


@dataclass(frozen=True)
class Upstream:
    """An asset of the project that contains members or claims.

    Attributes
    ----------
    asset
        Its key.
    read
        How it is read. `InMemory`: the project's IO manager loads it. Of all others only the asset's key is known to
        Dagster, and the file is read.
    partition_mapping
        Which of its partitions belong to a delivery. Without one, a partition is the delivery of the same key, which only
        partitions of the same kind have: months and days need a mapping.
    """

    asset: dg.AssetKey
    read: Read = _IN_MEMORY
    partition_mapping: dg.PartitionMapping | None = None

    def as_input(self) -> dg.AssetIn:
        """The asset as an input of the intake."""
        if isinstance(self.read, InMemory):
            return dg.AssetIn(key=self.asset, partition_mapping=self.partition_mapping)
        return dg.AssetIn(key=self.asset, partition_mapping=self.partition_mapping, dagster_type=dg.Nothing)


def build_release(
    policy: AnyPolicy | str | Path,
    *,
    members: Upstream | dg.AssetKey,
    claims: Upstream | dg.AssetKey | None = None,
    partitions_def: dg.PartitionsDefinition | None = None,
    home: Home | str | Path | dg.EnvVar | None = None,
    key_prefix: tuple[str, ...] | list[str] = (),
    resource_key: str = "deid",
    expose: Exposed = "all",
    automation_condition: dg.AutomationCondition | None = None,
    freshness_policy: dg.FreshnessPolicy | None = None,
) -> dg.Definitions:
    """Build the definitions of a release whose deliveries are assets of this project.

    They set no executor. The job of the policy executes its steps in the process of its run; "Materialize" uses the
    executor of the project, such as `one_process_executor`, also one that gives each step a process.

    Parameters
    ----------
    policy
        A policy, or the path of its YAML file. It is used as it is, whatever the home contains. Its source says what the
        columns are called; where the tables are is said here.
    members, claims
        The upstream assets. A key alone: the project's IO manager loads the asset as a pandas frame or an Arrow table.
    partitions_def
        Partitions of the release; each is a delivery. Default: the dynamic partitions `deliveries_of_<policy>`.
    home
        Folder for the restricted store, keys and releases. Default: the folder in the variable DEID_HOME.
    key_prefix
        Parts of all asset keys before the policy's name.
    resource_key
        Key of our resource; that of our IO manager has `_store` after it. Two releases in one project need two keys.
    expose
        What the project's catalog shows. "all": every table, stage and check of the pipeline. "release": the release and its
        published tables, which depend on the upstream assets directly. One step runs the pipeline in the instance of the
        home, whose event log the gate reads.
    automation_condition
        Of every asset of the release, such as `on_new_delivery()`; published tables are made with it.
    freshness_policy
        Of the published release.

    Raises
    ------
    PolicyError
        If the policy is no policy of members and claims, its source has other tables, or `expose` is neither of the two.
    StoreError
        If no home is named.
    """
    read = load_policy(Path(policy)) if isinstance(policy, str | Path) else policy
    if not read.has_events:
        raise PolicyError(
            f"policy {read.name}: build_release takes policies of members and claims; this one is of another kind"
        )
    if others := read.event_tables[1:]:
        raise PolicyError(
            f"policy {read.name}: build_release takes assets of members and claims, and the source has other tables of events "
            f"({', '.join(others)}): register deliveries of files instead, or remove source.events"
        )
    if expose not in EXPOSED:
        raise PolicyError(f"policy {read.name}: expose is {' or '.join(EXPOSED)}, not {expose!r}")
    if isinstance(partitions_def, dg.MultiPartitionsDefinition):
        raise PolicyError(f"policy {read.name}: a delivery has one key, so its partitions cannot have two dimensions")
    upstreams = _upstreams(members, claims)
    copies = copies_of(read, members, claims)
    workplace = resources.Workplace(str(home_of(home).root), {read.name: read}, copies)
    keys = resources.Keys(read.name, tuple(key_prefix), resource_key)
    partitions = partitions_def or deliveries_of(read.name)
    inputs = further_inputs({name: one.as_input() for name, one in upstreams.items()})
    if expose == "release":
        parts = whole_release(read, keys, partitions, workplace, inputs)
    else:
        taken_in = intake_of(copies, inputs)
        declared = [taken_in if one is intake else one for one in stage_assets_of(read)]
        parts = PolicyParts.of(read, keys, partitions, declared=declared)
    scheduled = partial(_scheduled, keys, automation_condition, freshness_policy)
    parts = replace(parts, assets=tuple(dg.map_asset_specs(scheduled, parts.assets)))
    job = parts.job()
    again = ended_runs.repeat_sensor({read.name: job}, f"overtaken_runs_{read.name}")
    canceled = ended_runs.canceled_sensor([job], f"canceled_runs_{read.name}")
    if expose == "release":  # the step itself reports refusals, from the run in the home
        shared = {keys.resource: workplace}
        return dg.Definitions(assets=parts.assets, jobs=[job], sensors=[again, canceled], resources=shared)
    return dg.Definitions(
        assets=parts.assets,
        asset_checks=parts.checks,
        jobs=[job],
        sensors=[ended_runs.report_sensor(workplace, [job], f"refusal_report_{read.name}"), again, canceled],
        resources=resources_of(workplace, [keys]),
    )


def _upstreams(members: Upstream | dg.AssetKey, claims: Upstream | dg.AssetKey | None) -> dict[str, Upstream]:
    named = {"members": members} if claims is None else {"members": members, "claims": claims}
    return {name: Upstream(one) if isinstance(one, dg.AssetKey) else one for name, one in named.items()}


def copies_of(policy: Policy, members: Upstream | dg.AssetKey, claims: Upstream | dg.AssetKey | None) -> Copies:
    """The copies of the upstream tables of a policy; parameters as in `build_release`.

    Raises
    ------
    PolicyError
        If the policy's source is no tables, or has others than these.
    """
    upstreams = _upstreams(members, claims)
    return Copies(
        policy.name,
        policy.source,
        {name: one.read for name, one in upstreams.items()},
        {name: one.asset.to_user_string() for name, one in upstreams.items()},
    )


def home_of(home: Home | str | Path | dg.EnvVar | None) -> Home:
    """The home that is named, or that of DEID_HOME.

    Raises
    ------
    StoreError
        If none is named.
    """
    if isinstance(home, Home):
        return home
    named = os.environ.get("DEID_HOME") if home is None else home.get_value() if isinstance(home, dg.EnvVar) else str(home)
    if not named or not named.strip():
        raise StoreError("no folder is named for the restricted store and the releases: set DEID_HOME, or pass home=")
    return Home(Path(named).absolute())


def _scheduled(
    keys: resources.Keys,
    automation_condition: dg.AutomationCondition | None,
    freshness_policy: dg.FreshnessPolicy | None,
    spec: dg.AssetSpec,
) -> dg.AssetSpec:
    # A published table is made with its release: a condition of its own could only ask for both again.
    own = automation_condition if resources.PUBLISHED not in spec.metadata else None
    changed = spec if own is None else spec.replace_attributes(automation_condition=own)
    if freshness_policy is None or spec.key != keys.asset("release"):
        return changed
    return changed.replace_attributes(freshness_policy=freshness_policy)


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
    def summary(self) -> ended_runs.RunSummary:
        """What came of it."""
        return ended_runs.outcome_of(self.events)

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
    keys: resources.Keys,
    partitions_def: dg.PartitionsDefinition,
    workplace: resources.Workplace,
    inputs: Mapping[str, dg.AssetIn],
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

    Raises
    ------
    PolicyError
        If the workplace has no copies, so that deliveries are no assets.
    """
    copies = workplace.copies
    if copies is None:
        raise PolicyError(f"policy {policy.name}: its deliveries are no assets of this project")
    parts = PolicyParts.of(policy, resources.Keys(policy.name))
    specs = {spec.key: spec for asset in parts.assets for spec in asset.specs}
    # Whatever changes an asset of the pipeline makes this one stale.
    version = combined_digest({key.path[-1]: str(spec.code_version) for key, spec in specs.items()})[:12]
    own = {RELEASE: parts.keys.asset(RELEASE)} | {
        published_output(key.path[-1]): key for key, spec in specs.items() if resources.PUBLISHED in spec.metadata
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
        here: resources.Workplace = getattr(context.resources, keys.resource)
        with refusals_fail(), without_values(f"{keys.scope}/{RELEASE}", here.home.store, (dg.Failure,)):
            made = _run_in_home(context, parts, here, partial(take_in, context, copies, inputs, values))
        summary = made.summary
        ended_runs.tag_outcome(context.instance, context.run.run_id, summary)
        by_key = {one.asset_key: one for one in made.materializations()}
        if summary.release is not None:
            for name in [name for name in outs if own[name] in by_key]:
                yield _output(name, by_key[own[name]], made.run_id, upstream)
        if summary.exit_code != IS_PUBLISHED:
            raise _failure(made, summary)
        _tell_waiting(context, made, keys.asset(RELEASE))

    return PolicyParts(policy, keys, partitions_def, (released,), ())


def _run_in_home(
    context: dg.AssetExecutionContext, parts: PolicyParts, workplace: resources.Workplace, take: Callable[[Home], None]
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
        lock = StoreLock.of(home, policy.name, delivery, run_id, resources.ended_in(instance))
        lock.acquire()
        try:
            take(home)
            clean_orphans(home, instance, lock)
            add_partition(instance, policy.name, delivery)
            context.log.info(f"the pipeline of the policy {policy.name} is run {run_id} in the home {home.root}")
            instance.add_event_listener(run_id, partial(_pass_on, context))
            made = _executed(instance, context, parts, workplace, run_id)
            ended_runs.tag_outcome(instance, run_id, made.summary)
            _repeat_if_overtaken(context, instance, policy.name, run_id)
            ended_runs.report_refusal(home, workplace.named(policy.name), delivery, made.summary)
            return made
        finally:
            lock.release()


def _pass_on(context: dg.AssetExecutionContext, record: dg.EventLogEntry) -> None:
    """Say in the project's log, too, how far the run in the home is."""
    if not record.is_dagster_event and record.user_message.startswith(ANNOUNCED):
        context.log.info(record.user_message)


def _requested(run: dg.DagsterRun) -> dict[str, str]:
    """What the run in the home must know of the project's: whether the daemon requested it, and how often."""
    told = {} if REQUESTED_BY.isdisjoint(run.tags) else {resources.REQUESTED_TAG: "true"}
    return told | (
        {resources.REPETITION_TAG: run.tags[resources.REPETITION_TAG]} if resources.REPETITION_TAG in run.tags else {}
    )


def _repeat_if_overtaken(context: dg.AssetExecutionContext, instance: dg.DagsterInstance, policy: str, run_id: str) -> None:
    """Mark the project's run as one to be made again, if another release overtook the run in the home."""
    inner = instance.get_run_by_id(run_id)
    if inner is not None and policy in resources.overtaken_policies(inner):
        instance.add_run_tags(run_id, {resources.again_tag(policy): f"by the project, after its run {context.run.run_id}"})
        context.instance.add_run_tags(context.run.run_id, resources.overtaken(context.run, policy))


def _executed(
    instance: dg.DagsterInstance,
    context: dg.AssetExecutionContext,
    parts: PolicyParts,
    workplace: resources.Workplace,
    run_id: str,
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
    result = defined.resolve_job_def(resources.job_name(parts.policy.name)).execute_in_process(
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        instance=instance,
        partition_key=context.partition_key,
        run_id=run_id,
        tags={"deid/policy_hash": parts.policy.public_hash[:16], **_requested(context.run)},
        raise_on_error=False,
    )
    made = HomeRun(run_id, result.all_events)
    if made.is_interrupted:
        left = instance.get_run_by_id(run_id)
        if left is not None:
            instance.report_run_canceled(left)
            ended_runs.tag_outcome(instance, run_id, made.summary)
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


def _failure(made: HomeRun, summary: ended_runs.RunSummary) -> Exception:
    """The refusal with the gate's reasons and numbers, or an error if the run was not refused for privacy."""
    said = "; ".join((*summary.reasons, *summary.failed_checks)) or "the run in the home published nothing"
    said += f" (run {made.run_id} in the home)"
    if summary.exit_code != REFUSED:
        return ReleaseError(said)
    unfulfilled = dg.MetadataValue.json([asdict(one) for one in ended_runs.unfulfilled_in(made.events)])
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

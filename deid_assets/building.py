"""The Dagster definitions of policies: the assets, checks and job of each.

`build_definitions` makes those of the code location of the UI (`definitions`); those of the one policy that `deid run` runs;
and those of other policies or another home, for instance in tests, or to merge into another project.
"""

import logging
import warnings
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import MappingProxyType, ModuleType

import dagster as dg
from pandera.ibis import DataFrameSchema

from deid_assets.assets import (
    accounting,
    adversary,
    assessment,
    candidate,
    cohort,
    counts,
    dates,
    flat,
    generalization,
    intake,
    preparation,
    release,
)
from deid_assets.assets.step import StageAsset, made_from
from deid_assets.assets.whole_stage import whole_stages
from deid_assets.automation.deliveries import Watched, delivery_sensor, freshness_of, freshness_policy, release_schedule
from deid_assets.automation.ended_runs import canceled_sensor, repeat_sensor, report_sensor
from deid_assets.automation.in_use import Use, policies_in_use, uses_in
from deid_assets.checks.of_assets import asset_checks
from deid_assets.dagster_internals import UnresolvedAssetJobDefinition
from deid_assets.partitions import deliveries_of
from deid_assets.policy.base import RESTRICTED_SECTIONS
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.loading import policy_called
from deid_assets.release.published_tables import published_tables
from deid_assets.resources import POLICY_TAG, PUBLISHED, STORE_TAG, Keys, RestrictedStore, Workplace, column_schema, job_name
from deid_assets.schemas import contracts_of
from deid_assets.stages import RELEASE, asset_of
from deid_assets.store.home import Home

_LOG = logging.getLogger(__name__)

# `partitions_def` on checks is a preview feature, `data_version` of outputs a beta feature. pyproject.toml pins the
# version of Dagster with which both were verified.
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*data_version.*")

MODULES: Mapping[Kind, tuple[ModuleType, ...]] = {
    "longitudinal": (intake, preparation, adversary, generalization, candidate, accounting, counts, assessment, release),
    "flat": (flat,),
    "cohort": (cohort,),
}
"""The assets of each kind of policy; `dates` has further ones for policies that release dates."""


def build_definitions(
    policies: Mapping[str, AnyPolicy] | Collection[str] | None = None, home: Home | None = None
) -> dg.Definitions:
    """Build the definitions for some policies.

    They set no executor, so that they can be merged with those of another project. Each job executes its steps in the
    process of its run.

    Parameters
    ----------
    policies
        By name: used as they are, whatever the home contains. Names alone: policies that ship or are in the home's
        `policies`, which every step reads again. Default: those in use in the home (`in_use.policies_in_use`).
    home
        Folder for everything that a run creates. Default: DEID_HOME, else `.deid` in the current folder.
    """
    home = home or Home.here()
    given = dict(policies) if isinstance(policies, Mapping) else {}
    chosen = list(given.values()) or _chosen(home, policies)
    workplace = Workplace(str(home.root), MappingProxyType(given))
    uses = uses_in(home)
    parts = [PolicyParts.of(policy, Keys(policy.name), fresh_days=_use(uses, policy).fresh_days) for policy in chosen]
    jobs = [part.job() for part in parts]
    automated = Automated()
    for part, job in zip(parts, jobs, strict=True):
        automated += automation_of(workplace, part, _use(uses, part.policy), job)
    return dg.Definitions(
        assets=[asset for part in parts for asset in part.assets],
        asset_checks=[*(check for part in parts for check in part.checks), *automated.checks],
        jobs=[*jobs, *automated.jobs],
        sensors=[
            report_sensor(workplace, jobs),
            canceled_sensor(jobs),
            repeat_sensor({part.policy.name: job for part, job in zip(parts, jobs, strict=True)}),
            *automated.sensors,
        ],
        schedules=automated.schedules,
        resources=resources_of(workplace, [part.keys for part in parts] or [Keys("")]),
    )


def _chosen(home: Home, names: Collection[str] | None) -> list[AnyPolicy]:
    """The policies with these names, or all that are in use; the log says which of those cannot be used, and why."""
    if names is not None:
        return [policy_called(name, home.policies) for name in names]
    used = policies_in_use(home)
    for why in used.unusable.values():
        _LOG.warning("%s", why)
    return list(used.values())


def _use(uses: Mapping[str, Use], policy: AnyPolicy) -> Use:
    return uses.get(policy.name, Use())


def resources_of(workplace: Workplace, keys: Sequence[Keys]) -> dict[str, object]:
    """The resources of the assets of some policies, which share a home."""
    store = RestrictedStore(workplace, frozenset(key.scope for key in keys))
    return {keys[0].resource: workplace, keys[0].store: store.definition()}


@dataclass(frozen=True)
class PolicyParts:
    """The assets and checks of one policy."""

    policy: AnyPolicy
    keys: Keys
    partitions_def: dg.PartitionsDefinition
    assets: tuple[dg.AssetsDefinition, ...]
    checks: tuple[dg.AssetChecksDefinition, ...]

    @classmethod
    def of(
        cls,
        policy: AnyPolicy,
        keys: Keys,
        partitions_def: dg.PartitionsDefinition | None = None,
        fresh_days: int | None = None,
        declared: Sequence[StageAsset] | None = None,
    ) -> "PolicyParts":
        """Make them.

        Parameters
        ----------
        partitions_def
            The deliveries; default: the policy's own.
        fresh_days
            Days after which the newest release counts as overdue; None: never.
        declared
            The assets, instead of those that the modules of the policy's kind declare.
        """
        partitions_def = partitions_def or deliveries_of(policy.name)
        made = [
            (replace(one, published=published_tables(policy)) if RELEASE in one.outs else one).made(
                keys, type(policy), partial(asset_of, policy)
            )
            for one in (stage_assets_of(policy) if declared is None else declared)
        ]
        contracts = contracts_of(policy)
        described = partial(
            specialize, policy=policy, contracts=contracts, partitions_def=partitions_def, fresh_days=fresh_days
        )
        return cls(
            policy,
            keys,
            partitions_def,
            (*dg.map_asset_specs(described, made), *whole_stages(policy, keys, partitions_def)),
            tuple(asset_checks(policy, keys, partitions_def)),
        )

    def job(self) -> UnresolvedAssetJobDefinition:
        """The job that makes all of them, step by step in the process of its run.

        A process for each of these small steps would take longer than the step.
        """
        return dg.define_asset_job(
            job_name(self.policy.name),
            selection=dg.AssetSelection.assets(*(key for asset in self.assets for key in asset.keys)),
            description=f"From a delivery to a gated release under the policy {self.policy.name}: {self.policy.title}.",
            tags={POLICY_TAG: self.policy.name},
            config=dg.PartitionedConfig(
                partitions_def=self.partitions_def,
                run_config_for_partition_key_fn=lambda key: {},
                # The instance allows one run at a time for each value of this tag.
                tags_for_partition_key_fn=lambda key: {STORE_TAG: f"{self.policy.name}/{key}"},
            ),
            executor_def=dg.in_process_executor,
        )


def stage_assets_of(policy: AnyPolicy) -> list[StageAsset]:
    """The assets of a policy's kind, as its modules declare them; a release has the tables that the policy publishes."""
    found = []
    for module in (*MODULES[policy.kind], *((dates,) if policy.dates else ())):
        for value in vars(module).values():
            found += [one for one in (value if isinstance(value, list) else [value]) if isinstance(one, StageAsset)]
    return [replace(one, published=published_tables(policy)) if RELEASE in one.outs else one for one in found]


@dataclass(frozen=True)
class Automated:
    """What Dagster does by itself for policies."""

    sensors: tuple[dg.SensorDefinition, ...] = ()
    schedules: tuple[dg.ScheduleDefinition, ...] = ()
    checks: tuple[dg.AssetChecksDefinition, ...] = ()
    jobs: tuple[UnresolvedAssetJobDefinition, ...] = ()

    def __add__(self, other: "Automated") -> "Automated":
        return Automated(
            self.sensors + other.sensors,
            self.schedules + other.schedules,
            self.checks + other.checks,
            self.jobs + other.jobs,
        )


def automation_of(workplace: Workplace, part: PolicyParts, use: Use, job: UnresolvedAssetJobDefinition) -> Automated:
    """What the use of a policy asks for: watched deliveries, re-releases on a schedule, a check of their age."""
    home, policy = workplace.home, part.policy
    partitions, made = deliveries_of(policy.name), Automated()
    if use.deliveries is not None:
        watched = Watched(Path(use.deliveries), use.complete_when)
        made += Automated(sensors=(delivery_sensor(home, policy, job, partitions, watched),))
    if use.schedule is not None:
        made += Automated(schedules=(release_schedule(workplace, policy.name, job, partitions, use.schedule),))
    if use.fresh_days is not None:
        fresh = freshness_of(home, part.keys.asset("release"), partitions, use.fresh_days)
        made += Automated(schedules=(fresh.schedule,), checks=(fresh.check,), jobs=(fresh.job,))
    return made


def specialize(
    spec: dg.AssetSpec,
    policy: AnyPolicy,
    contracts: Mapping[str, DataFrameSchema],
    partitions_def: dg.PartitionsDefinition,
    fresh_days: int | None = None,
) -> dg.AssetSpec:
    """Set what depends on the policy: partition, group, code version, owners, column schema, freshness.

    The code version is the method's version and the hash of the policy sections that the asset reads, so a changed
    threshold does not make the intake stale.
    """
    metadata = spec.metadata
    name = spec.key.path[-1]
    read = list(metadata["policy_sections"] if PUBLISHED in metadata else made_from(policy, name)[1])
    # Guesses could be tested against a plain digest of who opted out; the keyed one of `made_under` covers it.
    sections = [section for section in read if section not in RESTRICTED_SECTIONS]
    # The columns of a published table are those of its dictionary, which is known when it is made.
    described: dict[str, object] = {"policy_sections": read}
    if PUBLISHED not in metadata:
        described["dagster/column_schema"] = column_schema(contracts[name])
    derived = candidate.release_lineage(policy).get(name) if policy.has_events else None
    if derived:
        derived = {column: [_source(policy, source) for source in sources] for column, sources in derived.items()}
    if derived:
        described["derived_columns"] = derived
    if name == "release" and policy.approval is not None:
        described["may_approve"] = ", ".join(policy.approval.by)
    return spec.replace_attributes(
        partitions_def=partitions_def,
        group_name=f"{policy.name}/{metadata['stage']}",
        code_version=f"{metadata['method_version']}-{policy.section_hash(*sections)[:12]}",
        owners=list(policy.owners),
        freshness_policy=freshness_policy(fresh_days) if fresh_days and name == RELEASE else None,
    ).merge_attributes(metadata=described)


def _source(policy: AnyPolicy, source: str) -> str:
    """The source of a column, "table.column", by the asset that makes the table."""
    table, column = source.split(".")
    return f"{asset_of(policy, table)}.{column}"

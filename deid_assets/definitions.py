"""The Dagster definitions: the assets, checks and job of every policy, loaded once per policy.

`deid_assets.definitions` is the code location of the UI. `build_definitions` creates the same for other policies or
another home, for instance in tests, or to merge into another project.
"""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import ModuleType

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition
from pandera.ibis import DataFrameSchema

from deid_assets.assets import (
    adversary,
    assessment,
    candidate,
    cohort,
    cohort_intake,
    counts,
    dates,
    flat,
    flat_intake,
    generalization,
    intake,
    preparation,
    reachable_risk,
    release,
    rule_needs,
)
from deid_assets.automation.deliveries import Watched, delivery_sensor
from deid_assets.automation.freshness import freshness_of, freshness_policy
from deid_assets.automation.in_use import Use, policies_in_use, uses_in
from deid_assets.automation.refused_runs import refusal_sensor
from deid_assets.automation.rereleases import release_schedule
from deid_assets.checks.contracts import contract_checks
from deid_assets.checks.risk import risk_checks
from deid_assets.partitions import deliveries_of
from deid_assets.policy.base import RESTRICTED_SECTIONS
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy
from deid_assets.resources import POLICY_TAG, STORE_TAG, Policies, RestrictedStore, Workplace, column_schema, job_name
from deid_assets.schemas import contracts_of
from deid_assets.stages import RENAMED_WITH_DATES, STAGE_OF
from deid_assets.store.home import Home

# `partitions_def` on checks is a preview feature, `data_version` of outputs a beta feature. pyproject.toml pins the
# version of Dagster with which both were verified.
warnings.filterwarnings("ignore", category=dg.PreviewWarning)
warnings.filterwarnings("ignore", category=dg.BetaWarning, message=".*data_version.*")

MODULES = (intake, preparation, rule_needs, adversary, reachable_risk, generalization, candidate, counts, assessment, release)
FLAT_MODULES = (flat_intake, flat)
COHORT_MODULES = (cohort_intake, cohort)
"""The assets of a longitudinal policy, those of a flat one, and those of a cohort's."""


def build_definitions(policies: Mapping[str, AnyPolicy] | None = None, home: Home | None = None) -> dg.Definitions:
    """Build the definitions for some policies.

    Parameters
    ----------
    policies
        By name. Default: those in use in the home (`in_use.policies_in_use`).
    home
        Folder for everything that a run creates. Default: DEID_HOME, else `.deid` in the current folder.
    """
    home = home or Home.here()
    policies = policies if policies is not None else policies_in_use(home)
    uses = uses_in(home)
    assets: list[dg.AssetsDefinition] = []
    checks: list[dg.AssetChecksDefinition] = []
    jobs: list[UnresolvedAssetJobDefinition] = []
    automated = Automated()
    for policy in policies.values():
        with_dates = getattr(policy, "dates", None) is not None
        modules = _modules(policy)
        loaded = dg.load_assets_from_modules(modules, key_prefix=policy.name)
        made = [asset for asset in loaded if isinstance(asset, dg.AssetsDefinition)]  # the modules hold no others
        if with_dates:
            made = [reading_dates(asset, policy.name) for asset in made]
        contracts = contracts_of(policy)
        use = uses.get(policy.name, Use())
        assets += dg.map_asset_specs(partial(specialize, policy=policy, contracts=contracts, use=use), made)
        checks += [*contract_checks(policy), *risk_checks(policy)]
        jobs.append(
            dg.define_asset_job(
                job_name(policy.name),
                selection=dg.AssetSelection.key_prefixes(policy.name),
                description=f"From a delivery to a gated release under the policy {policy.name}: {policy.title}.",
                tags={POLICY_TAG: policy.name},
                config=dg.PartitionedConfig(
                    partitions_def=deliveries_of(policy.name),
                    run_config_for_partition_key_fn=lambda key: {},
                    # The instance allows one run at a time for each value of this tag.
                    tags_for_partition_key_fn=partial(_store_tag, policy.name),
                ),
            )
        )
        automated += automation_of(home, policy, use, jobs[-1])
    root = str(home.root)
    return dg.Definitions(
        assets=assets,
        asset_checks=[*checks, *automated.checks],
        jobs=[*jobs, *automated.jobs],
        sensors=[refusal_sensor(home, jobs), *automated.sensors],
        schedules=automated.schedules,
        executor=dg.in_process_executor,
        resources={
            "io_manager": RestrictedStore(root=root),
            "policies": Policies(root=root),
            "workplace": Workplace(root=root),
        },
    )


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


def automation_of(home: Home, policy: AnyPolicy, use: Use, job: UnresolvedAssetJobDefinition) -> Automated:
    """What the use of a policy asks for: watched deliveries, re-releases on a schedule, a check of their age."""
    partitions, made = deliveries_of(policy.name), Automated()
    if use.deliveries is not None:
        watched = Watched(Path(use.deliveries), use.complete_when)
        made += Automated(sensors=(delivery_sensor(home, policy, job, partitions, watched),))
    if use.schedule is not None:
        made += Automated(schedules=(release_schedule(home, policy.name, job, partitions, use.schedule),))
    if use.fresh_days is not None:
        fresh = freshness_of(home, policy.name, use.fresh_days)
        made += Automated(schedules=(fresh.schedule,), checks=(fresh.check,), jobs=(fresh.job,))
    return made


def _modules(policy: AnyPolicy) -> tuple[ModuleType, ...]:
    if isinstance(policy, Policy):
        return MODULES if policy.dates is None else (*MODULES, dates)
    return FLAT_MODULES if isinstance(policy, FlatPolicy) else COHORT_MODULES


def _store_tag(policy: str, delivery: str) -> dict[str, str]:
    return {STORE_TAG: f"{policy}/{delivery}"}


def reading_dates(asset: dg.AssetsDefinition, policy: str) -> dg.AssetsDefinition:
    """Make an asset after the preparation stage read claims with released dates instead of those without."""
    names = {key.path[-1] for key in asset.keys}
    if any(STAGE_OF[name] in ("intake", "preparation") for name in names):
        return asset
    replaced = {dg.AssetKey([policy, old]): dg.AssetKey([policy, new]) for old, new in RENAMED_WITH_DATES.items()}
    return asset.with_attributes(asset_key_replacements=replaced)


def specialize(spec: dg.AssetSpec, policy: AnyPolicy, contracts: Mapping[str, DataFrameSchema], use: Use) -> dg.AssetSpec:
    """Set what depends on the policy and its use: partition, group, code version, owners, column schema.

    The code version is the method's version and the hash of the policy sections that the asset reads, so a changed
    threshold does not make the intake stale.
    """
    metadata = spec.metadata
    # Guesses could be tested against a plain digest of who opted out; the keyed one of `made_under` covers it.
    sections = [section for section in metadata["policy_sections"] if section not in RESTRICTED_SECTIONS]
    name = spec.key.path[-1]
    described: dict[str, object] = {"dagster/column_schema": column_schema(contracts[name])}
    derived = candidate.release_lineage(policy).get(name) if isinstance(policy, Policy) else None
    if derived and isinstance(policy, Policy) and policy.dates is not None:
        derived = {column: [_with_dates(source) for source in sources] for column, sources in derived.items()}
    if derived:
        described["derived_columns"] = derived
    return spec.replace_attributes(
        partitions_def=deliveries_of(policy.name),
        group_name=f"{policy.name}/{metadata['stage']}",
        code_version=f"{metadata['method_version']}-{policy.section_hash(*sections)[:12]}",
        owners=list(policy.owners),
        freshness_policy=freshness_policy(use.fresh_days) if use.fresh_days and name == "release" else None,
    ).merge_attributes(metadata=described)


def _with_dates(source: str) -> str:
    """The source of a column, "asset.column", if a policy releases dates."""
    asset, column = source.split(".")
    return f"{RENAMED_WITH_DATES.get(asset, asset)}.{column}"


defs = build_definitions()

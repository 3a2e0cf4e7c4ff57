"""A release as part of another Dagster project: its deliveries are assets there."""

import os
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Literal, get_args

import dagster as dg

from deid_assets.assets.intake import intake
from deid_assets.assets.upstream_intake import further_inputs, intake_of
from deid_assets.automation.ended_runs import canceled_sensor, repeat_sensor, report_sensor
from deid_assets.definitions import PolicyParts, resources_of, stage_assets_of
from deid_assets.errors import PolicyError, StoreError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.loading import load_policy
from deid_assets.policy.models import Policy
from deid_assets.resources import PUBLISHED, Keys, Workplace
from deid_assets.sources.upstream import Copies, InMemory, Read
from deid_assets.store.home import Home
from deid_assets.whole_release import whole_release

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
    if expose not in EXPOSED:
        raise PolicyError(f"policy {read.name}: expose is {' or '.join(EXPOSED)}, not {expose!r}")
    if isinstance(partitions_def, dg.MultiPartitionsDefinition):
        raise PolicyError(f"policy {read.name}: a delivery has one key, so its partitions cannot have two dimensions")
    upstreams = _upstreams(members, claims)
    copies = copies_of(read, members, claims)
    workplace = Workplace(str(home_of(home).root), {read.name: read}, copies)
    keys = Keys(read.name, tuple(key_prefix), resource_key)
    partitions = partitions_def or deliveries_of(read.name)
    mapped = [name for name, one in upstreams.items() if one.partition_mapping is not None]
    inputs = further_inputs({name: one.as_input() for name, one in upstreams.items()})
    if expose == "release":
        parts = whole_release(read, keys, partitions, workplace, inputs, mapped)
    else:
        taken_in = intake_of(copies, mapped)
        declared = [taken_in if one is intake else one for one in stage_assets_of(read)]
        parts = PolicyParts.of(read, keys, partitions, declared=declared, delivered=inputs)
    scheduled = partial(_scheduled, keys, automation_condition, freshness_policy)
    parts = replace(parts, assets=tuple(dg.map_asset_specs(scheduled, parts.assets)))
    job = parts.job()
    again = repeat_sensor({read.name: job}, f"overtaken_runs_{read.name}")
    canceled = canceled_sensor([job], f"canceled_runs_{read.name}")
    if expose == "release":  # the step itself reports refusals, from the run in the home
        resources = {keys.resource: workplace}
        return dg.Definitions(assets=parts.assets, jobs=[job], sensors=[again, canceled], resources=resources)
    return dg.Definitions(
        assets=parts.assets,
        asset_checks=parts.checks,
        jobs=[job],
        sensors=[report_sensor(workplace, [job], f"refusal_report_{read.name}"), again, canceled],
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
    keys: Keys,
    automation_condition: dg.AutomationCondition | None,
    freshness_policy: dg.FreshnessPolicy | None,
    spec: dg.AssetSpec,
) -> dg.AssetSpec:
    # A published table is made with its release: a condition of its own could only ask for both again.
    own = automation_condition if PUBLISHED not in spec.metadata else None
    changed = spec if own is None else spec.replace_attributes(automation_condition=own)
    if freshness_policy is None or spec.key != keys.asset("release"):
        return changed
    return changed.replace_attributes(freshness_policy=freshness_policy)

"""Re-releases: on a schedule, the newest delivery of a policy is released again if anything changed."""

import json
from collections.abc import Mapping
from dataclasses import dataclass

import dagster as dg

import deid_assets
from deid_assets.assets.publishing import inputs_digest, releases_of
from deid_assets.assets.waiting_release import waiting_already
from deid_assets.dagster_internals import UnresolvedAssetJobDefinition
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.keyring import secret_of
from deid_assets.release.registry.chain import Registry
from deid_assets.resources import INPUTS_TAG, STORE_TAG, Workplace
from deid_assets.sources.registration import content_read, registered_delivery
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home

BECAUSE_TAG = "deid/because"
"""Tag of a run that a schedule started: what changed."""


@dataclass(frozen=True)
class Due:
    """Whether a delivery should be released again.

    Attributes
    ----------
    reason
        What changed; or why nothing is done.
    inputs
        Digest of the inputs of the run; None if nothing is done, or if the delivery has not been read yet.
    """

    is_due: bool
    reason: str
    inputs: str | None = None


def release_schedule(
    workplace: Workplace, name: str, job: UnresolvedAssetJobDefinition, partitions: dg.DynamicPartitionsDefinition, cron: str
) -> dg.ScheduleDefinition:
    """A schedule that releases the newest delivery of a policy again when something changed, and else says why not.

    Parameters
    ----------
    workplace
        Its policies; those that are not given are read again at every tick, so that a changed text counts.
    name
        The policy's.
    cron
        In UTC.
    """
    home = workplace.home

    @dg.schedule(
        name=f"rerelease_{name}",
        job=job,
        cron_schedule=cron,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Releases the newest delivery of {name} again if its policy, its methods or the delivery changed.",
    )
    def rerelease(context: dg.ScheduleEvaluationContext) -> dg.RunRequest | dg.SkipReason:
        with without_values("the schedule of re-releases", home.store):
            deliveries = context.instance.get_dynamic_partitions(str(partitions.name))
            if not deliveries:
                return dg.SkipReason(f"{name} has no delivery yet")
            newest = deliveries[-1]
            due = due_for(home, workplace.policies.named(name), newest)
            if not due.is_due:
                return dg.SkipReason(due.reason)
            if at_work := _at_work(context.instance, f"{name}/{newest}", due):
                return dg.SkipReason(at_work)
        return dg.RunRequest(partition_key=newest, tags={BECAUSE_TAG: due.reason})

    return rerelease


def due_for(home: Home, policy: AnyPolicy, key: str) -> Due:
    """Say whether a delivery should be released again: something changed since the policy's newest release.

    Parameters
    ----------
    key
        Of a registered delivery.
    """
    delivery, content = registered_delivery(home, key), content_read(home, key)
    if content is None:
        return Due(True, f"the delivery {key} has not been read yet")
    registry = Registry(home.releases / "registry.jsonl")
    inputs = inputs_digest(policy, secret_of(home), delivery, content)
    entries = [entry for entry in registry.chain().entries if entry.policy == policy.name]
    if any(entry.inputs_digest == inputs for entry in entries):
        return Due(False, f"unchanged: the delivery {key} was released under this policy and these methods before")
    if waiting_already(releases_of(Workplace(str(home.root))), policy, inputs) is not None:
        return Due(False, f"unchanged: the delivery {key} passed the gate before, and awaits approval")
    if not entries:
        return Due(True, f"nothing has been released under {policy.name} yet", inputs)
    return Due(True, _changed(home, policy, key, entries[-1].number), inputs)


def _changed(home: Home, policy: AnyPolicy, key: str, number: int) -> str:
    """What differs from an earlier release, in words."""
    try:
        made: Mapping = json.loads((home.store / "manifests" / policy.name / f"{number:04d}.json").read_bytes())
        before, now = json.loads(made["policy"]["text"]), json.loads(json.dumps(policy.content()))
        of, version = made["delivery"]["key"], made["code_version"]
    except (OSError, ValueError, KeyError, TypeError):
        return f"the inputs differ from those of release {number:04d}, whose restricted manifest cannot be read"
    sections = sorted(name for name in {*before, *now} if before.get(name) != now.get(name))
    found = [f"the delivery {key} is newer than {of}"] * (of != key)
    found += [f"the policy's {', '.join(sections)} changed"] * bool(sections)
    found += [f"deid_assets {deid_assets.__version__} follows {version}"] * (version != deid_assets.__version__)
    return "; ".join(found) or "the delivery's content or a method changed"


def _at_work(instance: dg.DagsterInstance, store: str, due: Due) -> str | None:
    """Why no run is started: one is at work, or one with these inputs was refused or failed before."""
    runs = instance.get_runs(dg.RunsFilter(tags={STORE_TAG: store}), limit=100)
    if any(not run.is_finished for run in runs):
        return f"a run of {store} is at work"
    tried = [run for run in runs if due.inputs and run.tags.get(INPUTS_TAG) == due.inputs[:16]]
    if tried:
        return f"a run with the same inputs was not published before (run {tried[0].run_id}); change something, or run it again"
    return None

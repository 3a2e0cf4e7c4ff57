"""Deliveries that arrive in a watched folder: each is registered, and its run requested, once its marker is there.

Deliveries that arrive in the folder of another project: each becomes a partition once it is complete.

What is made of it is a matter of the project's assets; `deliveries` is for deliveries that are read as they are.

On a schedule, the newest delivery of a policy is released again if anything changed. Whether releases are recent is asked by a
check of the newest delivery: Dagster's freshness policy is kept per asset, so a re-release of any delivery satisfies it.
"""

import datetime
import json
import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg

import deid_assets
from deid_assets.assets.publishing import inputs_digest, releases_of
from deid_assets.assets.waiting_release import waiting_already
from deid_assets.automation.housekeeping import REMOVED, removals, utc_now
from deid_assets.dagster_internals import UnresolvedAssetJobDefinition
from deid_assets.errors import DeliveryError, how_many
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.keyring import secret_of
from deid_assets.release.registry.chain import Registry
from deid_assets.resources import INPUTS_TAG, STORE_TAG, Workplace
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import content_read, delivery_file, register_delivery, registered_delivery
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home, StoreLock, plain_key


def on_new_delivery() -> dg.AutomationCondition[Any]:
    """The condition of every asset of a release that is made when its upstream assets were made and their checks passed.

    `eager()` alone requests what depends on a partition whose check failed. An asset before it that is requested at the same
    time has not been checked yet: both are made in one run, in which its blocking checks stop what comes after. Without
    that, each tick would request one layer of the release, in a run of its own.

    `eager()` also requests a partition that is new, and a run started by hand that failed leaves it new: what was refused
    would be refused again. After a failure only upstream assets that were made since are a reason to try again. Dagster tells
    conditions when an asset was made, but not when a run started or failed: what was made between the same two evaluations
    counts as made after it. The release is tried once more, and no delivery is lost.
    """
    condition = dg.AutomationCondition
    passed = condition.all_checks_match(condition.check_passed(), blocking_only=True).with_label("all_blocking_checks_passed")
    in_one_run = condition.will_be_requested()
    untried = ~condition.execution_failed() | condition.any_deps_updated().since_last_handled()
    checked = condition.all_deps_match(passed | in_one_run).with_label("all_deps_checked_or_in_the_same_run")
    return condition.eager() & untried.with_label("not_failed_or_deps_updated") & checked


INTERVAL_SECONDS = 60


@dataclass(frozen=True)
class Watched:
    """A folder in which deliveries arrive.

    Attributes
    ----------
    folder
        Each folder in it is a delivery; its name is the delivery's key.
    complete_when
        Name of the file that says that a delivery is complete: the sender writes it last.
    """

    folder: Path
    complete_when: str

    def look(self) -> "SeenFolders":
        """What is in it now, by name. Files, links and hidden folders are nothing.

        Raises
        ------
        DeliveryError
            If it cannot be read.
        """
        try:
            with os.scandir(self.folder) as entries:
                names = sorted(one.name for one in entries if one.is_dir(follow_symlinks=False))
        except OSError as error:
            raise DeliveryError(f"the watched folder {self.folder} cannot be read: {error.strerror}") from None
        complete, waiting, others = {}, 0, 0
        for name in names:
            if name.startswith("."):
                continue
            try:
                marked = self._marked(plain_key(name))
            except (DeliveryError, OSError):  # such as the lost+found of a disk
                others += 1
                continue
            if marked is None:
                waiting += 1
            else:
                complete[name] = marked
        return SeenFolders(self, complete, waiting, others)

    def _marked(self, name: str) -> int | None:
        """When a delivery became complete, in nanoseconds; None if it is not."""
        try:
            found = (self.folder / name / self.complete_when).stat()
        except FileNotFoundError:
            return None
        return found.st_mtime_ns if stat.S_ISREG(found.st_mode) else None


@dataclass(frozen=True)
class SeenFolders:
    """What was in a watched folder.

    Attributes
    ----------
    complete
        By key of each complete delivery: time of its marker in nanoseconds.
    waiting
        Folders without a marker.
    others
        Folders that are no deliveries: they cannot be read, or their names are no keys.
    """

    watched: Watched
    complete: Mapping[str, int]
    waiting: int
    others: int

    @property
    def warning(self) -> str | None:
        """What is to be said of folders that are no deliveries."""
        if not self.others:
            return None
        return (
            f"{how_many(self.others, 'folder')} in {self.watched.folder} cannot be read, or cannot be a delivery because of "
            "the name: a key has letters, digits, '_', '.' and '-' only, no blanks or accents. Left alone; to deliver it, "
            "rename it"
        )


@dataclass(frozen=True)
class Arrived:
    """A complete delivery, and the time of its marker in nanoseconds."""

    delivery: Delivery
    marked: int


def delivery_sensor(
    home: Home,
    policy: AnyPolicy,
    job: UnresolvedAssetJobDefinition,
    partitions: dg.DynamicPartitionsDefinition,
    watched: Watched,
) -> dg.SensorDefinition:
    """A sensor that registers complete deliveries as partitions and requests a run for each.

    Deliveries without a marker are left alone. So is a delivery that `deid delivery remove` removed, until its marker is
    newer than its removal.

    Parameters
    ----------
    job
        What is run for a delivery.
    partitions
        The policy's deliveries.
    """
    name = str(partitions.name)

    @dg.sensor(
        name=f"deliveries_of_{policy.name}",
        job=job,
        minimum_interval_seconds=INTERVAL_SECONDS,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Registers every delivery in the watched folder once it contains {watched.complete_when}, and runs "
        f"{policy.name} on it.",
    )
    def arrived_deliveries(context: dg.SensorEvaluationContext) -> dg.SensorResult:
        with without_values("the watched folder", home.store):
            known = set(context.instance.get_dynamic_partitions(name))
            complete, seen = _look(home, policy, watched)
            if seen.warning:
                context.log.warning(seen.warning)
            new, problems = [], []
            for one in complete:
                key = one.delivery.key
                try:
                    if key not in known or _is_left(context.instance, home, policy.name, key):
                        register_delivery(home, one.delivery)
                        new.append(one)
                except DeliveryError as error:
                    problems.append(str(error))
            # One that cannot be registered keeps no other waiting; while it is there, every tick without a new one fails.
            if problems and not new:
                raise DeliveryError("; ".join(problems))
            for problem in problems:
                context.log.error(problem)
        if not new:
            return dg.SensorResult(skip_reason=_nothing_new(seen, len(complete)))
        return dg.SensorResult(
            dynamic_partitions_requests=[partitions.build_add_request([one.delivery.key for one in new])],
            run_requests=[
                dg.RunRequest(run_key=f"{one.delivery.key}:{one.marked}", partition_key=one.delivery.key) for one in new
            ],
        )

    return arrived_deliveries


def _is_left(instance: dg.DagsterInstance, home: Home, policy: str, key: str) -> bool:
    """Whether a delivery of the watched folder became a partition, and no run of it was ever started.

    Dagster adds the partition first. If it is killed then, or cannot start the run, it forgets the request. Whoever adds a
    delivery by `deid delivery add` registers it without a marker, and wants no run.
    """
    if StoreLock.of(home, policy, key).path.exists() or not delivery_file(home, key).exists():
        return False
    begun = [status for status in dg.DagsterRunStatus if status != dg.DagsterRunStatus.NOT_STARTED]
    runs = instance.get_runs(dg.RunsFilter(statuses=begun, tags={STORE_TAG: f"{policy}/{key}"}), limit=1)
    return not runs and registered_delivery(home, key).complete_when is not None


def _look(home: Home, policy: AnyPolicy, watched: Watched) -> tuple[list[Arrived], SeenFolders]:
    """The complete deliveries that were not removed, in the order of their markers, and all that is there."""
    if not watched.folder.is_dir():
        raise DeliveryError(
            f"the watched folder {watched.folder} does not exist; create it, or name another one with "
            f"`deid policy adopt {policy.name} --deliveries FOLDER`"
        )
    removed = {one.delivery: one.time for one in removals(home) if one.what == REMOVED and one.policy == policy.name}
    complete, seen = [], watched.look()
    for key, marked in seen.complete.items():
        gone = removed.get(key)
        if gone is None or marked / 1e9 > datetime.datetime.fromisoformat(gone).timestamp():
            folder = watched.folder.absolute() / key
            complete.append(Arrived(Delivery(key, policy.source.kind, (folder,), {}, watched.complete_when), marked))
    return sorted(complete, key=lambda one: (one.marked, one.delivery.key)), seen


def _nothing_new(seen: SeenFolders, known: int) -> str:
    text = f"{known} known {'delivery' if known == 1 else 'deliveries'} in {seen.watched.folder}"
    if seen.waiting:
        missing = seen.watched.complete_when
        text += f"; {seen.waiting} without {missing} {'is' if seen.waiting == 1 else 'are'} not complete yet"
    return text


def arrivals_sensor(name: str, watched: Watched, partitions_def: dg.DynamicPartitionsDefinition) -> dg.SensorDefinition:
    """A sensor that registers each complete delivery as a partition, once."""

    @dg.sensor(
        name=name,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Registers deliveries that have the file {watched.complete_when}.",
    )
    def arrived(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        if not watched.folder.is_dir():
            return dg.SkipReason(f"the folder {watched.folder} does not exist; create it, or correct the component's sensor")
        seen = watched.look()
        if seen.warning:
            context.log.warning(seen.warning)
        known = set(context.instance.get_dynamic_partitions(str(partitions_def.name)))
        new = [key for key in seen.complete if key not in known]
        if not new:
            return dg.SkipReason("no new delivery is complete")
        return dg.SensorResult(dynamic_partitions_requests=[partitions_def.build_add_request(new)])

    return arrived


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
            due = due_for(home, workplace.named(name), newest)
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


CHECK = "newest_delivery_is_recent"
_DAILY = "0 5 * * *"


@dataclass(frozen=True)
class FreshnessParts:
    """What watches over the age of a policy's releases: a check, its job, and the schedule that starts it."""

    check: dg.AssetChecksDefinition
    job: UnresolvedAssetJobDefinition
    schedule: dg.ScheduleDefinition


def freshness_policy(days: int) -> dg.FreshnessPolicy:
    """Dagster's policy for a release: it fails if no delivery at all was released within so many days."""
    return dg.FreshnessPolicy.time_window(fail_window=datetime.timedelta(days=days))


def freshness_of(home: Home, release: dg.AssetKey, partitions: dg.DynamicPartitionsDefinition, days: int) -> FreshnessParts:
    """A daily check that the policy's newest delivery is at most so many days old, and was released.

    It does not block: a new release is what mends it.

    Parameters
    ----------
    release
        Key of the release asset.
    partitions
        The policy's deliveries.
    """
    check = freshness_check(home, release, partitions, days)
    name = f"freshness_{release.path[-2]}"
    job = dg.define_asset_job(name, selection=dg.AssetSelection.checks(*check.check_keys), executor_def=dg.in_process_executor)
    schedule = dg.ScheduleDefinition(
        name=name,
        job=job,
        cron_schedule=_DAILY,
        execution_timezone="UTC",
        default_status=dg.DefaultScheduleStatus.RUNNING,
        description=f"Checks whether the newest delivery of {release.path[-2]} is at most {days} days old, and was released.",
    )
    return FreshnessParts(check, job, schedule)


def freshness_check(
    home: Home, release: dg.AssetKey, partitions: dg.DynamicPartitionsDefinition, days: int
) -> dg.AssetChecksDefinition:
    """The check of `freshness_of`."""

    @dg.asset_check(
        asset=release,
        name=CHECK,
        description=f"The newest delivery was registered within the last {how_many(days, 'day')}, and was released. An asset's "
        "freshness is satisfied by any delivery; this check asks for the newest one.",
    )
    def newest_delivery_is_recent(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with without_values(f"{release.path[-2]}/{CHECK}", home.store):
            keys = context.instance.get_dynamic_partitions(str(partitions.name))
            if not keys:
                return dg.AssetCheckResult(passed=False, description="No delivery has been registered.")
            newest = keys[-1]
            registered = datetime.datetime.fromtimestamp(delivery_file(home, newest).stat().st_mtime, datetime.UTC)
            age = (utc_now() - registered).total_seconds() / 86_400
            made = context.instance.fetch_materializations(
                dg.AssetRecordsFilter(asset_key=release, asset_partitions=[newest]), limit=1
            ).records
        found = {"newest_delivery": newest, "age_in_days": round(age, 2), "threshold": float(days), "released": bool(made)}
        return dg.AssetCheckResult(passed=bool(made) and age <= days, metadata=found)

    return newest_delivery_is_recent

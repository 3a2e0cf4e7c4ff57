"""Whether a policy's releases are recent.

Dagster's freshness policy is kept per asset, so a re-release of any delivery satisfies it. A check asks for the newest
delivery itself.
"""

import datetime
from dataclasses import dataclass

import dagster as dg

from deid_assets.automation.housekeeping import now
from deid_assets.dagster_internals import UnresolvedAssetJobDefinition
from deid_assets.sources.registration import delivery_file
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home

CHECK = "newest_delivery_is_recent"
_DAILY = "0 5 * * *"


@dataclass(frozen=True)
class Freshness:
    """What watches over the age of a policy's releases: a check, its job, and the schedule that starts it."""

    check: dg.AssetChecksDefinition
    job: UnresolvedAssetJobDefinition
    schedule: dg.ScheduleDefinition


def freshness_policy(days: int) -> dg.FreshnessPolicy:
    """Dagster's policy for a release: it fails if no delivery at all was released within so many days."""
    return dg.FreshnessPolicy.time_window(fail_window=datetime.timedelta(days=days))


def freshness_of(home: Home, release: dg.AssetKey, partitions: dg.DynamicPartitionsDefinition, days: int) -> Freshness:
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
    return Freshness(check, job, schedule)


def freshness_check(
    home: Home, release: dg.AssetKey, partitions: dg.DynamicPartitionsDefinition, days: int
) -> dg.AssetChecksDefinition:
    """The check of `freshness_of`."""

    @dg.asset_check(
        asset=release,
        name=CHECK,
        description=f"The newest delivery was registered within the last {days} days, and was released. An asset's "
        "freshness is satisfied by any delivery; this check asks for the newest one.",
    )
    def newest_delivery_is_recent(context: dg.AssetCheckExecutionContext) -> dg.AssetCheckResult:
        with without_values(f"{release.path[-2]}/{CHECK}", home.store):
            keys = context.instance.get_dynamic_partitions(str(partitions.name))
            if not keys:
                return dg.AssetCheckResult(passed=False, description="No delivery has been registered.")
            newest = keys[-1]
            registered = datetime.datetime.fromtimestamp(delivery_file(home, newest).stat().st_mtime, datetime.UTC)
            age = (now() - registered).total_seconds() / 86_400
            made = context.instance.fetch_materializations(
                dg.AssetRecordsFilter(asset_key=release, asset_partitions=[newest]), limit=1
            ).records
        found = {"newest_delivery": newest, "age_in_days": round(age, 2), "threshold": float(days), "released": bool(made)}
        return dg.AssetCheckResult(passed=bool(made) and age <= days, metadata=found)

    return newest_delivery_is_recent

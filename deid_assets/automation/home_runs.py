"""Runs in a home's own Dagster instance: their partitions, and what is left of those whose process is gone."""

import time

import dagster as dg

from deid_assets.errors import StoreError
from deid_assets.partitions import deliveries_of
from deid_assets.resources import STORE_TAG, ended_in
from deid_assets.store.home import Home
from deid_assets.store.lock import StoreLock

_SECONDS_TO_BEGIN = 300
"""A run that the UI has launched loads this package before it takes the lock of its store."""

_SECONDS_TO_LOCK = 60
"""A run that has started sets up its resources, of which one takes the lock."""


def add_partition(instance: dg.DagsterInstance, policy: str, delivery: str) -> None:
    """Make a registered delivery a partition of a policy's assets, unless it is one."""
    name = str(deliveries_of(policy).name)
    if not instance.has_dynamic_partition(name, delivery):
        instance.add_dynamic_partitions(name, [delivery])


def clean_orphans(home: Home, instance: dg.DagsterInstance, own: StoreLock) -> list[str]:
    """Mark runs as failed whose process is gone: a run killed by SIGKILL stays STARTED otherwise.

    A run is an orphan if it has not ended by the record, and nobody else holds the lock of its store. One that has not
    begun, or has just begun, may be about to take the lock of another store than `own`; after some minutes it is not.

    Parameters
    ----------
    own
        The lock that this process holds: whatever else is recorded for its store has ended, or is locked out.
    """
    statuses = dg.DagsterRunStatus
    beginning = (statuses.NOT_STARTED, statuses.STARTING)
    unfinished = dg.RunsFilter(statuses=[*beginning, statuses.STARTED, statuses.CANCELING])
    cleaned = []
    for record in instance.get_run_records(filters=unfinished):
        run = record.dagster_run
        policy, _, delivery = run.tags.get(STORE_TAG, "").partition("/")
        try:
            lock = StoreLock.of(home, policy, delivery, is_over=ended_in(instance))
        except StoreError:  # a run that somebody tagged by hand
            continue
        if lock.path != own.path:
            age = time.time() - record.update_timestamp.timestamp()
            # Trying the lock would take it from such a run.
            if age < (_SECONDS_TO_BEGIN if run.status in beginning else _SECONDS_TO_LOCK) or not lock.try_acquire():
                continue
            lock.release()
        instance.report_run_failed(run, "its process ended without a message, and nobody holds the lock of its store")
        cleaned.append(run.run_id)
    return cleaned

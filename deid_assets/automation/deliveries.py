"""Deliveries that arrive in a watched folder: each is registered, and its run requested, once its marker is there."""

import datetime
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from dagster._core.definitions.unresolved_asset_job_definition import UnresolvedAssetJobDefinition

from deid_assets.automation.housekeeping import REMOVED, removals
from deid_assets.errors import DeliveryError
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.resources import STORE_TAG
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import delivery_file, register_delivery, registered_delivery
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home, plain_key
from deid_assets.store.lock import StoreLock

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

    def folders(self) -> Iterator[tuple[Path, bool | None]]:
        """Yield every folder in it, by name, and whether it is complete; None if that cannot be read. No links."""
        for path in sorted(self.folder.iterdir()):
            if path.is_dir() and not path.is_symlink():
                try:
                    yield path, (path / self.complete_when).is_file()
                except OSError:  # such as the lost+found of a disk
                    yield path, None


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
            complete, waiting, others = _look(home, policy, watched)
            if others:
                context.log.warning(
                    f"{others} folders in {watched.folder} are no deliveries and are left alone: they cannot be read, or their "
                    "names are no keys (letters, digits, '_', '.' and '-', no blanks or accents); rename those that are"
                )
            new = [
                one
                for one in complete
                if one.delivery.key not in known or _is_left(context.instance, home, policy.name, one.delivery.key)
            ]
            for one in new:
                register_delivery(home, one.delivery)
        if not new:
            return dg.SensorResult(skip_reason=_nothing_new(watched, len(complete), waiting))
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


def _look(home: Home, policy: AnyPolicy, watched: Watched) -> tuple[list[Arrived], int, int]:
    """The complete deliveries in the order of their markers, how many folders have none yet, and how many are no deliveries."""
    if not watched.folder.is_dir():
        raise DeliveryError(
            f"the watched folder {watched.folder} does not exist; create it, or name another one with "
            f"`deid policy adopt {policy.name} --deliveries FOLDER`"
        )
    removed = {one.delivery: one.time for one in removals(home) if one.what == REMOVED and one.policy == policy.name}
    complete, waiting, others = [], 0, 0
    for folder, is_complete in watched.folders():
        if folder.name.startswith("."):
            continue
        if not _is_key(folder.name) or is_complete is None:
            others += 1
            continue
        if not is_complete:
            waiting += 1
            continue
        marked = (folder / watched.complete_when).stat().st_mtime_ns
        gone = removed.get(folder.name)
        if gone is None or marked / 1e9 > datetime.datetime.fromisoformat(gone).timestamp():
            delivery = Delivery(folder.name, policy.source.kind, (folder.absolute(),), {}, watched.complete_when)
            complete.append(Arrived(delivery, marked))
    return sorted(complete, key=lambda one: (one.marked, one.delivery.key)), waiting, others


def _is_key(name: str) -> bool:
    try:
        plain_key(name)
    except DeliveryError:
        return False
    return True


def _nothing_new(watched: Watched, known: int, waiting: int) -> str:
    text = f"{known} known {'delivery' if known == 1 else 'deliveries'} in {watched.folder}"
    if waiting:
        text += f"; {waiting} without {watched.complete_when} {'is' if waiting == 1 else 'are'} not complete yet"
    return text

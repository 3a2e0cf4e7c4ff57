"""Deliveries that arrive in a folder: each becomes a partition once it is complete."""

from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from deid_assets.errors import DeliveryError
from deid_assets.store.home import plain_key


@dataclass(frozen=True)
class Arrivals:
    """A folder in which each delivery is a folder of its own.

    Attributes
    ----------
    folder
        Contains the deliveries; the name of a folder is the key of its delivery.
    complete_when
        Name of the file that is written into a delivery last. Without it, a delivery is left alone.
    """

    folder: Path
    complete_when: str

    def complete(self) -> tuple[list[str], list[str]]:
        """Keys of the complete deliveries in order, and how many complete folders have names that are no keys."""
        keys, others = [], []
        for path in sorted(self.folder.iterdir()) if self.folder.is_dir() else []:
            if path.is_symlink() or not path.is_dir() or not (path / self.complete_when).is_file():
                continue
            try:
                keys.append(plain_key(path.name))
            except DeliveryError:
                others.append(path.name)
        return keys, others


def arrivals_sensor(name: str, arrivals: Arrivals, partitions_def: dg.DynamicPartitionsDefinition) -> dg.SensorDefinition:
    """A sensor that registers each complete delivery as a partition, once."""

    @dg.sensor(
        name=name,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Registers deliveries that have the file {arrivals.complete_when}.",
    )
    def arrived(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        keys, others = arrivals.complete()
        if others:
            context.log.warning(f"{len(others)} folders have names that cannot be keys of deliveries; rename them")
        known = set(context.instance.get_dynamic_partitions(str(partitions_def.name)))
        new = [key for key in keys if key not in known]
        if not new:
            return dg.SkipReason("no new delivery is complete")
        return dg.SensorResult(dynamic_partitions_requests=[partitions_def.build_add_request(new)])

    return arrived

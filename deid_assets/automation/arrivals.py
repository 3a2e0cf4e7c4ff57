"""Deliveries that arrive in the folder of another project: each becomes a partition once it is complete.

What is made of it is a matter of the project's assets; `deliveries` is for deliveries that are read as they are.
"""

import dagster as dg

from deid_assets.automation.deliveries import Watched
from deid_assets.errors import DeliveryError
from deid_assets.store.home import plain_key


def complete_deliveries(watched: Watched) -> tuple[list[str], int]:
    """Keys of the complete deliveries in order, and how many complete folders have names that are no keys."""
    keys, others = [], 0
    for path, is_complete in watched.folders() if watched.folder.is_dir() else ():
        if not is_complete:
            continue
        try:
            keys.append(plain_key(path.name))
        except DeliveryError:
            others += 1
    return keys, others


def arrivals_sensor(name: str, watched: Watched, partitions_def: dg.DynamicPartitionsDefinition) -> dg.SensorDefinition:
    """A sensor that registers each complete delivery as a partition, once."""

    @dg.sensor(
        name=name,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description=f"Registers deliveries that have the file {watched.complete_when}.",
    )
    def arrived(context: dg.SensorEvaluationContext) -> dg.SensorResult | dg.SkipReason:
        keys, others = complete_deliveries(watched)
        if others:
            context.log.warning(f"{others} folders have names that cannot be keys of deliveries; rename them")
        known = set(context.instance.get_dynamic_partitions(str(partitions_def.name)))
        new = [key for key in keys if key not in known]
        if not new:
            return dg.SkipReason("no new delivery is complete")
        return dg.SensorResult(dynamic_partitions_requests=[partitions_def.build_add_request(new)])

    return arrived

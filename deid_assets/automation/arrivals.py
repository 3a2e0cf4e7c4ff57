"""Deliveries that arrive in the folder of another project: each becomes a partition once it is complete.

What is made of it is a matter of the project's assets; `deliveries` is for deliveries that are read as they are.
"""

import dagster as dg

from deid_assets.automation.deliveries import Watched


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

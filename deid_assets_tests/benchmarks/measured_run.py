"""Makes `deid run` in this process and writes what its steps took: python -P measured_run.py FILE [options of `deid run`].

It runs as a file, so that it also measures another version of the package, the first on PYTHONPATH.
"""

import json
import os
import sys
import time
from pathlib import Path


def cpu_seconds() -> float:
    """CPU time of this process and of its children that ended."""
    return sum(os.times()[:4])


def main(file: Path, arguments: list[str]) -> None:
    """Run, and write what the steps, the start, the end and the time between steps took, whatever the run ends with."""
    began = time.perf_counter()

    from dagster import DagsterInstance

    from deid_assets.command_line.main import main as deid
    from deid_assets.meter import Meter, peak_memory_gb

    steps: list[dict] = []
    memory, handle = Meter(), DagsterInstance.handle_new_event
    first = step_began = ended = (0.0, 0.0)

    def noted(instance: DagsterInstance, event, **options) -> None:
        nonlocal first, step_began, ended
        kind = event.dagster_event.event_type_value if event.is_dagster_event and event.step_key else ""
        now = cpu_seconds(), time.perf_counter()
        if kind == "STEP_START":
            first, step_began = first if any(first) else now, now
            memory.start("", event.step_key)
        elif kind in ("STEP_SUCCESS", "STEP_FAILURE"):
            cpu, wall = (end - start for end, start in zip(now, step_began, strict=True))
            steps.append({"name": event.step_key, "cpu": cpu, "wall": wall, "peak": peak_memory_gb()})
            ended = now
        handle(instance, event, **options)

    DagsterInstance.handle_new_event = noted
    try:
        deid(["run", *arguments])
    finally:
        told = {
            "steps": steps,
            "before": (first[0], first[1] - began),
            "after": (cpu_seconds() - ended[0], time.perf_counter() - ended[1]),
            "between": tuple(end - start for start, end in zip(first, ended, strict=True)),
        }
        file.write_text(json.dumps(told))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])

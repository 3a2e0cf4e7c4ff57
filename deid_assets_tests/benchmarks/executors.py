"""What tables of a release take with a process for each step, and in one process: `dagster asset materialize` in a project.

python -m deid_assets_tests.benchmarks.executors [--members 5000] [STAGE ...]

STAGE is one of the default policy's, such as intake; default: intake and preparation.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from deid_assets.automation.instance import add_partition, dagster_instance, prepare_dagster_home
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.benchmarks import executor_project
from deid_assets_tests.benchmarks.executor_project import EXECUTOR, EXECUTORS, POLICY
from deid_assets_tests.benchmarks.timing import head, machine, row
from deid_assets_tests.stages import STAGES


def materialized(executor: str, members: int, stages: list[str]) -> tuple[int, float]:
    """Steps and seconds of a run that makes the tables of some stages, in a new home."""
    with tempfile.TemporaryDirectory() as folder:
        home = Home(Path(folder) / "home").create()
        delivery = Delivery("delivered", "synthetic", (home.deliveries / "delivered",), {"members": members, "seed": 1})
        write_delivery(delivery.paths[0], members, 1)
        register_delivery(home, delivery)
        prepare_dagster_home(home)
        with dagster_instance(home) as instance:
            add_partition(instance, POLICY, delivery.key)
        names = [f'key:"{POLICY}/{name}"' for stage in stages for name in (stage, *STAGES[stage])]
        words = ["asset", "materialize", "-m", executor_project.__name__, "--partition", delivery.key]
        environment = {"DAGSTER_HOME": str(home.dagster), "DEID_HOME": str(home.root), EXECUTOR: executor}
        started = time.monotonic()
        subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "dagster", *words, "--select", " or ".join(names)],
            env={**os.environ, **environment},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=True,
        )
        seconds = time.monotonic() - started
        with dagster_instance(home) as instance:
            (record,) = instance.get_run_records(limit=1)
            return len(instance.get_run_step_stats(record.dagster_run.run_id)), seconds


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--members", type=int, default=5_000)
    parser.add_argument("stages", nargs="*", metavar="STAGE")
    asked = parser.parse_args()
    stages = asked.stages or ["intake", "preparation"]
    print(f"{machine()} {asked.members:,} members, stages: {', '.join(stages)}.\n")
    head("executor", "steps", "time", "a step")
    for executor in EXECUTORS:
        steps, seconds = materialized(executor, asked.members, stages)
        row(executor, steps, f"{seconds:.0f} s", f"{seconds / steps:.1f} s")


if __name__ == "__main__":
    main()

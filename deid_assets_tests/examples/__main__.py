"""Register a delivery of the example project, and make everything of it: warehouse, release, downstream."""

import os
import subprocess
import sys
from pathlib import Path

import dagster as dg

PROJECT = Path(__file__).parent / "claims_project"


def main(delivery: str) -> int:
    """Run the project's job in the current folder; returns the exit code."""
    home = Path.cwd() / ".dagster"
    home.mkdir(exist_ok=True)
    (home / "dagster.yaml").write_text("telemetry:\n  enabled: false\n")
    environment = os.environ | {"DAGSTER_HOME": str(home), "PYTHONPATH": str(PROJECT)}
    with dg.DagsterInstance.from_config(str(home)) as instance:
        instance.add_dynamic_partitions("claims_deliveries", [delivery])
    words = ["-m", "dagster", "job", "execute", "-m", "claims_project.definitions", "-j", "everything"]
    tags = ["--tags", f'{{"dagster/partition": "{delivery}"}}']
    return subprocess.run([sys.executable, *words, *tags], env=environment, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))

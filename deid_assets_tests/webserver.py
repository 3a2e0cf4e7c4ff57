"""`deid ui` on a home: the web server and the daemon, in processes of their own."""

import http.client
import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import deid_assets
from deid_assets_tests.processes import WAIT, free_port, wait_for


@dataclass(frozen=True)
class Ui:
    """A running UI, and the home that it shows."""

    root: Path
    url: str

    def ask(self, query: str, **variables) -> dict:
        """Send a GraphQL query; an error fails the test."""
        request = urllib.request.Request(
            f"{self.url}/graphql",
            data=json.dumps({"query": query, "variables": variables}).encode(),
            headers={"Content-Type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=WAIT) as answer:
            found = json.loads(answer.read())
        assert "errors" not in found, found["errors"]
        return found["data"]


def environment(root: Path) -> dict[str, str]:
    """What a process needs to find this home, and this package even where it is not installed."""
    package = str(Path(deid_assets.__file__).parents[1])
    homes = {"DEID_HOME": str(root), "DAGSTER_HOME": str(root / "home")}
    return {**os.environ, **homes, "PYTHONPATH": package, "PYTHONWARNINGS": "ignore"}


@contextmanager
def opened(root: Path) -> Iterator[Ui]:
    """`deid ui` on a home, once it answers."""
    ui = Ui(root, f"http://127.0.0.1:{(port := free_port())}")
    with open(root / "ui.txt", "wb") as printed:
        process = subprocess.Popen(
            [sys.executable, "-m", "deid_assets", "ui", "--port", str(port)],
            env=environment(root),
            stdout=printed,
            stderr=subprocess.STDOUT,
        )
    try:

        def answers() -> bool:
            assert process.poll() is None, (root / "ui.txt").read_text()
            try:
                return bool(ui.ask("{ version }"))
            except (OSError, http.client.HTTPException):  # nobody listens yet, or whoever does is not ready
                return False

        wait_for("the UI", answers)
        yield ui
    finally:
        process.terminate()
        process.wait(WAIT)

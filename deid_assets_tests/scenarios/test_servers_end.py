"""`deid ui` ends on SIGINT and SIGTERM, however it was started, and no process that it started stays behind."""

import http.client
import os
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

from deid_assets_tests.processes import WAIT, free_port, wait_for
from deid_assets_tests.webserver import environment

pytestmark = pytest.mark.matrix

UI = f"{sys.executable} -m deid_assets ui"
STARTED = {
    "in the foreground": UI,
    "with nohup": f"nohup {UI}",
    "in the background of a shell without job control": f"sh -c '{UI} --port \"$0\" & wait'",
    "in a session of its own": f"setsid {UI}",
}


def processes_of(home: Path) -> dict[int, str]:
    """The processes that were given a home, by their id."""
    found = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if f"DEID_HOME={home}\0".encode() in (folder / "environ").read_bytes():
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
        except OSError:  # it has ended, or is somebody else's
            continue
    return found


@pytest.mark.parametrize(
    ("started", "number"),
    [
        ("in the foreground", signal.SIGINT),
        ("with nohup", signal.SIGTERM),
        ("in the background of a shell without job control", signal.SIGINT),
        ("in the background of a shell without job control", signal.SIGTERM),
        ("in a session of its own", signal.SIGINT),
    ],
)
def test_servers_end_with_everything_that_they_started(tmp_path, started, number):
    home, port = tmp_path / "deid", free_port()
    home.mkdir()
    command = STARTED[started]
    arguments = ["sh", "-c", f"{command} {port}" if "$0" in command else f"{command} --port {port}"]
    with open(tmp_path / "said.txt", "wb") as said:
        parent = subprocess.Popen(arguments, env=environment(home), stdout=said, stderr=subprocess.STDOUT)

    def answers() -> bool:
        assert parent.poll() is None, (tmp_path / "said.txt").read_text()
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/server_info", timeout=WAIT) as answer:
                return answer.status == 200
        except (OSError, http.client.HTTPException):
            return False

    wait_for("the UI", answers)
    running = processes_of(home)
    (server,) = [pid for pid, said in running.items() if " -m deid_assets ui" in said and not said.startswith("sh ")]
    assert len([said for said in running.values() if "dagster" in said]) > 3, running
    os.kill(server, number)
    wait_for("no process is left", lambda: not processes_of(home), 120, lambda: processes_of(home))
    assert parent.wait(WAIT) in (0, 128 + number)

"""Python programs in processes that begin with what a run imports: forks of one process that imported it.

A run that is killed, or sent a signal, is a process of its own; the seconds before, in which it would import libraries, are no
part of what is tested. Whoever tests these seconds starts Python anew.
"""

import atexit
import gc
import importlib
import json
import os
import runpy
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping

SECONDS = 3_000
"""A program that takes longer hangs, and is ended by SIGALRM."""
_LOADED = (
    "deid_assets.command_line.run", "deid_assets_tests.scenarios.signaled",
    "ibis.backends.duckdb", "matplotlib.figure", "scipy.stats",
)  # fmt: skip
"""What a run loads at some time."""
_ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Threads that libraries start when they are imported would be missing in a fork."""
_NO_HOME = {"DEID_HOME": "/nowhere"}
"""Nothing of a home is loaded before a program says which is its own."""


class _Forking(threading.local):
    """The process that is forked; each thread has one, which ends with this process."""

    process: subprocess.Popen[str] | None = None


_forking = _Forking()


def ran_loaded(environment: Mapping[str, str], module: str, *arguments: str) -> tuple[int, str, str]:
    """`python -W ignore -m MODULE ARGUMENT ...` with this environment: its exit code as of `subprocess`, output, and errors."""
    if _forking.process is None:
        command = [sys.executable, "-W", "ignore", "-m", __name__]
        _forking.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=os.environ | _ONE_THREAD | _NO_HOME
        )
    server = _forking.process
    with tempfile.NamedTemporaryFile("r") as out, tempfile.NamedTemporaryFile("r") as err:
        asked = [dict(environment), module, arguments, out.name, err.name]
        print(json.dumps(asked), file=server.stdin, flush=True)
        return int(server.stdout.readline()), out.read(), err.read()


def _forked() -> tuple[str, ...]:
    """Fork for every line of standard input, and print the exit code; return in the child only, with module and arguments."""
    tell = os.dup(1)
    for line in sys.stdin:
        if len(os.listdir("/proc/self/task")) > 1:
            raise RuntimeError("a library has started a thread, which a fork would lack")
        child = os.fork()
        if not child:
            os.close(tell)
            return _begun(*json.loads(line))
        _, status = os.waitpid(child, 0)
        os.write(tell, f"{os.waitstatus_to_exitcode(status)}\n".encode())
    sys.exit()


def _begun(environment: dict[str, str], module: str, arguments: list[str], out: str, err: str) -> tuple[str, ...]:
    """Make this process what a new one would be."""
    for descriptor, file in ((0, os.devnull), (1, out), (2, err)):
        opened = os.open(file, os.O_RDWR)
        os.dup2(opened, descriptor)
        os.close(opened)
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None  # what TMPDIR was before
    signal.alarm(SECONDS)
    return (module, *arguments)


if __name__ == "__main__":
    for name in _LOADED:
        importlib.import_module(name)
    atexit.register(gc.unfreeze)  # or libraries report what is left as leaks
    gc.freeze()  # what every program shares is not looked through for garbage
    gc.set_threshold(20_000)  # as the command sets it
    module, *sys.argv[1:] = _forked()
    runpy.run_module(module, run_name="__main__", alter_sys=True)

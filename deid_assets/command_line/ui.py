"""`deid ui`: Dagster's web server and daemon, with every process that they start, until this process is asked to end.

`dagster dev` alone cannot be relied on to end: a shell without job control lets what it starts in the background ignore
SIGINT, by which Dagster ends its own processes, and a signal to one process does not reach the others.
"""

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Sequence

_STEPS = ((signal.SIGINT, 10), (signal.SIGTERM, 20), (signal.SIGKILL, 10))
"""How the servers are ended: the first of them is asked, all are told, all are killed; after as many seconds the next way."""


def serve(command: Sequence[str]) -> int:
    """Execute a command until it ends or this process gets SIGINT, SIGTERM or, unless that is ignored, SIGHUP.

    All processes that it started have ended afterwards. A further signal does not wait for them any longer.

    Returns
    -------
    int
        0 if it was ended by a signal, which is how a server ends; else the exit code of the command.
    """
    asked = _signals()
    # A session of its own: a terminal tells this process only, and all processes of the servers are one group.
    server = subprocess.Popen(command, start_new_session=True)  # noqa: S603 - a command of ours
    ended = os.pidfd_open(server.pid)
    ready, _, _ = select.select([asked, ended], [], [])
    code = 0 if asked in ready else server.wait()
    _end(server.pid, asked)
    return code if code >= 0 else 128 - code


def _signals() -> int:
    """Let signals be heard from now on, also those that whoever started the process has it ignore; where they are read."""
    asked, heard = os.pipe()
    for end in (asked, heard):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(heard, warn_on_full_buffer=False)
    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # as `nohup` has it
        numbers.append(signal.SIGHUP)
    for number in numbers:
        signal.signal(number, lambda *_: None)  # a process that is started begins with the default again
    signal.pthread_sigmask(signal.SIG_UNBLOCK, numbers)
    return asked


def _end(group: int, asked: int) -> None:
    """End a process and its group."""
    for number, seconds in _STEPS:
        with contextlib.suppress(BlockingIOError):
            os.read(asked, 4096)
        with contextlib.suppress(ProcessLookupError):
            (os.kill if number == signal.SIGINT else os.killpg)(group, number)
        until = time.monotonic() + seconds
        while time.monotonic() < until and not select.select([asked], [], [], 0.1)[0]:
            if _is_gone(group):
                return


def _is_gone(group: int) -> bool:
    """Whether no process of a group is left; children that ended are reaped, as nobody else does it for the first process."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False

"""SIGINT and SIGTERM: a command ends with one sentence, whenever one of them comes, and with 128 and the signal's number.

Nothing that is published depends on how a command ends: a release is whole or not there, and the next run mends what was
begun. So a signal ends the process at once. Only while Dagster executes a run is it left to Dagster, which raises it where
it can be raised, and records that the run was canceled; `watched` is for this time.

This module is imported before any other, and needs none.
"""

import contextlib
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

SIGNALS = (signal.SIGINT, signal.SIGTERM)

_SHOW_CURSOR = b"\r\x1b[K\x1b[?25h"


class _Command:
    """What is known of the command that this process executes."""

    released: Path | None = None
    said: bool = False
    received: int | None = None
    watch: socket.socket | None = None


_command = _Command()


def answer_signals() -> None:
    """Let SIGINT and SIGTERM end this process at once, with a sentence.

    A signal that whoever started the process has it ignore, as shells do for work in the background, stays ignored; it is
    blocked, because Dagster would answer it.
    """
    _listen()
    for number in SIGNALS:
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.pthread_sigmask(signal.SIG_BLOCK, [number])
        else:
            signal.signal(number, _leave)
    sys.unraisablehook = _raised_where_nothing_can_be


def remember_release(folder: Path | None) -> None:
    """The release that this command published; what is said afterwards names it."""
    _command.released = folder


def message() -> str:
    """What is said of an interruption."""
    if _command.released is None:
        return "interrupted; nothing was published; run it again"
    return f"interrupted; the release {_command.released} had been published"


def say() -> int:
    """Say once that the command was interrupted, and return its exit code: 130 for SIGINT, 143 for SIGTERM."""
    number = received() or signal.SIGINT
    if not _command.said:
        _command.said = True
        with contextlib.suppress(OSError):
            if os.isatty(1):
                os.write(1, _SHOW_CURSOR)
            os.write(2, f"{message()}\n".encode("utf-8", "replace"))
    return 128 + number


def received() -> int | None:
    """The first of the signals that came, also one that nobody answered yet; None if none came."""
    if _command.received is None and _command.watch is not None:
        with contextlib.suppress(OSError):
            came = _command.watch.recv(4096, socket.MSG_PEEK)
            _command.received = next((number for number in came if number in SIGNALS), None)
    return _command.received


def _listen() -> None:
    """Let the system tell of every signal on a socket, whoever answers it; once in a process."""
    if _command.watch is None:
        _command.watch, told = socket.socketpair()
        _command.watch.setblocking(False)
        told.setblocking(False)
        signal.set_wakeup_fd(told.detach(), warn_on_full_buffer=False)


@contextlib.contextmanager
def watched(at_once: Callable[[], None]) -> Iterator[None]:
    """Notice signals, whoever answers them, and answer them again as before when the context is left.

    Parameters
    ----------
    at_once
        Called by another thread as soon as a signal comes: it ends what keeps the interpreter from answering, such as a
        long query.
    """
    if threading.current_thread() is not threading.main_thread():
        yield  # signals are answered by the main thread only
        return
    before = {number: signal.getsignal(number) for number in SIGNALS}
    _listen()
    left = threading.Event()
    watcher = threading.Thread(target=_watch, args=(left, at_once), name="deid-signals", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        left.set()
        watcher.join()


def _watch(left: threading.Event, at_once: Callable[[], None]) -> None:
    while not left.wait(0.1):
        if received() is not None:
            at_once()
            return


def _leave(number: int, _frame: object) -> None:
    """End the process now: no exception, which could be lost or printed, and nothing that waits."""
    if _command.received is None:
        _command.received = number
    os._exit(say())


def _raised_where_nothing_can_be(unraisable: "sys.UnraisableHookArgs") -> None:
    """An interruption that was raised in a destructor would be printed and lost: it is sent again instead."""
    kind = unraisable.exc_type
    if issubclass(kind, Exception) or received() is None:
        sys.__unraisablehook__(unraisable)
        return
    threading.Timer(0.05, signal.raise_signal, [received()]).start()

"""Servers that tests start: where they listen, and how to wait for them."""

import contextlib
import secrets
import socket
import time
from collections.abc import Callable
from typing import TypeVar

import pytest

WAIT = 600
"""Seconds after which a process hangs, however slow the machine is; on two idle cores a server answers within ten."""

Found = TypeVar("Found")


_PORTS = range(20_000, 32_000)
"""Ports that the kernel gives to nobody who asks for any: the others are soon taken again by a connection of somebody's."""


def free_port() -> int:
    """A port of the loopback that nobody listens on, nor is likely to until the server that is told of it has started."""
    while True:
        port = _PORTS[secrets.randbelow(len(_PORTS))]  # `random` begins alike in every process of the tests
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def wait_for(what: str, ready: Callable[[], Found], seconds: float = WAIT, seen: Callable[[], object] | None = None) -> Found:
    """Ask until there is an answer. If there is none in time, waiting goes on while what is `seen` changes.

    So each step of the work has a limit, however many steps there are, and what hangs is told.
    """
    before, now = None, None
    while True:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = ready()
            if found:
                return found
            time.sleep(0.3)
        before, now = now, None if seen is None else seen()
        if before == now:
            pytest.fail(f"{what}: nothing within {seconds} seconds" + ("" if seen is None else f", but {now}"))

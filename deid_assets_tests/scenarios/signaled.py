"""`deid` in a process that sends itself a signal at a given point: python -m ...signaled SIGNAL POINT ARGUMENT ...

A point is one of `deid_assets_tests.matrices.dying`, or

    import:MODULE     when this module is about to be imported
    query             while a query of an intake is executed that would take hours
    destructor        in a destructor, from which no exception can be raised
    closing:MODULE    after everything, while the interpreter ends
"""

import atexit
import importlib.abc
import os
import signal
import sys
import threading

number = signal.SIGINT


def send() -> None:
    os.kill(os.getpid(), number)


class _Importing(importlib.abc.MetaPathFinder):
    def __init__(self, module: str) -> None:
        self._module = module

    def find_spec(self, name: str, path=None, target=None):
        if name == self._module:
            self._module = ""
            send()
        return None


class InDestructor:
    def __del__(self) -> None:
        send()
        for _ in range(1000):
            pass


def _in_query() -> None:
    """Before the table of an asset is written, start a query that takes hours, and send the signal while it works."""
    from deid_assets.resources import RestrictedStore
    from deid_assets.store import tables

    honest = RestrictedStore._write

    def write(self, context, content):
        with tables.connect(self.workplace.table(context.asset_key, context.partition_key).file) as connection:
            threading.Thread(target=send, daemon=True).start()
            connection.execute("SELECT count(*) FROM range(10000000) a, range(10000000) b WHERE (a.range * b.range) % 7 = 3")
        return honest(self, context, content)

    RestrictedStore._write = write


def _in_destructor() -> None:
    from deid_assets.resources import RestrictedStore

    honest = RestrictedStore._write

    def write(self, context, content):
        if context.asset_key.path[-1] == "release_records":
            InDestructor()
        return honest(self, context, content)

    RestrictedStore._write = write


def arm(point: str) -> None:
    if point.startswith("import:"):
        sys.meta_path.insert(0, _Importing(point.removeprefix("import:")))
    elif point == "query":
        _in_query()
    elif point == "destructor":
        _in_destructor()
    elif point == "closing":
        atexit.register(send)
    else:
        from deid_assets_tests.matrices import dying

        dying.die = send
        dying.arm(point)


if __name__ == "__main__":
    from deid_assets import __main__, interruption

    number = signal.Signals[sys.argv[1]]
    # Whoever runs the tests in the background, or ran others in the same process, may have them ignored.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    interruption.answer_signals()
    point, sys.argv[1:] = sys.argv[2], sys.argv[3:]
    arm(point)
    __main__.main()

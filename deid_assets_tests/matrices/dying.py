"""`deid` in a process that kills itself at a given point: python -m deid_assets_tests.matrices.dying POINT ARGUMENT ...

A point is one of

    nowhere                      never; the calls of the publication are counted and printed at the end
    call:NUMBER                  before that system call of the publication; a write dies after half its bytes
    event:TYPE[:NAME]            before Dagster records an event of this type, of the asset or check NAME if there is one
    recorded:TYPE[:NAME]         after it was recorded
    write:ASSET                  before the table of an asset is written
    commit:ASSET                 when it is written, before its transaction is committed
    written:ASSET                when it is committed, before anything is recorded of it
    made:deliveries              while a synthetic delivery is half made
"""

import contextlib
import os
import signal
import sys
import threading

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage

from deid_assets.command_line import run
from deid_assets.command_line.main import main
from deid_assets.release.publication.publish import Staging
from deid_assets.resources import RestrictedStore
from deid_assets.store import tables
from deid_assets_tests.release.crashing import CALLS

made = 0


def die() -> None:
    """End as a process ends that the kernel kills: nothing is flushed, nothing is tidied up."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_call(number: int) -> None:
    """Die before a system call that the publication makes; 0 only counts."""
    publishing = threading.local()

    def counted(name: str, call):
        def replacement(*arguments, **options):
            global made
            if getattr(publishing, "now", False):
                made += 1
                if made == number:
                    if name == "write":
                        call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                    die()
            return call(*arguments, **options)

        return replacement

    for name in CALLS:
        setattr(os, name, counted(name, getattr(os, name)))
    honest = Staging.publish

    def publish(self, *arguments, **options):
        publishing.now = True
        try:
            return honest(self, *arguments, **options)
        finally:
            publishing.now = False

    Staging.publish = publish


def die_at_event(kind: str, name: str, before: bool) -> None:
    """Die before or after an event is recorded."""
    honest = SqliteEventLogStorage.store_event

    def is_it(event: dg.EventLogEntry) -> bool:
        if not event.is_dagster_event or event.dagster_event.event_type_value != kind:
            return False
        data = event.dagster_event
        key = data.asset_key or getattr(data.event_specific_data, "asset_key", None)
        return name in ("", getattr(data.event_specific_data, "check_name", None), key.path[-1] if key else None)

    def store_event(self, event: dg.EventLogEntry):
        if before and is_it(event):
            die()
        honest(self, event)
        if not before and is_it(event):
            die()

    SqliteEventLogStorage.store_event = store_event


class NeverCommits:
    """A connection that dies instead of committing."""

    def __init__(self, connection) -> None:
        self._connection = connection

    def __getattr__(self, name: str):
        return getattr(self._connection, name)

    def execute(self, sql: str, *parameters):
        if sql == "COMMIT":
            die()
        return self._connection.execute(sql, *parameters)


def die_at_table(moment: str, asset: str) -> None:
    """Die before, while, or after the table of an asset is written."""
    honest, connect = RestrictedStore._write, tables.connect

    def write(self, context, content):
        if context.asset_key.path[-1] == asset:
            if moment == "write":
                die()
            if moment == "commit":
                tables.connect = dying_connection
        return honest(self, context, content)

    @contextlib.contextmanager
    def dying_connection(*arguments, **options):
        with connect(*arguments, **options) as connection:
            yield NeverCommits(connection)

    def written(self, context, *table, honest_lineage=RestrictedStore._column_lineage):
        if moment == "written" and context.asset_key.path[-1] == asset:
            die()
        return honest_lineage(self, context, *table)

    RestrictedStore._write = write
    RestrictedStore._column_lineage = written


def die_while_made() -> None:
    honest = run.write_delivery

    def half(folder, members, seed, contents, progress):
        honest(folder, members, seed, contents, lambda done, of: die())

    run.write_delivery = half


def arm(point: str) -> None:
    """Set up the death at a point."""
    kind, _, rest = point.partition(":")
    if kind in ("nowhere", "call"):
        die_at_call(int(rest or 0))
    elif kind in ("event", "recorded"):
        event, _, name = rest.partition(":")
        die_at_event(event, name, before=kind == "event")
    elif kind in ("write", "commit", "written"):
        die_at_table(kind, rest)
    elif point == "made:deliveries":
        die_while_made()
    else:
        raise ValueError(f"no such point: {point}")


if __name__ == "__main__":
    arm(sys.argv[1])
    try:
        main(sys.argv[2:])
    finally:
        if sys.argv[1] == "nowhere":
            print(f"calls: {made}", flush=True)

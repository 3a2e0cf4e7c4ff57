"""Runs that were killed, and runs that come too late, through `deid run`; the whole matrix is in `matrices/crashes`."""

import contextlib
import errno
import io
import os
import shutil
import time
from pathlib import Path

import dagster as dg
import pytest
from rich.console import Console

from deid_assets.automation.instance import clean_orphans, dagster_instance, prepare_dagster_home
from deid_assets.command_line.options import Asked
from deid_assets.command_line.progress import Progress
from deid_assets.command_line.run import run_policy
from deid_assets.release.registry.chain import Entry, Registry
from deid_assets.resources import STORE_TAG
from deid_assets.store.home import Home, StoreLock
from deid_assets_tests.matrices import crashes
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid, unwrapped
from deid_assets_tests.scenarios.test_flat_release import people, write_people

pytestmark = pytest.mark.matrix


@pytest.fixture(scope="module")
def family(tmp_path_factory) -> crashes.Family:
    return crashes.flat(tmp_path_factory.mktemp("killed"))


def test_runs_killed_before_they_began_and_while_they_published_are_mended_by_the_next_one(family, tmp_path):
    found = crashes.in_turn(family, tmp_path / "case", ["event:PIPELINE_START", "call:25"])
    assert [(outcome.ok, outcome.seen) for outcome in found] == [
        (True, "nothing; the next run is killed, too"),
        (True, "nothing, then published"),
    ]


def test_a_run_killed_after_the_release_was_renamed_does_not_stay_under_way(family, tmp_path):
    (found,) = crashes.in_turn(family, tmp_path / "case", ["event:ASSET_MATERIALIZATION:release"])
    assert (found.ok, found.seen) == (True, "whole, then unchanged")


def test_a_run_that_comes_too_late_says_so_and_leaves_no_trace(family, tmp_path):
    home = Home(tmp_path / "deid").create()
    (home.policies / "flat_table.yaml").write_text((Home(family.home).policies / "flat_table.yaml").read_text())
    lock = StoreLock.of(home, family.policy, family.delivery)
    lock.acquire()
    try:
        code, printed = deid(home.root, "run", *family.arguments)
    finally:
        lock.release()
    assert code == ERROR
    assert unwrapped(printed).endswith(
        "error: another run is working on the delivery people under the policy flat_table; wait until it has finished"
    )
    assert list(home.deliveries.iterdir()) == [], "the delivery was registered"
    assert list(home.dagster.iterdir()) == [], "a run was recorded"


def test_orphans_of_another_store_that_may_be_about_to_begin_are_left_alone(tmp_path, monkeypatch):
    home = Home(tmp_path / "deid").create()
    prepare_dagster_home(home)
    own = StoreLock.of(home, "own", "delivery")
    own.acquire()
    busy = StoreLock.of(home, "busy", "delivery")
    busy.acquire()
    statuses = ("NOT_STARTED", "STARTING", "STARTED")
    try:
        with dagster_instance(home) as instance:
            made = {}
            for policy in ("own", "other", "busy"):
                for status in statuses:
                    run = instance.create_run_for_job(a_job(), status=status_of(status), tags={STORE_TAG: f"{policy}/delivery"})
                    made[run.run_id] = (policy, status)
            cleaned = []
            for seconds in (0, 100, 400):
                monkeypatch.setattr(time, "time", lambda later=time.time() + seconds: later)
                cleaned.append({made[run_id] for run_id in clean_orphans(home, instance, own)})
                monkeypatch.undo()
    finally:
        own.release()
        busy.release()
    at_once, soon, later = cleaned
    assert at_once == {("own", status) for status in statuses}
    assert (soon, later) == ({("other", "STARTED")}, {("other", "NOT_STARTED"), ("other", "STARTING")})


def a_job():
    @dg.op
    def nothing() -> None: ...

    return dg.GraphDefinition(name="nothing_to_do", node_defs=[nothing]).to_job()


def status_of(name: str):
    return dg.DagsterRunStatus[name]


def run_in_this_process(home: Home, policy: str, delivery: Path) -> tuple[int, str]:
    written = io.StringIO()
    with contextlib.redirect_stderr(written):
        code = run_policy(home, Asked(policy, (delivery,)), Progress(Console(file=written, width=200)))
    return code, unwrapped(written.getvalue())


def test_a_run_that_is_stopped_after_its_release_is_out_does_not_say_that_nothing_was_published(family, tmp_path, monkeypatch):
    stops = {
        "is published, but the registry or the home's journal cannot be written": OSError(
            errno.ENOSPC, os.strerror(errno.ENOSPC)
        ),
        "the run was interrupted by Ctrl-C or a signal": dg.DagsterExecutionInterruptedError(),
    }
    for number, (said, stop) in enumerate(stops.items(), start=1):
        home = Home(shutil.copytree(family.home, tmp_path / f"deid-{number}"))
        monkeypatch.setenv("DEID_HOME", str(home.root))
        delivery = write_people(tmp_path / f"people-{number}", people(600, number))

        def stopped(registry, line, append=Registry.append, stop=stop):
            if isinstance(line, Entry):  # what noise costs is written before the release
                raise stop
            append(registry, line)

        with monkeypatch.context() as patched:
            patched.setattr(Registry, "append", stopped)
            code, printed = run_in_this_process(home, family.policy, delivery)
        release = home.releases / family.policy / "0001"
        assert release.is_dir()
        assert (code, said in printed, "Nothing was published" in printed) == (ERROR, True, False), printed
        assert f"Published {release}" in printed
        code, printed = run_in_this_process(home, family.policy, delivery)
        assert (code, "Unchanged" in printed) == (PUBLISHED, True)

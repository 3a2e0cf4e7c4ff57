"""One run at a time for each policy and delivery, in this process and between processes."""

import os
import select
import signal
import stat
import subprocess
import sys

import pytest

from deid_assets.errors import StoreError
from deid_assets.store.home import Home, StoreLock

HOLD = """
import fcntl, sys
file = open(sys.argv[1], "a")
fcntl.flock(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def lock(tmp_path):
    made = StoreLock.of(Home(tmp_path), "policy", "delivery")
    yield made
    made.release()


def other_of(lock: StoreLock) -> StoreLock:
    return StoreLock(lock.path)


def test_it_lies_beside_the_store_and_is_for_its_owner_only(lock, tmp_path):
    lock.acquire()
    assert lock.path == tmp_path / "store" / "policy" / "delivery.lock"
    assert stat.S_IMODE(lock.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(lock.path.parent.stat().st_mode) == 0o700


@pytest.mark.parametrize(
    ("policy", "delivery"),
    [("policy", "../../releases/x"), ("..", "x"), ("a/b", "x"), ("", "x"), ("policy", ""), ("policy", "/tmp/x")],
)
def test_nothing_is_made_where_a_name_leads_elsewhere(tmp_path, policy, delivery):
    """Partitions and tags of a run can be written by hand."""
    with pytest.raises(StoreError):
        StoreLock.of(Home(tmp_path), policy, delivery)
    assert list(tmp_path.iterdir()) == []


def test_a_second_run_is_told_what_is_going_on(lock):
    lock.acquire()
    with pytest.raises(StoreError, match="another run is working on the delivery delivery under the policy policy"):
        other_of(lock).acquire()
    assert not other_of(lock).try_acquire()


def test_when_it_is_released_the_next_one_takes_it(lock):
    lock.acquire()
    lock.release()
    other = other_of(lock)
    assert other.try_acquire()
    other.release()


def test_releasing_what_is_not_held_is_harmless(lock):
    lock.release()
    lock.acquire()
    lock.release()
    lock.release()


def test_a_failed_attempt_leaves_the_holders_lock_alone(lock):
    lock.acquire()
    other = other_of(lock)
    assert not other.try_acquire()
    other.release()
    assert not other_of(lock).try_acquire()


def test_deliveries_and_policies_do_not_wait_for_each_other(tmp_path):
    home = Home(tmp_path)
    locks = [StoreLock.of(home, *pair) for pair in (("a", "x"), ("a", "y"), ("b", "x"))]
    try:
        assert all(lock.try_acquire() for lock in locks)
    finally:
        for lock in locks:
            lock.release()


def test_another_process_holds_it_until_it_ends_however_it_ends(lock):
    lock.acquire()
    lock.release()
    other = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert other.stdout.readline() == "held\n"
    assert not lock.try_acquire()
    other.kill()
    other.communicate()
    assert lock.try_acquire()


def test_locks_of_one_run_in_one_process_are_shared_until_the_last_is_released(lock):
    first, again = StoreLock(lock.path, "run"), StoreLock(lock.path, "run")
    assert first.try_acquire() and again.try_acquire()
    first.release()
    assert not other_of(lock).try_acquire() and not StoreLock(lock.path, "another run").try_acquire()
    again.release()
    lock.acquire()


def test_a_run_that_let_go_between_two_steps_keeps_others_out_until_it_is_over(lock):
    over = []
    other = StoreLock(lock.path, "other", over.__contains__)
    lock.acquire()
    lock.pause()
    assert not other.try_acquire()
    with pytest.raises(StoreError, match=f"another run .* \\(run {lock.run_id} is between two steps; if its process is gone"):
        other.acquire()
    over.append(lock.run_id)
    assert other.try_acquire()
    other.release()


def test_a_run_that_let_go_between_two_steps_takes_it_again(lock):
    lock.acquire()
    lock.pause()
    again = StoreLock(lock.path, lock.run_id)
    assert again.try_acquire()
    again.release()
    assert other_of(lock).try_acquire(), "the run said that it needs the store no longer"


def test_letting_go_in_one_place_does_not_end_the_hold_of_another_place_of_the_run(lock):
    first, again = StoreLock(lock.path, "run"), StoreLock(lock.path, "run")
    first.acquire()
    again.acquire()
    again.pause()
    assert not other_of(lock).try_acquire()
    first.release()
    assert lock.try_acquire(), "the last word was that the run is done"


@pytest.mark.parametrize("content", ["", "{", "[]", "null", '{"run": "x"}', '{"between_steps": true}', "\x00" * 50])
def test_a_file_that_names_nobody_keeps_nobody_out(lock, content):
    """Such as one whose writer was killed, or one of an earlier version."""
    lock.path.parent.mkdir(parents=True)
    lock.path.write_text(content)
    assert lock.try_acquire()


STEP = """
import sys
from pathlib import Path
from deid_assets.store.home import StoreLock
lock = StoreLock(Path(sys.argv[1]), sys.argv[2])
print("begun", flush=True)
lock.acquire()
print("held", flush=True)
sys.stdin.readline()
(lock.pause if sys.argv[3] == "pause" else lambda: None)()
"""


def step_process(lock: StoreLock, run_id: str, then: str = "pause") -> subprocess.Popen:
    made = subprocess.Popen(
        [sys.executable, "-c", STEP, str(lock.path), run_id, then], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert made.stdout.readline() == "begun\n"
    return made


def test_steps_of_one_run_in_several_processes_wait_for_each_other(lock):
    first = step_process(lock, "run")
    assert first.stdout.readline() == "held\n"
    second = step_process(lock, "run")
    with pytest.raises(StoreError, match="another run is working on the delivery delivery under the policy policy; wait until"):
        StoreLock(lock.path, "another run").acquire()
    assert select.select([second.stdout], [], [], 0.2)[0] == [], "the second step did not wait"
    first.communicate("\n")
    assert second.stdout.readline() == "held\n"
    second.communicate("\n")
    assert not StoreLock(lock.path, "another run").try_acquire(), "between two steps"
    assert StoreLock(lock.path, "another run", lambda run_id: run_id == "run").try_acquire()


def test_a_step_that_was_killed_keeps_nobody_out(lock):
    killed = step_process(lock, "run")
    assert killed.stdout.readline() == "held\n"
    killed.kill()
    killed.communicate()
    assert lock.try_acquire()


def test_a_link_in_the_place_of_the_lock_is_not_followed(lock, tmp_path):
    lock.path.parent.mkdir(parents=True)
    lock.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="the lock .* cannot be created: Too many levels of symbolic links"):
        lock.acquire()
    assert not (tmp_path / "elsewhere").exists()


FORKED = """
import os, sys, time
from pathlib import Path
from deid_assets.store.home import StoreLock
lock = StoreLock(Path(sys.argv[1]))
lock.acquire()
if os.fork() == 0:
    lock.release()
    os.write(1, b"forked\\n")
    time.sleep(600)
    os._exit(0)
os.write(1, b"taken again\\n" if StoreLock(Path(sys.argv[1])).try_acquire() else b"held\\n")
sys.stdin.read()
"""


def test_a_forked_process_inherits_no_lock_and_lets_go_of_none(lock):
    other = subprocess.Popen(
        [sys.executable, "-c", FORKED, str(lock.path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        start_new_session=True,
    )  # fmt: skip
    try:
        assert {other.stdout.readline(), other.stdout.readline()} == {"forked\n", "held\n"}
        assert not lock.try_acquire()
        other.kill()
        other.wait()
        assert lock.try_acquire(), "the forked process holds the lock of a process that is gone"
    finally:
        os.killpg(other.pid, signal.SIGKILL)

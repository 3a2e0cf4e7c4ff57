"""One run at a time for each policy and delivery, in this process and between processes."""

import os
import signal
import stat
import subprocess
import sys

import pytest

from deid_assets.errors import StoreError
from deid_assets.store.home import Home
from deid_assets.store.lock import StoreLock

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


def test_a_link_in_the_place_of_the_lock_is_not_followed(lock, tmp_path):
    lock.path.parent.mkdir(parents=True)
    lock.path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StoreError, match="the lock .* cannot be created: Too many levels of symbolic links"):
        lock.acquire()
    assert not (tmp_path / "elsewhere").exists()


FORKED = """
import os, sys, time
from pathlib import Path
from deid_assets.store.lock import StoreLock
lock = StoreLock(Path(sys.argv[1]))
lock.acquire()
if os.fork() == 0:
    lock.release()
    os.write(1, b"forked\\n")
    time.sleep(60)
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

"""A crash at a system call leaves no release or a whole one, and the next start mends the rest."""

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, wait

import pytest

from deid_assets.release.keys import SigningKey
from deid_assets.store import durable
from deid_assets_tests.processes import WAIT
from deid_assets_tests.release.making import publish, releases_in

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ENVIRONMENT = os.environ | {"PYTHONPATH": ROOT, "PYTHONDONTWRITEBYTECODE": "1"}


@pytest.mark.matrix
def test_a_crash_at_any_system_call_of_a_publication_leaves_no_release_or_a_whole_one(tmp_path):
    ran = subprocess.run(
        [sys.executable, "-m", "deid_assets_tests.release.crashing", str(tmp_path)],
        capture_output=True,
        text=True,
        env=ENVIRONMENT,
    )
    assert ran.returncode == 0, ran.stderr
    states = [line.split(maxsplit=2)[2] for line in ran.stdout.splitlines()]
    assert set(states) == {"absent", "whole"}, ran.stdout[-500:] + ran.stderr
    assert len(states) > 40
    # Absent up to the rename, whole from there on; at least the flush of the folder and the registry's entry follow.
    assert states == sorted(states)
    assert states.count("whole") > 3


DECISIONS = (
    "begin",
    "opt out",
    "opt in",
    "withdraw",
    "retire",
    "rotate",
    "lose the key",
    "keep the head",
    "tell witnesses",
    "set rules",
    "drop rules",
)


@pytest.mark.matrix
@pytest.mark.parametrize("decision", DECISIONS)
def test_a_crash_at_any_system_call_of_a_decision_forgets_nothing(tmp_path, decision):
    ran = subprocess.run(
        [sys.executable, "-m", "deid_assets_tests.release.crashing", str(tmp_path), "journal", decision],
        capture_output=True,
        text=True,
        env=ENVIRONMENT | {"DEID_SECRET": "a secret of tests, of more than 32 bytes"},
    )
    assert ran.returncode == 0, ran.stderr
    lines = [line.split("\t") for line in ran.stdout.splitlines()]
    assert {state for *_, state in lines} <= {"before", "after", "rules"}, ran.stdout[-500:] + ran.stderr
    assert {name for name, *_ in lines} == {decision} and lines[-1][2] == "after", lines[-1]
    assert len(lines) > 10


def test_everything_is_flushed_before_the_rename_and_the_registry_after_it(tmp_path, monkeypatch):
    if not os.path.isdir("/proc/self/fd"):
        pytest.skip("the names of open files are read from /proc")
    publish(releases_in(tmp_path), "first")
    calls = []

    def fsync(descriptor, call=os.fsync):
        calls.append(("fsync", os.readlink(f"/proc/self/fd/{descriptor}")))
        call(descriptor)

    def rename(source, target, call=os.rename):
        calls.append(("rename", str(target)))
        call(source, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(os, "rename", rename)
    released = publish(releases_in(tmp_path), "second").folder
    moment = calls.index(("rename", str(released)))
    staged = [path for call, path in calls[:moment] if call == "fsync"]
    [staging] = {path for path in staged if os.path.basename(path).startswith(".staging-0002-")}
    expected = {os.path.join(staging, path.relative_to(released)) for path in released.rglob("*")} | {staging}
    assert expected <= set(staged)
    assert calls[moment + 1] == ("fsync", str(released.parent))
    assert calls[moment + 2] == ("fsync", str(released.parent.parent / "registry.jsonl"))


def test_staging_of_a_killed_process_is_removed_and_of_a_living_one_kept(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from deid_assets_tests.release.making import releases_in\n"
        "with releases_in(pathlib.Path(sys.argv[1])).stage('heritage') as staging:\n"
        "    staging.write_file('data/x', b'x')\n"
        "    print(staging.folder.name, flush=True)\n"
        "    sys.stdin.read()\n"
    )
    command = [sys.executable, "-c", program, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENVIRONMENT) as process:
        name = process.stdout.readline().strip()
        releases = releases_in(tmp_path)
        try:
            assert releases.recover().removed == ()
            assert (releases.folder / "heritage" / name).exists()
        finally:
            process.send_signal(signal.SIGKILL)
    assert releases.recover().removed == (f"heritage/{name}",)
    assert list((releases.folder / "heritage").iterdir()) == []
    assert publish(releases, "first").entry.number == 1


@pytest.mark.matrix
def test_processes_publish_side_by_side(tmp_path):
    program = (
        "import sys, pathlib\n"
        "from deid_assets_tests.release.making import publish, releases_in\n"
        "for turn in range(3):\n"
        "    publish(releases_in(pathlib.Path(sys.argv[1])), f'{sys.argv[2]} {turn}', with_tables=False)\n"
    )
    commands = [[sys.executable, "-c", program, str(tmp_path), str(worker)] for worker in range(2)]
    processes = [subprocess.Popen(command, env=ENVIRONMENT, stderr=subprocess.PIPE) for command in commands]
    errors = [process.communicate(timeout=WAIT)[1] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], errors
    entries = releases_in(tmp_path).registry.chain().entries
    assert sorted(entry.number for entry in entries) == list(range(1, 7))
    assert SigningKey.load_or_create(tmp_path / "keys").public == releases_in(tmp_path).key.public


def test_a_lock_is_free_once_its_holder_let_go(tmp_path):
    held = durable.take_lock(tmp_path / "lock", wait=False)
    assert durable.take_lock(tmp_path / "lock", wait=False) is None
    os.close(held)
    again = durable.take_lock(tmp_path / "lock", wait=False)
    assert again is not None
    os.close(again)


def test_a_lock_on_a_folder_that_was_replaced_meanwhile_is_that_of_the_new_one(tmp_path):
    """As if a backup were restored while another process waits to decide something."""
    home, file = tmp_path / "home", tmp_path / "home" / "lock"
    home.mkdir()
    held = durable.take_lock(file, wait=False)
    with ThreadPoolExecutor() as threads:
        waits = threads.submit(durable.take_lock, file, wait=True)
        assert wait([waits], timeout=0.2).not_done
        home.rename(tmp_path / "kept")
        home.mkdir()
        os.close(held)
        got = waits.result(timeout=WAIT)
    assert durable.take_lock(file, wait=False) is None, "whoever comes later waits for the one that waited"
    os.close(got)


def test_a_write_that_the_system_cuts_short_is_continued(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "write", lambda descriptor, content, call=os.write: call(descriptor, bytes(content)[:3]))
    durable.create(tmp_path / "file", b"0123456789", 0o600)
    assert (tmp_path / "file").read_bytes() == b"0123456789"


def test_replacing_a_file_leaves_the_old_or_the_new(tmp_path, monkeypatch):
    durable.replace(tmp_path / "file", b"old", 0o600)

    def fails(*arguments):
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", fails)
        with pytest.raises(OSError, match="Input/output"):
            durable.replace(tmp_path / "file", b"new", 0o600)
    assert (tmp_path / "file").read_bytes() == b"old"
    durable.replace(tmp_path / "file", b"new", 0o600)
    assert (tmp_path / "file").read_bytes() == b"new"
    assert [path.name for path in tmp_path.iterdir()] == ["file"]

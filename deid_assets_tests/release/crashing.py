"""Run an action in a forked process that dies at a given system call.

Run as a script by `test_crashes`, so that the fork happens in a process without threads.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from deid_assets.release.publication.verification import verify
from deid_assets_tests.release.making import publish, releases_in

CALLS = ("open", "write", "fsync", "fchmod", "chmod", "mkdir", "rename", "unlink", "rmdir", "ftruncate")
CRASHED, ENDED, FAILED = 77, 0, 1


def run_until(action: Callable[[], object], crash_at: int) -> int:
    """Run `action` in a child that dies before its system call number `crash_at`; return the child's exit code.

    A write dies after half its bytes.
    """
    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    made = 0

    def dying(name: str, call: Callable) -> Callable:
        def replacement(*arguments, **options):
            nonlocal made
            made += 1
            if made == crash_at:
                if name == "write":
                    call(arguments[0], bytes(arguments[1])[: len(arguments[1]) // 2])
                os._exit(CRASHED)
            return call(*arguments, **options)

        return replacement

    for name in CALLS:
        setattr(os, name, dying(name, getattr(os, name)))
    try:
        action()
    except BaseException as error:
        print(f"call {crash_at}: {type(error).__name__}: {error}", file=sys.stderr)
        os._exit(FAILED)
    os._exit(ENDED)


def whole_or_absent(home: Path) -> str | None:
    """What is wrong with the visible state of a folder of releases, before any recovery; None if nothing is."""
    releases = releases_in(home)
    for folder in releases.folder.glob("*/[0-9]*"):
        if failures := verify(folder, releases.key.public).failures:
            return f"{folder.name} is not whole: {failures}"
    report = verify(releases.path("heritage", 1), releases.key.public, releases.registry.path)
    # A line that a crash cut is told until the next start mends it.
    if {check.name for check in report.failures} - {"the registry's chain is unbroken"}:
        return "the earlier release is no longer in order"
    return None


def recovered(home: Path) -> str | None:
    """What is wrong after recovery; None if nothing is."""
    releases = releases_in(home)
    recovery = releases.recover()
    if recovery.problems:
        return f"recovery found problems: {recovery.problems}"
    visible = sorted(path.name for path in releases.folder.glob("*/*"))
    registered = [f"{entry.number:04d}" for entry in releases.registry.chain().entries]
    if visible != registered or registered not in (["0001"], ["0001", "0002"]):
        return f"visible {visible}, registered {registered}"
    for name in visible:
        if not verify(releases.folder / "heritage" / name, releases.key.public, releases.registry.path).ok:
            return f"{name} is not in order"
    return None


def crash_everywhere(root: Path, every: int) -> None:
    """Crash the second publication at every `every`-th of its system calls, and its recovery at each of its own.

    Prints one line per crash: "publish" or "recover", the call's number, and "absent" or "whole"; or what is wrong.
    """
    publish(releases_in(root / "prepared"), "first", with_tables=False)
    for crash_at in range(1, 10_000, every):
        home = root / f"{crash_at}"
        shutil.copytree(root / "prepared", home)
        # DuckDB's threads do not survive a fork: only the children write tables.
        outcome = run_until(lambda home=home: publish(releases_in(home), "second"), crash_at)
        wrong = whole_or_absent(home)
        state = "whole" if releases_in(home).path("heritage", 2).exists() else "absent"
        # Recover, dying at one call after the other, until a recovery ends; not after each crash, to save time.
        thorough = state == "whole" or crash_at % 5 == 0
        for recovery_at in range(1 if thorough else 0, 10_000):
            if wrong or run_until(lambda home=home: releases_in(home).recover(), recovery_at) == ENDED:
                break
            wrong = whole_or_absent(home)
            if (state == "whole") != releases_in(home).path("heritage", 2).exists():
                wrong = "recovery made or removed a release"
        wrong = wrong or recovered(home)
        print("publish", crash_at, wrong or state, flush=True)
        if outcome == ENDED or wrong:
            return
        assert outcome == CRASHED
        again = run_until(lambda home=home: publish(releases_in(home), "third", with_tables=False), 0)
        if again != ENDED or len(releases_in(home).registry.chain().entries) != (3 if state == "whole" else 2):
            print("publish", crash_at, "nothing can be published afterwards", flush=True)
            return


if __name__ == "__main__":
    crash_everywhere(Path(sys.argv[1]), int(sys.argv[2]))

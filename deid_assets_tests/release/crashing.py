"""Run an action in a forked process that dies at a given system call.

Run as a script by `test_crashes`, so that the fork happens in a process without threads.
"""

import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.policy.withdrawals import OptOutLine, withdrawn_members
from deid_assets.release.home_rules import change_rules
from deid_assets.release.journal.chain import RETIRED, Remembered
from deid_assets.release.journal.home_journal import read_head
from deid_assets.release.keyring import signing_key_of
from deid_assets.release.opt_outs import enter_opt_out
from deid_assets.release.publication.approval import approve_waiting, reject_waiting
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.publication.waiting import read_waiting, waiting_folder
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import KeyRotation
from deid_assets.release.rotation import rotate
from deid_assets.store.home import Home
from deid_assets_tests.release.making import APPROVERS, READING, publish, releases_in, wait

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
        if failures := verify_release(folder, releases.key.public).failures:
            return f"{folder.name} is not whole: {failures}"
    report = verify_release(releases.path("heritage", 1), releases.key.public, releases.registry.path)
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
    told = journal_is_told(releases)
    if told:
        return told
    visible = sorted(path.name for path in releases.folder.glob("*/*"))
    registered = [f"{entry.number:04d}" for entry in releases.registry.chain().entries]
    if visible != registered or registered not in (["0001"], ["0001", "0002"]):
        return f"visible {visible}, registered {registered}"
    for name in visible:
        if not verify_release(releases.folder / "heritage" / name, releases.key.public, releases.registry.path).ok:
            return f"{name} is not in order"
    return None


def journal_is_told(releases: Releases) -> str | None:
    """What the journal and the home lack of each other after the next decision began; None if nothing."""
    with releases.deciding() as journal:
        lines = len(releases.registry.chain().lines)
        if journal.missing() or Remembered.of(journal.file.read()).lines != lines:
            return "the journal was not told"
    return None


def crash_everywhere(root: Path) -> None:
    """Crash the second publication at each of its system calls, and its recovery at each of its own.

    Prints one line per crash: "publish" or "recover", the call's number, and "absent" or "whole"; or what is wrong.
    """
    publish(releases_in(root / "prepared"), "first", with_tables=False)
    for crash_at in range(1, 10_000):
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


def decided(home: Path) -> str:
    """What became of release heritage/0001, after recovery; or what is wrong with it."""
    releases = releases_in(home)
    problems = releases.recover().problems
    if problems:
        return f"recovery found problems: {problems}"
    told = journal_is_told(releases)
    if told:
        return told
    folder, chain = waiting_folder(releases.waiting, "heritage", 1), releases.registry.chain()
    published, rejected = releases.path("heritage", 1).exists(), ("heritage", 1) in chain.rejected
    if list((releases.folder / "heritage").glob(".staging-*")) or list(releases.waiting.glob("*/.making-*")):
        return "recovery left something half made"
    if published != (chain.find("heritage", 1) is not None) or (published and rejected) or (rejected and folder.exists()):
        return f"published {published}, rejected {rejected}, lines {len(chain.lines)}"
    if published and not verify_release(releases.path("heritage", 1), releases.key.public, releases.registry.path).ok:
        return "what was published is not in order"
    if published or rejected:
        return "published" if published else "rejected"
    if not folder.exists():
        return "nothing"
    read_waiting(folder, releases.key.public)
    return "waiting"


def crash_decisions(root: Path) -> None:
    """Crash staging for approval, approving and rejecting at each of their system calls.

    Prints one line per crash: the action, the call's number, and the state afterwards; or what is wrong. After each, the
    action is done again, and must bring about what it is for, or say that it was done.
    """
    actions: dict[str, tuple[Callable[[Path], object], str]] = {
        "wait": (lambda home: wait(releases_in(home)), "waiting"),
        "approve": (lambda home: approve_waiting(releases_in(home), "heritage", 1, APPROVERS[0], lambda: READING), "published"),
        "reject": (lambda home: reject_waiting(releases_in(home), "heritage", 1, APPROVERS[0], "odd"), "rejected"),
    }
    for name, (action, wanted) in actions.items():
        prepared = root / f"{name}-prepared"
        releases_in(prepared).recover()
        if name != "wait":
            wait(releases_in(prepared))
        for crash_at in range(1, 10_000):
            home = root / f"{name}-{crash_at}"
            shutil.copytree(prepared, home)
            outcome = run_until(lambda home=home, action=action: action(home), crash_at)
            if releases_in(home).path("heritage", 1).exists() and name == "reject":
                print(name, crash_at, "a rejected release is visible")
            state = decided(home)
            print(name, crash_at, state, flush=True)
            if outcome == ENDED or state not in ("nothing", "waiting", wanted):
                break
            assert outcome == CRASHED
            if state != wanted:
                again = run_until(lambda home=home, action=action: action(home), 0)
                if again != ENDED or decided(home) != wanted:
                    print(name, crash_at, f"it cannot be done afterwards: {decided(home)}", flush=True)
                    return
            shutil.rmtree(home)


def _with_release(home: Path) -> None:
    releases = releases_in(home)
    publish(releases, "first", with_tables=False)
    opted(home, "m0")


def opted(home: Path, person: str, listed: bool = True) -> None:
    """Enter an opt-out, or take it back."""
    enter_opt_out(signed(home), OptOutLine(person, listed, "asked", clock.now(None)))


def signed(home: Path) -> Releases:
    """The releases of a home, with the key in force."""
    return Releases(Home(home), signing_key_of(Home(home)))


def _witness(home: Path) -> str:
    return str(home.with_name(f"{home.name}.witness"))


def _keep_head(home: Path) -> None:
    releases = signed(home)
    with releases.deciding() as journal:
        journal.add_witness(_witness(home), releases.key)


def _tell(home: Path) -> None:
    opted(home, "m1")
    signed(home).journal.tell_witnesses()


def _retire(home: Path) -> None:
    releases = signed(home)
    with releases.deciding() as journal:
        journal.note(RETIRED, {"policy": "heritage"}, releases.key)


def _set_rules(home: Path) -> None:
    change_rules(signed(home), b"kinds: [flat]\n", "Anna Muster", "rules")


def _drop_rules(home: Path) -> None:
    change_rules(signed(home), None, "Anna Muster", "")


def remembered(home: Path) -> Remembered:
    """What the journal amounts to, once the next decision has begun, for which nothing may be missing."""
    releases = signed(home)
    with releases.deciding() as journal:
        known = Remembered.of(journal.file.read())
        if journal.missing() or known.lines != len(releases.registry.chain().lines):
            raise ReleaseError("the journal was not told")
    if len(known.listed) != len(withdrawn_members([Home(home).policies])):
        raise ReleaseError("the list and the journal differ")
    return known


def crash_journal(root: Path, decision: str) -> None:
    """Crash a kind of decision that the journal records at each of its system calls.

    Prints one line per crash: the decision, the call's number, and "before" or "after"; or what is wrong. Nothing that was
    remembered before is forgotten, and the decision can be made afterwards.
    """
    begun: list[tuple[str, Callable[[Path], object], Callable[[Path], object], Callable[[Remembered, Path], bool]]] = [
        ("begin", releases_in, lambda home: opted(home, "m1"), lambda known, _: len(known.listed) == 1),
        ("opt out", _with_release, lambda home: opted(home, "m1"), lambda known, _: len(known.listed) == 2),
        ("opt in", _with_release, lambda home: opted(home, "m0", False), lambda known, _: not known.listed),
        (
            "withdraw", _with_release, lambda home: signed(home).withdraw("heritage", 1, "odd"),
            lambda _, home: ("heritage", 1) in signed(home).registry.chain().withdrawn,
        ),
        ("retire", _with_release, _retire, lambda known, _: "heritage" in known.retired),
        ("rotate", _with_release, lambda home: rotate(Home(home)), lambda _, home: _rotations(home) == 1),
        ("lose the key", _with_release, lambda home: rotate(Home(home), "stolen"), lambda _, home: _rotations(home) == 1),
        ("keep the head", _with_release, _keep_head, lambda known, home: known.witnesses == [_witness(home)]),
        (
            "tell witnesses", lambda home: (_with_release(home), _keep_head(home)), _tell,
            lambda known, home: len(known.listed) == 2 and read_head(_witness(home)).head == signed(home).journal.head,
        ),
        ("set rules", _with_release, _set_rules, lambda known, _: bool(known.rules)),
        ("drop rules", lambda home: (_with_release(home), _set_rules(home)), _drop_rules, lambda known, _: not known.rules),
    ]  # fmt: skip
    for name, prepare, decide, is_done in [one for one in begun if one[0] == decision]:
        for crash_at in range(1, 10_000):
            home = root / f"{name.replace(' ', '-')}-{crash_at}"
            prepare(home)
            outcome = run_until(lambda home=home, decide=decide: decide(home), crash_at)
            state = _after(home, is_done, name)
            print(name, crash_at, state, sep="\t", flush=True)
            if state not in ("before", "after", "rules"):
                return
            if state != "after" and outcome != ENDED:
                decide(home)
                if _after(home, is_done, name) != "after":
                    print(name, crash_at, "it cannot be done afterwards", sep="\t", flush=True)
                    return
            shutil.rmtree(home)
            if outcome == ENDED:
                break
            assert outcome == CRASHED


def _after(home: Path, is_done: Callable[[Remembered, Path], bool], name: str) -> str:
    try:
        return "after" if is_done(remembered(home), home) else "before"
    except ReleaseError as error:
        # A file of rules without its line, or the reverse, stops every decision until the rules are stated again.
        return "rules" if "rules of the home" in str(error) and "rules" in name else str(error)


def _rotations(home: Path) -> int:
    return sum(isinstance(line, KeyRotation) for line in signed(home).registry.chain().lines)


if __name__ == "__main__":
    if sys.argv[2:3] == ["journal"]:
        crash_journal(Path(sys.argv[1]), sys.argv[3])
    elif sys.argv[2:] == ["decisions"]:
        crash_decisions(Path(sys.argv[1]))
    else:
        crash_everywhere(Path(sys.argv[1]))

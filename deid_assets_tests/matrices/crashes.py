"""Crashes: `deid run` is killed at many points; nothing half made is ever visible, and the next run puts all in order."""

import os
import re
import shutil
import signal
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import dagster as dg

from deid_assets.automation.instance import dagster_instance
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store import durable
from deid_assets.store.home import Home, StoreLock
from deid_assets_tests.loaded import ran_loaded
from deid_assets_tests.matrices.table import Matrix, Outcome
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people
from deid_assets_tests.stages import STAGES

MEMBERS = 3_000
SECRET = "a secret of the matrix, of more than 32 bytes"
RESTRICTED = ("store", "keys", "deliveries")
EXPECTED = "nothing or a whole release, then a published one"
WORKERS = 2


@dataclass(frozen=True)
class Family:
    """A kind of policy, with a home in which nothing was run yet.

    Attributes
    ----------
    home
        Copied for every case.
    policy, delivery
        Their names.
    arguments
        Of `deid run`.
    person
        Finds what belongs to a person in a file.
    """

    home: Path
    policy: str
    delivery: str
    arguments: tuple[str, ...]
    person: re.Pattern[bytes]


def longitudinal(folder: Path) -> Family:
    """Members and claims; the synthetic delivery is made once for all cases."""
    home = Home(folder / "longitudinal").create()
    write_policy(home.policies, SMALL)
    key = f"synthetic-{MEMBERS}-1"
    write_delivery(home.deliveries / key, MEMBERS, 1)
    arguments = ("--policy", SMALL["policy"], "--members", str(MEMBERS))
    return Family(home.root, SMALL["policy"], key, arguments, re.compile(rb"M0000\d{5}"))


def flat(folder: Path) -> Family:
    """A table, of which one column is never published."""
    home = Home(folder / "flat").create()
    write_policy(home.policies, FLAT)
    delivery = write_people(folder / "people", people())
    arguments = ("--policy", FLAT["policy"], "--delivery", str(delivery))
    return Family(home.root, FLAT["policy"], "people", arguments, re.compile(rb"never published"))


def points_of_stages() -> list[str]:
    """Points of a longitudinal run: before, in, between and after its stages."""
    first = {stage: names[0] for stage, names in STAGES.items()}
    last = {stage: names[-1] for stage, names in STAGES.items()}
    tables = [stage for stage in STAGES if stage != "release"]
    return [
        "event:PIPELINE_START",
        *(f"write:{first[stage]}" for stage in tables),
        "commit:claims",
        "commit:chosen_generalization",
        "written:eligible_members",
        "written:longitudinal_risk",
        *(f"recorded:ASSET_MATERIALIZATION:{last[stage]}" for stage in tables),
        "event:ASSET_CHECK_EVALUATION:claims_keeps_contract",
        "event:ASSET_CHECK_EVALUATION:high_risk_share_within_threshold",
        "call:1",
        "write:release",
        "recorded:ASSET_MATERIALIZATION:release",
        "event:PIPELINE_SUCCESS",
    ]


FLAT_POINTS = ("event:PIPELINE_START", "write:release", "event:ASSET_MATERIALIZATION:release", "recorded:PIPELINE_SUCCESS")


def deid_killed(case: Path, point: str, arguments: tuple[str, ...]) -> tuple[int, str]:
    """Run `deid` with the home of a case, dying at a point; the exit code, and what it printed."""
    environment = {
        **os.environ, "DEID_HOME": str(case / "deid"), "DEID_SECRET": SECRET, "TMPDIR": str(case / "tmp"), "COLUMNS": "200",
    }  # fmt: skip
    code, printed, told = ran_loaded(environment, "deid_assets_tests.matrices.dying", point, "run", *arguments)
    return code, told + printed


def files_below(folder: Path) -> Iterator[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())


def told_outside(family: Family, case: Path) -> list[str]:
    """Files outside the restricted folders that hold something of a person; what is staged is for its owner only."""
    found = []
    for file in (*files_below(case / "deid"), *files_below(case / "tmp")):
        parts = file.relative_to(case).parts
        if parts[1] in RESTRICTED and parts[0] == "deid":
            continue
        staging = [part for part in file.parents if part.name.startswith(".staging-")]
        if staging and staging[0].stat().st_mode & 0o077 == 0:
            continue
        if family.person.search(file.read_bytes()):
            found.append("/".join(parts))
    return found


def runs_under_way(home: Home) -> list[str]:
    """Statuses of the runs that have not ended by their records."""
    if not (home.dagster / "dagster.yaml").exists():
        return []
    with dagster_instance(home) as instance:
        statuses = [run.status for run in instance.get_runs()]
    return [status.value for status in statuses if status not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE)]


def after_the_kill(family: Family, case: Path) -> tuple[str | None, bool]:
    """What is wrong before anything is mended, None if nothing is; and whether a release is visible."""
    home = Home(case / "deid")
    visible = [path for path in home.releases.glob("*/*") if not path.name.startswith(".staging-")]
    if [path.name for path in visible] not in ([], ["0001"]):
        return f"visible: {sorted(path.name for path in visible)}", False
    key = SigningKey.load_or_create(home.keys).public
    for release in visible:
        if failures := verify_release(release, key).failures:
            return f"{release.name} is not whole: {failures[0].name}", True
    lock = StoreLock.of(home, family.policy, family.delivery)
    if not lock.try_acquire():
        return "the store's lock is stuck", bool(visible)
    lock.release()
    for path in [home.releases / ".lock", home.keys / ".lock", *home.releases.glob("*/.staging-*/.lock")]:
        descriptor = durable.take_lock(path, wait=False)
        if descriptor is None:
            return f"{path.parent.name}/{path.name} is stuck", bool(visible)
        os.close(descriptor)
    if len(under_way := runs_under_way(home)) > 1:
        return f"runs that were killed before are under way: {under_way}", bool(visible)
    told = told_outside(family, case)
    return (f"a person outside the restricted folders: {told}" if told else None), bool(visible)


def after_the_next_run(family: Family, case: Path) -> str | None:
    """What is wrong when `deid run` was run again; None if nothing is."""
    home = Home(case / "deid")
    releases = Releases(home, SigningKey.load_or_create(home.keys))
    entries = [(entry.policy, entry.number) for entry in releases.registry.chain().entries]
    if entries != [(family.policy, 1)]:
        return f"{len(entries)} entries in the registry"
    if [path.name for path in home.releases.glob("*/*")] != ["0001"]:
        return "something lies beside the release"
    if failures := verify_release(releases.path(family.policy, 1), releases.key.public, releases.registry.path).failures:
        return f"the release is not in order: {failures[0].name}"
    if under_way := runs_under_way(home):
        return f"a run is under way for ever: {under_way}"
    told = told_outside(family, case)
    return f"a person outside the restricted folders: {told}" if told else None


def crash(family: Family, case: Path, point: str, mended: bool) -> Outcome:
    """Kill a run at a point and look; then, if it is to be mended, run again and look again.

    A run that is killed later in the same home mends, too, what was left here, or it would not come to its own point.

    Parameters
    ----------
    case
        Has the home, which is made where there is none, and is removed once it is mended.
    mended
        Whether to run again; it is done in any case where a release is visible.
    """
    name = f"{family.policy} {point}"
    if not case.exists():
        shutil.copytree(family.home, case / "deid")
        (case / "tmp").mkdir()
    code, printed = deid_killed(case, point, family.arguments)
    if code != -signal.SIGKILL:
        return Outcome(name, EXPECTED, f"it was not killed: exit code {code}, {printed[-200:]!r}", False)
    wrong, visible = after_the_kill(family, case)
    state = "whole" if visible else "nothing"
    if wrong or not (visible or mended):
        return Outcome(name, EXPECTED, f"{state}; {wrong or 'the next run is killed, too'}", not wrong)
    code, printed = deid_killed(case, "nowhere", family.arguments)
    if code != 0:
        return Outcome(name, EXPECTED, f"{state}, then exit code {code}: {printed[-200:]!r}", False)
    if visible and "Unchanged" not in printed:
        return Outcome(name, EXPECTED, "whole, then released once more", False)
    wrong = after_the_next_run(family, case)
    shutil.rmtree(case)
    return Outcome(name, EXPECTED, f"{state}, then {wrong or ('unchanged' if visible else 'published')}", not wrong)


def in_turn(family: Family, case: Path, points: list[str]) -> list[Outcome]:
    """Kill one run after the other in one home, and let the last one be mended."""
    found = []
    for point in points:
        found.append(crash(family, case, point, mended=point == points[-1]))
        print(f"{found[-1].case}: {found[-1].seen}", file=sys.stderr, flush=True)
    return found


def calls_of_publication(family: Family, case: Path) -> int:
    """How many system calls the publication of a run that is not killed makes."""
    shutil.copytree(family.home, case / "deid")
    (case / "tmp").mkdir()
    code, printed = deid_killed(case, "nowhere", family.arguments)
    if code != 0:
        raise RuntimeError(f"the run that nobody killed ended with {code}: {printed[-300:]}")
    return int(printed.rsplit("calls: ", 1)[1])


def outcomes(folder: Path) -> Iterator[Outcome]:
    """Every case; tells on standard error how far it is, for it takes minutes."""
    claims, table = longitudinal(folder), flat(folder)
    calls = [f"call:{number}" for number in range(1, calls_of_publication(table, folder / "counted") + 1)]
    groups = [(claims, points_of_stages()[start::12]) for start in range(12)]
    groups += [(table, [point]) for point in FLAT_POINTS]
    groups += [(table, calls[start : start + 5]) for start in range(0, len(calls), 5)]
    numbered = [(family, folder / str(number), points) for number, (family, points) in enumerate(groups)]
    with ThreadPoolExecutor(WORKERS) as pool:
        for found in pool.map(lambda group: in_turn(*group), numbered):
            yield from found


CRASHES = Matrix("crashes", "deid run is killed at many points, and run again", 50, outcomes)

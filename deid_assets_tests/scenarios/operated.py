"""A home that is operated for three deliveries, as a data platform team does: by sensor, schedule and command line.

The first delivery is released by the sensor. The second is refused, because it tells too much together with the first, and
released once the policy pins the generalization. The third is released by the sensor; then somebody opts out, and the schedule
releases it again without them.
"""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb

from deid_assets.automation.deliveries import BECAUSE_TAG
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.daemon import Daemon
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

REFUSED_REPORT, REFUSED = "refused.html", "refused"
FIRST, SECOND, THIRD = "2026-01", "2026-02", "2026-03"
BY_AGE_OR_STAY = changed(
    SMALL,
    hierarchies__age__levels=[
        {"name": "years", "width": 1},
        {"name": "20 years", "width": 20, "top": 80},
        {"name": "40 years", "width": 40, "top": 80},
    ],
)
"""The free choice is 40 years of age with days in hospital; asked for more of the age, 20 years with stays of none or any."""
MORE_OF_THE_AGE = changed(BY_AGE_OR_STAY, detail_at_least={"AgeAtFirstClaim": 0.25})
"""Passes by itself; together with a release of the free choice, it is 20 years of age with days in hospital."""
PINNED = changed(BY_AGE_OR_STAY, releases={"generalization": "pinned"})


@dataclass(frozen=True)
class Operated:
    """What was done, and what the schedule said at each of its ticks, in their order.

    Attributes
    ----------
    opted_out
        Identifier of the member who opted out before the last release.
    """

    root: Path
    opted_out: str
    sensor_ticks: list[list[str]]
    schedule_ticks: list[list[str]]
    printed: str

    @property
    def home(self) -> Home:
        return Home(self.root)

    def copied_to(self, root: Path) -> Path:
        """A copy of the home; returns its folder.

        Other processes of the test run read the history meanwhile. Nobody writes it any more, so what SQLite keeps beside it
        while it is read holds nothing, and is gone when they close it.
        """
        return shutil.copytree(self.root, root, ignore=shutil.ignore_patterns("*.db-shm", "*.db-wal"))

    @property
    def refused_report(self) -> Path:
        """The report of the refusal, as the daemon wrote it, before the next run replaced it by a release."""
        return self.root.parent / REFUSED_REPORT

    @property
    def refused(self) -> Path:
        """The home as it was after the refusal."""
        return self.root.parent / REFUSED

    @property
    def inbox(self) -> Path:
        """The watched folder."""
        return self.root.parent / "in"

    def release(self, number: int) -> Path:
        """Folder of a release."""
        return self.home.releases / "small" / f"{number:04d}"


def operate(folder: Path) -> None:
    """Operate a home `deid` in a folder, from the first delivery to the last release."""
    root, inbox, policy = folder / "deid", folder / "in", folder / "small.yaml"
    inbox.mkdir(parents=True)

    def adopt(values: dict, *options: object) -> None:
        write_policy(folder, values)
        code, printed = deid_here(root, "policy", "adopt", policy, *options)
        assert code == PUBLISHED, printed

    adopt(BY_AGE_OR_STAY, "--deliveries", inbox, "--schedule", "0 6 * * 1", "--fresh-within", 35)
    code, _ = deid_here(root, "policy", "retire", "heritage_public")
    assert code == PUBLISHED
    daemon = Daemon(Home(root))

    write_delivery(inbox / FIRST, 3_000, seed=1)
    daemon.sensors()  # it is not complete yet
    complete(inbox / FIRST)
    daemon.sensors()

    adopt(MORE_OF_THE_AGE)
    deliver_without_some(inbox / FIRST, inbox / SECOND, remainder=0)
    daemon.sensors()
    daemon.schedules()
    daemon.sensors()
    shutil.copy(Home(root).refused_report("small", SECOND), folder / REFUSED_REPORT)
    shutil.copytree(root, folder / REFUSED)
    adopt(PINNED)
    code, printed = deid_here(root, "run", "--policy", "small", "--delivery", inbox / SECOND, "--quiet", drawn=True)
    assert code == PUBLISHED, printed

    deliver_without_some(inbox / SECOND, inbox / THIRD, remainder=1)
    daemon.sensors()
    daemon.schedules()
    opted_out = somebody(root, THIRD)
    code, _ = deid_here(root, "member", "opt-out", opted_out, "--reason", "a letter of the first of April")
    assert code == PUBLISHED
    daemon.schedules()
    daemon.sensors()

    with daemon.instance() as instance:
        because = {run.run_id: run.tags.get(BECAUSE_TAG, "") for run in instance.get_runs()}
    told = {
        name: [[tick.status.value, tick.tick_data.skip_reason or ", ".join(because[run] for run in tick.run_ids)]
               for tick in daemon.ticks(name)]
        for name in ("deliveries_of_small", "rerelease_small")
    }  # fmt: skip
    done = [opted_out, told["deliveries_of_small"], told["rerelease_small"], unwrapped(printed)]
    (folder / "operated.json").write_text(json.dumps(done))


def operated_in(folder: Path) -> Operated:
    """What `operate` did there."""
    return Operated(folder / "deid", *json.loads((folder / "operated.json").read_text()))


def complete(delivery: Path) -> None:
    """Say that a delivery is complete, as its sender does."""
    (delivery / "_SUCCESS").touch()


def deliver_without_some(before: Path, to: Path, remainder: int) -> None:
    """Deliver the members of an earlier delivery without a tenth of them, who left."""
    to.mkdir()
    with duckdb.connect() as connection:
        for name in ("members", "claims"):
            connection.execute(
                f"COPY (FROM read_parquet('{before / name}.parquet') WHERE hash(member_id) % 10 <> {remainder}) "
                f"TO '{to / name}.parquet' (FORMAT parquet)"
            )
    complete(to)


def somebody(root: Path, delivery: str) -> str:
    """The identifier of a member who is in every release so far."""
    with duckdb.connect(str(root / "store" / "small" / f"{delivery}.duckdb"), read_only=True) as connection:
        known = connection.execute(
            'SELECT original_id FROM preparation.pseudonym_crosswalk JOIN candidate.release_members ON pseudonym = "MemberID" '
            "WHERE kind = 'member' ORDER BY 1"
        ).fetchall()
    for (member,) in known:
        _, printed = deid_here(root, "member", "where", member)
        if printed.count("holds this person") == len(printed.splitlines()):
            return member
    raise AssertionError("nobody is in every release")

"""Three deliveries under rotation, by the command line: each is published, and nobody who disappeared returns."""

import json
import re
import shutil
from dataclasses import dataclass
from pathlib import Path

import duckdb
import pytest

from deid_assets.methods.disclosure.membership_changes import rotated
from deid_assets.release.cumulative import tags_in_order
from deid_assets.release.keys import load_secret
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.operated import complete
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

ROTATION = 0.1
ROTATING = changed(SMALL, rotation=ROTATION)
FIRST, SECOND, THIRD = "2026-01", "2026-02", "2026-03"


def deliver(every: Path, to: Path, year: int, sensitive: int) -> None:
    """A delivery of a year: 3 % join and 2 % leave each year, and one in `sensitive` has a new sensitive condition in it."""
    to.mkdir()
    member = f"hash(member_id) % 33 NOT IN (SELECT unnest(range({year} + 1, 3))) AND hash(member_id) % 50 >= {year}"
    ill = f"hash(member_id || 'ill') % {sensitive} = {year}" if year else "false"
    with duckdb.connect() as connection:
        for name, columns in (
            ("members", "*"),
            ("claims", f"* REPLACE (CASE WHEN {ill} THEN '042' ELSE diagnosis_1 END AS diagnosis_1)"),
        ):
            connection.execute(
                f"COPY (SELECT {columns} FROM read_parquet('{every / name}.parquet') WHERE {member}) "
                f"TO '{to / name}.parquet' (FORMAT parquet)"
            )
    complete(to)


@dataclass(frozen=True)
class Years:
    """A home with a delivery of each year, and beside it the deliveries and the policy."""

    folder: Path

    @property
    def root(self) -> Path:
        return self.folder / "deid"

    def release(self, key: str, year: int, sensitive: int = 90) -> tuple[int, str]:
        deliver(self.folder / "everybody", self.folder / key, year, sensitive)
        return deid_here(self.root, "run", "--policy", self.folder / "small.yaml", "--delivery", self.folder / key, "--quiet")

    def ids(self, key: str, query: str) -> set[str]:
        with duckdb.connect(str(self.root / "store" / "small" / f"{key}.duckdb"), read_only=True) as connection:
            return {name for (name,) in connection.execute(query).fetchall()}

    def released(self, key: str) -> set[str]:
        return self.ids(
            key,
            'SELECT original_id FROM preparation.pseudonym_crosswalk JOIN candidate.release_members ON pseudonym = "MemberID" '
            "WHERE kind = 'member'",
        )

    def removed(self, key: str) -> set[str]:
        return self.ids(key, "SELECT member_id FROM preparation.removed_members WHERE sensitive")

    def measured(self, number: int) -> dict[str, dict]:
        """The measurements of demographics in the public manifest of a release."""
        public = json.loads((Home(self.root).releases / "small" / f"{number:04d}" / "manifest.json").read_bytes())
        (found,) = (item for item in public["evidence"] if item["asset"] == "demographic_risk")
        return {one["name"]: one for one in found["measurements"]}


@pytest.fixture(scope="module")
def everybody(tmp_path_factory) -> Path:
    """A folder with the policy and a delivery of everybody."""
    folder = tmp_path_factory.mktemp("years")
    write_delivery(folder / "everybody", 3_000, seed=1)
    write_policy(folder, ROTATING)
    return folder


@pytest.fixture(scope="module")
def first_year(everybody, tmp_path_factory) -> Path:
    """The same, and the first delivery was released."""
    folder = shutil.copytree(everybody, tmp_path_factory.mktemp("released") / "years")
    code, printed = Years(folder).release(FIRST, 0)
    assert code == PUBLISHED, printed
    return folder


@pytest.fixture
def years(first_year, tmp_path) -> Years:
    """A copy of it for one test."""
    return Years(shutil.copytree(first_year, tmp_path / "years"))


def test_three_deliveries_are_published_and_nobody_who_disappeared_returns(years):
    for year, key in enumerate((SECOND, THIRD), 1):
        code, printed = years.release(key, year)
        assert code == PUBLISHED, printed
    first, second, third = map(years.released, (FIRST, SECOND, THIRD))
    secret = load_secret(Home(years.root).keys)

    def leaving(members: set[str], number: int) -> set[str]:
        """Who leaves at a delivery before which so many releases were made."""
        ordered = sorted(members)
        leave = rotated(tags_in_order(ordered, secret), secret.derive("rotation", str(number)), ROTATION)
        return {name for name, goes in zip(ordered, leave, strict=True) if goes}

    gone = first - second
    assert leaving(first, 1) <= gone and leaving(first | second, 2) <= (first | second) - third
    assert 0.05 * len(first) < len(leaving(first, 1)) < 0.15 * len(first)
    assert not gone & third and (second - first) and (third - second - first), "others take their places"
    assert years.removed(SECOND) - years.removed(FIRST), "some are newly removed"
    healthy = years.removed(SECOND) & years.ids(THIRD, "SELECT member_id FROM intake.members")
    assert healthy <= years.removed(THIRD) and not healthy & third, "who was removed once stays removed"
    for number in (2, 3):
        found = years.measured(number)
        assert found["rotation_posterior"]["gating"] and found["rotation_posterior"]["passed"]
        assert found["rotation_posterior"]["threshold"] == 0.3 and found["rotation_posterior"]["value"] is None
        assert found["disappearance_factor"]["value"] == pytest.approx(10) and found["newly_sensitive_share"]["value"] is None
        assert not found["disappearance_posterior"]["gating"] and found["appearance_posterior"]["gating"]


def test_a_plan_says_what_rotation_gives_and_costs(everybody, tmp_path):
    deliver(everybody / "everybody", tmp_path / FIRST, 0, 90)
    plan = ("plan", "--policy", everybody / "small.yaml", "--delivery", tmp_path / FIRST)
    code, printed = deid_here(tmp_path / "deid", *plan)
    said = unwrapped(printed)
    assert code == PUBLISHED and "at each later delivery 0.1 of the members released before leave for good" in said, said
    assert "the odds of a new sensitive condition by at most 10.0. After 10 further releases of this size" in said
    then, now = map(
        float, re.search(r"at most ([.\d]+) of the eligible members were ever released \(([.\d]+) with", said).groups()
    )
    assert 0.15 < now < 0.4 and then == pytest.approx(2 * now, abs=0.002)


def test_a_delivery_in_which_too_many_are_newly_removed_is_refused(years):
    # What absence discloses would refuse the delivery before, whatever is said of those who leave.
    write_policy(years.folder, changed(ROTATING, removal__absence_posterior_at_most=0.5))
    code, printed = years.release(SECOND, 1, sensitive=8)
    said = unwrapped(printed)
    assert code == REFUSED and "rotation_posterior" in said and "state a larger rotation" in said, said
    assert not (Home(years.root).releases / "small" / "0002").exists()

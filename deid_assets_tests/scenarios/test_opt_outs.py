"""Opt-outs that match nobody, through the command line, with each kind of policy."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from deid_assets.release.known_people import FILE
from deid_assets.store.home import Home
from deid_assets.store.tables import connect
from deid_assets_tests.scenarios import test_cohort_release as cohorts
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import copy_of
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people

TOO_FEW = (
    "fewer than the share 0.5 (opt_outs.matched_at_least of the policy) are those of a person of any delivery of this home"
)


MISSING = "are those of people whom other deliveries have, and leave nobody out of this one"


class OfClaims:
    """Where the runs take long; `present` is the seed of a delivery that has `known`."""

    values: dict[str, Any] = SMALL
    known, alike, other, present = "M000000001", "m000000001", "M000000002", 1

    def run(self, home: Home, seed: int) -> tuple[int, str]:
        return deid_here(home.root, "run", "--policy", "small", "--members", "3000", "--seed", str(seed))


class OfFlatTables:
    values = changed(FLAT, source={"kind": "flat", "file": "people.csv", "person": "secret"})
    known, alike, other, present = "person 7", "Person  7", "person 8", 0

    def run(self, home: Home, seed: int) -> tuple[int, str]:
        rows = [[*row[:4], f"person {number + 7 * seed}"] for number, row in enumerate(people(600, seed))]
        return run_folder(home, "flat_table", seed, lambda folder: write_people(folder, rows))


class OfCohorts:
    values = cohorts.SAFE_HARBOR
    known, alike, other, present = "patient 7", "PATIENT 7", "patient 8", 0

    def run(self, home: Home, seed: int) -> tuple[int, str]:
        own = [row | {"person": f"patient {number + 7 * seed}"} for number, row in enumerate(cohorts.people(400, seed))]
        return run_folder(home, "cohort", seed, lambda folder: cohorts.deliver(folder, own))


def run_folder(home: Home, policy: str, seed: int, write: Callable[[Path], Path]) -> tuple[int, str]:
    delivery = write(home.root.with_name(f"delivery-{seed}"))
    return deid_here(home.root, "run", "--policy", policy, "--delivery", delivery)


@pytest.fixture(params=[OfFlatTables, *(pytest.param(kind, marks=pytest.mark.matrix) for kind in (OfCohorts, OfClaims))])
def kind(request):
    return request.param()


@pytest.fixture
def home(kind, tmp_path) -> Home:
    home = Home(tmp_path / "deid").create()
    write_policy(home.policies, kind.values)
    return home


@pytest.fixture
def released(kind, home, request, tmp_path) -> Home:
    """The home after a delivery was released; of claims, the one that all scenarios share."""
    if isinstance(kind, OfClaims):
        with copy_of(request.getfixturevalue("published").pipeline.home.root, tmp_path / "released") as pipeline:
            return pipeline.home
    assert kind.run(home, 1)[0] == PUBLISHED
    return home


def opt_out(home: Home, person: str, *options: str) -> tuple[int, str]:
    code, printed = deid_here(home.root, "member", "opt-out", person, "--reason", "asked", *options)
    return code, unwrapped(printed)


def refused(home: Home, run: tuple[int, str], *texts: str) -> str:
    code, printed = run
    printed = unwrapped(printed)
    assert code == REFUSED and all(text in printed for text in texts), printed
    assert not list(home.releases.glob("*/[0-9]*"))
    return printed


@pytest.mark.matrix
class TestAShareThatMatchesNobody:
    def test_refuses_a_list_that_was_entered_before_the_first_delivery(self, home, kind):
        for person in ("x-1", "x-2", kind.known):
            assert opt_out(home, person)[0] == PUBLISHED
        said = refused(home, kind.run(home, 1), f"of 3 identifiers listed {TOO_FEW}", "2 of 3 identifiers on the home's list")
        assert kind.known not in said and "x-1" not in said
        (report,) = home.store.rglob("*.refused.html")
        assert "2 of 3 identifiers on the home&#39;s list" in report.read_text() and "x-1" not in report.read_text()

    def test_counts_those_that_were_said_to_be_expected(self, released, kind):
        """Whoever enters them is told which policies refuse from now on."""
        code, printed = opt_out(released, "x-1")
        assert code == ERROR and "Nothing was written" in printed and not (released.policies / "opt_outs.jsonl").exists()
        code, printed = opt_out(released, "x-1", "--unmatched-ok")
        assert code == PUBLISHED and "1 of 1 identifiers on the home's list are those of no person" in printed
        name = kind.values["policy"]
        assert f"Policy {name} refuses every delivery until at least the share 0.5 of the list" in printed
        code, printed = kind.run(released, 2)
        assert code == REFUSED and TOO_FEW in unwrapped(printed), printed
        code, printed = opt_out(released, kind.other)
        assert code == PUBLISHED and "1 of 2 identifiers" in printed and "refuses every delivery" not in printed
        code, printed = kind.run(released, 2)
        assert TOO_FEW not in printed and "1 of 2 identifiers on the home's list" in unwrapped(printed), printed

    def test_refuses_the_list_of_the_policy_in_the_same_way(self, home, kind):
        write_policy(home.policies, changed(kind.values, opt_outs={"members": ["x-1", "x-2", kind.known]}))
        said = refused(
            home, kind.run(home, 1), "opt_outs: of 3 identifiers listed fewer than the share 0.5",
            "2 of 3 identifiers on the policy's list are those of no person",
        )  # fmt: skip
        assert "x-1" not in said


@pytest.mark.matrix
class TestWhoeverWasDelivered:
    """Somebody who was delivered is known; that they leave nobody out of another delivery must be said all the same."""

    def test_is_remembered_without_an_identifier_and_missed_in_other_deliveries(self, home, kind):
        assert opt_out(home, kind.known)[0] == PUBLISHED
        code, printed = kind.run(home, kind.present)
        assert code == PUBLISHED and "identifiers on" not in printed, printed
        content = (home.store / FILE).read_text()
        assert len(content.split()) == 3 and kind.known not in content, "the person, the delivery, and both"
        if isinstance(kind, OfClaims):
            return  # the synthetic members of every delivery have the same identifiers
        for file in home.store.glob("*/*.duckdb"):
            file.unlink()
        printed = unwrapped(kind.run(home, 5)[1])
        assert TOO_FEW not in printed and f"1 of 1 identifiers on the home's list, all that others have, {MISSING}" in printed
        (home.store / FILE).unlink()
        code, printed = kind.run(home, 6)
        assert code == REFUSED and TOO_FEW in unwrapped(printed), "what is forgotten counts as unmatched"

    @pytest.mark.parametrize("kind", [OfFlatTables], indirect=True)
    def test_is_missed_where_another_policy_reads_another_column(self, home, kind):
        assert opt_out(home, kind.known)[0] == PUBLISHED
        assert kind.run(home, 0)[0] == PUBLISHED
        rows = [[*row[:4], f"number {number}"] for number, row in enumerate(people(600, 0))]
        write_policy(home.policies, changed(kind.values, policy="other_column"))
        delivery = write_people(home.root.with_name("other"), rows)
        _, printed = deid_here(home.root, "run", "--policy", "other_column", "--delivery", delivery)
        assert f"all that others have, {MISSING}" in unwrapped(printed), printed


@pytest.mark.matrix
@pytest.mark.parametrize("kind", [OfCohorts], indirect=True)
def test_a_release_is_reproduced_although_its_delivery_has_nobody_of_the_list(home, kind):
    assert opt_out(home, kind.known)[0] == PUBLISHED
    assert kind.run(home, 0)[0] == PUBLISHED
    others = [row | {"person": f"patient {number}"} for number, row in enumerate(cohorts.people(400, 0)) if number != 7]
    assert run_folder(home, "cohort", 5, lambda folder: cohorts.deliver(folder, others))[0] == PUBLISHED
    code, printed = deid_here(home.root, "reproduce", "cohort/0002", "--quiet")
    assert code == PUBLISHED and "all files are equal" in printed, printed


class TestLookAlikes:
    def test_are_refused_at_entry_and_in_a_run(self, home, kind):
        assert opt_out(home, kind.alike)[0] == PUBLISHED
        printed = refused(home, kind.run(home, 0), "some that match no delivered member as they are written, but would if")
        assert "1 of 1 identifiers on the home's list" in printed and kind.known not in printed


@pytest.mark.parametrize("kind", [OfFlatTables], indirect=True)
class TestEveryRun:
    @pytest.mark.matrix
    def test_says_so_in_few_words_and_as_json_and_so_does_the_audit_but_no_published_file(self, home, kind):
        """The policy says that nobody of the lists has to be there."""
        write_policy(home.policies, changed(kind.values, opt_outs={"members": ["x-2"], "matched_at_least": 0}))
        assert opt_out(home, "x-1")[0] == PUBLISHED
        delivery = write_people(home.root.with_name("in"), [[*row[:4], f"person {n}"] for n, row in enumerate(people())])
        run = ("run", "--policy", "flat_table", "--delivery", delivery)
        said = "1 of 1 identifiers on the home's list"
        for option in ("--quiet", "--quiet"):
            code, printed = deid_here(home.root, *run, option)
            assert code == PUBLISHED and said in unwrapped(printed), printed
        code, printed = deid_here(home.root, *run, "--json", "--quiet")
        assert code == PUBLISHED and said in " ".join(json.loads(printed[printed.index("{") :])["opt_outs"])
        code, printed = deid_here(home.root, "audit", "flat_table/0001")
        page = (home.store / "manifests" / "flat_table" / "0001.audit.html").read_text()
        for whose in ("policy", "home"):
            assert f"1 of 1 identifiers on the {whose}'s list are those of no person" in unwrapped(printed), (code, printed)
            assert f"1 of 1 identifiers on the {whose}&#39;s list" in page
        for file in home.releases.rglob("*"):
            assert not file.is_file() or b"identifiers on the" not in file.read_bytes(), file.name
        report = (home.releases / "flat_table" / "0001" / "report.html").read_text()
        assert "How many of these match nobody is in no published document" in report

    def test_a_table_that_identifies_nobody_is_no_delivery_of_the_person(self, home, kind):
        file = home.store / "flat_table" / "in.duckdb"
        file.parent.mkdir(parents=True)
        for columns, code, says in (
            ("record BIGINT", PUBLISHED, "No delivery here tells yet whose its records are"),
            ("record BIGINT, _person VARCHAR", ERROR, "Nothing was written"),
        ):
            with connect(file) as connection:
                connection.execute("CREATE SCHEMA IF NOT EXISTS intake")
                connection.execute(f"CREATE OR REPLACE TABLE intake.records ({columns})")
            given, printed = opt_out(home, f"somebody {code}")
            assert given == code and says in printed, printed

    @pytest.mark.matrix
    def test_a_store_at_work_is_no_proof_that_nobody_is_there(self, home, kind):
        assert kind.run(home, 0)[0] == PUBLISHED
        (file,) = home.store.glob("flat_table/*.duckdb")
        file.rename(file.with_suffix(".away"))
        file.write_bytes(b"no store")
        code, printed = opt_out(home, "somebody")
        assert code == ERROR and "1 store could not be looked at" in printed, printed
        file.with_suffix(".away").rename(file)
        with connect(file) as connection:
            ((person,),) = connection.execute("SELECT _person FROM intake.records LIMIT 1").fetchall()
        assert opt_out(home, person)[0] == PUBLISHED

"""A cohort from its file to the gated release, and what the gate refuses of it.

Whole runs of variants are in the matrix; `assessments/test_cohort_gate.py` states of each what decides it.
"""

import csv
import json
import random
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.release.keys import SigningKey
from deid_assets.release.publication.export import write_ordered
from deid_assets.release.publication.verification import verify_release
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import deid_here
from deid_assets_tests.scenarios.conftest import made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import write_policy
from deid_assets_tests.stages import COHORT_STAGES

KEY = "patients"
RACES = ("White", "Black", "Other")
SAFE_HARBOR = cohort_values(
    columns__person__release_as="Person",
    attributes=[{"column": "likes", "release_as": "Likes"}],
    owners=["team:privacy"],
    intake={"quarantine_at_most": 0.01},
)


def people(count: int = 400, seed: int = 1) -> list[dict[str, Any]]:
    """A cohort of two states; a few people are over 89."""
    generator = random.Random(seed)
    return [
        {
            "person": f"patient {number}",
            "age": generator.choice([*range(30, 90), 91, 97, 103]),
            "sex": generator.choice("FM"),
            "race": generator.choice(RACES),
            "state": generator.choice(["WA", "WA", "WA", "ME"]),
            "likes": generator.choice(["tea", "coffee", ""]),
            "secret": "never published",
        }
        for number in range(count)
    ]


def population(scale: int = 1, states: tuple[str, ...] = ("WA", "ME")) -> list[dict[str, Any]]:
    """People by single years of age to 99 and in open groups; older people are fewer."""
    ages = [*((age, age) for age in range(100)), (100, 104), (105, 109), (110, "")]
    return [
        {
            "state": state, "sex": sex, "race": race, "age_from": first, "age_to": last,
            "people": scale * (200 if first < 85 else 40 if first < 95 else 12),
        }
        for state in states for sex in "FM" for race in RACES for first, last in ages
    ]  # fmt: skip


UNUSABLE = [people(1, seed=3)[0] | {"person": "another patient", "sex": "?", "age": "old"}]


def deliver(folder: Path, cohort: list[dict[str, Any]] | None = None, table: list[dict[str, Any]] | None = None) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, rows in (("cohort.csv", cohort or people()), ("population.csv", table or population())):
        with (folder / name).open("w", newline="") as file:
            writer = csv.DictWriter(file, list(rows[0]))
            writer.writeheader()
            writer.writerows(rows)
    return folder


def made(root: Path, values: dict[str, Any], folder: Path) -> RunSummary:
    """Run everything under a policy."""
    with pipeline_in(root, values["policy"]) as pipeline:
        write_policy(pipeline.home.policies, values)
        pipeline.register(KEY, "cohort", folder)
        return pipeline.run(KEY)


def released_rows(root: Path) -> list[dict[str, str]]:
    with (root / "releases" / "cohort" / "0001" / "data" / "People.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def with_level(**changes: Any) -> dict[str, Any]:
    return cohort_values(owners=["team:privacy"], **changes)


def crowded() -> list[dict[str, Any]]:
    """A population that is smaller than the cohort in many of its rows."""
    return [row | {"people": min(row["people"], 1)} for row in population()]


def by_zip() -> tuple[dict[str, Any], list[dict[str, Any]], list[dict[str, Any]]]:
    """A policy that publishes ZIP codes; a cohort and a population that have them."""
    zips = {"WA": "98101", "ME": "04101"}
    cohort = [person | {"zip": zips[person["state"]]} for person in people()]
    table = [row | {"zip": zips[row["state"]]} for row in population()]
    levels = {"age": "10 years", "ethnicity": "any", "geography": "zip5", "sex": "sex"}
    return with_level(columns__place={"state": "state", "zip": "zip"}, demographics={"levels": levels}), cohort, table


BORN_AND_ADMITTED = with_level(
    columns__age={"birth_date": "born", "reference": "2008-12-31"},
    attributes=[{"column": "admitted", "release_as": "Admitted", "role": "date"}],
)


def since_birth() -> list[dict[str, Any]]:
    """The cohort with births for ages, and a day on which everybody was admitted."""
    return [p | {"born": f"{2008 - p['age']}-06-30", "admitted": "2008-03-14"} for p in people()]


DISGUISES: dict[str, tuple[Callable[[dict[str, Any]], str], str, str, str]] = {
    "ages": (lambda person: f"{person['age']}", "extra", "free", "as if it were made of it"),
    "births of the old": (
        lambda person: f"B{2008 - person['age']}" if person["age"] > 89 else "",
        "extra",
        "free",
        "as if it were made of it",
    ),
    "counties": (
        lambda person: f"{person['age'] % 9 + 101}.0",
        "BENE_COUNTY_CD",
        "free",
        "its name says that it identifies",
    ),
    "dates as decimals": (lambda person: f"2008031{person['age'] % 9}.0", "extra", "free", "dates without separators"),
    "dates in wide digits": (
        lambda person: f"２００８-03-1{person['age'] % 9}",
        "extra",
        "free",
        "breaks element (C) of Safe Harbor",
    ),
    "days as years": (lambda person: f"031{person['age'] % 9}", "extra", "year", "breaks element (C) of Safe Harbor"),
}
"""How a column is written that identifies; its name, its role, and why it is refused."""


def disguised(disguise: str) -> tuple[dict[str, Any], list[dict[str, Any]], str]:
    """A policy, a cohort, and why it is refused. Few people are over 89, so that no measure of association notices them."""
    written, named, role, because = DISGUISES[disguise]
    cohort = [p | {"age": p["age"] if at < 8 else 30 + at % 60} for at, p in enumerate(people(1200))]
    for at, person in enumerate(cohort[:8]):
        person["age"] = 91 + at
    cohort = [person | {named: written(person)} for person in cohort]
    return with_level(attributes=[{"column": named, "release_as": "Grade", "role": role}]), cohort, because


def dated(level: str, date: str, alike: bool = False):
    """A policy that publishes the day of admission at a level, and a cohort; or one of people who differ in nothing else.

    With the latter comes a population so large that nobody is alone on a day.
    """
    days = [f"2008-{month:02}-{day:02}" for month in range(1, 13) for day in (1, 11, 21)]
    cohort = [person | {"admitted": days[number % len(days)]} for number, person in enumerate(people())]
    column = {"column": "admitted", "first": "2008-01-01", "last": "2008-12-31", "dated": 0.1, "release_as": "Admitted"}
    values = with_level(columns__date=column, demographics={"policy": level, "levels": {"date": date}})
    if not alike:
        return values, cohort
    same = {"age": 40, "sex": "F", "race": "White", "state": "WA"}
    two_days = [person | same | {"admitted": days[number % 2]} for number, person in enumerate(cohort)]
    return values | {"risk": {"no_riskier_than": None, "largest_at_most": 0.33}}, two_days, population(scale=1000)


def many_in_washington() -> list[dict[str, Any]]:
    return [row | {"people": row["people"] * (100 if row["state"] == "WA" else 1)} for row in population()]


def with_old_ages() -> dict[str, Any]:
    """10 years are less risky than Safe Harbor's single years, which leaves room for finer old ages."""
    old_ages = {"by": "state", "levels": ["5 years", "1 year, 90+"]}
    return with_level(demographics={"policy": "10_year", "old_ages": old_ages})


def beneficiaries(folder: Path) -> Path:
    """Deliver sample 2 of DE-SynPUF, people of 2008, and the Bureau's estimates of that year."""
    folder.mkdir(exist_ok=True)
    files = {
        "cohort.csv": public_data("desynpuf", "sample-2", "DE1_0_2008_Beneficiary_Summary_File_Sample_2.csv"),
        "population.csv": public_data("census", "st-est00int-agesex.csv"),
    }
    for name, source in files.items():
        shutil.copy(source, folder / name)
    return folder


def policy_of_beneficiaries(policy: str, compared: str) -> dict[str, Any]:
    return with_level(
        intake={"quarantine_at_most": 0.02},
        columns={
            "person": {"column": "DESYNPUF_ID"},
            "age": {"birth_date": "BENE_BIRTH_DT", "reference": "2008-12-31"},
            "sex": {"column": "BENE_SEX_IDENT_CD", "values": {"1": "M", "2": "F"}},
            "place": {"state": "SP_STATE_CODE", "state_kind": "ssa"},
            "date_format": "%Y%m%d",
        },
        population={"kind": "estimates", "file": "population.csv", "count": "POPESTIMATE2008"},
        demographics={"policy": policy},
        risk={"compared": compared},
    )


def refused(summary: RunSummary, because: str, code: int = REFUSED) -> None:
    said = " ".join((*summary.reasons, *summary.failed_checks))
    assert summary.exit_code == code and summary.release is None, summary
    assert because in said, said


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A home with everything of a delivery done but its release."""
    with made_once(tmp_path_factory, "cohort") as (folder, missing):
        if missing:
            prepare(folder / "deid")
    return folder / "deid"


def prepare(root: Path) -> None:
    with pipeline_in(root, "cohort") as pipeline:
        write_policy(pipeline.home.policies, SAFE_HARBOR)
        pipeline.register(KEY, "cohort", deliver(pipeline.home.deliveries / KEY, [*people(), *UNUSABLE]))
        pipeline.prepare(KEY)


@pytest.fixture
def pipeline(prepared, tmp_path) -> Iterator[Pipeline]:
    """A copy of the prepared home for one test, to do harm in."""
    with copy_of(prepared, tmp_path / "deid", "cohort") as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def released(prepared, tmp_path_factory) -> Iterator[Pipeline]:
    with copy_of(prepared, tmp_path_factory.mktemp("published") / "deid", "cohort") as pipeline:
        summary = pipeline.run(KEY, ["release"])
        assert summary.exit_code == PUBLISHED, summary
        yield pipeline


class TestReleaseUnderSafeHarbor:
    def rows(self, released: Pipeline) -> list[dict[str, str]]:
        return released_rows(released.home.root)

    @pytest.mark.matrix
    def test_holds_everybody_with_the_labels_of_safe_harbor(self, released):
        def label(age: int) -> str:
            return "90+" if age >= 90 else str(age)

        told = Counter((row["Age"], row["Sex"], row["Race"], row["Place"], row["Likes"]) for row in self.rows(released))
        assert told == Counter((label(p["age"]), p["sex"], p["race"].lower(), p["state"], p["likes"]) for p in people())

    def test_tells_no_identifier_and_no_unlisted_column(self, released):
        assert list(self.rows(released)[0]) == ["Person", "Age", "Sex", "Race", "Place", "Likes"]
        persons = {row["Person"] for row in self.rows(released)}
        assert len(persons) == len(people()) and all(person.isdigit() for person in persons)

    def test_is_verified_without_the_home(self, released):
        folder = released.home.releases / "cohort" / "0001"
        key = SigningKey.load_or_create(released.home.keys).public
        exact = released.home.store / "manifests" / "cohort" / "0001.certificate.json"
        report = verify_release(folder, key, released.registry.path, exact_certificate=exact)
        assert report.ok, report.text()

    def test_its_manifest_says_how_risky_it_is_beside_safe_harbor(self, released):
        manifest = json.loads((released.home.releases / "cohort" / "0001" / "manifest.json").read_bytes())
        measured = {
            one["name"]: one for item in manifest["evidence"] if item["asset"] == "gate" for one in item["measurements"]
        }
        assert measured["risk_above_safe_harbor"]["value"] == 0 and measured["risk_above_safe_harbor"]["gating"]

    def test_it_is_audited_and_drafted(self, released, tmp_path):
        root = released.home.root
        code, printed = deid_here(root, "audit", "cohort/0001")
        assert code == PUBLISHED and "release cohort/0001 is in order" in printed, printed
        document = json.loads((root / "store/manifests/cohort/0001.audit.json").read_text())
        assert {one["candidate"] for one in document["columns"]} == {"release_people"}
        assert all(one["delivered"] for one in document["columns"]), document["columns"]
        code, printed = deid_here(root, "determination", "cohort/0001", "--output", tmp_path)
        assert code == PUBLISHED and "of the cohort's time and place" in (tmp_path / "cohort-0001-determination.md").read_text()

    @pytest.mark.matrix
    def test_it_is_made_again(self, released):
        code, printed = deid_here(released.home.root, "reproduce", "-q", "cohort/0001")
        assert code == PUBLISHED and "all files are equal" in printed, printed

    def test_its_report_names_the_levels(self, released):
        report = (released.home.releases / "cohort" / "0001" / "report.html").read_text()
        assert "1 year, 90+" in report and "patient 1" not in report


@pytest.mark.matrix
def test_a_riskier_policy_is_refused(tmp_path):
    riskier = with_level(demographics__policy="gen_eth", risk={"measures": ["total"]})
    summary = made(tmp_path / "deid", riskier, deliver(tmp_path / "in"))
    refused(summary, "no_riskier_than_safe_harbor")


@pytest.mark.matrix
def test_zip_codes_may_be_published_where_the_population_carries_them(tmp_path):
    policy, cohort, table = by_zip()
    assert made(tmp_path / "deid", policy, deliver(tmp_path / "in", cohort, table)).exit_code == PUBLISHED


@pytest.mark.matrix
def test_birth_dates_become_ages_and_dates_of_attributes_become_years(tmp_path):
    assert made(tmp_path / "deid", BORN_AND_ADMITTED, deliver(tmp_path / "in", since_birth())).exit_code == PUBLISHED
    rows = released_rows(tmp_path / "deid")
    assert {row["Admitted"] for row in rows} == {"2008"}
    assert {int(row["Age"]) for row in rows if row["Age"] != "90+"} == {p["age"] for p in people() if p["age"] < 90}


def test_dates_of_attributes_in_which_no_year_can_be_read(tmp_path):
    cohort = since_birth()
    unread = [cohort[0] | {"admitted": "last spring"}, *cohort[1:]]
    with pipeline_in(tmp_path / "deid", "cohort") as pipeline:
        write_policy(pipeline.home.policies, BORN_AND_ADMITTED)
        pipeline.register(KEY, "cohort", deliver(tmp_path / "in", unread))
        summary = pipeline.run(KEY, [*COHORT_STAGES["intake"], "release_people"])
        refused(summary, "column admitted: 1 row", ERROR)


class TestInputsThatCannotBeRight:
    def run(self, tmp_path: Path, values: dict[str, Any], cohort=None, table=None) -> RunSummary:
        return made(tmp_path / "deid", values, deliver(tmp_path / "in", cohort, table))

    @pytest.mark.matrix
    def test_a_state_that_the_population_lacks(self, tmp_path):
        summary = self.run(tmp_path, SAFE_HARBOR, table=population(states=("WA",)))
        refused(summary, "records are of a state that the population table does not have", ERROR)

    @pytest.mark.parametrize("column", [pytest.param("race", marks=pytest.mark.matrix), "likes"])
    def test_a_column_that_the_cohort_lacks(self, tmp_path, column):
        cohort = [{name: value for name, value in person.items() if name != column} for person in people()]
        refused(self.run(tmp_path, SAFE_HARBOR, cohort), column, ERROR)

    @pytest.mark.matrix
    def test_more_unusable_rows_than_the_policy_allows(self, tmp_path):
        cohort = [*people(), *(p | {"person": f"another {p['person']}", "sex": "?"} for p in people(5, seed=3))]
        summary = self.run(tmp_path, SAFE_HARBOR, cohort)
        refused(summary, "column sex: 5 rows: unknown sex", ERROR)
        assert "another" not in " ".join(summary.reasons)

    def test_a_person_twice(self, tmp_path):
        refused(self.run(tmp_path, SAFE_HARBOR, [*people(), people()[0]]), "occur more than once", ERROR)


def test_unusable_rows_within_the_limit_are_quarantined_and_counted(released):
    assert sorted(released.table(KEY, "quarantined_people").frame()["source_column"]) == ["age", "sex"]
    assert released.table(KEY, "cohort_people").count() == len(people())


@pytest.mark.matrix
class TestAttributes:
    def test_identifiers_refuse_even_if_the_column_was_reviewed_and_so_does_a_copy_of_withheld_ages(self, tmp_path):
        mails = [f"somebody{number}@example.org" for number in range(len(people()))]
        cohort = [p | {"extra": mail, "copied": f"age group {p['age'] % 60}"} for p, mail in zip(people(), mails, strict=True)]
        attributes = [{"column": name, "release_as": name.title()} for name in ("extra", "copied")]
        reviewed = {"Extra": "we looked at every value of it"}
        policy = with_level(attributes=attributes, reviewed_attributes=reviewed, demographics__policy="10_year")
        summary = made(tmp_path / "deid", policy, deliver(tmp_path / "in", cohort))
        refused(summary, "column Extra breaks element (F) of Safe Harbor, e-mail addresses")
        refused(summary, "column Copied: ")
        assert "somebody" not in " ".join(summary.reasons)

    @pytest.mark.parametrize("approval", [None, {"by": ["Team Privacy"]}, {"by": ["Anna Muster"]}])
    def test_what_looks_like_an_identifier_needs_a_second_person(self, tmp_path, approval):
        names = [f"Person{chr(65 + number % 26)} Family{chr(65 + number // 26)}" for number in range(len(people()))]
        cohort = [person | {"extra": name} for person, name in zip(people(), names, strict=True)]
        policy = with_level(
            attributes=[{"column": "extra", "release_as": "Extra"}],
            reviewed_attributes={"Extra": "The recipients know everybody in the cohort by name."},
            approval=approval,
        )
        summary = made(tmp_path / "deid", policy, deliver(tmp_path / "in", cohort))
        if approval == {"by": ["Anna Muster"]}:
            assert summary.exit_code == PUBLISHED and summary.waiting and summary.release is None, summary
        else:
            refused(summary, "column Extra: ")
            refused(summary, "a second person has to approve the release, too")


class TestTheGate:
    """Each finds everything up to the release in order, and one thing changed since."""

    def test_refuses_if_the_population_changed_after_intake(self, pipeline):
        deliver(pipeline.home.deliveries / KEY, [*people(), *UNUSABLE], population(scale=2))
        refused(pipeline.run(KEY, ["release"]), "changed after they were taken in", ERROR)

    @pytest.mark.matrix
    def test_refuses_if_the_stored_population_was_edited(self, pipeline):
        pipeline.edit_store(KEY, "UPDATE intake.population_cells SET people = people * 10")
        refused(pipeline.run(KEY, ["release"]), "population_cells", ERROR)

    def test_refuses_rows_that_are_not_those_of_the_people(self, pipeline):
        pipeline.edit_store(KEY, """UPDATE candidate.release_people SET "Age" = '40' WHERE "Age" = '90+'""")
        refused(pipeline.run(KEY, ["release"]), "differ from those that the restricted store gives")

    @pytest.mark.matrix
    def test_refuses_labels_of_another_level(self, pipeline):
        pipeline.edit_store(KEY, """UPDATE candidate.release_people SET "Age" = '97' WHERE "Age" = '90+'""")
        summary = pipeline.run(KEY, ["release"])
        refused(summary, "gate: risk_above_safe_harbor is not at most its threshold")
        assert "ages over 89" in " ".join(summary.reasons)

    @pytest.mark.matrix
    def test_refuses_files_that_are_changed_while_it_judges(self, pipeline, monkeypatch):
        def altered(connection, content, path, order_by):
            write_ordered(connection, content, path, order_by)
            if path.suffix == ".csv":
                path.write_text(path.read_text().replace("tea", "tee"))

        monkeypatch.setattr("deid_assets.release.publication.export.write_ordered", altered)
        summary = pipeline.run(KEY, ["release"])
        assert summary.exit_code != PUBLISHED and not list(pipeline.home.releases.glob("*/0*")), summary

    @pytest.mark.matrix
    def test_refuses_without_evidence(self, pipeline):
        pipeline.edit_store(KEY, "DELETE FROM assessment.cohort_risk")
        refused(pipeline.run(KEY, ["release"]), "no evidence", ERROR)


class TestWhatTheStoreHolds:
    def test_findings_tell_which_identifiers_fail_in_which_columns(self, pipeline):
        found = pipeline.table(KEY, "safe_harbor_findings").frame().set_index("letter")
        assert set(found.loc[found["rule"].notna()].index) == {"C", "R"}
        assert (found.loc["C", "source_column"], found.loc["C", "rule"]) == ("age", "age over 89")
        assert found.loc["C", "records"] == sum(person["age"] > 89 for person in people())
        assert len(found.index.unique()) == 18

    def test_risks_and_the_frontier_compare_every_policy_with_safe_harbor(self, pipeline):
        risks = pipeline.table(KEY, "policy_risks").frame()
        assert {"Safe Harbor", "GenEth", "5 year", "10 year-GenEth"} <= set(risks["policy"])
        assert set(risks["group"]) == {"all", "WA", "ME"}
        finest = pipeline.table(KEY, "policy_frontier").frame()
        assert len(finest) and (finest["finer"] + finest["different"] != "").any()


@pytest.mark.matrix
def test_a_date_is_published_at_its_level_and_counted(tmp_path):
    coarse, cohort = dated("10_year", "year")
    assert made(tmp_path / "deid", coarse, deliver(tmp_path / "in", cohort)).exit_code == PUBLISHED
    assert {row["Admitted"] for row in released_rows(tmp_path / "deid")} == {"2008"}


@pytest.mark.matrix
def test_a_second_release_of_a_delivery_is_refused_if_it_shows_something_else(released, tmp_path):
    """Age bands of one and ethnicities of the other, joined by what both publish, are finer than either."""
    with copy_of(released.home.root, tmp_path / "deid", "another") as pipeline:
        write_policy(pipeline.home.policies, SAFE_HARBOR | {"policy": "another", "attributes": []})
        refused(pipeline.run(KEY), "cohort/0001 published this delivery with other columns or levels")


@pytest.mark.matrix
def test_a_second_release_that_shows_the_same_or_is_of_another_delivery_is_published(released, tmp_path):
    other = SAFE_HARBOR | {"policy": "another"}
    with copy_of(released.home.root, tmp_path / "deid", "another") as pipeline:
        write_policy(pipeline.home.policies, other | {"title": "The same under another name"})
        assert pipeline.run(KEY).exit_code == PUBLISHED
        joined = [one | {"person": f"a later {one['person']}"} for one in people(11, seed=3)]
        pipeline.register("later", "cohort", deliver(tmp_path / "later", [*people(), *UNUSABLE, *joined]))
        write_policy(pipeline.home.policies, other | {"attributes": []})
        refused(pipeline.run("later"), "cohort/0001 has people of this release, and shows other columns")
        write_policy(pipeline.home.policies, other)
        assert pipeline.run("later").exit_code == PUBLISHED, "eleven people are new"


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("later", "check"),
    [
        (lambda rows: [*rows, people(1, seed=3)[0] | {"person": "a later patient"}], "new_people"),
        (
            lambda rows: [
                *(one | {"person": f"0{one['person']}"} for one in rows[:10]),
                *rows[10:],
                people(1, seed=3)[0] | {"person": "a later patient"},
            ],
            "new_people",
        ),
        (lambda rows: [rows[0] | {"likes": "water"}, *rows[1:]], "changed_values"),
        (lambda rows: [rows[0] | {"state": "ME" if rows[0]["state"] == "WA" else "WA"}, *rows[1:]], "changed_values"),
        (lambda rows: [one | {"state": "ME"} for one in rows], "linked_classes"),
        (lambda rows: [one | {"person": f"0{one['person']}"} for one in rows], "record_releases_not_compared"),
    ],
    ids=[
        "one more person",
        "one more person and ten other identifiers",
        "an attribute of one person",
        "a state of one person",
        "states of many",
        "other identifiers",
    ],
)
def test_a_difference_of_two_tables_that_would_be_one_persons_row_is_refused(released, tmp_path, later, check):
    with copy_of(released.home.root, tmp_path / "deid", "cohort") as pipeline:
        pipeline.register("later", "cohort", deliver(tmp_path / "later", [*later(people()), *UNUSABLE]))
        summary = pipeline.run("later")
        refused(summary, f"{check}_within_threshold")
        assert pipeline.releases == ["cohort/0001"]


@pytest.mark.matrix
def test_a_statement_that_people_are_others_is_refused_if_their_rows_recur(released, tmp_path):
    """The same people under other identifiers, with another reason to think so."""
    stated = SAFE_HARBOR | {"releases": {"other_people": {"cohort": "These people live in another town."}}}
    with copy_of(released.home.root, tmp_path / "deid", "cohort") as pipeline:
        again = [one | {"person": f"0{one['person']}"} for one in people()]
        pipeline.register("again", "cohort", deliver(tmp_path / "again", [*again, *UNUSABLE]))
        write_policy(pipeline.home.policies, stated)
        refused(pipeline.run("again"), "more occur once there, too, than is expected of others")
        pipeline.register("others", "cohort", deliver(tmp_path / "others", others()))
        assert pipeline.run("others").exit_code == PUBLISHED
        manifest = json.loads((pipeline.home.releases / "cohort" / "0002" / "manifest.json").read_bytes())
        assert "These people live in another town." in manifest["not_compared"]["cohort/0001"]
        assert "Not compared" in (pipeline.home.releases / "cohort" / "0002" / "report.html").read_text()


def others() -> list[dict[str, Any]]:
    """A cohort of nobody else's ages."""
    return [one | {"person": f"other {one['person']}", "age": 20 + int(one["person"].split()[1]) % 9} for one in people(300, 9)]


@pytest.mark.matrix
def test_old_ages_are_finer_where_the_population_carries_them(tmp_path):
    folder = deliver(tmp_path / "in", table=many_in_washington())
    assert made(tmp_path / "deid", with_old_ages(), folder).exit_code == PUBLISHED
    told = {row["Age"] for row in released_rows(tmp_path / "deid")}
    assert "80-89" in told and told & {"90-94", "90+"} and "100-109" not in told


@pytest.mark.matrix
def test_beneficiaries_of_desynpuf_are_published_if_the_model_of_old_ages_is_taken_for_the_truth(tmp_path):
    """Sample 2 of DE-SynPUF, people of 2008, against the Bureau's estimates of that year."""
    values = policy_of_beneficiaries("5_year", "expected")
    assert made(tmp_path / "deid", values, beneficiaries(tmp_path / "in")).exit_code == PUBLISHED
    report = (tmp_path / "deid" / "releases" / "cohort" / "0001" / "report.html").read_text()
    assert "spread over single years by a model" in report

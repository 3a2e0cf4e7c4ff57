"""Attributes of a flat release that tell who somebody is, or undo a generalization: refused, or published with a reason."""

import base64
import hashlib
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import duckdb
import pytest

from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import PUBLISHED, REFUSED, PolicyError
from deid_assets.policy.loading import policy_from
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, KEY, people, run_flat, write_people

GENERATOR = random.Random(5)
FIRST, LAST = ("Ann", "Bob", "Eve", "Kim", "Max", "Sue"), ("Lee", "Ray", "Fox", "Orr", "Poe", "Dow", "Ash", "Bell")


def full_name() -> str:
    return f"{GENERATOR.choice(FIRST)} {GENERATOR.choice(LAST)}"


def ages_beside(columns: dict[str, Callable[[list[str], int], str]]) -> list[list[str]]:
    """The people, with columns more, each made of a person's row and place."""
    return [[*row[:4], *(make(row, place) for make in columns.values())] for place, row in enumerate(people())]


LEAKS: dict[str, Callable[[list[str], int], str]] = {
    "number": lambda row, place: f"{GENERATOR.randint(100, 899)}-{GENERATOR.randint(10, 99)}-{GENERATOR.randint(1000, 9999)}",
    "few_names": lambda row, place: full_name() if place % 100 == 0 else "",
    "few_names_among_fillers": lambda row, place: full_name() if place % 100 == 0 else "see file",
    "hashed": lambda row, place: hashlib.sha256(row[1].encode()).hexdigest(),
    "encoded_name": lambda row, place: base64.b64encode(f"{full_name()}{place % 90}".encode()).decode(),
    "place_in_file": lambda row, place: str(place),
    "copy_of_the_age": lambda row, place: row[1],
    "padded_copy": lambda row, place: f" 0{row[1]}",
    "months": lambda row, place: str(int(row[1]) * 12),
    "birth": lambda row, place: str(2026 - int(row[1])),
    "half_decades": lambda row, place: f"h{int(row[1]) // 5}",
    "half_decades_for_some": lambda row, place: f"h{int(row[1]) // 5}" if place % 4 == 0 else "x",
    "parity": lambda row, place: "odd" if int(row[1]) % 2 else "even",
    "padding": lambda row, place: "na" + " " * place,
    "few_hidden_numbers": lambda row, place: f"{100 + place}\u200b-12-3456" if place % 150 == 0 else "see file",
    "copy_for_some": lambda row, place: row[1] if place % 3 == 0 else "x",
    "copy_among_blanks": lambda row, place: row[1] if place % 3 == 0 else "",
    "unique_decimals": lambda row, place: f"{GENERATOR.random():.9f}",
    "amounts": lambda row, place: f"{place // 3}.25",
    "mail": lambda row, place: "office@example.org" if place == 7 else "none",
    "patient_name": lambda row, place: GENERATOR.choice(FIRST),
}
HARMLESS: dict[str, Callable[[list[str], int], str]] = {
    "constant": lambda row, place: "yes",
    "blank": lambda row, place: "",
    "coin": lambda row, place: GENERATOR.choice(["heads", "tails"]),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Iterator[Path]:
    """A home with everything of a delivery done but its release; all columns are attributes."""
    root = tmp_path_factory.mktemp("attributes") / "deid"
    columns = LEAKS | HARMLESS | {"tens": lambda row, place: row[1][0], "units": lambda row, place: row[1][1]}
    folder = root.parent / "in"
    write_people(folder, ages_beside(columns))
    file = folder / "people.csv"
    _, _, rows = file.read_text().partition("\n")
    file.write_text(",".join(["home town", "age", "sex", "likes", *columns]) + "\n" + rows)
    with pipeline_in(root, "flat_table") as pipeline:
        write_policy(pipeline.home.policies, policy_of([*columns]))
        pipeline.register(KEY, "flat", folder)
        yield root


def policy_of(columns: list[str], **reviewed: str) -> dict:
    listed = [{"column": column, "release_as": column} for column in columns]
    return changed(FLAT, attributes=[*FLAT["attributes"], *listed], reviewed_attributes=reviewed)


def released_with(prepared: Path, home: Path, columns: list[str], **reviewed: str) -> tuple[RunSummary, Pipeline]:
    with copy_of(prepared, home / "deid", "flat_table") as pipeline:
        write_policy(pipeline.home.policies, policy_of(columns, **reviewed))
        return pipeline.run(KEY), pipeline


def test_every_leak_is_refused_by_its_name(prepared, tmp_path):
    summary, pipeline = released_with(prepared, tmp_path, [*LEAKS, *HARMLESS])
    assert summary.exit_code == REFUSED and summary.release is None
    reasons = " ".join(summary.reasons)
    missed = [column for column in LEAKS if f"column {column}: " not in reasons]
    assert not missed, (missed, reasons)
    assert not [column for column in [*HARMLESS, "Likes"] if f"column {column}: " in reasons], reasons
    assert "reviewed_attributes" in reasons and "@" not in reasons and not any(name in reasons for name in LAST)
    assert not list(pipeline.home.releases.glob("*/0*"))


@pytest.mark.matrix
def test_an_age_that_is_split_over_two_columns_is_refused(prepared, tmp_path):
    summary, _ = released_with(prepared, tmp_path, ["tens", "units", "coin"])
    assert summary.exit_code == REFUSED
    reasons = " ".join(summary.reasons)
    assert "column units: " in reasons or "tens and units: together they disclose" in reasons, reasons


@pytest.mark.matrix
def test_columns_that_were_reviewed_are_published_and_shown_with_reason_and_numbers(prepared, tmp_path):
    reasons = {"copy_of_the_age": "All of them agreed to show <their> age.", "amounts": "Shares of a raffle's prize."}
    summary, pipeline = released_with(prepared, tmp_path, [*reasons, *HARMLESS], **reasons)
    assert summary.exit_code == PUBLISHED, summary
    folder = pipeline.home.releases / "flat_table" / "0001"
    report = (folder / "report.html").read_text()
    assert "All of them agreed to show &lt;their&gt; age." in report and "Shares of a raffle&#39;s prize." in report
    restricted = pipeline.home.store / "manifests" / "flat_table" / "0001.json"
    for file in (folder / "manifest.json", restricted):
        manifest = json.loads(file.read_bytes())
        assert json.loads(manifest["policy"]["text"])["reviewed_attributes"] == reasons
        (gate,) = [item["measurements"] for item in manifest["evidence"] if item["asset"] == "gate"]
        found = {one["name"]: one for one in gate}
        copy, raffle = found["copy_of_the_age/refinement"], found["amounts/singled_out"]
        assert copy["value"] > 0.9 and copy["threshold"] == 0.5 and copy["gating"] is False and copy["passed"] is False
        assert raffle["value"] > 0.9 and raffle["threshold"] == 0.01 and raffle["gating"] is False
        assert found["coin/refinement"]["gating"] is True and found["coin/refinement"]["passed"] is True


@pytest.mark.matrix
def test_a_column_that_was_reviewed_excuses_no_other(prepared, tmp_path):
    summary, _ = released_with(prepared, tmp_path, ["half_decades", "months"], half_decades="Both say no more than the ages.")
    assert summary.exit_code == REFUSED
    reasons = " ".join(summary.reasons)
    assert "column months: " in reasons and "column half_decades: " not in reasons


@pytest.mark.matrix
def test_no_reason_overrules_what_looks_like_an_identifier(prepared, tmp_path):
    summary, _ = released_with(prepared, tmp_path, ["number"], number="They are the numbers of a raffle.")
    assert summary.exit_code == REFUSED
    assert "column number: " in " ".join(summary.reasons) and "second person" in " ".join(summary.reasons)


@pytest.mark.matrix
def test_the_order_of_records_tells_nothing_of_the_delivery(tmp_path):
    """Files are ordered by what they show: the same people in another order give the same bytes."""
    written = []
    for name, rows in (("one", people()), ("other", people()[::-1])):
        with pipeline_in(tmp_path / name / "deid", "flat_table") as pipeline:
            assert run_flat(pipeline, write_people(tmp_path / name / "in", rows)).exit_code == PUBLISHED
            data = pipeline.home.releases / "flat_table" / "0001" / "data"
            written.append([(data / f"Records.{ending}").read_bytes() for ending in ("csv", "parquet")])
    assert written[0] == written[1]


class TestWhatAPersonOverrules:
    """A column that nobody declared, and one that somebody reviewed away: the headline says what they disclose."""

    PEOPLE = 2_000
    REASON = "The recipients work under a contract."

    @pytest.fixture
    def delivered(self, tmp_path):
        folder = tmp_path / "people"
        folder.mkdir()
        with duckdb.connect() as connection:
            connection.execute(
                f"""COPY (SELECT i AS id, CASE WHEN i % 2 = 0 THEN 'F' ELSE 'M' END AS sex, 20 + i % 60 AS age,
                    'area ' || (i * 7 % 50) AS area, 'sign ' || (i * 11 % 12) AS sign, 'trade ' || (i * 13 % 30) AS trade,
                    printf('%03d-%02d-%04d', 100 + i % 800, 10 + i % 80, 1000 + i) AS ssn
                    FROM range({self.PEOPLE}) AS people(i)) TO '{folder}/people.csv' (HEADER)"""
            )
        return folder

    def policy(self, *attributes: str, **changes: object) -> dict:
        values = {
            "policy": "overruled",
            "kind": "flat",
            "title": "What a person overrules",
            "description": "Sex is the only quasi-identifier.",
            "owners": ["team:privacy"],
            "recipients": {"recipient_class": "public", "terms_of_use": "none"},
            "source": {"kind": "flat", "file": "people.csv", "person": "id"},
            "quasi_identifiers": [{"column": "sex", "release_as": "Sex", "hierarchy": "sex"}],
            "hierarchies": {"sex": {"kind": "fixed", "values": ["F", "M"]}},
            "attributes": [{"column": name, "release_as": name.capitalize()} for name in attributes],
            "risk": {"k": 20, "max_suppressed": 0.1},
        }
        return values | changes

    def ran(self, home: Path, values: dict, delivered: Path) -> tuple[int, str]:
        write_policy(Home(home).create().policies, values)
        code, printed = deid_here(home, "run", "--policy", "overruled", "--delivery", delivered)
        return code, unwrapped(printed)

    @pytest.mark.matrix
    def test_attributes_that_single_out_together_are_refused(self, delivered, tmp_path):
        code, printed = self.ran(tmp_path / "deid", self.policy("age", "area", "sign", "trade"), delivered)
        assert code == REFUSED and "together they single out more than 5% of the records" in printed, printed
        assert "Declare those that others may know as quasi-identifiers" in printed

    @pytest.mark.matrix
    def test_a_review_of_all_of_them_is_told_in_the_headline(self, delivered, tmp_path):
        reviews = dict.fromkeys(("Age", "Area", "Sign", "Trade"), self.REASON)
        values = self.policy("age", "area", "sign", "trade", reviewed_attributes=reviews)
        code, printed = self.ran(tmp_path / "deid", values, delivered)
        assert code == PUBLISHED, printed
        said = "A person overruled: 100 % of the records are singled out by all attributes together."
        release = tmp_path / "deid" / "releases" / "overruled" / "0001"
        assert said in printed and said in unwrapped((release / "report.html").read_text())
        key = tmp_path / "key.pem"
        assert deid_here(tmp_path / "deid", "key", "export", "--output", key)[0] == PUBLISHED
        assert said in unwrapped(deid_here(tmp_path / "deid", "verify", release, "--key", key)[1])

    @pytest.mark.matrix
    def test_what_looks_like_an_identifier_needs_a_second_person(self, delivered, tmp_path):
        values = self.policy("ssn", reviewed_attributes={"Ssn": self.REASON})
        code, printed = self.ran(tmp_path / "deid", values, delivered)
        assert code == REFUSED and "column Ssn: its values look like direct identifiers (social security numbers" in printed
        assert (
            "a second person has to approve the release, too (section approval, which names nobody who is an owner)" in printed
        ), printed

    @pytest.mark.matrix
    def test_an_owner_is_no_second_person(self, delivered, tmp_path):
        values = self.policy("ssn", reviewed_attributes={"Ssn": self.REASON}, approval={"by": ["Privacy Team"]})
        code, printed = self.ran(tmp_path / "deid", values, delivered)
        assert code == REFUSED and "section approval, which names nobody who is an owner" in printed, printed

    @pytest.mark.matrix
    @pytest.mark.parametrize("column", ["fullname", "ssn_digits", "patient_code"])
    def test_so_do_names_and_numbers_of_persons(self, delivered, tmp_path, column):
        made = {
            "fullname": "'Person' || chr(65 + i % 26) || ' Family' || chr(65 + i // 26 % 26) || chr(65 + i // 676)",
            "ssn_digits": "100000000 + i * 7919",
            "patient_code": "md5(i::VARCHAR)[:10] || 'x'",
        }
        with duckdb.connect() as connection:
            connection.execute(f"CREATE TABLE p AS SELECT id::INTEGER AS id, sex FROM '{delivered}/people.csv'")
            sql = made[column].replace("i ", "id ").replace("i:", "id:")
            connection.execute(f"COPY (SELECT id, sex, {sql} AS {column} FROM p) TO '{delivered}/people.csv' (HEADER)")
        values = self.policy(column, reviewed_attributes={column.capitalize(): self.REASON})
        code, printed = self.ran(tmp_path / "deid", values, delivered)
        assert code == REFUSED and "a second person has to approve the release, too" in printed, printed

    @pytest.mark.matrix
    def test_it_waits_for_that_person_and_says_what_it_discloses(self, delivered, tmp_path):
        approval = {"by": ["Anna Muster"], "within_days": 7}
        values = self.policy("ssn", reviewed_attributes={"Ssn": self.REASON}, approval=approval)
        home = tmp_path / "deid"
        code, printed = self.ran(home, values, delivered)
        assert code == PUBLISHED and "Awaiting approval" in printed and not (home / "releases" / "overruled" / "0001").exists()
        said = "A person overruled: Ssn: 100 % of its values single people out by themselves"
        assert said in printed and said in unwrapped(deid_here(home, "approvals")[1])
        code, printed = deid_here(home, "approve", "overruled/0001", "--by", "Anna Muster")
        assert code == PUBLISHED and said in printed and "(team:privacy; approved by Anna Muster)" in printed
        report = unwrapped((home / "releases" / "overruled" / "0001" / "report.html").read_text())
        assert "A person overruled: Ssn: 100 % of its values single people out by themselves" in report
        assert "The recipients work under a contract" in report and "team:privacy" in report

    @pytest.mark.parametrize(
        "reason", ["x", "Ssn", "reviewed", "Ssn ssn SSN ssn ssn ssn", "x x x ............", ". . . . . . . . . . . . .",
                   "- - - 1234567890 -", "a b c d e f g h i j k l m", "ssn\u00a0ssn ok ok ok ok ok"],
    )  # fmt: skip
    def test_a_reason_is_a_sentence(self, reason):
        with pytest.raises(PolicyError, match="is no reason: say in a sentence why Ssn is published"):
            policy_from(self.policy("ssn", reviewed_attributes={"Ssn": reason}))

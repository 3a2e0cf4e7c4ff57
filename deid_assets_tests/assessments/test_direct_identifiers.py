"""Quasi-identifiers that are direct identifiers are refused, however large their equivalence classes are."""

import html

import pytest

from deid_assets.assessments.direct_identifiers import (
    QuasiIdentifier,
    declared_quasi_identifiers,
    judge_quasi_identifiers,
    quasi_identifiers_of_records,
)
from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.errors import PUBLISHED, REFUSED
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.loading import policy_from
from deid_assets.policy.models import Policy
from deid_assets.release.verdict import verdict_in
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, run_flat, write_people

REASON = "They are the names of invented people."
K = 3


def judged(
    names: tuple[str, ...], delivered: list[str | None], published: list[str | None], *reviewed: str
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """What is said of a column of these names and values."""
    with small_store() as store:
        before = store.table("delivered", "before VARCHAR", [(value,) for value in delivered])
        after = store.table("published", "after VARCHAR", [(value,) for value in published])
        one = QuasiIdentifier("after", after, "before", before, names)
        return judge_quasi_identifiers([one], K, reviewed)


def refused(names: tuple[str, ...], delivered: list[str | None], published: list[str | None], *reviewed: str) -> list[str]:
    """The reasons to refuse a column of these names and values."""
    return [refusal.text for refusal in judged(names, delivered, published, *reviewed)[1]]


class TestWhatIsRefused:
    NAMES = ["Ann", "Bob", "Eve"] * 10

    @pytest.mark.parametrize("name", ["patient_name", "Surname", "SSN", "member_id", "street", "phone"])
    def test_values_under_the_name_of_a_direct_identifier(self, name):
        (text,) = refused((name,), self.NAMES, self.NAMES)
        assert "role direct_identifier" in text and not any(value in text for value in set(self.NAMES))

    @pytest.mark.parametrize("published", [["Ann", None, "other"] * 10, ["ANN "] * 30, ["*"] * 29 + ["Eve"]])
    def test_one_delivered_value_is_enough(self, published):
        assert refused(("first_name",), self.NAMES, published)

    @pytest.mark.parametrize("name", ["zip", "County", "birth_date", "plan_name", "drug_name", "town", "health_plan"])
    def test_what_many_share_is_judged_by_its_equivalence_classes(self, name):
        assert not refused((name,), self.NAMES, self.NAMES)

    @pytest.mark.parametrize("published", [["A", "B", "E"] * 10, ["*"] * 30, [None] * 30, ["unknown"] * 30])
    def test_names_of_which_no_value_is_shown_are_published(self, published):
        assert not refused(("patient_name",), [*self.NAMES, "unknown", None], published)

    @pytest.mark.parametrize(
        ("value", "kind"),
        [
            ("Mrs. Miller", "titles of persons"),
            ("123-45-6789", "social security numbers"),
            ("office@example.org", "e-mail addresses"),
            ("MRN 0012345", "numbers of records or accounts"),
        ],
    )
    def test_values_of_a_person_under_any_name_whatever_was_reviewed(self, value, kind):
        for reviewed in ((), ("after",)):
            (text,) = refused(("likes",), ["x"], [value] * 30, *reviewed)
            assert kind in text and value not in text and "reviewed_attributes" not in text

    def test_a_reason_overrules_a_name(self):
        assert "reviewed_attributes" in refused(("patient_name",), self.NAMES, self.NAMES)[0]
        assert not refused(("patient_name",), self.NAMES, self.NAMES, "after")

    def test_what_a_reason_overrules_is_measured_and_nothing_else(self):
        ((measured,), _) = judged(("patient_name",), self.NAMES, self.NAMES, "after")
        assert (measured.name, measured.value, measured.passed, measured.gating) == ("after/identifier_name", 1, False, False)
        assert not judged(("patient_name",), self.NAMES, ["A"] * 30, "after")[0]
        assert not judged(("patient_name",), self.NAMES, self.NAMES)[0]


def named_first_name(**changes: object) -> dict:
    """The table with the first names of people as a quasi-identifier, published as they are."""
    listed = [*FLAT["quasi_identifiers"], {"column": "first name", "release_as": "Who", "hierarchy": "first"}]
    hierarchies = FLAT["hierarchies"] | {"first": {"kind": "fixed", "values": ["Ann", "Bob"]}}
    return changed(FLAT, quasi_identifiers=listed, hierarchies=hierarchies, **changes)


def test_those_of_records_are_known_by_both_names():
    policy = policy_from(named_first_name())
    assert isinstance(policy, FlatPolicy)
    with small_store() as store:
        table = store.table("t", "a VARCHAR", [])
        found = {one.name: one.named for one in quasi_identifiers_of_records(policy, table, table)}
    assert found["Who"] == ("Who", "first name") and policy.reviewable == ["Likes", "Who"]


def test_a_count_of_identifiers_is_none_and_a_delivered_one_is():
    meaning = {"meaning": "what it is"}
    members = {
        "kin": {"kind": "text", "from": "LAST_NAME", **meaning},
        "sort": {"kind": "text", "from": "NPI", "translated": {"1": "near", "2": "far"}, **meaning},
    }
    values = public_values(columns={"members": members})
    for name in members:
        values["hierarchies"][name] = {"kind": "fixed", "values": ["near", "far"]}
        values["quasi_identifiers"]["members"].append({"column": name, "release_as": name.title(), "hierarchy": name})
    policy = policy_from(values)
    assert isinstance(policy, Policy)
    with small_store() as store:
        tables = dict.fromkeys(("members", "claims"), store.table("t", "a VARCHAR", []))
        found = {one.name: one.named for one in declared_quasi_identifiers(policy, tables, tables)}
    assert found == {"Kin": ("Kin", "kin", "LAST_NAME"), "Sort": ("Sort", "sort")}
    assert "Kin" in policy.reviewable and "Sort" not in policy.reviewable


def test_the_gate_of_a_flat_release_refuses_first_names(tmp_path):
    rows = [[*row[:4], "Ann" if place % 2 else "Bob"] for place, row in enumerate(people())]
    with pipeline_in(tmp_path / "deid", "flat_table") as pipeline:
        folder = write_people(tmp_path / "in", rows)
        file = folder / "people.csv"
        file.write_text(file.read_text().replace("secret", "first name", 1))
        summary = run_flat(pipeline, folder, named_first_name())
        assert summary.exit_code == REFUSED and not list(pipeline.home.releases.glob("*/0*"))
        (reason,) = [one for one in summary.reasons if "quasi-identifier Who" in one]
        assert "its name says that it identifies people" in reason
        reviewed = run_flat(pipeline, folder, named_first_name(reviewed_attributes={"Who": REASON}))
        assert reviewed.exit_code == PUBLISHED
        said = verdict_in(reviewed.release / "manifest.json").overruled
        assert said == (
            "Who: its name says that it identifies people; published because “They are the names of invented people” "
            "(team:privacy)",
        )
        assert said[0] in html.unescape((reviewed.release / "report.html").read_text())

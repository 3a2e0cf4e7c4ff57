"""The sections of a changed policy: put in the place of the policy's own, they make a policy that says the change."""

from types import SimpleNamespace

import pandas as pd
import pytest
import yaml

from deid_assets.assets.policy_changes import (
    ABSENCE,
    absence_tells_too_much,
    changed_sections,
    no_choice,
    what_helps_against_absence,
)
from deid_assets.methods.lattice.diagnosis import COLUMNS, NOT_TRIED, Change
from deid_assets.policy import policy_from
from deid_assets.policy.yaml_text import parse
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.policy.policy_texts import public_values, with_levels_of_its_own
from deid_assets_tests.scenarios.policies import SMALL, changed


def applied(values: dict, change: Change):
    """The policy with the sections pasted in, as the product reads YAML."""
    text = changed_sections(policy_from(values), change)
    sections = parse(text)
    assert not sections.faults
    return policy_from(values | sections.values), sections.values


def test_a_column_that_goes_takes_its_dimension_along():
    policy, sections = applied(public_values(), Change(("length_of_stay", "sex")))
    assert set(sections) == {"quasi_identifiers", "dimensions"}
    before = policy_from(public_values())
    assert {qi.column for qi in before.quasi_identifiers.all} - {qi.column for qi in policy.quasi_identifiers.all} == {
        "length_of_stay",
        "sex",
    }
    assert "length_of_stay" not in {column for dimension in policy.dimensions for column in dimension.columns}
    assert policy.section_hash("risk", "hierarchies", "removal") == before.section_hash("risk", "hierarchies", "removal")


def test_of_columns_that_move_together_the_other_stays():
    policy, _ = applied(public_values(), Change(("days_in_hospital_y2",)))
    assert ("days_in_hospital_y3",) in {dimension.columns for dimension in policy.dimensions}


def test_a_dimension_that_goes_is_no_level_in_which_claims_are_cut_any_more():
    before = policy_from(public_values())
    assert set(before.number_of_claims.reference) == {"age", "days_in_hospital"}
    policy, sections = applied(public_values(), Change(("age",)))
    assert set(sections) == {"quasi_identifiers", "dimensions", "number_of_claims"}
    assert policy.number_of_claims.reference == {"days_in_hospital": "none or any"}
    assert (policy.number_of_claims.per, policy.number_of_claims.width) == (
        before.number_of_claims.per,
        before.number_of_claims.width,
    )
    policy, _ = applied(public_values(), Change(("age", "days_in_hospital_y2", "days_in_hospital_y3")))
    assert policy.number_of_claims.reference == {}
    _, sections = applied(public_values(), Change(("days_in_hospital_y3",)))
    assert set(sections) == {"quasi_identifiers", "dimensions"}, "the dimension stays with the other year"


def test_what_is_left_of_a_dimension_calls_its_levels_by_the_column_that_is_first_now():
    values = with_levels_of_its_own(public_values())
    policy, _ = applied(values, Change(("days_in_hospital_y2",)))
    assert policy.number_of_claims.reference == {"age": "40 years", "days_in_hospital": "days of year 3: none or any"}
    _, sections = applied(values, Change(("days_in_hospital_y3",)))
    assert "number_of_claims" not in sections


def test_more_suppression_leaves_the_rest_of_the_section():
    values = public_values()
    policy, sections = applied(values, Change(suppress_at_most=0.07))
    assert set(sections) == {"risk"} and policy.risk.suppression.at_most == 0.07
    before = policy_from(values).risk
    assert policy.risk.model_copy(update={"suppression": before.suppression}) == before


@pytest.mark.parametrize(
    "change",
    [Change(("age", "days_in_hospital_y2")), Change(("place",)), Change(("age", "sex", "days_in_hospital_y2"))],
    ids=["no dimension is left", "no claim-level column", "no member-level column"],
)
def test_what_no_policy_can_hold_is_said_by_none(change):
    assert changed_sections(policy_from(changed(SMALL)), change) is None


def test_nobody_who_opted_out_is_named():
    values = public_values(opt_outs={"members": ["A PERSON"]})
    text = changed_sections(policy_from(values), Change(("sex",)))
    assert "A PERSON" not in text and set(yaml.safe_load(text)) == {"quasi_identifiers", "dimensions"}


class TestAbsence:
    """100 members, 20 removed for a sensitive condition, a sample of 8; the limit is .3."""

    @staticmethod
    def told(folder, before: int, at_most: float = 0.3):
        file = folder / "store.duckdb"
        tables = {
            "eligible": "SELECT 'e' || range AS member_id FROM range(80)",
            "removed": "SELECT 'r' || range AS member_id, true AS sensitive FROM range(20)",
            "profiles": "SELECT 'e' || range AS member_id, range < 8 AS released FROM range(80)",
        }
        found = {name: Table(file, "tests", name) for name in tables}
        for name, sql in tables.items():
            write_table(found[name], sql)
        policy = policy_from(changed(SMALL, removal__absence_posterior_at_most=at_most))
        workplace = SimpleNamespace(
            released_before=lambda *_: before, releases_before=lambda *_: ("ours/0001",) if before else ()
        )
        return absence_tells_too_much(policy, *found.values(), workplace)

    def test_within_the_limit_nothing_stands_against_a_change(self, tmp_path):
        assert self.told(tmp_path, before=0) == ("", "")

    def test_where_the_sample_alone_tells_too_much_no_release_is_named(self, tmp_path):
        """.2 / (.2 + .8 * .9) = .217, whatever was released before."""
        gate, because = self.told(tmp_path, before=40, at_most=0.21)
        assert gate == ABSENCE and "ours/0001" not in because
        assert because.startswith(
            "20 of 100 members were removed for what their claims disclose, which is too many however few"
        )

    def test_what_helps_is_a_number_that_holds(self):
        """1,000 removed of 10,000: .1 / (.1 + .9 * (1 - 3333 / 9000)) = .15.

        The number that is told lies four standard deviations of a sample's size below.
        """
        assert what_helps_against_absence(1_000, 9_000, 0, 0.15).startswith("at most about 3,200 of 9,000 eligible members")
        assert what_helps_against_absence(1_000, 9_000, 3_000, 0.15).startswith("at most about 290 of 9,000")
        assert what_helps_against_absence(1_000, 9_000, 3_300, 0.15).startswith("1,000 of 10,000 members were removed")

    def test_where_earlier_releases_are_why_they_are_named(self, tmp_path):
        gate, because = self.told(tmp_path, before=40)
        assert gate == ABSENCE and "and are in ours/0001;" in because


def test_a_refusal_offers_what_passed_with_its_threshold_and_nothing_else():
    rows = [
        ("as it is", "coarsest node", 0.021, 0.008, 0.0, NOT_TRIED, False, ""),
        ("without", "sex", 0.0041, 0.008, 0.0, "attack given membership", False, ""),
        ("without", "age", 0.0051, 0.008, 0.012, "", True, "quasi_identifiers: ..."),
    ]
    text = no_choice({(1,): "share at high risk"}, pd.DataFrame(rows, columns=list(COLUMNS)), 0.03, "").description
    assert "Failed gates: share at high risk at 1 node." in text
    assert "with at most 0.03 of the sampled members suppressed" in text
    assert (
        "without age (share at high risk 0.0051 before suppression, at most 0.0080; 0.0120 of the sampled members left out)"
        in text
    )
    assert "sex" not in text and "coarsest node (" not in text
    none = no_choice({}, pd.DataFrame(rows[:2], columns=list(COLUMNS)), 0.03, "they are in ours/0001").description
    assert "None of the changes" in none and "(attack given membership against 1)" in none
    assert none.endswith("For absence: they are in ours/0001.")

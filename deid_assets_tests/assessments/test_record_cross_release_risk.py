"""Linked flat releases as evidence: which earlier ones count, what refuses, and canaries that a broken link does not find."""

import numpy as np
import pytest

from deid_assets.assessments import record_cross_release_risk as cross
from deid_assets.assessments.earlier_releases import EarlierRecords
from deid_assets.assessments.evidence import Evidence
from deid_assets.assessments.record_cross_release_risk import (
    ADDED,
    ALIKE,
    EARLIER,
    LINKED,
    NOT_COMPARED,
    WITHDRAWN,
    Earlier,
    Linked,
    canaries_of_records,
    earlier_of,
    linked_measurements,
    linked_refusals,
)
from deid_assets.policy.loading import policy_from
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_flat_release import FLAT

POLICY = policy_from(changed(FLAT, source={"kind": "flat", "file": "people.csv", "person": "id"}))
LEVELS = {"Town": "district", "Age": "decade", "Sex": "value"}
OWN = np.array([1, 2, 3], dtype=np.uint64)


def release(name, tags=None, levels=LEVELS, columns=None):
    """None as tags: nothing identifies its people."""
    known = None if tags is None else np.array(tags, dtype=np.uint64)
    columns = columns or POLICY.content("quasi_identifiers", "hierarchies")
    return EarlierRecords(name, known, None if tags is None else lambda: None, columns, levels)


def names(found):
    return [one.name for one in found]


class TestEarlierReleases:
    def test_with_common_people_are_linked_and_others_need_not_be(self):
        found = earlier_of(POLICY, LEVELS, [release("a/0001", [3, 4]), release("a/0002", [5], {"Town": "town"})], OWN)
        assert (names(found.linked), names(found.every)) == (["a/0001"], ["a/0001"])

    @pytest.mark.parametrize("released", [OWN, None])
    def test_of_unknown_people_must_show_the_same(self, released):
        """Without a person here, the people of every earlier release are unknown."""
        earlier = [
            release("a/0001"),
            release("a/0002", levels={**LEVELS, "Age": "years"}),
            release("a/0003", levels=None),
            release("a/0004", columns={"quasi_identifiers": [], "hierarchies": {}}),
            *([release("a/0005", [3]), release("a/0006", [9], {})] if released is None else []),
        ]
        found = earlier_of(POLICY, LEVELS, earlier, released)
        more = ["a/0005"] if released is None else []
        assert names(found.alike) == ["a/0001", *more] and found.linked == ()
        assert names(found.unknown) == ["a/0002", "a/0003", "a/0004", *(["a/0006"] if released is None else [])]

    def test_of_other_people_are_believed_where_nothing_contradicts_it(self):
        others = {"a/0001": "another town", "b": "staff"}
        policy = policy_from(changed(FLAT, source={"file": "people.csv", "person": "id"}, releases={"other_people": others}))
        earlier = [release(name, None, {}) for name in ("a/0001", "a/0002", "b/0001", "b/0002")] + [release("b/0003", [3])]
        found = earlier_of(policy, LEVELS, earlier, OWN)
        assert names(found.unknown) == ["a/0002"] and names(found.linked) == ["b/0003"], "its people are in this release"


def measured(*found, earlier=None):
    return {one.name: one for one in linked_measurements(POLICY, earlier or Earlier((release("a/0001", [3]),), (), ()), found)}


class TestMeasurements:
    def test_nothing_is_at_risk_where_nothing_is_linked(self):
        found = measured(earlier=Earlier((), (), ()))
        assert [one.value for one in found.values()] == [0] * 6 and all(one.passed for one in found.values() if one.gating)
        assert {name for name, one in found.items() if one.gating} == {NOT_COMPARED, LINKED, ADDED, WITHDRAWN}

    @pytest.mark.parametrize(
        ("one", "name"),
        [
            (Linked("a/0001", 1), LINKED),
            (Linked("all together", 1), LINKED),
            (Linked("a/0001", 0, added=1), ADDED),
            (Linked("a/0001", 0, missed=9, missed_share=0.051), WITHDRAWN),
            (Linked("a/0001", 0, missed=9, missed_share=float("nan")), WITHDRAWN),
        ],
    )
    def test_one_person_is_too_many_and_counts_a_release(self, one, name):
        found = measured(Linked("b/0001", 0, missed_share=0.05), one)
        assert found[name].value == 1 and [other for other, own in found.items() if own.gating and not own.passed] == [name]
        assert all(own.unit == "releases" for own in found.values()), "no number is about people"

    def test_the_report_tells_them(self):
        found = measured(earlier=Earlier((), (release("a/0001"),), ()))
        assert found[ALIKE].value == 1 == found[EARLIER].value
        assert len(cross.report_table({name: one.to_json() for name, one in found.items()}).rows) == len(found)


class TestGate:
    def refusals(self, found, releases, same=None, released=OWN):
        evidence = [Evidence(cross.NAME, "2024", "p" * 64, "a" * 64, "1", tuple(found.values()))]
        return [(one.rule, one.text) for one in linked_refusals(POLICY, LEVELS, evidence, releases, released, same)]

    def test_nothing_is_refused_that_was_measured_and_passed(self):
        assert self.refusals(measured(Linked("a/0001", 0)), [release("a/0001", [3])]) == []

    def test_a_release_made_since_refuses_unless_it_is_this_one(self):
        since = [release("a/0001", [3]), release("a/0002", [2, 9]), release("a/0003", [9])]
        ((rule, text),) = self.refusals(measured(), since)
        assert rule == "released_meanwhile" and "run the whole job again" in text
        assert self.refusals(measured(), since, same="a/0002") == []
        assert [one.rule for one in linked_refusals(POLICY, LEVELS, [], since, OWN)] == ["released_meanwhile"]

    def test_unknown_people_are_named_with_the_levels_and_what_to_do(self):
        ((rule, text),) = self.refusals(measured(), [release("a/0001", None, {**LEVELS, "Age": "years"})])
        assert rule == "not_comparable" and "Age: years" in text
        assert all(what in text for what in ("source.person", "releases.other_people", "a/0001"))

    @pytest.mark.parametrize(
        ("one", "says"),
        [
            (Linked("a/0001", 2), "pinned"),
            (Linked("a/0001", 0, added=2), "joined"),
            (Linked("a/0001", 0, missed_share=0.5), "have left"),
        ],
    )
    def test_what_stands_out_names_the_releases_and_what_to_do(self, one, says):
        ((rule, text),) = self.refusals(measured(one), [release("a/0001", [3])])
        assert rule == "linked_releases" and says in text and "a/0001 (Town: district" in text


class TestCanaries:
    @pytest.mark.parametrize("k", [3, 4, 20])
    @pytest.mark.parametrize("population", [None, {"file": "population.csv"}])
    def test_are_all_found(self, k, population):
        policy = policy_from(changed(FLAT, risk={"k": k, "max_suppressed": 0.05}, population=population))
        assert canaries_of_records(policy).share == 1

    @pytest.mark.parametrize(
        ("name", "broken"),
        [
            ("singled_out", lambda own, others, k, among_released: np.zeros(len(own.tags), dtype=bool)),
            ("singled_out", lambda own, others, k, among_released: np.ones(len(own.tags), dtype=bool)),
            ("added_standing_out", lambda own, earlier, k: np.zeros(len(own.tags), dtype=bool)),
            ("withdrawn_standing_out", lambda earlier, later, k: 0),
        ],
    )
    def test_are_missed_by_a_broken_method(self, monkeypatch, name, broken):
        monkeypatch.setattr(cross, name, broken)
        assert canaries_of_records(POLICY).share < 1

    def test_are_missed_by_one_that_reads_one_release_only(self, monkeypatch):
        right = cross.singled_out
        monkeypatch.setattr(cross, "singled_out", lambda own, others, *rest: right(own, [own for _ in others], *rest))
        assert canaries_of_records(POLICY).share < 1

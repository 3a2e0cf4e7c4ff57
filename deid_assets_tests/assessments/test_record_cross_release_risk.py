"""Linked flat releases as evidence: which earlier ones count, what refuses, and canaries that a broken link does not find."""

from dataclasses import replace

import numpy as np
import pytest

from deid_assets.assessments import record_cross_release_risk as cross
from deid_assets.assessments.cross_release_risk import planted_kept_rows
from deid_assets.assessments.earlier_releases import EarlierRelease
from deid_assets.assessments.evidence import Evidence
from deid_assets.assessments.planting import planted_store
from deid_assets.assessments.record_cross_release_risk import (
    ADDED,
    APART,
    CHANGED,
    EARLIER,
    LINKED,
    NOT_COMPARED,
    SAME,
    STATED,
    WITHDRAWN,
    Earlier,
    Linked,
    canaries_of_people,
    earlier_of,
    linked_measurements,
    linked_refusals,
)
from deid_assets.methods.releases.linked_records import ShownPeople
from deid_assets.policy.loading import policy_from
from deid_assets.policy.sections.releases import Hiding
from deid_assets.store.tables import connect
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.test_cohort_release import SAFE_HARBOR
from deid_assets_tests.scenarios.test_flat_release import FLAT

POLICY = policy_from(changed(FLAT, source={"kind": "flat", "file": "people.csv", "person": "id"}))
COHORT = changed(SAFE_HARBOR, releases={"differing_at_least": 4})
LEVELS = {"Town": "district", "Age": "decade", "Sex": "value"}
OWN = np.array([1, 2, 3], dtype=np.uint64)


def release(name, tags=None, person="id", levels=LEVELS, of_this_delivery=False, kind="flat", **further):
    """None as tags: nobody knows its people."""
    known = None if tags is None else np.array(tags, dtype=np.uint64)
    kept = further.pop("kept", tags is not None)
    return EarlierRelease(name, known, (lambda: None) if kept else None, person, levels, of_this_delivery, kind, **further)


def stating(**others):
    source = {"file": "people.csv", "person": "id"}
    return policy_from(changed(FLAT, source=source, releases={"other_people": others}))


def names(found):
    return [one.name for one in found]


class TestEarlierReleases:
    def test_with_common_people_are_linked_and_others_must_be_stated(self):
        """Nobody in common may also mean that identifiers are spelled otherwise."""
        found = earlier_of(POLICY, [release("a/0001", [3, 4]), release("a/0002", [5])], OWN)
        assert (names(found.linked), names(found.unknown)) == (["a/0001"], ["a/0002"])
        found = earlier_of(stating(a="another town"), [release("a/0002", [5])], OWN)
        assert names(found.stated) == ["a/0002"] == names(found.every)

    @pytest.mark.parametrize("released", [OWN, None])
    def test_of_unknown_people_are_refused_whatever_they_show(self, released):
        """Without a person here, the people of every earlier release are unknown."""
        earlier = [release("a/0001"), release("a/0002", person=None), release("a/0003", [3]), release("a/0004", levels=None)]
        found = earlier_of(POLICY, earlier, released)
        assert names(found.linked) == ([] if released is None else ["a/0003"])
        assert set(names(found.unknown)) == {"a/0001", "a/0002", "a/0004"} | ({"a/0003"} if released is None else set())

    def test_whose_people_another_column_identifies_are_unknown(self):
        """Also if some happen to have an identifier of this one; then no statement helps."""
        earlier = [release("a/0001", [3], person="number"), release("a/0002", [9], person="number")]
        assert names(earlier_of(POLICY, earlier, OWN).unknown) == ["a/0001", "a/0002"]
        found = earlier_of(stating(a="staff"), earlier, OWN)
        assert (names(found.linked), names(found.stated)) == (["a/0001"], ["a/0002"])

    def test_of_the_same_delivery_are_compared_elsewhere(self):
        found = earlier_of(POLICY, [release("a/0001", of_this_delivery=True)], None)
        assert names(found.same) == ["a/0001"] == names(found.every)

    def test_of_other_people_are_believed_where_nothing_contradicts_it(self):
        policy = stating(**{"a/0001": "another town", "b": "staff"})
        earlier = [release(name) for name in ("a/0001", "a/0002", "b/0001", "b/0002")] + [release("b/0003", [3])]
        found = earlier_of(policy, earlier, OWN)
        assert names(found.stated) == ["a/0001", "b/0001", "b/0002"]
        assert names(found.unknown) == ["a/0002"] and names(found.linked) == ["b/0003"], "its people are in this release"

    def test_of_other_kinds_are_linked_if_they_have_people_of_this_one(self):
        earlier = [
            release("claims/0001", [3], person="member", kind="longitudinal"),
            release("claims/0002", [9], person="member", kind="longitudinal"),
            release("cohort/0001", person=None, kind="cohort"),
            release("cohort/0002", kind="cohort", same_secret=False),
        ]
        found = earlier_of(POLICY, earlier, OWN)
        assert names(found.linked) == ["claims/0001"] and names(found.others) == ["claims/0002"]
        assert names(found.apart) == ["cohort/0001"] and names(found.unknown) == ["cohort/0002"]
        assert found.of_others == ("claims/0002",), "the rows of these are looked for"
        told = cross.not_compared(POLICY, earlier, OWN)
        assert set(told) == {"claims/0002", "cohort/0001"} and "identifiers are spelled otherwise" in told["claims/0002"]
        assert set(names(earlier_of(POLICY, earlier[:3], None).apart)) == {"claims/0001", "claims/0002", "cohort/0001"}
        assert measured(earlier=Earlier(apart=found.apart))[APART].value == 1

    def test_what_was_not_compared_is_told_with_the_reason(self):
        earlier = [release("a/0001", [9]), release("cohort/0001", person=None, kind="cohort"), release("b/0001", [3])]
        (told,) = cross.not_compared(POLICY, [release("c/0001", [3], keeps_values=False)], OWN).values()
        assert "kept no values of attributes" in told
        told = cross.not_compared(stating(a="These people live in another town."), earlier, OWN)
        assert set(told) == {"a/0001", "cohort/0001"}
        assert "These people live in another town." in told["a/0001"] and "no column identifies people" in told["cohort/0001"]

    def test_a_cohort_has_rows_like_those_of_a_flat_table(self, tmp_path):
        """The difference of both files shows whose row is new or changed; that of claims and people does not."""
        planted, rows = cross.planted_people(POLICY.risk.k), tmp_path / "rows.parquet"
        with planted_store() as file:
            first, own = (planted_kept_rows(file, name, cross._rows(planted, n)) for n, name in enumerate(("first", "own")))
            with connect(file) as connection:
                connection.execute(f"COPY {first.sql} TO '{rows}'")
            cohort, claims = (
                cross.compared_with(POLICY, own, [replace(release("c/0001", [3], kind=kind), file=lambda: rows)])[0]
                for kind in ("cohort", "longitudinal")
            )
        assert cohort.added and cohort.changed and cohort.missed and cohort.singled_out
        assert not (claims.added or claims.changed or claims.missed) and claims.singled_out

    def test_a_cohort_is_linked_with_cohorts_only(self):
        """Classes in its population are not known under the labels of other tables."""
        cohort = policy_from(COHORT)
        own = cohort.columns.person.column
        earlier = [release("c/0001", [3], person=own, kind="cohort"), release("a/0001", [3])]
        found = earlier_of(cohort, earlier, OWN)
        assert names(found.linked) == ["c/0001"] and names(found.unknown) == ["a/0001"]
        assert "how large they are under the labels of both" in cross._why_unknown(cohort, earlier[1])

    def test_are_told_with_the_number_of_people_in_common(self):
        earlier = [release("a/0001", [2, 3, 4]), release("a/0002", [9]), release("a/0003")]
        assert cross._in_common(earlier, OWN)["people in common"].tolist() == ["2", "0", "unknown"]
        assert cross._in_common(earlier, None)["people in common"].tolist() == ["unknown"] * 3


class TestRowsUnderOtherIdentifiers:
    """Ten people of a cohort are spelled otherwise, and one is new: both tables differ by the row of this one."""

    hiding = Hiding(k=11, among_released=True, in_population=True, at_most=0.05)

    def shown(self, first, rows):
        tags = np.arange(len(rows), dtype=np.uint64) + np.uint64(first)
        values = {"likes": np.array([likes for _, likes in rows])}
        return ShownPeople(tags, np.array([of_class for of_class, _ in rows]), np.ones(len(rows), dtype=bool), values)

    def together(self, one, other):
        values = {"likes": np.concatenate([one.values["likes"], other.values["likes"]])}
        parts = (
            np.concatenate(pair) for pair in zip(*((own.tags, own.classes, own.released) for own in (one, other)), strict=True)
        )
        return ShownPeople(*parts, values)

    def added(self, own, earlier, hiding=None):
        return cross._beside(hiding or self.hiding, "c/0001", own, earlier).added

    @pytest.mark.parametrize(("new", "stand_out"), [(0, 0), (1, 1), (10, 10), (11, 0)])
    def test_hide_nobody_who_is_new(self, new, stand_out):
        rows = [(number % 7, number % 3) for number in range(300)]
        joined = [(50 + number, 9) for number in range(new)]
        earlier, staying = self.shown(0, rows), self.shown(0, rows[:-10])
        own = self.together(staying, self.shown(1_000, [*rows[-10:], *joined]))
        assert self.added(own, earlier) == stand_out
        assert self.added(own, earlier, replace(self.hiding, in_population=False, k=1)) == 0, "of a flat table, classes decide"

    @pytest.mark.parametrize(("alike", "stand_out"), [(0, 0), (1, 10), (11, 0)])
    def test_only_if_all_that_both_show_is_the_same(self, alike, stand_out):
        """Eleven have left, and as many are new, some with the rows of those."""
        rows = [(number % 7, number % 3) for number in range(300)]
        others = [(of_class, likes if number < alike else 9) for number, (of_class, likes) in enumerate(rows[-11:])]
        own = self.together(self.shown(0, rows[:-11]), self.shown(1_000, others))
        assert self.added(own, self.shown(0, rows)) == stand_out


def measured(*found, earlier=None):
    return {one.name: one for one in linked_measurements(POLICY, earlier or Earlier((release("a/0001", [3]),)), found)}


class TestMeasurements:
    def test_nothing_is_at_risk_where_nothing_is_linked(self):
        found = measured(earlier=Earlier())
        assert [one.value for one in found.values()] == [0] * 9 and all(one.passed for one in found.values() if one.gating)
        assert {name for name, one in found.items() if one.gating} == {NOT_COMPARED, LINKED, ADDED, CHANGED, WITHDRAWN}

    @pytest.mark.parametrize(
        ("one", "name"),
        [
            (Linked("a/0001", 1), LINKED),
            (Linked("all together", 1), LINKED),
            (Linked("a/0001", 0, added=1), ADDED),
            (Linked("a/0001", 0, changed=1), CHANGED),
            (Linked("a/0001", 0, missed=9, missed_share=0.051), WITHDRAWN),
            (Linked("a/0001", 0, missed=9, missed_share=float("nan")), WITHDRAWN),
        ],
    )
    def test_one_person_is_too_many_and_counts_a_release(self, one, name):
        found = measured(Linked("b/0001", 0, missed_share=0.05), one)
        assert found[name].value == 1 and [other for other, own in found.items() if own.gating and not own.passed] == [name]
        assert all(own.unit == "releases" for own in found.values()), "no number is about people"

    def test_the_report_tells_them(self):
        found = measured(earlier=Earlier(stated=(release("a/0001"), release("a/0002")), same=(release("a/0003"),)))
        assert [found[name].value for name in (EARLIER, STATED, SAME, NOT_COMPARED)] == [3, 2, 1, 0]
        assert len(cross.report_table({name: one.to_json() for name, one in found.items()}).rows) == len(found)


class TestGate:
    def refusals(self, found, releases, same=None, released=OWN):
        evidence = [Evidence(cross.NAME, "2024", "p" * 64, "a" * 64, "1", tuple(found.values()))]
        return [(one.rule, one.text) for one in linked_refusals(POLICY, evidence, releases, released, same)]

    def test_nothing_is_refused_that_was_measured_and_passed(self):
        assert self.refusals(measured(Linked("a/0001", 0)), [release("a/0001", [3])]) == []

    def test_a_release_made_since_refuses_unless_it_is_this_one(self):
        since = [release("a/0001", [3]), release("a/0002", [2, 9])]
        ((rule, text),) = self.refusals(measured(), since)
        assert rule == "released_meanwhile" and "run the whole job again" in text
        assert self.refusals(measured(), since, same="a/0002") == []
        assert [one.rule for one in linked_refusals(POLICY, [], since, OWN)] == ["released_meanwhile"]

    @pytest.mark.parametrize(
        ("one", "released", "why"),
        [
            (release("a/0001", [3]), None, "no column identifies people of this policy"),
            (release("a/0001", person=None), OWN, "no column identified its people"),
            (release("a/0001"), OWN, "another secret"),
            (release("a/0001", [3], kept=False), OWN, "kept no rows"),
            (release("a/0001", [3], person="number"), OWN, "another column"),
            (release("a/0001", [9]), OWN, "spelled otherwise"),
        ],
    )
    def test_unknown_people_are_named_with_the_reason_and_what_to_do(self, one, released, why):
        policy = POLICY if released is not None else policy_from(FLAT)
        number = measured(earlier=Earlier(unknown=(one,)))
        evidence = [Evidence(cross.NAME, "2024", "p" * 64, "a" * 64, "1", tuple(number.values()))]
        (found,) = linked_refusals(policy, evidence, [one], released)
        assert found.rule == "not_comparable" and found.is_judgement and why in found.text
        assert all(what in found.text for what in ("releases.other_people", "a/0001"))
        assert ("direct_identifier" in found.text) != ("without those who are in it" in found.text)
        assert "pinned" not in found.text, "equal levels do not help"

    @pytest.mark.parametrize(
        ("one", "says"),
        [
            (Linked("a/0001", 2), "pinned"),
            (Linked("a/0001", 0, added=2), "more people join"),
            (Linked("a/0001", 0, changed=2), "values of more people have changed"),
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
        assert canaries_of_people(policy).share == 1

    def test_of_cohorts_are_found(self):
        assert canaries_of_people(policy_from(COHORT)).share == 1

    @pytest.mark.parametrize(
        ("name", "broken"),
        [
            ("in_small_joint_class", lambda own, others, k, among_released: np.zeros(len(own.tags), dtype=bool)),
            ("in_small_joint_class", lambda own, others, k, among_released: np.ones(len(own.tags), dtype=bool)),
            ("added_standing_out", lambda own, earlier, k, among_released: np.zeros(len(own.tags), dtype=bool)),
            ("changed_standing_out", lambda own, earlier, k, among_released: np.zeros(len(own.tags), dtype=bool)),
            ("shown_otherwise", lambda own, earlier: np.zeros(len(own.tags), dtype=bool)),
            ("missed_standing_out", lambda earlier, own, k, among_released: np.zeros(len(earlier.tags), dtype=bool)),
        ],
    )
    def test_are_missed_by_a_broken_method(self, monkeypatch, name, broken):
        monkeypatch.setattr(cross, name, broken)
        assert canaries_of_people(POLICY).share < 1

    @pytest.mark.parametrize("name", ["added_standing_out", "missed_standing_out"])
    def test_are_missed_by_one_that_excepts_rare_lists_of_records(self, monkeypatch, name):
        right = getattr(cross, name)

        def excepting(people, other, k, among_released):
            return right(people, other, k, among_released) & (np.bincount(people.classes)[people.classes] >= k)

        monkeypatch.setattr(cross, name, excepting)
        assert canaries_of_people(POLICY).share < 1

    @pytest.mark.parametrize("name", ["added_standing_out", "missed_standing_out"])
    def test_are_missed_by_one_that_hides_people_behind_others_who_are_not_released(self, monkeypatch, name):
        right = getattr(cross, name)
        monkeypatch.setattr(cross, name, lambda people, other, k, among_released: right(people, other, k, False))
        assert canaries_of_people(POLICY).share < 1

    def test_are_missed_by_one_that_links_only_those_who_are_in_every_release(self, monkeypatch):
        monkeypatch.setattr(cross, "singled_out_together", cross.in_small_joint_class)
        assert canaries_of_people(POLICY).share < 1

    def test_are_missed_by_one_that_reads_one_release_only(self, monkeypatch):
        right = cross.in_small_joint_class
        monkeypatch.setattr(cross, "in_small_joint_class", lambda own, others, *rest: right(own, [own for _ in others], *rest))
        assert canaries_of_people(POLICY).share < 1

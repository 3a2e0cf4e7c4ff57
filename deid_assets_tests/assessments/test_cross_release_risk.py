"""Linked releases as evidence: which earlier ones count, what refuses, and canaries that a broken link does not find."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from deid_assets.assessments import cross_release_risk as cross
from deid_assets.assessments.cross_release_risk import (
    EARLIER,
    LINKED,
    LINKED_LITERAL,
    NEIGHBOR,
    NOT_COMPARED,
    STANDING_OUT,
    WITHDRAWN,
    Earlier,
    Linked,
    canaries_at_the_meet,
    cross_release_refusals,
    earlier_of,
    linked_measurements,
    planted_groups,
    planted_rows,
    release_measurements,
    rows_of,
    why_not_compared,
)
from deid_assets.assessments.earlier_releases import EarlierRelease
from deid_assets.assessments.evidence import Evidence
from deid_assets.assessments.nodes_to_try import all_but_pinned, pinned_node
from deid_assets.errors import RefusedError, ReleaseError
from deid_assets.methods.adversary.two_readings import BothReadings
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.methods.kernel.node_computation import NodeMeasurement
from deid_assets.methods.lattice.candidate_gates import PINNED
from deid_assets.methods.releases import meet
from deid_assets.methods.releases.meet import linked_members
from deid_assets.policy.loading import policy_from
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.scenarios.policies import SMALL, changed

POLICY = policy_from(SMALL)
WORK = SimpleNamespace(stream_key=lambda purpose, number=1: b"0123456789abcdef")


def release(name, tags=(), kept=True, known=True):
    return EarlierRelease(name, np.array(tags, dtype=np.uint64) if known else None, (lambda: None) if kept else None, "member")


OWN = np.array([1, 2, 3], dtype=np.uint64)


class TestEarlierReleases:
    def test_with_common_members_are_linked_and_others_need_not_be(self):
        found = earlier_of(POLICY, [release("a/0001", [3, 4]), release("a/0002", [5]), release("a/0003", [6], kept=False)], OWN)
        assert [one.name for one in found.linked] == ["a/0001"] and found.unknown == () and len(found.every) == 3

    def test_that_may_have_common_members_and_cannot_be_compared_are_unknown(self):
        unknown = [
            release("a/0001", [3], kept=False),
            release("a/0002", known=False),
            release("a/0003", kept=False, known=False),
        ]
        found = earlier_of(POLICY, unknown, OWN)
        assert [one.name for one in found.unknown] == ["a/0001", "a/0002", "a/0003"] and found.linked == ()

    def test_of_other_people_are_believed_where_nothing_contradicts_it(self):
        policy = policy_from(changed(SMALL, releases={"other_people": {"a/0001": "another insurer", "a/0002": "the same"}}))
        found = earlier_of(policy, [release("a/0001", known=False), release("a/0002", [3], kept=False)], OWN)
        assert [one.name for one in found.unknown] == ["a/0002"], "its members are in this release"

    def test_of_others_by_their_identifiers_are_looked_for_by_their_rows(self):
        """Tables of people have no such rows: it is said that they were not compared."""
        policy = policy_from(changed(SMALL, releases={"other_people": {"a/0001": "another insurer, in another country"}}))
        table = replace(release("b/0001", [8], kept=False), kind="flat", person="id")
        found = earlier_of(policy, [release("a/0001", [9]), release("a/0002", [9]), table], OWN)
        assert found.of_others == ("a/0001", "a/0002", "b/0001")
        told = why_not_compared(policy, found)
        assert "another country" in told["a/0001"] and "identifiers are spelled otherwise" in told["b/0001"]
        assert set(told) == {"a/0001", "b/0001"}

    def test_without_rows_cannot_be_read(self):
        with small_store() as store, pytest.raises(ReleaseError, match="a/0001 kept no rows"):
            rows_of([release("a/0001", [3], kept=False)], store.table("own", "tag UBIGINT", []))


def readings(fixed, literal, draws=100_000):
    return BothReadings(NodeMeasurement(fixed, 0, draws), NodeMeasurement(literal, 0, draws))


def measured(*found, earlier=None, number=1):
    earlier = earlier or Earlier((release("a/0001", [3]),))
    return {
        one.name: one
        for one in (*linked_measurements(POLICY, found, "c" * 64, number), *release_measurements(POLICY, earlier, found))
    }


class TestMeasurements:
    def test_the_worst_release_counts_in_each_reading(self):
        found = measured(Linked("a/0001", readings(100, 900)), Linked("all together", readings(800, 200)), Linked("b", None))
        assert found[LINKED].value == 0.008 and found[LINKED_LITERAL].value == 0.009
        assert found[LINKED].threshold == POLICY.risk.max_high_risk_share and found[LINKED].gating
        assert found[LINKED].bound > 0.008 and found[LINKED].passed
        assert not measured(Linked("a/0001", readings(1_600, 0)))[LINKED].passed

    def test_the_neighbor_of_the_worst_release_is_held_to_the_limit_of_one_release(self):
        limit = POLICY.neighbor_attack.given_membership.at_most
        below, above = Estimate(limit * 0.5, 0.0, limit), Estimate(limit * 0.8, 0.0, limit * 1.01)
        found = measured(Linked("a", readings(1, 1), neighbor=below), Linked("b", None))[NEIGHBOR]
        assert (found.value, found.bound, found.threshold, found.passed) == (limit * 0.5, limit, limit, True)
        worst = measured(Linked("a", readings(1, 1), neighbor=below), Linked("b", readings(1, 1), neighbor=above))[NEIGHBOR]
        assert worst.bound == limit * 1.01 and not worst.passed

    def test_nothing_is_at_risk_where_nothing_is_linked(self):
        found = measured(earlier=Earlier())
        nothing = (LINKED, LINKED_LITERAL, NEIGHBOR, EARLIER, NOT_COMPARED, WITHDRAWN)
        assert [found[name].value for name in nothing] == [0] * 6
        assert found[LINKED].sample_size == 0 and all(one.passed for one in found.values() if one.gating)

    def test_a_later_try_is_judged_more_strictly(self):
        one = Linked("a/0001", readings(100, 100))
        assert measured(one, number=2)[LINKED].bound > measured(one)[LINKED].bound

    def test_releases_that_cannot_be_compared_and_members_who_are_missed_do_not_pass(self):
        unknown = Earlier((), (release("a/0001", known=False),))
        assert not measured(earlier=unknown)[NOT_COMPARED].passed
        at_most = POLICY.risk.max_high_risk_share
        assert measured(Linked("a/0001", None, at_most))[WITHDRAWN].passed
        for withdrawn in (at_most * 1.01, float("nan")):
            assert not measured(Linked("a/0001", None, withdrawn))[WITHDRAWN].passed

    def test_the_report_tells_them(self):
        found = measured(Linked("a/0001", readings(100, 900)))
        table = cross.report_table({name: one.to_json() for name, one in found.items()})
        assert len(table.rows) == len(found)


def evidence(*found):
    return [Evidence(cross.NAME, "2024", "p" * 64, "a" * 64, "1", tuple(found), 1)]


class TestGate:
    def refusals(self, found, releases):
        return {one.rule: one for one in cross_release_refusals(POLICY, evidence(*found.values()), releases, OWN)}

    def test_nothing_is_refused_that_was_measured_and_passed(self):
        assert self.refusals(measured(Linked("a/0001", readings(10, 10))), [release("a/0001", [3])]) == {}

    def test_a_release_made_since_refuses(self):
        found = self.refusals(measured(), [release("a/0001", [3]), release("a/0002", [9])])
        assert "run the whole job again" in found["released_meanwhile"].text
        assert "released_meanwhile" in {one.rule for one in cross_release_refusals(POLICY, [], [release("a/0001", [3])], OWN)}

    def test_the_same_release_made_again_may_be_younger_than_the_measurement_but_no_other(self):
        own, other = release("a/0001", [3]), release("a/0002", [3])
        before = measured(earlier=Earlier())
        assert cross_release_refusals(POLICY, evidence(*before.values()), [own], OWN, same="a/0001") == []
        for releases, same in (([own], "a/0002"), ([own, other], "a/0001")):
            found = cross_release_refusals(POLICY, evidence(*before.values()), releases, OWN, same)
            assert [one.rule for one in found] == ["released_meanwhile"]

    @pytest.mark.parametrize(
        ("one", "says"),
        [(release("a/0001", known=False), "releases.other_people"), (release("a/0001", [3], kept=False), "kept no rows")],
    )
    def test_what_cannot_be_compared_is_named_with_what_to_do(self, one, says):
        found = self.refusals(measured(), [one])["not_comparable"]
        assert found.name == "a/0001" and says in found.text

    def test_a_neighbor_who_succeeds_too_often_names_the_releases_and_what_to_do(self):
        neighbor = Estimate(0.9, 0.8, 1.0)
        found = self.refusals(measured(Linked("a/0001", readings(1, 1), neighbor=neighbor)), [release("a/0001", [3])])
        assert "a/0001" in found["linked_releases"].text and "pinned" in found["linked_releases"].text

    def test_too_much_together_names_the_releases_and_what_to_do(self):
        found = self.refusals(measured(Linked("a/0001", readings(1_600, 0))), [release("a/0001", [3])])
        assert "a/0001" in found["linked_releases"].text and "pinned" in found["linked_releases"].text


class TestCanaries:
    @pytest.mark.parametrize("k", [1, 2, 3, 20])
    def test_are_all_found(self, k):
        assert canaries_at_the_meet(POLICY, k, WORK).share == 1

    def test_are_missed_by_a_neighbor_who_finds_every_record_in_a_class_of_k(self, monkeypatch):
        monkeypatch.setattr(meet.LinkedMembers, "neighbor_success", lambda self, key, trials: np.full(trials, 1 / 20))
        assert canaries_at_the_meet(POLICY, 20, WORK).share < 1

    @pytest.mark.parametrize("of", [(0,), (1,)])
    def test_stand_out_only_under_the_meet(self, of, store):
        rows = [cross.planted_kept_rows(store.file, f"release_{number}", planted_rows(5, number)) for number in of]
        linked = linked_members(rows, 1, "nearest")
        flags = linked.computation(5).measure(linked.node, b"0123456789abcdef", 2_000, keep_flags=True).kept_flags
        assert not flags.any()
        assert sum(group.people for group in planted_groups(5)[:STANDING_OUT]) == STANDING_OUT * 4

    @pytest.mark.parametrize(
        ("name", "broken"),
        [
            ("_values", lambda honest: lambda shown: honest(f"SELECT * FROM ({shown}) WHERE release = 0")),
            ("_members", lambda honest: lambda every, n: honest(every, n).replace("'label': label", "'label': 0")),
            ("_occurrences", lambda honest: lambda *given: honest(*given).replace("max(held)", "min(held)")),
        ],
        ids=["one generalization", "no demographics", "what all releases show"],
    )
    def test_are_missed_by_a_broken_link(self, monkeypatch, name, broken):
        monkeypatch.setattr(meet, name, broken(getattr(meet, name)))
        assert canaries_at_the_meet(POLICY, 20, WORK).share < 1

    def test_nobody_linked_is_nobody_found(self, monkeypatch):
        monkeypatch.setattr(cross, "linked_members", lambda *given: None)
        assert canaries_at_the_meet(POLICY, 20, WORK).share == 0


class TestPinned:
    last = {"age": "20 years", "days_in_hospital": "none or any"}
    pinned = policy_from(changed(SMALL, releases={"generalization": "pinned"}))

    def test_leaves_one_node(self):
        assert pinned_node(self.pinned, self.last) == (1, 1)
        assert all_but_pinned([(0, 1), (1, 1), (2, 0)], (1, 1)) == {(0, 1): PINNED, (2, 0): PINNED}

    def test_nothing_is_pinned_without_the_policy_or_an_earlier_release(self):
        assert pinned_node(self.pinned, None) is None and all_but_pinned([(0, 1)], None) == {}

    @pytest.mark.parametrize("last", [{"age": "20 years"}, last | {"age": "40 years"}, last | {"place": "all"}])
    def test_a_generalization_that_the_policy_no_longer_has_refuses(self, last):
        with pytest.raises(RefusedError, match="no longer has that of its last release"):
            pinned_node(self.pinned, last)


@pytest.mark.parametrize("name", ["heritage/1", "Heritage/0001", "heritage/0001/x"])
def test_releases_are_named_by_policy_and_number(name):
    with pytest.raises(Exception, match="named by its policy and number"):
        policy_from(changed(SMALL, releases={"other_people": {name: "others"}}))

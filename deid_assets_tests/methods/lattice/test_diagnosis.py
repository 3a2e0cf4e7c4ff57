"""Why no node holds, and which changes passed when tried: each row against its definition."""

from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import ATTACK, DEMOGRAPHICS, OtherGates
from deid_assets.methods.lattice.choice import Demands, Judge
from deid_assets.methods.lattice.diagnosis import ALLOWED, COLUMNS, NOT_A_POLICY, NOT_TRIED, Columns, best_change, diagnose
from deid_assets.methods.lattice.members_needed import members_needed
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets_tests.methods.cases import KEY, flat
from deid_assets_tests.methods.lattice.test_members_needed import people

DRAWS, MAX_SHARE = 8_192, 0.01
MEMBERS, RELEASED = 120, 60


def keys(name: str) -> bytes:
    return blake2b(name.encode(), digest_size=16, key=KEY).digest()


WHERE = keys("where the risk is")


def population(unique: int = MEMBERS) -> LongitudinalData:
    """Two demographics and two histories: one of three values, one whose value is the member's own for `unique`."""
    generator = np.random.default_rng(2)
    numbers = np.arange(MEMBERS)
    common = Histories.of([generator.integers(0, 3, 1 + i % 7).tolist() for i in range(MEMBERS)])
    own = Histories.of([[min(i, unique)] for i in range(MEMBERS)])
    targets = np.arange(RELEASED)
    data = LongitudinalData(
        np.stack([numbers % 2, np.zeros(MEMBERS, int)], axis=1), (flat(2), flat(1)),
        (common, own), (Domain((np.arange(3), np.zeros(3, int))), flat(unique + 1)),
        targets, (common.take(targets), own.take(targets)), (np.full(RELEASED, 2), np.ones(RELEASED, int)),
    )  # fmt: skip
    return data


def diagnosis(
    data: LongitudinalData, k: int = 5, suppress_at_most: float = 0.0, extract: bool = False, never: str = "",
    other_gates: OtherGates | None = None, together: dict | None = None, **options
):  # fmt: skip
    computation = NodeComputation(data, [Dimension("common", (), (0,), 2)], k, extract=extract)
    events = data.known[0].counts
    adversary = Adversary(events, 2, "nearest", (events,) * len(data.known))
    demands = Demands(MAX_SHARE, DRAWS, 0.9, suppress_at_most, 0.8)
    columns = Columns(["sex", "constant"], ["common", "own"], together or {})
    judge = Judge(computation, adversary, keys, demands, other_gates)
    return computation, diagnose(judge, columns, DRAWS, never=never, **options)


def gates(data: LongitudinalData, success_at_most: float | None = None, class_size_at_least: int = 2) -> OtherGates:
    """The other gates; with a limit on attack 1 given membership, judged by its estimate."""
    return OtherGates(
        data, (Dimension("common", (), (0,), 2),), data.demographics, data.targets, class_size_at_least, MAX_SHARE,
        success_at_most, 4_096, None, keys("other gates"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def found():
    computation, frame = diagnosis(population())
    assert list(frame.columns) == list(COLUMNS)
    return computation, frame.set_index(["kind", "what"])


def test_at_the_coarsest_node_everyone_is_at_risk_here(found):
    row = found[1].loc[("as it is", "coarsest node")]
    assert (row["share"], row["threshold"], row["against"], row["would_pass"]) == (1.0, MAX_SHARE, NOT_TRIED, False)


def test_dropping_the_one_that_carries_the_risk_would_pass_and_no_other(found):
    without = found[1].loc["without"]
    assert without.index.tolist() == ["sex", "constant", "common", "own"]
    assert without["would_pass"].tolist() == [False, False, False, True]
    assert without["against"].tolist() == ["share at high risk"] * 3 + [""]
    assert without.loc["own", "share"] == without.loc["own", "suppressed"] == 0.0
    assert (found[1]["threshold"] == MAX_SHARE).all()


def test_a_coarser_level_joins_the_coarsest_classes_in_pairs(found):
    coarser = found[1].loc["coarser"]
    assert coarser.index.tolist() == ["own"], "a column of two classes or fewer has no coarser level but none at all"
    assert coarser.loc["own", "share"] == 1.0, "two who share a value are fewer than five"


def test_a_coarser_level_passes_where_pairs_are_large_enough():
    """Every value of `own` is held by three members of the six that its pair has; both sexes hold it."""
    data = population()
    own = Histories.of([[i // 6] for i in range(MEMBERS)])
    size = MEMBERS // 6
    data = replace(
        data, held=(data.held[0], own), known=(data.known[0], own.take(data.targets)),
        history_domains=(data.history_domains[0], flat(size)),
    )  # fmt: skip
    _, frame = diagnosis(data)
    shares = frame.set_index(["kind", "what"])["share"]
    assert shares["as it is", "coarsest node"] == 1.0, "three of a sex hold a value"
    assert shares["coarser", "own"] == 0.0, "six of a sex hold a pair of values"


def test_every_member_counts_under_the_number_of_his_claims(found):
    members = found[1].loc["members with"]
    assert members.index.tolist() == ["1 claim", "2 to 5 claims", "6 to 20 claims"]
    assert (members["share"] == 1.0).all()
    assert not members["would_pass"].any(), "members with many claims are no change of the policy"


def test_how_many_members_are_needed_is_told_where_the_share_at_high_risk_is_too_large():
    computation = people(np.random.default_rng(5), np.full(400, 8))
    adversary = Adversary(computation.data.known[0].counts, 1, "nearest")

    def needed(limit: float, k: int = 20) -> list[str]:
        of_k = NodeComputation(computation.data, computation.dimensions, k)
        judge = Judge(of_k, adversary, keys, Demands(limit, DRAWS, 0.9, 0.0, 0.8))
        frame = diagnose(judge, Columns(["group"], ["own"]), DRAWS)
        return frame.loc[frame["kind"] == "population", "what"].tolist()

    assert needed(0.01) == [str(members_needed(computation, keys, 0, 0.01))]
    assert needed(0.01, k=2) == [], "nothing is at high risk"


def test_the_share_to_suppress_is_that_of_the_members_flagged():
    _, frame = diagnosis(population(unique=10))
    row = frame[frame["kind"] == "suppressing"].iloc[0]
    assert row["suppressed"] == pytest.approx(10 / RELEASED, abs=1 / RELEASED)
    assert row["would_pass"] and not row["against"]


def test_more_suppression_is_offered_at_a_share_at_which_it_was_tried():
    said = []
    diagnosis(population(unique=10), written=lambda change: said.append(change) or "risk: ...")
    (offered,) = [change.suppress_at_most for change in said if change.suppress_at_most]
    assert offered == pytest.approx(0.18), "above the 10 of 60 who must go, in whole per cent"


def test_less_suppression_than_the_policy_allows_is_no_change():
    """ "Suppressing .17" where .19 is allowed: the choice tried that, and was refused by something else."""
    _, frame = diagnosis(population(unique=10), suppress_at_most=0.19)
    row = frame[frame["kind"] == "suppressing"].iloc[0]
    assert (row["against"], row["would_pass"]) == (ALLOWED, False)


def test_where_nearly_everyone_would_go_suppression_does_not_help(found):
    row = found[1].loc[("suppressing", "flagged members")]
    assert (row["against"], row["would_pass"]) == ("share at high risk", False)


class TestEveryGateIsAsked:
    def test_what_lowers_the_risk_and_fails_attack_1_is_not_offered(self):
        """60 released of two sexes: without what is their own, one of 30 or more is found with .033 at most, and more often
        by what the common values tell."""
        data = population()
        _, strict = diagnosis(data, other_gates=gates(data, success_at_most=0.01))
        without = strict.set_index(["kind", "what"]).loc["without"]
        assert without.loc["own", "share"] == 0.0 and without.loc["own", "against"] == ATTACK
        assert not strict["would_pass"].any() and best_change(strict) is None
        _, loose = diagnosis(data, other_gates=gates(data, success_at_most=0.5))
        assert loose.set_index(["kind", "what"]).loc[("without", "own"), "would_pass"]

    def test_demographic_classes_are_those_of_the_columns_left(self):
        """120 members of two sexes: in classes of at least 61 once sex is gone, and only then."""
        data = population()
        _, frame = diagnosis(data, k=2, other_gates=gates(data, class_size_at_least=61))
        row = frame.set_index(["kind", "what"]).loc[("without", "own")]
        assert row["against"] == DEMOGRAPHICS
        passed = frame[frame["would_pass"]]
        assert passed["what"].tolist() == ["sex and own"] or (passed["what"].str.contains("sex").all() and len(passed) == 1)

    def test_suppression_of_the_policy_is_in_force_when_a_change_is_tried(self):
        """Ten of 60 stand alone by `own`; leaving out sex alone passes where so many may be suppressed."""
        data = population(unique=10)
        for at_most, passes in ((0.0, False), (0.19, True)):
            _, frame = diagnosis(data, suppress_at_most=at_most)
            row = frame.set_index(["kind", "what"]).loc[("without", "sex")]
            assert row["would_pass"] == passes
            assert row["suppressed"] == pytest.approx(10 / RELEASED if passes else 0)

    def test_a_gate_that_goes_by_other_facts_stands_against_every_change(self):
        _, frame = diagnosis(population(unique=10), never="what absence discloses")
        assert not frame["would_pass"].any() and (frame["change"] == "").all()
        assert set(frame.loc[frame["kind"].isin(["without", "suppressing"]), "against"]) == {"what absence discloses"}

    def test_what_no_policy_can_say_is_not_offered(self):
        _, frame = diagnosis(population(), written=lambda change: None)
        assert frame.set_index(["kind", "what"]).loc[("without", "own"), "against"] == NOT_A_POLICY
        assert not frame["would_pass"].any()


def test_columns_are_left_out_together_where_none_suffices_alone():
    """Two columns whose values are each member's own: both must go, and one of the claims' is left."""
    data = population()
    numbers = np.arange(MEMBERS)[:, None]
    data = replace(
        data,
        demographics=np.concatenate([numbers, np.zeros_like(numbers)], axis=1),
        demographic_domains=(flat(MEMBERS), flat(1)),
    )
    _, frame = diagnosis(data)
    passed = frame[frame["would_pass"]]
    assert passed["kind"].tolist() == ["without"] and set(passed["what"].iloc[0].split(" and ")) >= {"sex", "own"}
    assert best_change(frame)["what"] == passed["what"].iloc[0]


def test_a_column_that_the_policy_must_have_is_no_step_on_the_way():
    data = population()
    numbers = np.arange(MEMBERS)[:, None]
    data = replace(
        data,
        demographics=np.concatenate([numbers, np.zeros_like(numbers)], axis=1),
        demographic_domains=(flat(MEMBERS), flat(1)),
    )
    _, frame = diagnosis(data, written=lambda change: None if "own" in change.without else "")
    tried = set(frame.loc[frame["kind"] == "without", "what"])
    assert "own" in tried and not any("own" in what for what in tried if " and " in what)
    assert not frame["would_pass"].any()


def test_suppression_is_recommended_before_columns_go():
    frame = diagnosis(population(unique=10))[1]
    assert {"suppressing", "without"} <= set(frame.loc[frame["would_pass"], "kind"])
    assert best_change(frame)["kind"] == "suppressing"


def test_of_an_extract_no_larger_population_is_told():
    _, frame = diagnosis(population().released_only(), extract=True)
    assert "population" not in set(frame["kind"])


def test_shares_are_those_of_the_node_computation(found):
    computation, frame = found
    top = computation.generalization((1,), without_demographics=[0])
    assert frame.loc[("without", "sex"), "share"] == computation.measure(top, WHERE, DRAWS).share

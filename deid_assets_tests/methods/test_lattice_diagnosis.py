"""Why no node holds, and which single changes would: each row against its definition."""

from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest

from deid_assets.methods.lattice_diagnosis import COLUMNS, diagnose
from deid_assets.methods.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.methods.node_computation import NodeComputation
from deid_assets_tests.methods.cases import KEY, flat

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


def diagnosis(data: LongitudinalData, k: int = 5):
    computation = NodeComputation(data, [Dimension("common", (), (0,), 2)], k)
    claims = data.known[0].counts
    names = (["sex", "constant"], ["common", "own"])
    return computation, diagnose(computation, keys, *names, claims, MAX_SHARE, DRAWS)


@pytest.fixture(scope="module")
def found():
    computation, frame = diagnosis(population())
    assert list(frame.columns) == list(COLUMNS)
    return computation, frame.set_index(["kind", "what"])


def test_at_the_coarsest_node_everyone_is_at_risk_here(found):
    row = found[1].loc[("as it is", "coarsest node")]
    assert (row["share"], row["would_pass"]) == (1.0, False)


def test_dropping_the_one_that_carries_the_risk_would_pass_and_no_other(found):
    without = found[1].loc["without"]
    assert without.index.tolist() == ["sex", "constant", "common", "own"]
    assert without["would_pass"].tolist() == [False, False, False, True]
    assert without.loc["own", "share"] == 0.0


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


def test_a_population_m_times_as_large_multiplies_every_class():
    data = population(unique=10)  # ten members stand alone; of the others 110 share a value, 55 of each sex
    computation, frame = diagnosis(data, k=60)
    shares = frame[frame["kind"] == "population"].set_index("what")["share"]
    classes = computation.drawn_classes((1,), WHERE, DRAWS, exemption="once")
    for times in (2, 5, 10):
        expected = float((~classes.exempt & (classes.sizes * times < 60)).mean())
        assert shares[f"{times} times as large"] == expected
    assert shares.is_monotonic_decreasing


def test_the_share_to_suppress_is_that_of_the_members_flagged():
    _, frame = diagnosis(population(unique=10))
    row = frame[frame["kind"] == "suppressing"].iloc[0]
    assert row["share"] == pytest.approx(10 / RELEASED, abs=1 / RELEASED)
    assert row["would_pass"]


def test_where_nearly_everyone_would_go_suppression_does_not_help(found):
    row = found[1].loc[("suppressing", "flagged members")]
    assert row["share"] > 0.2 and not row["would_pass"]


def test_shares_are_those_of_the_node_computation(found):
    computation, frame = found
    top = computation.generalization((1,), without_demographics=[0])
    assert frame.loc[("without", "sex"), "share"] == computation.measure(top, WHERE, DRAWS).share

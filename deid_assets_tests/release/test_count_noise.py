"""The noise of a delivery's public numbers: what it has to do with, and that none goes round the budget."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.errors import CountsError
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.sections.counts import CountNoise
from deid_assets.release.counts.noise import DeliveryNoise, Plan

NOISE = DeliveryNoise(bytes(range(32)), "sha256:one", CountNoise())


def cell(number: int) -> CellName:
    return CellName("table", f"row {number}", "people")


MANY = np.array([NOISE.protect(cell(i), "", 0) for i in range(20_000)])


@pytest.mark.parametrize(("at_most", "expected"), [(0, 0.1585), (1, 0.4515), (2, 0.6827)])
def test_worked_probabilities(at_most, expected):
    assert (np.abs(MANY) <= at_most).mean() == pytest.approx(expected, abs=0.015)


def test_mean_is_0_sd_2_5166_and_a_3_is_negative_with_probability_0808():
    assert MANY.mean() == pytest.approx(0, abs=0.08)
    assert MANY.std() == pytest.approx(2.5166, abs=0.05)
    assert (3 + MANY < 0).mean() == pytest.approx(0.0808, abs=0.008)


def drawn(noise: DeliveryNoise, shape: str = "") -> list[int]:
    return [noise.protect(cell(i), shape, 100) for i in range(60)]


def test_noise_is_a_function_of_secret_delivery_definition_shape_and_mechanism():
    own = drawn(NOISE)
    assert own == drawn(DeliveryNoise(bytes(range(32)), "sha256:one", CountNoise()))
    others = (
        drawn(DeliveryNoise(bytes(32), "sha256:one", CountNoise())),
        drawn(DeliveryNoise(bytes(range(32)), "sha256:two", CountNoise())),
        drawn(NOISE, "another removal"),
        drawn(DeliveryNoise(bytes(range(32)), "sha256:one", CountNoise(mechanism="discrete"))),
    )
    for other in others:
        assert np.corrcoef(own, other)[0, 1] < 0.5 and own != other


def test_two_shapes_over_one_delivery_have_independent_noise():
    one, other = ([NOISE.protect(cell(i), shape, 0) for i in range(5_000)] for shape in ("a policy", "another"))
    assert abs(np.corrcoef(one, other)[0, 1]) < 0.05
    assert np.std(np.subtract(one, other)) == pytest.approx(2.5166 * np.sqrt(2), rel=0.05)


@given(st.integers(0, 10**9), st.integers(0, 50))
def test_the_records_behind_a_cell_do_not_move_its_noise(count, number):
    assert NOISE.protect(cell(number), "", count) - count == NOISE.protect(cell(number), "", 0)


def test_cells_that_count_the_same_people_are_known_whatever_protects_them():
    wider = DeliveryNoise(NOISE.key, NOISE.delivery, CountNoise(sd=5.0, mechanism="discrete"))
    assert wider.same(cell(1), "a") == NOISE.same(cell(1), "a") != NOISE.same(cell(1), "b")
    assert wider.cell(cell(1), "a").draw != NOISE.cell(cell(1), "a").draw


def test_the_key_is_not_shown():
    assert repr(NOISE.key) not in repr(NOISE) and "key" not in repr(NOISE)


@pytest.mark.parametrize("count", [-1, 2.5, True])
def test_only_counts_are_protected(count):
    with pytest.raises(CountsError, match="whole number"):
        NOISE.protect(cell(1), "", count)


@pytest.mark.parametrize(("key", "delivery"), [(b"short", "d"), (bytes(32), "")])
def test_weak_noise_is_refused(key, delivery):
    with pytest.raises(CountsError, match=r"secret|digest"):
        DeliveryNoise(key, delivery, CountNoise()).protect(cell(1), "", 1)


def test_a_plan_draws_nothing_and_only_planned_cells_are_drawn(monkeypatch):
    plan = Plan(NOISE)
    with monkeypatch.context() as patch:
        patch.setattr(DeliveryNoise, "draw", lambda *args: pytest.fail("a number was drawn"))
        assert [plan.note(cell(1), "", 7), plan.note(cell(1), "", 9), plan.note(cell(2), "", 7)] == [0, 0, 0]
    assert [one.name for one in plan.cells] == [cell(1), cell(2)]
    assert plan.protect(cell(1), "", 7) == NOISE.protect(cell(1), "", 7)
    for not_planned in (cell(3), cell(1)):
        with pytest.raises(CountsError, match="not among those whose cost was judged"):
            plan.protect(not_planned, "another shape", 7)

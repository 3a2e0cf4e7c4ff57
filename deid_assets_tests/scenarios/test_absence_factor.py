"""Absence from all releases of a home: a plan says early that its factor cannot pass."""

import re

import pytest

from deid_assets_tests.scenarios.command_line import REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

REMOVAL = {name: value for name, value in SMALL["removal"].items() if name != "absence_posterior_at_most"}


def limited(factor: float, members: int) -> dict:
    """A policy that limits the factor of absence, and not the average posterior."""
    own = REMOVAL | {"absence_factor_at_most": factor, "disappearance_posterior_at_most": 0.3}
    return changed(SMALL, removal=own, sample={"members": members})


@pytest.mark.matrix
def test_a_plan_says_before_any_search_that_too_many_are_released(tmp_path):
    write_policy(tmp_path, limited(1.1, members=1_500))
    asked = ("--policy", tmp_path / "small.yaml", "--members", 3_000, "--release", 1_500)
    code, printed = deid_here(tmp_path / "deid", "plan", *asked)
    said = unwrapped(printed)
    assert code == REFUSED, printed
    assert re.search(r"factor of absence │ [2-9][.]\d+ │ [1-9][.]\d+ │ 1[.]1000 │ cannot pass", said), said
    assert "generalization_lattice" not in said

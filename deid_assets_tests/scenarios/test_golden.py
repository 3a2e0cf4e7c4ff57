"""Releases are what they were: changes of the inside change no released value and no noisy count."""

import pytest

from deid_assets_tests.golden.cases import SMALL_CASES, Case
from deid_assets_tests.golden.digests import made, stored

pytestmark = pytest.mark.matrix
SAME_ON_EVERY_MACHINE = ("exit_code", "files", "counts", "attrition", "verify", "audit")
"""Without exact losses and estimates, whose last digits depend on the processor; the command compares these, too."""


@pytest.mark.parametrize("case", SMALL_CASES, ids=lambda case: case.name)
def test_a_release_is_what_it_was(case: Case):
    found, kept = made(case), stored(case.name)
    assert {part: found.get(part) for part in SAME_ON_EVERY_MACHINE} == {part: kept.get(part) for part in SAME_ON_EVERY_MACHINE}

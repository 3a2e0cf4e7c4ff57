"""Every case of every matrix is as it should be."""

import pytest

from deid_assets_tests.matrices import MATRICES


@pytest.mark.matrix
@pytest.mark.parametrize("name", MATRICES)
def test_every_case_is_as_it_should_be(name, tmp_path):
    matrix = MATRICES[name]
    outcomes = list(matrix.outcomes(tmp_path))
    assert [outcome for outcome in outcomes if not outcome.ok] == []
    assert len({outcome.case for outcome in outcomes}) == len(outcomes) >= matrix.at_least

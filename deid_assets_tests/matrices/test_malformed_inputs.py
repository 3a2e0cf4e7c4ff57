"""A handful of the matrix in every run of the tests."""

import pytest

from deid_assets_tests.matrices.malformed_cases import CASES
from deid_assets_tests.matrices.malformed_inputs import Ground

BY_TITLE = {case.title: case for case in CASES}
HANDFUL = (
    "csv: a link out of the delivery",
    "csv: a pipe",
    "csv: an unknown diagnosis",
    "gzip: a wrong checksum",
    "parquet: damaged pages",
    "duckdb: a view that reads a file of this host",
    "flat: a cut last line",
)


@pytest.fixture(scope="module")
def ground(tmp_path_factory) -> Ground:
    return Ground.prepared(tmp_path_factory.mktemp("malformed"))


@pytest.mark.matrix
@pytest.mark.parametrize("title", HANDFUL)
def test_a_broken_delivery_comes_to_what_it_should(ground, title):
    outcome = ground.tried(BY_TITLE[title])
    assert outcome.ok, f"{outcome.seen} (expected: {outcome.expected})"
    assert not ground.leaked() and not ground.remains()


def test_every_case_has_a_title_of_its_own():
    assert len(BY_TITLE) == len(CASES)

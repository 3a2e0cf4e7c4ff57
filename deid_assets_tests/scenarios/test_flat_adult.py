"""Adult, from its published file to the release at its published optimum."""

import csv
from collections import Counter

import pytest

from deid_assets.errors import PUBLISHED
from deid_assets_tests.golden.cases import adult
from deid_assets_tests.scenarios.command_line import deid_here
from deid_assets_tests.scenarios.pipeline import pipeline_in


@pytest.mark.matrix
def test_adult_is_released_at_the_published_optimum(tmp_path):
    """30,162 records, nine hierarchies as ARX ships them, 12,960 nodes; k = 5, MaxSup 4 %."""
    code, printed = deid_here(tmp_path / "deid", "run", *adult(tmp_path / "policies"))
    assert code == PUBLISHED, printed
    with pipeline_in(tmp_path / "deid", "adult") as pipeline:
        chosen = pipeline.table("adult", "record_lattice").query(
            "SELECT node, loss FROM generalization.record_lattice WHERE chosen"
        )
    assert chosen["node"].tolist() == ["1,0,1,1,3,2,2,0,1"]
    assert chosen["loss"].iloc[0] == pytest.approx(255559.8545573, abs=5e-8)
    with (tmp_path / "deid" / "releases" / "adult" / "0001" / "data" / "Records.csv").open(newline="") as file:
        rows = [tuple(row) for row in csv.reader(file)][1:]
    assert len(rows) >= 0.96 * 30_162 and min(Counter(rows).values()) >= 5

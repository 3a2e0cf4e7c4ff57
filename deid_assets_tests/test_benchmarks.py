"""The tables of README come from `deid_assets_tests.benchmarks`, which reads what commands print."""

import pytest

from deid_assets_tests.benchmarks.__main__ import populations_table


@pytest.mark.matrix
def test_the_table_of_populations_has_a_row_for_each_population(capsys):
    populations_table("heritage_public", [1_500])
    heading, _, row = (line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines())
    assert heading[:3] == ["policy", "members", "released"]
    assert heading[3:7] == [
        "demographic classes (limit 0.0080)",
        "share at high risk (limit 0.0080)",
        "attack given membership (limit 0.0500)",
        "factor of absence (limit 1.2500)",
    ]
    assert row[:3] == ["heritage_public", "1,500", "150"]
    assert all(0 <= float(measured) <= 1 for measured in row[3:6]) and float(row[6]) > 1
    assert "unlikely to pass: share at high risk" in row[7]

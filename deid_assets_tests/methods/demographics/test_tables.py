"""Verdicts and tables in the published form, and printed numbers that cannot be."""

from itertools import product

import numpy as np
import pandas as pd
import pytest

from deid_assets.methods.demographics.attributes import (
    Attribute,
    CohortAttributes,
    age_attribute,
    ethnicity_attribute,
    published_alternatives,
    safe_harbor,
    sex_attribute,
)
from deid_assets.methods.demographics.measures import PUBLISHED, TOTAL, Measure
from deid_assets.methods.demographics.risk import verdicts
from deid_assets_tests.methods.demographics.printed import PrintedPercent, alternatives_table, impossible_risks, reference_table

COHORTS = {"G_DEM": 3616, "R_CAT": 2646, "Y_PAD": 3412, "N_T2D": 3383, "V_QRS": 2983, "N_QRS": 149, "V_T2D": 2015}

TABLE_3 = """
0.117 0.032 0.131 0.011 0.030 0.012 0.191
0 0 0 0 0 0 0
0 0.010 0.009 0 0 0 0
0.117 0.032 0.131 0.010 0.028 0.010 0.191
0 0.076 0.088 0 0 0 0
100.000 87.302 89.918 26.369 36.943 100.000 95.533
"""

TABLE_4 = """
0.84* 0.03 0.04 <0.01 0.02 0.01 0.12
0.27* 0.02 0.03 <0.01 0.01 <0.01 0.05
0.24* 0.01 <0.01 <0.01 <0.01 <0.01 0.02
0.12* 0.01 0.01 <0.01 <0.01 <0.01 0.03
0.01 0.03 <0.01 <0.01 <0.01 <0.01 0.01
0.08* 0 0 0 0 0 0
0.06* 0 0 0 0 0 0
0.06* 0 0 0 0 0 0
0 0 0 0 0 0 0
0 0 0 0 0 0 0
0.52* <0.01 0 0 0 0 0.01*
0.11* 0.01 0 0 0 0 0
0.10* 0 0 0 0 0 0
0.03* 0 0 0 0 0 0
0.02* 0 0 0 0 0 0
0.84* 0.03 0.04 <0.01 0.01 0.01 0.12
0.27* 0.01 0.02 <0.01 0.01 <0.01 0.05
0.24* <0.01 0.01 <0.01 <0.01 <0.01 0.02
0.12* 0.01 0.01 <0.01 <0.01 0 0.02
0.01 <0.01 <0.01 <0.01 <0.01 0 0.01
1.94* 0.04 0 0 0 0 0.05*
0.39* 0.04 0 0 0 0 0
0.36* 0 0 0 0 0 0
0.17* 0 0 0 0 0 0
0.11* 0 0 0 0 0 0
100 93.5* 90.4* 26.5* 36.9 100 95.5
58.3 16.7 10.5 7.87 7.88 4.70 55.1
58.3 16.7 10.5 3.98 7.88 4.70 55.1
48.2 4.61 7.74 4.83 5.06 0 27.9
48.2 4.61 7.68 1.58 4.96 0 27.8
"""


def printed():
    """policy | group | measure | percent, as printed; Safe Harbor first."""
    rows = []
    alternatives = [policy.name for policy in published_alternatives()]
    tables = ((TABLE_3, product(PUBLISHED, ["Safe Harbor"])), (TABLE_4, product(PUBLISHED, alternatives)))
    for text, names in tables:
        for line, (measure, policy) in zip(text.strip().splitlines(), names, strict=True):
            rows += [(policy, cohort, measure.name, percent) for cohort, percent in zip(COHORTS, line.split(), strict=True)]
    return pd.DataFrame(rows, columns=["policy", "group", "measure", "percent"])


POLICIES = (safe_harbor(), *published_alternatives())


def as_risks(table):
    """Printed percentages as risks; what is less than .01 is taken for .005."""
    percent = table["percent"].str.rstrip("*").replace("<0.01", "0.005").astype(float)
    records = table["group"].map(COHORTS)
    risk = percent * records / 100
    return table.assign(percent=percent, risk=risk, records=records, lower=risk, upper=risk, error=0.0)


def lines(table):
    return [" ".join(row) for row in table.to_numpy()]


class TestPublishedTables:
    def test_every_asterisk_of_table_4_follows_from_table_3(self):
        found = alternatives_table(as_risks(printed()))
        assert list(found.columns) == list(COHORTS) and len(found) == 30
        stars = [[cell.endswith("*") for cell in line.split()] for line in lines(found)]
        assert stars == [[cell.endswith("*") for cell in line.split()] for line in TABLE_4.strip().splitlines()]
        assert np.sum(stars) == 26

    def test_numbers_are_shown_as_printed(self):
        table = as_risks(printed())
        table["percent"] = table["percent"].where(table["percent"] != 0.005, 0.004)
        assert lines(alternatives_table(table)) == TABLE_4.strip().splitlines()
        assert lines(reference_table(table)) == TABLE_3.strip().splitlines()

    def test_total_risks_in_patients(self):
        found = as_risks(printed())
        total = found[(found["measure"] == TOTAL.name) & (found["policy"] == "Safe Harbor")]
        assert total["risk"].round(3).tolist() == [4.231, 0.847, 4.470, 0.372, 0.895, 0.018, 3.849]

    def test_70_patients_of_g_dem(self):
        assert f"{100 * 70 / COHORTS['G_DEM']:.2f}" == "1.94"
        ((row,),) = [
            printed().query("policy == 'GenEth' and group == 'G_DEM' and measure == 'non-graduated risk, T = 10'")["percent"]
        ]
        assert row == "1.94*" and PrintedPercent.of(row).holds_a_count(COHORTS["G_DEM"])


def demographics():
    state = Attribute.from_table("geography", pd.DataFrame({"state": ["WI"]}, index=["WI"]))
    return CohortAttributes(age_attribute(), ethnicity_attribute(), state, sex_attribute())


class TestImpossibleRisks:
    def found(self, table):
        rows = impossible_risks(table, COHORTS, POLICIES, PUBLISHED, demographics())
        return set(rows.itertuples(index=False, name=None))

    def test_the_published_tables(self):
        assert self.found(printed()) == {
            ("R_CAT", "10 year-GenEth", "total risk", "10 year"),
            ("R_CAT", "10 year-GenEth", "total risk", "5 year-GenEth"),
            # None but one of the shares of this cohort is a whole number of 3,383 records.
            *(
                ("N_T2D", policy.name, "non-graduated risk, T = 20000", "whole records")
                for policy in POLICIES
                if policy.name != "GenEth"
            ),
        }

    def test_a_part_cannot_exceed_the_whole(self):
        table = printed()
        at_ten = (table["measure"] == "graduated risk, T = 10") & (table["policy"] == "5 year") & (table["group"] == "Y_PAD")
        table.loc[at_ten, "percent"] = "0.05"
        others = {"total risk", "non-graduated risk, T = 10", "graduated risk, T = 20000"}
        assert {(row[1], row[3]) for row in self.found(table) if row[0] == "Y_PAD"} == {("5 year", other) for other in others}


class TestVerdicts:
    table = pd.DataFrame(
        {
            "policy": ["Safe Harbor", "a", "b"],
            "group": "all",
            "measure": "total risk",
            "error": 0.0,
            "risk": [0.1 + 0.2, 0.3, 0.31],
            "upper": [0.4, 0.35, 0.5],
            "percent": [1.0, 1.0, 1.1],
        }
    )

    def test_rounding_errors_are_no_risk(self):
        assert verdicts(self.table)["riskier"].tolist() == [False, False, True]

    def test_upper_bounds_are_compared_with_the_expected_risk_of_the_reference(self):
        assert verdicts(self.table, at_upper_bound=True)["riskier"].tolist() == [False, True, True]

    def test_nothing_is_safe_without_a_reference_or_a_bound(self):
        with pytest.raises(ValueError, match="must be known"):
            verdicts(self.table[1:])
        with pytest.raises(ValueError, match="must be known"):
            verdicts(self.table.assign(upper=np.nan), at_upper_bound=True)

    def test_a_measure_of_another_group_is_no_reference(self):
        with pytest.raises(ValueError, match="must be known"):
            verdicts(pd.concat([self.table, self.table[1:].assign(group="WA")]))


def test_printed_numbers_are_ranges():
    assert PrintedPercent.of("100") == PrintedPercent(100, 100) and PrintedPercent.of("0") == PrintedPercent(0, 0)
    assert PrintedPercent.of("93.5*") == PrintedPercent(93.45, 93.55)
    assert Measure("graduated", 10).name == "graduated risk, T = 10"

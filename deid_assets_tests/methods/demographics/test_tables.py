"""Verdicts and tables in the published form, and printed numbers that cannot be."""

import numpy as np
import pandas as pd
import pytest

from deid_assets.methods.demographics.attributes import (
    Attribute,
    CohortAttributes,
    age_attribute,
    ethnicity_attribute,
    sex_attribute,
)
from deid_assets.methods.demographics.measures import PUBLISHED, TOTAL, Measure
from deid_assets.methods.demographics.policies import published_alternatives, safe_harbor
from deid_assets.methods.demographics.risk import verdicts
from deid_assets_tests.methods.demographics.printed import PrintedPercent, alternatives_table, impossible_risks, reference_table
from deid_assets_tests.methods.demographics.published_tables import COHORTS, TABLE_3, TABLE_4, printed

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

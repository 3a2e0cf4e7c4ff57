"""The risk of a cohort finds its canaries whatever the policy publishes; one that is broken does not."""

from collections.abc import Iterator

import numpy as np
import pytest

from deid_assets.assessments import cohort_demographics, cohort_risk
from deid_assets.assessments.cohort_risk import measured_risk, people_of_canaries
from deid_assets.methods.canaries.planting import Findings
from deid_assets.methods.demographics.risk import Risks
from deid_assets.policy.loading import policy_from
from deid_assets.schemas import contracts_of
from deid_assets.store.tables import connect
from deid_assets_tests.methods.small_tables import SmallStore, small_store
from deid_assets_tests.policy.cohort_values import cohort_values

pytestmark = pytest.mark.matrix

TYPES = {"string": "VARCHAR", "int64": "BIGINT", "date": "DATE"}
TABLES = ("cohort_people", "population_cells", "release_people")
DATE = {"column": "admitted", "first": "2008-01-01", "last": "2008-12-31", "dated": 0.1}
BY_ZIP = {
    "columns__place": {"state": "state", "zip": "zip", "county": "county"},
    "demographics": {"levels": {"age": "10 years, 90+", "ethnicity": "AA/WH/OT", "geography": "zip3", "sex": "sex"}},
}
COARSE = {"demographics": {"levels": {"age": "5 years", "ethnicity": "withheld", "geography": "region", "sex": "withheld"}}}
OLD_AGES = {"demographics": {"policy": "10_year", "old_ages": {"by": "state", "levels": ["1 year", "1 year, 90+"]}}}


@pytest.fixture(scope="module")
def store() -> Iterator[SmallStore]:
    with small_store() as store, connect(store.file):
        yield store


def found(store: SmallStore, **changes) -> Findings:
    policy = policy_from(cohort_values(**changes))
    contracts = contracts_of(policy)
    like = {
        name: store.table(name, ", ".join(f'"{c}" {TYPES[str(one.dtype)]}' for c, one in contracts[name].columns.items()), [])
        for name in TABLES
    }
    return people_of_canaries(policy, like, lambda policy, tables: measured_risk(policy, *(tables[n] for n in READ)))


READ = ("release_people", "cohort_people", "population_cells")


@pytest.mark.parametrize(
    ("changes", "attributes"),
    [
        ({}, 4),
        ({"columns__race": None}, 3),
        ({"demographics__policy": "10_year_gen_eth"}, 4),
        (BY_ZIP, 4),
        (COARSE, 2),
        (OLD_AGES, 4),
        ({"columns__date": DATE, "demographics__levels": {"date": "month"}}, 4),
        ({"risk": {"measures": ["total", "graduated", "non-graduated", "largest"], "thresholds": [1, 10], "exponent": 2.0}}, 4),
    ],
)
def test_a_person_in_a_class_of_one_or_two_is_found_by_each_attribute_that_is_told(store, changes, attributes):
    assert found(store, **changes) == Findings(4 * 2 * attributes, 4 * 2 * attributes)


def test_without_a_comparison_the_largest_risk_is_found(store):
    assert found(store, risk={"no_riskier_than": None, "largest_at_most": 0.1}) == Findings(16, 16)


class TestBrokenMeasures:
    def test_classes_that_ignore_an_attribute(self, store, monkeypatch):
        def blind(policy, cells, shown):
            return np.where(np.arange(cells.codes.shape[1]) == 3, 0, cells.codes)

        monkeypatch.setattr(cohort_demographics, "codes_of_labels", blind)
        assert found(store).share < 1

    def test_risks_that_are_always_none(self, store, monkeypatch):
        nothing = Risks(*[np.zeros((1, 2))] * 4)
        monkeypatch.setattr(cohort_risk, "bounded_risks", lambda *args: nothing)
        assert found(store).share < 1

    def test_a_reference_that_is_far_too_risky(self, store, monkeypatch):
        monkeypatch.setattr(cohort_risk, "risks_at", lambda classes, measures, groups: np.full((len(measures), groups), 1e9))
        assert found(store).share < 1

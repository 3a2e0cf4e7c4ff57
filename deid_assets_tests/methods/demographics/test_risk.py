"""Risk of policies against an oracle, by hand, and never higher for a coarser policy."""

import datetime
from itertools import product

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binom

from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import (
    CENSUS_RACES,
    Attribute,
    CohortAttributes,
    DemographicPolicy,
    age_attribute,
    birthday_attribute,
    date_attribute,
    ethnicity_attribute,
    policy_at,
    published_alternatives,
    safe_harbor,
    sex_attribute,
)
from deid_assets.methods.demographics.class_sizes import ClassCounter, Classes
from deid_assets.methods.demographics.measures import LARGEST, TOTAL, UNIQUES, Measure
from deid_assets.methods.demographics.population import EVENLY, cells_of, population_of
from deid_assets.methods.demographics.risk import (
    bounded_risks,
    groups_by,
    influence_of_exponent,
    left_out,
    no_riskier,
    quick_bounds,
    risks_at,
    risks_of_policies,
    verdicts,
)
from deid_assets.methods.demographics.spread import LEFT_OUT, ClassSizes, expected
from deid_assets_tests import examples
from deid_assets_tests.methods.demographics.small_population import oracle_risks, small_cells

MEASURES = (TOTAL, UNIQUES, LARGEST, Measure("graduated", 3), Measure("non-graduated", 4), Measure("total", exponent=2.5))


@st.composite
def cells_and_nodes(draw, nodes):
    cells, cohort, table = draw(small_cells(dated=draw(st.booleans())))
    picked = [tuple(draw(st.integers(0, size - 1)) for size in cells.demographics.shape) for _ in range(nodes)]
    return cells, cohort, table, picked


@settings(deadline=None, max_examples=examples.of(25))
@given(cells_and_nodes(nodes=1))
def test_risks_are_those_of_one_record_and_one_person_at_a_time(drawn):
    cells, cohort, table, (node,) = drawn
    ours = risks_at(ClassCounter(cells).at(node), MEASURES, 1)[:, 0]
    theirs = oracle_risks(cohort, table, cells.demographics, node, MEASURES)
    assert ours == pytest.approx(theirs, rel=1e-9, abs=1e-14)


@settings(deadline=None, max_examples=examples.of(25))
@given(cells_and_nodes(nodes=1), st.booleans())
def test_no_measure_rises_with_a_coarser_policy(drawn, mean_size):
    cells, _, _, (node,) = drawn
    counter = ClassCounter(cells, groups_by(cells, "geography", "state")[0])
    groups = counter.number_of_groups
    fine = risks_at(counter.at(node), MEASURES, groups, mean_size)
    for axis, attribute in enumerate(cells.demographics.attributes):
        for level in np.flatnonzero(attribute.refines[node[axis]]):
            coarse = risks_at(counter.at((*node[:axis], int(level), *node[axis + 1 :])), MEASURES, groups, mean_size)
            assert np.all(no_riskier(coarse, fine))


@settings(deadline=None, max_examples=examples.of(25))
@given(cells_and_nodes(nodes=1))
def test_quick_bounds_enclose_the_expected_risk(drawn):
    cells, _, _, (node,) = drawn
    counter = ClassCounter(cells, groups_by(cells, "ethnicity", "any")[0])
    classes, groups = counter.at(node), counter.number_of_groups
    lower, upper = quick_bounds(classes, MEASURES, groups)
    risks = risks_at(classes, MEASURES, groups)
    assert np.all(no_riskier(lower, risks)) and np.all(no_riskier(risks, upper))


@settings(deadline=None, max_examples=examples.of(25))
@given(cells_and_nodes(nodes=1))
def test_groups_add_up_and_bounds_enclose(drawn):
    cells, _, _, (node,) = drawn
    groups, labels = groups_by(cells, "geography", "state")
    parts = bounded_risks(ClassCounter(cells, groups).at(node), MEASURES, len(labels), 0.9)
    whole = bounded_risks(ClassCounter(cells).at(node), MEASURES, 1, 0.9)
    for number, measure in enumerate(MEASURES):
        together = parts.expected[number].sum() if measure.sums else parts.expected[number].max()
        assert together == pytest.approx(whole.expected[number, 0])
    for risks in (parts, whole):
        assert np.all(no_riskier(risks.lower, risks.expected)) and np.all(no_riskier(risks.expected, risks.upper))


AT_101 = sum(binom.pmf(others, 10, 1 / 5) / (2 + others) for others in range(11))


def cohort_of_wa():
    """A cohort of Washington with classes of known sizes, and its table: the sizes below, 50 elsewhere."""
    demographics = CohortAttributes(
        age_attribute(),
        ethnicity_attribute(),
        Attribute.from_table("geography", pd.DataFrame({"state": ["WA", "WI"]}, index=["WA", "WI"])),
        sex_attribute(),
    )
    spans = [*((age, age) for age in range(100)), (100, 104), (105, 109), (110, None)]
    rows = [(*group, *span, 50) for group in product(("WA", "WI"), ("F", "M"), CENSUS_RACES) for span in spans]
    table = pd.DataFrame(rows, columns=["geography", "sex", "ethnicity", "youngest", "oldest", "people"])
    sizes = table.set_index(["geography", "sex", "ethnicity", "youngest"])["people"].sort_index()
    sizes.loc[("WA", "F", "black")] = 0
    for age, people in ((30, 4), (31, 6), (91, 1), (95, 7), (100, 12)):
        sizes["WA", "F", "black", age] = people
    table = table.drop(columns="people").merge(sizes.reset_index())
    person = {"ethnicity": "black", "geography": "WA", "sex": "F"}
    cohort = pd.DataFrame([person | {"age": age} for age in (30, 30, 31, 91, 95, 101, 101)])
    return cells_of(cohort, population_of(table, demographics, EVENLY))


class TestByHand:
    cells = cohort_of_wa()

    def risk(self, policy, measure):
        (found,) = risks_of_policies(self.cells, [policy], [measure])["risk"]
        return pytest.approx(found)

    def test_safe_harbor_has_one_class_from_90_on(self):
        # Ages 30 and 31 are classes of 4 and 6; 1 + 7 + 12 people are 90 or over.
        assert self.risk(safe_harbor(), TOTAL) == 2 / 4 + 1 / 6 + 4 / 20
        assert self.risk(safe_harbor(), Measure("graduated", 6)) == 2 / 4 + 1 / 6
        assert self.risk(safe_harbor(), Measure("graduated", 5)) == 2 / 4
        assert self.risk(safe_harbor(), Measure("non-graduated", 20)) == 7
        assert self.risk(safe_harbor(), UNIQUES) == 0
        assert self.risk(safe_harbor(), LARGEST) == 1 / 4
        assert self.risk(safe_harbor(), Measure("total", exponent=2)) == 2 / 16 + 1 / 36 + 4 / 400

    def test_the_alternatives(self):
        by_name = {policy.name: policy for policy in published_alternatives()}
        # Five known people apart, of 12 over five ages two are known to be 101.
        assert self.risk(by_name["GenEth"], TOTAL) == 2 / 4 + 1 / 6 + 1 + 1 / 7 + 2 * AT_101
        assert self.risk(by_name["5 year"], TOTAL) == 3 / 10 + 1 + 1 / 7 + 2 / 12
        assert self.risk(by_name["10 year"], TOTAL) == 3 / 10 + 2 / 8 + 2 / 12
        assert self.risk(by_name["5 year"], UNIQUES) == 1

    def test_malins_plug_in(self):
        found = risks_of_policies(self.cells, published_alternatives()[:1], [TOTAL], mean_size=True)
        assert found["risk"].tolist() == pytest.approx([2 / 4 + 1 / 6 + 1 + 1 / 7 + 2 * 0.25])
        assert found[["lower", "upper"]].isna().all(axis=None)

    def test_per_cent_and_groups(self):
        found = risks_of_policies(self.cells, [safe_harbor()], [TOTAL, LARGEST], by=("geography", "state"))
        assert found["group"].tolist() == ["all", "all", "WA", "WA"]
        assert found["records"].tolist() == [7] * 4
        share = (2 / 4 + 1 / 6 + 4 / 20) / 7
        assert found["percent"].tolist() == pytest.approx([100 * share, 25, 100 * share, 25])
        # Safe Harbor needs no spread: its bounds are the risk itself.
        assert found["upper"].tolist() == pytest.approx(found["risk"].tolist())

    def test_the_influence_of_the_exponent(self):
        found = influence_of_exponent(self.cells, [safe_harbor()], [1e-9, 1, 2, 60])
        assert found["Safe Harbor"].tolist() == pytest.approx(
            [100, 100 * (2 / 4 + 1 / 6 + 0.2) / 7, 100 * (2 / 16 + 1 / 36 + 0.01) / 7, 0], abs=1e-6
        )


def dated_cells(cohort):
    """41 people of each age, sex and race; the cohort has a day of birth and admissions of 2007 and 2008."""
    demographics = CohortAttributes(
        age_attribute(oldest=1, widths=(1,), tops=(None,)),
        ethnicity_attribute(withheld=True),
        Attribute.from_table("geography", pd.DataFrame({"state": ["WA"]}, index=["WA"])),
        sex_attribute(withheld=True),
        (birthday_attribute(), date_attribute("admission", datetime.date(2007, 1, 1), datetime.date(2008, 12, 31), dated=0.1)),
    )
    rows = [("WA", sex, race, age, age, 41) for sex in ("F", "M") for race in CENSUS_RACES for age in (0, 1)]
    table = pd.DataFrame(rows, columns=["geography", "sex", "ethnicity", "youngest", "oldest", "people"])
    person = {"age": 0, "ethnicity": "white", "geography": "WA", "sex": "F"}
    return cells_of(pd.DataFrame([person | own for own in cohort]), population_of(table, demographics, EVENLY))


def dated_policies(*levels):
    plain = {"age": "1 year", "ethnicity": "any", "geography": "state", "sex": "sex"}
    return [
        DemographicPolicy.of(f"{birthday}, {admission}", plain | {"birthday": birthday, "admission": admission})
        for birthday, admission in levels
    ]


class TestDates:
    def risks(self, cohort, *levels):
        return risks_of_policies(dated_cells(cohort), dated_policies(*levels), [TOTAL])["risk"].tolist()

    def test_the_rest_of_the_population_is_spread_over_the_days(self):
        def alike(share):  # E[1 / (1 + Binomial(40, share))]
            return (1 - (1 - share) ** 41) / (41 * share)

        one = [{"birthday": "02-29", "admission": pd.Timestamp(2008, 2, 3)}]
        admissions = [("year", "day"), ("year", "month"), ("year", "quarter"), ("year", "year")]
        expected = [alike(0.1 / 731), alike(2.9 / 731), alike(9.1 / 731), 1 / 41]
        assert self.risks(one, *admissions) == pytest.approx(expected)
        births = [("day", "year"), ("month", "month")]
        assert self.risks(one, *births) == pytest.approx([alike(1 / 1461), alike(2.9 / 731 * 113 / 1461)])

    def test_years_distinguish_nobody_outside_the_cohort(self):
        two = [{"birthday": "05-05", "admission": pd.Timestamp(year, 3, 3)} for year in (2007, 2008)]
        withheld, year, month = self.risks(two, ("year", "withheld"), ("year", "year"), ("year", "month"))
        share = 3.1 / 731
        # Of each of the two, 39 others are unknown: the other one was admitted in another year.
        assert (withheld, year) == pytest.approx((2 / 41, 2 / 40))
        assert month == pytest.approx(2 * (1 - (1 - share) ** 40) / (40 * share))

    def test_who_has_no_date_is_among_those_of_the_population_without_one(self):
        missing = [{"birthday": "05-05", "admission": pd.NaT}]
        alike = (1 - 0.1**41) / (41 * 0.9)
        levels = [("year", "day"), ("year", "quarter"), ("year", "year"), ("year", "withheld")]
        assert self.risks(missing, *levels) == pytest.approx([alike, alike, 1 / 41, 1 / 41])

    def test_safe_harbor_with_dates_is_as_risky_as_without_them(self):
        assert safe_harbor(admission="year", birthday="year").levels["admission"] == "year"
        cohort = [{"birthday": "05-05", "admission": pd.Timestamp(2008, 3, day)} for day in range(1, 20)]
        assert self.risks(cohort, ("year", "year")) == pytest.approx([19 / 41])


FEW = Measure("graduated", 10)


def test_sums_leave_out_no_more_than_is_said():
    sizes = ClassSizes(np.array([1, 11, 3]), np.array([[10_000, 10_000, 0]]), np.array([[0.01, 0.01, 0.0]]))
    every, nobody = np.arange(3), np.zeros(3, dtype=np.int64)
    classes = Classes(sizes, every, every, nobody + 100)
    errors = left_out(classes, [FEW, LARGEST], 3)
    assert errors[0].tolist() == [100 * LEFT_OUT, 0, 0], "without random people, or with too many, nothing is left out"
    assert errors[1].tolist() == [LEFT_OUT, LEFT_OUT / 11, 0]
    assert 0 < expected(sizes, [FEW])[0][0, 0] < LEFT_OUT


@pytest.mark.parametrize(("of_reference", "risk", "riskier"), [(0, 5.34e-19, False), (0, 1e-12, True), (1e-12, 1e-12, False)])
def test_a_verdict_is_not_decided_by_what_sums_leave_out(of_reference, risk, riskier):
    rows = [(name, "all", FEW.name, 100, own, own, own, 1e-14) for name, own in (("SH", of_reference), ("5", risk))]
    risks = pd.DataFrame(rows, columns=["policy", "group", "measure", "records", "risk", "lower", "upper", "error"])
    for at_upper_bound in (False, True):
        found = verdicts(risks, "SH", at_upper_bound).set_index("policy")["riskier"]
        assert found.to_dict() == {"SH": False, "5": riskier}


def test_a_risk_within_its_error_is_shown_as_none():
    """Ages of 100,000 people are known in bands of 100 years: a year has about 1,000 of them, and hardly ever ten."""
    people = pd.DataFrame(
        [("WA", sex, *band, 100_000) for sex in "FM" for band in ((0, 99), (100, 119))],
        columns=["geography", "sex", "youngest", "oldest", "people"],
    ).assign(ethnicity="white")
    state = Attribute.from_table("geography", pd.DataFrame({"state": ["WA"]}, index=["WA"]))
    attributes = CohortAttributes(age_attribute(), ethnicity_attribute(races=["white"]), state, sex_attribute())
    cohort = pd.DataFrame({"age": [40, 41], "ethnicity": "white", "geography": "WA", "sex": "F"})
    found = risks_of_policies(cells_of(cohort, population_of(people, attributes, EVENLY)), published_alternatives(), [FEW])
    assert found["risk"].eq(0).all() and found["percent"].eq(0).all() and (found["error"] > 0).any()


def test_bounds_hold_as_often_as_they_say():
    """Populations drawn as the model says: the bound fails in at most 10 % of them, errors of 400 draws aside."""
    cells = cohort_of_wa()
    policy = DemographicPolicy.of("", {"age": "1 year", "ethnicity": "any", "geography": "state", "sex": "sex"})
    risks = bounded_risks(ClassCounter(cells).at(policy.node(cells.demographics)), [TOTAL], 1, 0.9)
    drawn = np.random.default_rng(5).binomial(10, 1 / 5, 400)
    true = 2 / 4 + 1 / 6 + 1 + 1 / 7 + 2 / (2 + drawn)
    assert np.mean(true > risks.upper[0, 0]) < 0.15 and np.mean(true < risks.lower[0, 0]) < 0.15
    assert risks.upper[0, 0] <= 2 / 4 + 1 / 6 + 1 + 1 / 7 + 1 and risks.lower[0, 0] >= 2 / 4 + 1 / 6 + 1 + 1 / 7 + 2 / 12


def test_policies_must_fit_the_cohort():
    demographics = cohort_of_wa().demographics
    with pytest.raises(PolicyError, match="policy Safe Harbor: the cohort has no admission"):
        safe_harbor(admission="year").node(demographics)
    with pytest.raises(PolicyError, match="policy P: choose a level of geography, sex"):
        DemographicPolicy.of("P", {"age": "1 year", "ethnicity": "any"}).node(demographics)
    with pytest.raises(PolicyError, match="geography has no level 'zip3'"):
        safe_harbor("zip3").node(demographics)
    assert policy_at(safe_harbor().node(demographics), demographics).levels == safe_harbor().levels

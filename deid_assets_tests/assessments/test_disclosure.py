"""What the disclosure assets add to their methods: the order of labels, and adversaries who count twice."""

from collections import defaultdict

import numpy as np
import pandas as pd
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deid_assets.assessments.attribute_disclosure import disclosed, ordered_ranks
from deid_assets.assessments.demographic_risk import DEMOGRAPHIC
from deid_assets.assessments.membership_disclosure import gains_knowing_claims
from deid_assets.assessments.planting import plant, planted_store
from deid_assets.assessments.population_estimates import SMALL_CLASSES, UNIQUES, estimates
from deid_assets.errors import PolicyError
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData
from deid_assets.policy.loading import policy_by_name
from deid_assets.store.tables import connect
from deid_assets_tests import examples
from deid_assets_tests.assessments.planted_layouts import Canaries
from deid_assets_tests.methods.small_tables import small_store
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

KEY = b"0123456789abcdef"


def counts(values, numbers) -> pd.DataFrame:
    return pd.DataFrame({"value": pd.array(values, dtype="str"), "number": pd.array(numbers, dtype="float64")})


def test_labels_are_in_the_order_of_their_numbers_and_missing_comes_first():
    found = ordered_ranks(counts(["10+", "2-9", None, "0", "2-9", None], [10, 2, None, 0, 2, None]), "days")
    assert found.tolist() == [3, 2, 0, 1, 2, 0]


def test_without_missing_values_the_least_is_0():
    assert ordered_ranks(counts(["b 2", "a 1"], [2, 1]), "days").tolist() == [1, 0]


def test_one_value_alone_needs_no_number():
    assert ordered_ranks(counts(["any", None, "any"], [None, None, None]), "days").tolist() == [1, 0, 1]


def test_a_value_without_a_number_has_no_place_and_is_not_shown():
    with pytest.raises(PolicyError, match="column days: 1 of its values do not begin with a number") as refused:
        ordered_ranks(counts(["QZVALUE", "1", "QZVALUE"], [None, 1, None]), "days")
    assert "QZVALUE" not in str(refused.value)


def test_uniques_that_a_sample_hides_are_refused_where_they_are_counted(tmp_path):
    """Of 300 unique members among 200,300 a tenth is drawn, and the estimate is a sixth of the truth or less."""
    limit = changed(SMALL, population_estimates={"unique_share_at_most": 0.0008, "small_class_share_at_most": 0.0008})
    policy = write_policy(tmp_path, limit)
    classes = np.r_[np.ones(300, int), np.full(500, 400)]
    drawn = np.random.default_rng(0).choice(np.repeat(np.arange(len(classes)), classes), 20_030, replace=False)
    sizes = {"population_size": classes, "released_size": np.bincount(drawn, minlength=len(classes))}
    found = {one.name: one for one in estimates(policy, sizes, 200_300, 0.1).measurements(policy)}
    assert found[UNIQUES].value == 300 / 200_300 > found["unique_share_rule"].value
    assert found[UNIQUES].gating and not found[UNIQUES].passed
    assert found[SMALL_CLASSES].value >= found[DEMOGRAPHIC].value and not found[SMALL_CLASSES].passed


SEXES, GROUPS = ("F", "M"), ("a", "b", "c")


@pytest.fixture(scope="module")
def layout():
    """Empty tables of a release with several tables of events."""
    with small_store() as store, connect(store.file):
        yield Canaries(store, policy_by_name("omop"))


@given(
    st.lists(
        st.tuples(st.sampled_from(SEXES), st.sampled_from(("0-39", "40+")), st.lists(st.sampled_from((*GROUPS, None)))),
        min_size=1, max_size=12,
    )
)  # fmt: skip
@settings(deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_sensitive_columns_of_people_and_of_other_tables_are_judged_as_by_brute_force(layout, people):
    """Everybody has a visit, too, which has no condition."""
    like = {name: layout.tables[name] for name in ("release_members", "release_claims", "release_days_in_hospital")}
    members = [{"MemberID": n, "Sex": sex, "AgeAtFirstClaim": age} for n, (sex, age, _) in enumerate(people)]
    claims = [{"MemberID": n, "event_table": "claims", "Visit": "any"} for n in range(len(people))]
    claims += [
        {"MemberID": n, "event_table": "conditions", "ConditionGroup": value}
        for n, (_, _, values) in enumerate(people)
        for value in values
    ]
    rows = {"release_members": members, "release_claims": claims, "release_days_in_hospital": []}
    with planted_store() as file:
        tables = {name: plant(file, table, rows[name], name) for name, table in like.items()}
        condition, sex = (disclosed(layout.policy, column, tables) for column in ("condition", "sex"))
    held = [frozenset(filter(None, values)) for _, _, values in people]
    by_class: dict[tuple[str, str], list[frozenset[str]]] = defaultdict(list)
    by_age: dict[str, list[str]] = defaultdict(list)
    for (person_sex, age, _), one in zip(people, held, strict=True):
        by_class[person_sex, age].append(one)
        by_age[age].append(person_sex)
    everybody = frozenset.intersection(*held)
    assert (condition.classes, condition.members) == (len(by_class), len(people))
    alike = [group for group in by_class.values() if frozenset.intersection(*group) - everybody]
    assert condition.homogeneous_members == sum(map(len, alike))
    varies = len(set(held)) > 1
    assert condition.least_distinct == (1 if alike else min(len(set(group)) for group in by_class.values()) if varies else None)
    both = len({one for one, _, _ in people}) > 1
    assert sex.homogeneous_members == (sum(len(one) for one in by_age.values() if len(set(one)) == 1) if both else 0)
    assert sex.least_distinct == (min(len(set(one)) for one in by_age.values()) if both else None)


def population(values: list[int], targets: list[int]) -> tuple[LongitudinalData, list[Dimension]]:
    """One history of one value for each member, which is known."""
    domain = Domain((np.arange(10), np.zeros(10, int)))
    data = LongitudinalData(
        np.zeros((len(values), 0), int), (), (Histories.of([[value] for value in values]),), (domain,), np.array(targets),
        (Histories.of([[values[target]] for target in targets]),), (np.ones(len(targets), int),),
    )  # fmt: skip
    return data, [Dimension("diagnosis", (), (0,), 2)]


@given(st.lists(st.integers(0, 9), min_size=2, max_size=12), st.data())
@settings(max_examples=examples.of(30), deadline=None)
def test_gains_are_those_of_counting_in_the_release_and_in_the_delivery(values, data):
    targets = sorted(data.draw(st.sets(st.integers(0, len(values) - 1), min_size=1, max_size=len(values) - 1)))
    population_data, dimensions = population(values, targets)
    found = gains_knowing_claims(population_data, dimensions, (0,), KEY, 300)
    alpha = len(targets) / len(values)
    possible = set()
    for target in targets:
        f = sum(values[other] == values[target] for other in targets)
        F = values.count(values[target])  # noqa: N806
        possible.add(round(max(0.0, 1 - (F - f) * alpha / (f * (1 - alpha))), 9))
    assert set(found.round(9)) == possible  # 300 draws of at most 11 targets miss one with probability 1e-11


def test_what_is_generalized_away_tells_nothing():
    data, dimensions = population([0, 1, 2, 3, 4, 5], [0, 2])
    assert (gains_knowing_claims(data, dimensions, (0,), KEY, 50) == 1).all()
    assert gains_knowing_claims(data, dimensions, (1,), KEY, 50) == pytest.approx(0)

"""Labels withheld beside columns that are passed on, where demographic classes have levels of their own."""

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from deid_assets.assessments.passed_on_columns import _told, _withheld
from deid_assets.methods.disclosure.attribute_leaks import column_of
from deid_assets.methods.population.value_domains import CLASS, value_domain
from deid_assets.methods.recoding.class_tables import class_domains
from deid_assets.policy.loading import policy_from
from deid_assets_tests.policy.test_recoding import BY_CLASSES
from deid_assets_tests.scenarios.policies import changed

PLACES = ["Home", "Lab", "Office", "Urgent"]
LABELS = [np.array(PLACES, dtype=object), np.array(["Practice", "Hospital", "Practice", "Hospital"], dtype=object),
          np.array(["any"] * 4, dtype=object)]  # fmt: skip
HIERARCHY = {"kind": "codes", "level_names": ["places", "settings", "any"],
             "values": {"Home": ["Practice", "any"], "Lab": ["Hospital", "any"], "Office": ["Practice", "any"],
                        "Urgent": ["Hospital", "any"]}}  # fmt: skip
BY_CLASS = policy_from(changed(BY_CLASSES, hierarchies__place=HIERARCHY))
BY_COLUMN = policy_from(changed(BY_CLASSES, hierarchies__place=HIERARCHY, recoding="by_column"))
CLAIMS, CLASSES, K = 4_000, 6, 20


def domains() -> pd.DataFrame:
    def codes(labels):
        return [pd.factorize(own)[0].astype(np.int32) for own in labels]

    one = [np.array(["x"], dtype=object)]
    others = [value_domain(column, ["x"], one, codes(one), False) for column in BY_CLASS.quasi_identifiers.member_columns]
    return pd.concat([*others, value_domain("place", PLACES, LABELS, codes(LABELS), False)], ignore_index=True)


@pytest.fixture(scope="module")
def claims() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    place, number = rng.integers(0, len(PLACES), CLAIMS), rng.integers(0, CLASSES, CLAIMS)
    return pd.DataFrame({"member_number": np.arange(CLAIMS), "q0": 0, "q1": 0, "q2": 0, "place": place, "class": number})


def told(claims: pd.DataFrame, policy, levels: list[int] | None, level: int, passed: np.ndarray) -> tuple[float, float]:
    """How much a passed-on column tells of the places: the largest fall, and the largest share of certain knowledge."""
    made, codes = domains(), claims["place"]
    if levels is not None:
        made = class_domains(made, pd.DataFrame({CLASS: range(CLASSES), "place": levels}), ["place"])
        codes = claims["place"] * CLASSES + claims["class"]
    tables = SimpleNamespace(domains=SimpleNamespace(frame=lambda: made))
    chosen = {qi.column: 0 for qi in policy.quasi_identifiers.all} | {"place": level}
    withheld = _withheld(policy, tables, chosen, claims.assign(q3=codes))
    fall, sure = _told(column_of(pd.Series(passed)), withheld, K)
    return fall.fall, sure.sure


@pytest.mark.parametrize("level", [1, 2])
@pytest.mark.parametrize("finer", range(3))
def test_equal_levels_tell_what_a_level_for_all_tells(claims, level, finer):
    passed = pd.factorize(LABELS[finer][claims["place"]])[0]
    assert told(claims, BY_CLASS, [level] * CLASSES, 0, passed) == told(claims, BY_COLUMN, None, level, passed)


def test_a_column_that_holds_the_place_is_found_in_the_classes_that_withhold_it(claims):
    fall, sure = told(claims, BY_CLASS, [0, 1, 2, 0, 1, 2], 0, claims["place"].to_numpy())
    assert (fall, sure) == (1.0, 1.0)


def test_nothing_is_withheld_at_the_finest_levels(claims):
    assert told(claims, BY_CLASS, [0] * CLASSES, 0, claims["place"].to_numpy()) == (0.0, 0.0)

"""Ranges of the numbers that decide: no policy loads whose gates could refuse nothing."""

import types
from collections.abc import Iterator
from copy import deepcopy
from typing import Annotated, Any, Union, get_args, get_origin

import pytest
import yaml
from pydantic import BaseModel

from deid_assets.errors import PolicyError
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.loading import SHIPPED as FOLDER
from deid_assets.policy.loading import policy_from, shipped_policies
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.limits import COHORT, FLAT, LONGITUDINAL, NO_LIMIT, NumberRange, limit_problems
from deid_assets_tests.policy.cohort_values import cohort_values
from deid_assets_tests.policy.policy_texts import EVERY_LIMIT, public_values
from deid_assets_tests.scenarios.test_flat_release import FLAT as FLAT_VALUES

SHIPPED = {path.stem: yaml.safe_load(path.read_text(encoding="utf-8")) for path in shipped_policies()}
EVERYTHING = public_values(**EVERY_LIMIT)


def numbers_in(model: type[BaseModel], above: str = "") -> Iterator[str]:
    """The fields of a model that hold numbers, with dots."""
    for name, field in model.model_fields.items():
        waiting: list[Any] = [field.annotation]
        while waiting:
            annotation = waiting.pop()
            while get_origin(annotation) is Annotated:
                annotation = get_args(annotation)[0]
            if get_origin(annotation) in (Union, types.UnionType, tuple):
                waiting += [argument for argument in get_args(annotation) if argument is not Ellipsis]
            elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
                yield from numbers_in(annotation, f"{above}{name}.")
            elif annotation in (int, float):
                yield above + name


def with_value(values: dict, field: str, value: Any) -> dict:
    """The policy with one value replaced; sections on the way that are null or left out are made."""
    made = deepcopy(values)
    *sections, key = field.split(".")
    section = made
    for name in sections:
        section = section.setdefault(name, {}) if section.get(name, {}) is not None else {}
    section[key] = value
    return made


def beyond(limit: NumberRange) -> float:
    """The nearest number outside the range."""
    if limit.most is not None:
        return limit.most + (1 if isinstance(limit.most, int) else 1e-6)
    return int(limit.least) - 1 if isinstance(limit.least, int) else float(limit.least) - 1e-6


def laxest(limit: NumberRange) -> float:
    edge = limit.most if limit.most is not None else limit.least
    return edge if isinstance(edge, int) else float(edge)


def refused(values: dict) -> str:
    with pytest.raises(PolicyError) as caught:
        policy_from(values)
    return str(caught.value)


@pytest.mark.parametrize(("model", "limits"), [(Policy, LONGITUDINAL), (FlatPolicy, FLAT), (CohortPolicy, COHORT)])
def test_every_number_of_a_policy_has_a_range_or_a_reason_to_have_none(model, limits):
    every, ranged = set(numbers_in(model)), {limit.field for limit in limits}
    assert ranged <= every, "ranges of fields that no policy has"
    assert every - ranged <= set(NO_LIMIT), "numbers without a range"
    assert not ranged & set(NO_LIMIT)


@pytest.mark.parametrize("limit", LONGITUDINAL, ids=lambda limit: limit.field)
def test_beyond_the_range_no_policy_loads(limit):
    values = EVERYTHING
    if limit.field.startswith(("dates.", "long_tail.risk")):
        values = with_value(SHIPPED["claims-dates"], "dates.narrower", {"width": 30, "class_size_at_least": 100})
    message = refused(with_value(values, limit.field, beyond(limit)))
    assert limit.field in message and limit.reason in message


@pytest.mark.parametrize("limit", FLAT, ids=lambda limit: limit.field)
def test_beyond_the_range_no_flat_policy_loads(limit):
    assert limit.reason in refused(with_value(FLAT_VALUES, limit.field, beyond(limit)))


@pytest.mark.parametrize("limit", COHORT, ids=lambda limit: limit.field)
def test_beyond_the_range_no_policy_of_a_cohort_loads(limit):
    assert limit.reason in refused(with_value(cohort_values(), limit.field, beyond(limit)))


@pytest.mark.parametrize("name", SHIPPED)
def test_every_shipped_policy_lies_within_its_ranges(name):
    policy = policy_from(SHIPPED[name], FOLDER)
    assert not list(limit_problems(policy))


@pytest.mark.parametrize("threshold", [1 - 1e-10, 0.999999, 0.9, 0.5, 0.34])
def test_a_threshold_by_which_few_hide_each_other_is_refused(threshold):
    assert "thresholds in use run from .05 to .33" in refused(public_values(risk__threshold=threshold))


def test_classes_of_three_are_the_smallest_that_any_policy_may_call_safe():
    assert policy_from(public_values(risk__threshold=1 / 3)).safe_class_size == 3

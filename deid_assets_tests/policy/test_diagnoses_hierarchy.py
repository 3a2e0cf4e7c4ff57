"""Hierarchies of diagnosis codes."""

import itertools

import numpy as np
import pytest
from pydantic import ValidationError

from deid_assets.policy.hierarchies.specs import DiagnosesSpec
from deid_assets.reference import icd10cm

LEVELS = ("code", "category", "block", "chapter", "any")


def hierarchy(system="icd10cm", levels=LEVELS, **others):
    return DiagnosesSpec(kind="diagnoses", system=system, levels=levels, **others).build("diagnosis")


def test_a_code_with_or_without_its_dot_is_one_code():
    found = hierarchy().labels(["E11.9", "e119", "I10"], 0)
    assert found.tolist() == ["E119", "E119", "I10"]


@pytest.mark.parametrize(
    ("system", "levels", "code", "labels"),
    [
        ("icd10cm", LEVELS, "C7A.00", ["C7A00", "C7A", "C7A", "C00-D49 Neoplasms", "*"]),
        ("icd9cm", ("code", "category", "chapter", "any"), "E888.9",
         ["E8889", "E888", "E000-E999 External causes of injury and poisoning", "*"]),
    ],
)  # fmt: skip
def test_levels(system, levels, code, labels):
    found = hierarchy(system, levels)
    assert [found.labels([code], level).tolist()[0] for level in range(len(levels))] == labels


def test_every_code_of_2024_is_covered_and_levels_nest():
    codes = np.array(icd10cm._listed()[1], dtype=object)
    found = hierarchy().rule
    assert found.covers(codes).all()
    columns = [found.labels(codes, level) for level in range(len(LEVELS))]
    for fine, coarse in itertools.pairwise(columns):
        assert len(set(zip(fine, coarse, strict=True))) == len(set(fine)), "each class is within one class of the next level"
    assert [len(set(column)) for column in columns] == [74_044, 1_917, 284, 22, 1]


@pytest.mark.parametrize("value", ["25000", "heart", "E99", "", 7])
def test_what_is_no_code_of_the_system_is_not_covered(value):
    assert not hierarchy().rule.covers(np.array([value], dtype=object)).any()


@pytest.mark.parametrize(
    ("system", "levels", "message"),
    [("icd10cm", ("category", "code"), "levels do not nest"), ("icd9cm", LEVELS, "ICD-9-CM has no list of blocks here")],
)
def test_levels_that_are_none(system, levels, message):
    with pytest.raises(ValidationError, match=message):
        hierarchy(system, levels)


def test_blanks_may_join_everything():
    found = hierarchy(missing_joins="any")
    assert found.missing_joins == (None, None, None, None, "A00")
    with pytest.raises(ValidationError, match="has several classes"):
        hierarchy(missing_joins="chapter")

"""The code tables of the synthetic delivery hold real codes, and draws from them have their shares."""

import csv
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.reference.groups import condition_groups, known_codes, place_groups, specialty_groups
from deid_assets.reference.sensitive import sensitive_codes
from deid_assets.sources.synthetic import claims
from deid_assets.sources.synthetic import tables as synthetic_tables
from deid_assets.sources.synthetic.tables import DrawTable, tables
from deid_assets_tests.public_data import public_data


def test_codes_are_known_and_grouped():
    drawn = tables()
    assert known_codes(drawn.conditions, "diagnosis")["known"].all()
    assert known_codes(drawn.procedures, "procedure")["known"].all()
    assert condition_groups(drawn.conditions)["group"].nunique() == 45
    assert specialty_groups(drawn.specialties[:-1]).iloc[:, 1].notna().all()
    assert place_groups(drawn.places).iloc[:, 1].notna().all()


def test_diagnosis_codes_are_in_the_official_list():
    official = public_data("codes", "CMS30_DESC_LONG_DX.080612.txt")
    codes = {line[:5].strip() for line in official.read_text(encoding="latin-1").splitlines()}
    assert set(tables().conditions) <= codes


def test_only_sensitive_members_are_given_sensitive_codes():
    file = Path(synthetic_tables.__file__).with_name("conditions.csv")
    rows = list(csv.DictReader(file.open(encoding="utf-8")))
    marked = {row["code"] for row in rows if row["use"] == "sensitive"}
    assert marked == set(sensitive_codes([row["code"] for row in rows], "diagnosis")["code"])
    groups = condition_groups([row["code"] for row in rows])["group"]
    assert groups.tolist() == [row["condition_group"] for row in rows]


@given(st.lists(st.integers(0, 20), min_size=1, max_size=8).filter(any), st.integers(4, 10))
def test_a_draw_table_gives_every_outcome_its_share(weights, bits):
    table = DrawTable(np.array([weights, weights[::-1]], dtype=float), bits)
    every_word = np.arange(1 << 16).astype(np.uint16)
    for row, expected in enumerate((weights, weights[::-1])):
        drawn = np.bincount(table.draw(row, every_word), minlength=len(weights)) / (1 << 16)
        assert drawn == pytest.approx(np.array(expected) / sum(weights), abs=1 / (1 << bits))
        assert not drawn[np.array(expected) == 0].any()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 40), st.integers(1, 20)), min_size=1, max_size=12))
def test_stays_of_a_member_do_not_overlap(stays):
    member, admission, days = (np.array(column) for column in zip(*sorted(stays), strict=True))
    kept = claims._without_overlap(member, admission, days)
    assert ((kept >= 1) & (kept <= days)).all()
    for person in set(member):
        begins, ends = admission[member == person], (admission + kept)[member == person]
        assert ((ends[:-1] <= begins[1:]) | (begins[:-1] == begins[1:])).all()

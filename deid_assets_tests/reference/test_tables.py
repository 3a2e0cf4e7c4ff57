"""The CSV files of the code tables, as a person edits them."""

import doctest
import importlib
import pkgutil
from importlib import resources

import pytest

from deid_assets import reference
from deid_assets.reference import icd10cm
from deid_assets.reference.code_ranges import ORIGINS
from deid_assets.reference.tables import read_table

TABLES = sorted(item.name for item in resources.files(reference).iterdir() if item.name.endswith(".csv"))
MODULES = sorted(module.name for module in pkgutil.iter_modules(reference.__path__))


@pytest.mark.parametrize("name", TABLES)
def test_every_row_is_whole_and_no_row_stands_twice(name):
    rows = read_table(name)
    assert rows
    assert all(None not in row and None not in row.values() for row in rows)
    assert len({tuple(row.values()) for row in rows}) == len(rows)


def test_a_row_that_does_not_say_what_it_was_compared_with_is_refused(monkeypatch, tmp_path):
    (tmp_path / "codes.csv").write_text("first,compared\n1,none found\n2, \n", encoding="utf-8")
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    with pytest.raises(ValueError, match="line 3 of codes.csv does not say"):
        read_table("codes.csv")


@pytest.mark.parametrize("name", [name for name in TABLES if "origin" in read_table(name)[0]])
def test_every_row_says_where_it_comes_from(name):
    known = icd10cm.ORIGINS if name == "icd10cm.csv" else ORIGINS
    assert {row["origin"] for row in read_table(name)} <= set(known)


@pytest.mark.parametrize("name", ["condition_groups.csv", "places.csv"])
def test_what_is_not_printed_is_explained(name):
    assert all(row["note"] for row in read_table(name) if row["origin"] != "printed")


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_plain_utf8_without_machine_traces(name):
    text = resources.files(reference).joinpath(name).read_text(encoding="utf-8")
    assert "\r" not in text
    assert "\ufeff" not in text
    assert text.endswith("\n")


@pytest.mark.parametrize("name", MODULES)
def test_the_examples_in_the_docstrings_are_true(name):
    assert doctest.testmod(importlib.import_module(f"{reference.__name__}.{name}")).failed == 0

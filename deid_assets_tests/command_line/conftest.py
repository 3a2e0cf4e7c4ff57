"""`deid demographics`, as its tests call it."""

import json

import pytest

from deid_assets_tests.scenarios.command_line import ERROR, deid_here


@pytest.fixture
def run(tmp_path):
    return lambda *words: deid_here(tmp_path / "home", "demographics", *words)


@pytest.fixture
def document(run):
    def of(*words):
        code, printed = run(*words, "--json")
        found, end = json.JSONDecoder().raw_decode(printed)
        assert found["exit_code"] == code and (code == ERROR or not printed[end:].strip()), "an error is printed as well"
        return found

    return of

"""The decorator of assets, and small tables as metadata."""

import dagster as dg
import pandas as pd
import pytest

from deid_assets.assets.step import _MADE_FROM, Step, asset_metadata, markdown_table, refusals_fail, stage_asset
from deid_assets.errors import PolicyError, RefusedError
from deid_assets.policy.models import Policy
from deid_assets.resources import Keys


@pytest.fixture(autouse=True)
def declared(monkeypatch):
    """What these tests declare under the names of real assets is forgotten after them."""
    for name, made_from in list(_MADE_FROM.items()):
        monkeypatch.setitem(_MADE_FROM, name, made_from)


def test_an_asset_knows_its_stage_and_what_of_the_policy_it_reads():
    @stage_asset(policy_sections=["removal"], version="3", derived_columns={"a": ["claims.b"]})
    def removed_members(step: Step[Policy]) -> str:
        """Whoever is removed."""
        return "SELECT 1"

    (spec,) = removed_members.made(Keys("small"), Policy).specs
    assert spec.metadata["stage"] == "preparation"
    assert spec.metadata["policy_sections"] == ["removal"]
    assert spec.metadata["method_version"] == "3"
    assert spec.metadata["derived_columns"] == {"a": ["claims.b"]}
    assert (spec.description, set(spec.kinds)) == ("Whoever is removed.", {"duckdb"})


def test_an_asset_that_no_stage_lists_cannot_be_made():
    with pytest.raises(KeyError):
        asset_metadata("unheard_of", [], "1")


def test_inputs_are_the_parameters_of_the_function():
    @stage_asset()
    def eligible_members(step: Step[Policy], members: str, claims: str) -> str:
        return members + claims

    assert {key.to_user_string() for key in eligible_members.made(Keys("small"), Policy).dependency_keys} == {
        "small/members",
        "small/claims",
    }


def test_a_refusal_fails_the_step_for_good_and_leaves_no_chain():
    with pytest.raises(dg.Failure, match="refused: no try is left") as found, refusals_fail():
        raise RefusedError("refused: no try is left")
    failure = found.value
    assert failure.allow_retries is False and failure.metadata["refused"].value is True
    assert failure.__context__ is None and failure.__cause__ is None


def test_other_errors_are_no_refusals():
    with pytest.raises(PolicyError), refusals_fail():
        raise PolicyError("a level has no name")


class TestMarkdown:
    def text(self, frame: pd.DataFrame) -> str:
        return markdown_table(frame).md_str

    def test_one_row_per_row(self):
        frame = pd.DataFrame({"gate": ["a", "b"], "measured": [0.0123456, None]})
        assert self.text(frame).splitlines() == ["| gate | measured |", "|---|---|", "| a | 0.01235 |", "| b |  |"]

    def test_text_cannot_break_out_of_its_cell(self):
        assert self.text(pd.DataFrame({"a": ["x | y"]})).splitlines()[2] == "| x \\| y |"

    def test_an_empty_table_has_its_head(self):
        assert self.text(pd.DataFrame({"a": []})) == "| a |\n|---|"

"""Deliveries in layouts that many have, from files to what is refused: nothing but their size and what nobody can read."""

import re
import zipfile
from pathlib import Path

import pytest

from deid_assets.errors import REFUSED
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped

pytestmark = pytest.mark.matrix


def planned(folder: Path, delivery: Path) -> str:
    """What a plan says of a delivery under the policy that is proposed for it, without an edit."""
    policy, home = folder / "ours.yaml", folder / "home"
    new = ("policy", "new", "ours", "--title", "Ours", "--owner", "team:us", "--from", delivery, "--output", policy)
    for command in (new, ("policy", "check", policy)):
        code, printed = deid_here(home, *command)
        assert code == 0, printed
    code, printed = deid_here(home, "plan", "--policy", policy, "--delivery", delivery)
    assert code == REFUSED, printed
    return unwrapped(printed)


def test_a_plan_of_the_omop_sample_names_its_size_and_the_codes_that_nothing_maps_to(tmp_path):
    with zipfile.ZipFile(public_data("omop", "Synthea27NjParquet_5.4.zip")) as packed:
        packed.extractall(tmp_path / "omop")
    said = planned(tmp_path, tmp_path / "omop")
    assert "the delivery has 28 members, of whom about 3 would be released" in said
    assert said.count("cannot pass") == 2 and "cannot apply to this delivery, for 3 reasons" in said
    named = re.findall("at least 0.99 of the codes in ([a-z_]+) known to the product", said)
    assert named == ["condition", "test", "procedure_kind"]
    assert "conditions: 435 of 435 codes in condition_concept_id are unknown (100.00%; 70 different ones)" in said


def test_a_plan_of_the_tuva_sample_names_its_size(tmp_path):
    said = planned(tmp_path, public_data("tuva"))
    assert "the delivery has 10 members, of whom about 1 would be released" in said
    assert "cannot apply" not in said and "not ruled out" not in said and said.count("demographic classes") >= 1

"""Deliveries in layouts that many have, from files to what is refused: nothing but their size and what nobody can read."""

import re
import shutil
import zipfile
from pathlib import Path

import pytest

from deid_assets.errors import PUBLISHED, REFUSED
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import deid_here, unwrapped
from deid_assets_tests.test_docs import DOCS, commands

pytestmark = pytest.mark.matrix


def planned(folder: Path, delivery: Path) -> str:
    """What a plan says of a delivery under the policy that is proposed for it, as it is."""
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
    assert said.count("cannot pass") == 2 and "cannot apply to this delivery, for 6 reasons" in said
    named = re.findall("at least 0.99 of the codes in ([a-z_]+) known to the product", said)
    assert named == ["condition", "cause", "device", "test", "observation", "procedure_kind"]
    assert "conditions: 435 of 435 codes in condition_concept_id are unknown (100.00%; 70 different ones)" in said


def generated(here: Path, layout: str) -> None:
    """A made-up delivery, by the command of the page for fewer people."""
    made = [words for words in commands(DOCS / "layouts.md") if words[0] == "synthetic" and "--results" not in words]
    (own,) = [words for words in made if layout in words]
    few = ["1500" if word == "50000" else word for word in own]
    code, printed = deid_here(here / ".deid", *few)
    assert code == PUBLISHED and "1,500 made-up people were written" in unwrapped(printed), printed


def omop(here: Path) -> None:
    """A generated CDM, in the folder of the page."""
    generated(here, "omop")


def tuva(here: Path) -> None:
    """Generated spans and lines."""
    generated(here, "tuva")


def synthea(here: Path) -> None:
    """The public sample: 12 people, whose conditions nothing here can read."""
    shutil.copytree(public_data("synthea"), here / "in" / "synthea")


UNKNOWN = {
    "omop": set(),
    "tuva": {"drug"},
    "synthea": {"condition", "encounter_kind", "vaccine", "drug", "procedure_kind"},
}
"""Columns whose codes nothing can read until a team writes a table of them."""


@pytest.mark.parametrize("made", [omop, tuva, synthea], ids=lambda made: made.__name__)
def test_the_commands_of_the_page_are_run_as_they_are_printed(made, tmp_path, monkeypatch):
    """A plan for few people may refuse; nothing may be an error. The export is run in a test of its own, on a release."""
    monkeypatch.chdir(tmp_path)
    made(tmp_path)
    (delivery,) = (tmp_path / "in").iterdir()
    policy = f"our_{delivery.name}"
    own = [words for words in commands(DOCS / "layouts.md") if any(policy in word for word in words)]
    own = [words for words in own if words[0] in ("policy", "plan")]
    assert [words[:2] for words in own] == [["policy", "new"], ["policy", "check"], ["plan", "--policy"]]
    for words in own:
        code, printed = deid_here(tmp_path / ".deid", *words)
        assert code in ((PUBLISHED, REFUSED) if words[0] == "plan" else (PUBLISHED,)), printed
    unknown = set(re.findall("at least 0.99 of the codes in ([a-z_]+) known to the product", unwrapped(printed)))
    assert unknown == UNKNOWN[made.__name__], printed


def test_a_plan_of_the_tuva_sample_names_its_size(tmp_path):
    said = planned(tmp_path, public_data("tuva"))
    assert "the delivery has 10 members, of whom about 1 would be released" in said
    assert "cannot apply" not in said and "not ruled out" not in said and said.count("demographic classes") >= 1

"""What `deid run` ends with: 0 published, 2 refused by the gate, 1 error. The published run is in its own module."""

import json
import re

import pytest

from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, REFUSED, deid, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import made_once
from deid_assets_tests.scenarios.policies import write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, good_tables

SEARCHED = re.compile(r"generalization_lattice +[\d,]+ rows")
"""What is printed once the lattice was searched; a live line may name the table before, on a slow machine."""


@pytest.fixture(scope="module")
def refused_run(tmp_path_factory) -> tuple[Home, int, str]:
    """The published method, literally, on far too few members."""
    with made_once(tmp_path_factory, "heritage") as (folder, missing):
        root, said = folder / "deid", folder / "said.json"
        if missing:
            folder.mkdir()
            said.write_text(
                json.dumps(deid(root, "run", "--policy", "heritage", "--members", 3_000, "--release", 300, "--go-on"))
            )
    code, printed = json.loads(said.read_text())
    return Home(root), code, printed


@pytest.mark.matrix
def test_a_refused_run_ends_with_2_and_publishes_nothing(refused_run):
    home, code, printed = refused_run
    assert code == REFUSED, printed
    assert "Nothing was published" in printed
    assert [path.name for path in home.releases.rglob("*") if path.is_file() and path.name != ".lock"] == []


@pytest.mark.matrix
def test_a_refusal_says_which_quasi_identifiers_and_members_carry_the_risk(refused_run):
    _, _, printed = refused_run
    for named in ("age", "sex", "days_in_hospital_y2", "specialty", "procedure_group", "condition_group"):
        # Days in hospital leave with the flag of truncated claims, which holds them.
        assert re.search(rf"without │ {named} (│|and │ .* claims_truncated)", unwrapped(printed)), named
    assert "claims" in printed and "members with" in printed


@pytest.mark.matrix
def test_what_cannot_pass_ends_a_run_before_the_search(tmp_path):
    code, printed = deid_here(tmp_path / "deid", "run", "--policy", "heritage", "--members", 3_000, "--release", 300)
    said = unwrapped(printed)
    assert code == REFUSED and "refused before the search: No generalization of this policy can pass" in said, printed
    assert "use deid run --go-on" in said and not SEARCHED.search(printed)
    assert not [path for path in Home(tmp_path / "deid").releases.rglob("*") if path.is_file() and path.name != ".lock"]


@pytest.mark.matrix
def test_what_cannot_pass_is_said_before_a_search_that_was_asked_for(refused_run):
    """The search finds what would help; the note came before it, and only counts prove anything."""
    _, _, printed = refused_run
    said = unwrapped(printed)
    assert "No generalization of this policy can pass, as class sizes alone show: demographic classes: 0." in said
    assert "is likely to pass, by bounds from draws that are wrong with a probability of 0.001: share at high risk: 0." in said
    assert printed.index("as class sizes alone show") < SEARCHED.search(printed).start()


@pytest.mark.matrix
def test_a_refusal_says_which_changes_would_pass(refused_run):
    """Suppressing nearly everyone is no change that a person could make."""
    _, _, printed = refused_run
    assert "would pass" in printed and "population" in printed
    (line,) = [line for line in printed.splitlines() if "suppressing" in line and "flagged" in line and "│" in line]
    assert "yes" not in line


@pytest.mark.matrix
def test_a_refusal_never_recommends_a_smaller_release(refused_run):
    """1/F does not depend on the release fraction: a smaller release is as risky for each who is in it."""
    _, _, printed = refused_run
    for word in ("fraction", "smaller", "fewer members", "alpha"):
        assert word not in printed


@pytest.mark.matrix
def test_a_policy_from_elsewhere_is_run_at_once(tmp_path):
    """It is adopted to where the UI finds it, and its job is there in the very run that brings it."""
    file = tmp_path / "policies" / "tables.yaml"
    write_policy(file.parent, TABLES)
    delivery = good_tables(tmp_path / "delivery")
    (delivery / "claims.csv").unlink()
    code, printed = deid_here(tmp_path / "deid", "run", "--policy", file, "--delivery", delivery)
    assert (tmp_path / "deid" / "policies" / "tables" / "adopted.json").exists()
    assert "Traceback" not in printed
    assert "claims.csv" in printed and "missing file" in printed
    assert code == ERROR


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("--policy", "heritage-pubic"), "did you mean"),
        (("--delivery", "/nowhere/at/all"), "/nowhere/at/all"),
    ],
)
def test_a_wrong_argument_is_an_error_in_one_paragraph(tmp_path, arguments, named):
    code, printed = deid_here(tmp_path / "deid", "run", *arguments)
    assert code == ERROR and named in printed and "Traceback" not in printed


def test_commands_that_need_no_run_work_in_a_new_home(tmp_path):
    code, printed = deid(tmp_path / "a", "policy", "list")
    assert code == 0 and "heritage_public" in printed, printed
    for expected, arguments in (("240", ("policy", "check", "heritage")), ("BEGIN PUBLIC KEY", ("key", "export"))):
        code, printed = deid_here(tmp_path / arguments[0], *arguments)
        assert code == 0 and expected in printed, printed

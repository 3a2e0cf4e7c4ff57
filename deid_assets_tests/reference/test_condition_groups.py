"""The 45 primary condition groups (methods#codes)."""

import duckdb
import pytest

from deid_assets.reference.code_ranges import COMPLETION
from deid_assets.reference.groups import condition_groups, condition_ranges

NAMED_CONFLICTS = {
    # 786.5x ROAMI, other 786 RESPR4
    "78650": "ROAMI", "78659": "ROAMI", "7862": "RESPR4", "V717": "ROAMI",
    # 428 and 425 CHF, 429.2 HEART4, other 429 CHF
    "4280": "CHF", "4254": "CHF", "4292": "HEART4", "4290": "CHF", "42979": "CHF", "4299": "CHF",
    # 422.92 SEPSIS, else 422 CHF
    "42292": "SEPSIS", "42290": "CHF", "4220": "CHF",
    # 402 and 398.91 CHF, 405.x1 RENAL3, other 392-405 MISCHRT
    "40201": "CHF", "39891": "CHF", "40501": "RENAL3", "40511": "RENAL3", "40591": "RENAL3",
    "40509": "MISCHRT", "39890": "MISCHRT", "4011": "MISCHRT", "4019": "MISCHRT", "390": "MISCHRT",
    # 291, 292, 303-305, 790.3, 796 ODaBNCA; 790.7 SEPSIS
    "2910": "ODaBNCA", "2920": "ODaBNCA", "30300": "ODaBNCA", "3051": "ODaBNCA", "29900": "NEUMENT",
    "7907": "SEPSIS", "7903": "ODaBNCA", "7962": "ODaBNCA", "7950": "MSC2a3", "7948": "MSC2a3",
    "7900": "HEMTOL", "79092": "HEMTOL", "79021": "METAB3", "7906": "METAB3", "7904": "MSC2a3",
    # 733.1x FXDISLC except 733.14 and 733.15 HIPFX
    "73310": "FXDISLC", "73313": "FXDISLC", "73314": "HIPFX", "73315": "HIPFX", "73396": "HIPFX", "73300": "ARTHSPIN",
    # 011, 012.8 PNEUM
    "01100": "PNEUM", "01280": "PNEUM", "01200": "INFEC4",
    # 728.86 SEPSIS, other 728 INFEC4; 711 INFEC4
    "72886": "SEPSIS", "7280": "INFEC4", "72889": "INFEC4", "71100": "INFEC4", "7291": "ARTHSPIN",
    # 780
    "78060": "INFEC4", "78001": "METAB1", "7802": "SEIZURE", "78039": "SEIZURE", "7804": "SEIZURE", "78079": "MISCL5",
    # 745-747 MISCHRT
    "7454": "MISCHRT", "7470": "MISCHRT", "7480": "MISCL5",
    # the 990s
    "99527": "ODaBNCA", "99681": "RENAL2", "99685": "HEMTOL", "99702": "STROKE", "99931": "SEPSIS", "9951": "MISCL1",
    "99661": "HEART2", "99664": "UTI", "99802": "SEPSIS", "99800": "CATAST",
    # 785.59 SEPSIS although other shock would be CATAST
    "78559": "SEPSIS", "78550": "CATAST", "78552": "SEPSIS", "7854": "SEPSIS", "7851": "HEART2", "7856": "MISCL5",
}  # fmt: skip


def group_of(code: str) -> str:
    return condition_groups([code])["group"].iloc[0]


@pytest.mark.parametrize(("code", "group"), NAMED_CONFLICTS.items())
def test_named_conflicts(code, group):
    assert group_of(code) == group


@pytest.mark.parametrize(
    ("code", "group"),
    [
        ("41001", "AMI"), ("4111", "AMI"), ("4275", "CATAST"), ("42731", "HEART2"), ("430", "CATAST"),
        ("44101", "CATAST"), ("4414", "HEART4"), ("43300", "HEART4"), ("43491", "STROKE"), ("27651", "FLaELEC"),
        ("2752", "FLaELEC"), ("2751", "METAB3"), ("25000", "METAB3"), ("25011", "METAB1"), ("24900", "METAB3"),
        ("24921", "METAB1"), ("2510", "METAB1"), ("V580", "CANCRB"), ("V589", "MSC2a3"), ("V420", "RENAL2"),
        ("V427", "MSC2a3"), ("V220", "PRGNCY"), ("V723", "GYNEC1"), ("V710", "NEUMENT"), ("E8889", "MSC2a3"),
        ("20970", "CANCRM"), ("20900", "CANCRB"), ("20960", "ODaBNCA"), ("07030", "LIVERDZ"), ("85201", "CATAST"),
        ("80026", "CATAST"), ("80000", "TRAUMA"), ("9522", "FXDISLC"), ("9072", "FXDISLC"), ("9070", "TRAUMA"),
        ("9053", "HIPFX"), ("9050", "FXDISLC"), ("9058", "TRAUMA"), ("9596", "HIPFX"), ("5272", "SKNAUT"),
        ("78900", "GIBLEED"), ("7921", "GIBLEED"), ("7881", "RENAL3"), ("6160", "INFEC4"), ("6262", "GYNEC1"),
        ("79902", "MSC2a3"), ("7991", "CATAST"), ("33818", "MISCL5"), ("33900", "NEUMENT"),
    ],
)  # fmt: skip
def test_examples_from_every_kind_of_rule(code, group):
    assert group_of(code) == group


def test_dots_and_case_do_not_matter_and_codes_come_back_as_given():
    frame = condition_groups(["v58.0", " 428.0", "428"])
    assert frame["group"].tolist() == ["CANCRB", "CHF", "CHF"]
    assert frame["code"].tolist() == ["v58.0", " 428.0", "428"]


def test_what_is_no_icd9_code_has_no_group():
    assert condition_groups(["", "I509", "Visit", "V", "E", "42", "4280000"])["group"].isna().all()


def test_every_icd9_code_has_a_group_and_every_group_has_codes(icd9_codes):
    groups = condition_groups(icd9_codes)["group"]
    assert groups.notna().all()
    assert set(groups) == {row.group for row in condition_ranges()}
    assert len(set(groups)) == 45


def test_bare_categories_have_a_group_too(icd9_codes):
    categories = sorted({code[: 4 if code.startswith("E") else 3] for code in icd9_codes})
    assert condition_groups(categories)["group"].notna().all()


def test_no_code_is_decided_by_the_order_of_the_rows(icd9_codes):
    """Among the ranges that match a code, exactly one group is best by length, width and origin."""
    by_length: dict[int, list] = {}
    for row in condition_ranges():
        by_length.setdefault(len(row.first), []).append(row)
    for code in icd9_codes:
        for length in sorted(by_length, reverse=True):
            matching = [row for row in by_length[length] if row.first <= code[:length] <= row.last]
            if len(code) >= length and matching:
                best = min(row.rank for row in matching)
                assert len({row.group for row in matching if row.rank == best}) == 1
                break


def test_the_printed_table_alone_leaves_the_43_categories_that_methods_names(icd9_codes):
    frame = condition_groups(icd9_codes, completions=False)
    uncovered = {code[:3] for code in frame.loc[frame["group"].isna(), "code"]}
    expected = {209, 390, 420, 421, 430, 431, 432, 488, 516, 538, 539, 566, 567, 612, 730, 788, 798, 799}
    expected |= set(range(614, 630)) | set(range(678, 687))
    assert uncovered == {str(category) for category in expected}
    assert len(uncovered) == 43


def test_the_printed_table_overlaps_in_33_ways(icd9_codes):
    printed = [row for row in condition_ranges() if row.origin != COMPLETION]
    overlaps = [
        frozenset(row.group for row in printed if row.first <= code[: len(row.first)] <= row.last) for code in icd9_codes
    ]
    assert len({groups for groups in overlaps if len(groups) > 1}) == 33


def test_completions_move_193_intracranial_bleeds_from_trauma(icd9_codes):
    printed = condition_groups(icd9_codes, completions=False)["group"]
    completed = condition_groups(icd9_codes)["group"]
    assert ((printed == "TRAUMA") & (completed == "CATAST")).sum() == 193


def test_groups_are_spelt_as_in_the_published_files():
    assert {"FLaELEC", "ODaBNCA", "MSC2a3", "METAB3", "RESPR4", "MISCL5"} <= {row.group for row in condition_ranges()}


def test_a_frame_without_any_group_still_joins_as_text():
    connection = duckdb.connect()
    connection.register("groups", condition_groups(["42"]))
    joined = connection.execute("SELECT upper(\"group\") FROM groups JOIN (SELECT '42' AS code) USING (code)")
    assert joined.fetchall() == [(None,)]

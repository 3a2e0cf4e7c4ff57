"""Which column breaks which element of Safe Harbor (methods#safe-harbor)."""

import datetime

import pytest

from deid_assets.errors import PolicyError
from deid_assets.methods.safe_harbor.findings import Finding, findings
from deid_assets.methods.safe_harbor.identifiers import ELEMENT_OF, ROLES
from deid_assets.reference.geography import kept_prefixes
from deid_assets_tests.methods.small_tables import small_store

DAY = datetime.date(2010, 6, 30)
# A value of every role that breaks its element, and the rule it breaks.
BREAKING = {
    "name": ("Ann Lee", "identifier present"),
    "street_address": ("1 Elm Road", "geography below state"),
    "city": ("Duluth", "geography below state"),
    "county": ("Cook", "geography below state"),
    "precinct": ("12", "geography below state"),
    "geocode": ("41.9,-87.6", "geography below state"),
    "zip": ("60601", "more than three digits of a ZIP code"),
    "zip3": ("036", "ZIP prefix of 20,000 people or fewer, or unknown"),
    "state": ("Duluth", "not a state, region or division"),
    "age": ("90", "age over 89"),
    "birth_date": ("1950-03-09", "date finer than a year"),
    "birth_year": ("1920", "year of birth that implies an age over 89"),
    "date": ("2009-03-09", "date finer than a year"),
    "year": ("2009-03", "date finer than a year"),
    "telephone": ("312-555-0100", "identifier present"),
    "fax": ("312-555-0101", "identifier present"),
    "email": ("a@b.org", "identifier present"),
    "social_security": ("123-45-6789", "identifier present"),
    "medical_record": ("7", "identifier present"),
    "health_plan": ("7", "identifier present"),
    "account": ("7", "identifier present"),
    "license": ("7", "identifier present"),
    "vehicle": ("7", "identifier present"),
    "device": ("7", "identifier present"),
    "url": ("example.org", "identifier present"),
    "ip_address": ("10.0.0.1", "identifier present"),
    "biometric": ("loop", "identifier present"),
    "photograph": ("face", "identifier present"),
    "unique_code": ("7", "identifier present"),
}


def judged(role, values, kind="VARCHAR"):
    with small_store() as store:
        table = store.table("t", f"value {kind}", [(value,) for value in values])
        return findings(table, {"value": role}, DAY, kept_prefixes())


def each_as_a_column(values):
    """Judge a table with one column for each (role, cells)."""
    columns = {f"c{at}": role for at, (role, _) in enumerate(values)}
    rows = list(zip(*(cells for _, cells in values), strict=True))
    with small_store() as store:
        table = store.table("t", ", ".join(f"{name} VARCHAR" for name in columns), rows)
        return findings(table, columns, DAY, kept_prefixes())


def test_every_role_has_a_value_that_breaks_its_element():
    roles = sorted(ROLES - {"free", "link"})
    found = each_as_a_column([(role, [BREAKING[role][0], None, "", BREAKING[role][0]]) for role in roles])
    expected = {Finding(ELEMENT_OF[role].letter, f"c{at}", BREAKING[role][1], 2) for at, role in enumerate(roles)}
    assert set(found) == expected and len(found) == len(expected)


def test_the_eighteen_elements_can_all_fail():
    assert {ELEMENT_OF[role].letter for role in BREAKING} == set("ABCDEFGHIJKLMNOPQR")


def test_missing_and_withheld_values_break_nothing():
    assert each_as_a_column([(role, [None, "", "unknown", "*"]) for role in sorted(ROLES)]) == ()


@pytest.mark.parametrize(
    ("role", "values"),
    [
        ("age", ["0", "89", "90+", "80-89", "85+", "80–84", "89.0"]),
        ("birth_year", ["1921", "90+", "1921-1925"]),
        ("year", ["1905", "2009", "2005-2009"]),
        ("zip3", ["000", "902"]),
        ("state", ["MN", "Minnesota", "27", "24", "Midwest", "East North Central", "mn"]),
        ("link", ["0f8fad5b-d9cb-469f-a165-70867728950e"]),
    ],
)
def test_what_safe_harbor_lets_stand(role, values):
    assert judged(role, values) == ()


TOO_MUCH = [
    ("age", "89.5", "age over 89"),
    ("age", "85-94", "age over 89"),
    ("age", "90-94", "age over 89"),
    ("age", "95+", "age over 89"),
    ("age", "old", "not an age"),
    ("age", "-1", "not an age"),
    ("birth_year", "1918-1922", "year of birth that implies an age over 89"),
    ("birth_year", "March", "not a year"),
    ("year", "MMIX", "not a year"),
    ("year", "20090309", "date finer than a year"),
    ("year", "3/2009", "date finer than a year"),
    ("year", "９9", "not a year"),
    ("age", "９５", "not an age"),
    ("zip3", "９０２", "more than three digits of a ZIP code"),
    ("zip3", "055", "ZIP prefix of 20,000 people or fewer, or unknown"),
    ("zip3", "9021", "more than three digits of a ZIP code"),
    ("zip3", "90", "more than three digits of a ZIP code"),
]


def test_labels_that_tell_too_much_or_cannot_be_read():
    found = each_as_a_column([(role, [value]) for role, value, _ in TOO_MUCH])
    assert {int(one.column[1:]): one.rule for one in found} == {at: rule for at, (_, _, rule) in enumerate(TOO_MUCH)}
    assert len(found) == len(TOO_MUCH)


def test_types_of_the_database_are_read_alike():
    assert [one.records for one in judged("age", [89, 90, 91, None], "INTEGER")] == [2]
    assert [one.rule for one in judged("date", ["2009-03-09"], "DATE")] == ["date finer than a year"]
    assert [one.rule for one in judged("birth_date", ["1919-03-09"], "DATE")] == [
        "date finer than a year",
        "year of birth that implies an age over 89",
    ]


def test_free_columns_are_scanned():
    assert judged("free", ["call 312-555-0100", "tea"]) == (Finding("D", "value", "values like telephone numbers", 1),)
    (finding,) = judged("free", ["99213", "tea"])
    assert (finding.letter, finding.certain) == ("B", False)


def test_counts_by_column_and_element(store):
    columns = "who VARCHAR, age INTEGER, born VARCHAR, code VARCHAR"
    table = store.table("t", columns, [("Ann", 95, "1915", "99213"), ("Bob", 20, "1915", "4280")])
    roles = {"who": "name", "age": "age", "born": "birth_year", "code": "free"}
    found = findings(table, roles, DAY, kept_prefixes())
    assert [(one.letter, one.column, one.records) for one in found] == [
        ("A", "who", 2), ("B", "code", 1), ("C", "age", 1), ("C", "born", 2),
    ]  # fmt: skip
    assert [one.certain for one in found] == [True, False, True, True]


def test_roles_are_needed_for_all_columns():
    with small_store() as store, pytest.raises(PolicyError, match="columns without a role: b"):
        findings(store.table("t", "a VARCHAR, b VARCHAR", [("x", "y")]), {"a": "free"}, DAY, kept_prefixes())

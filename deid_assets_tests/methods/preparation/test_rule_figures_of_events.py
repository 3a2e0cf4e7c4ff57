"""How many rows of other tables of events have a code: a table whose codes are blank is searched for nothing."""

import duckdb
import pytest

from deid_assets.methods.preparation.rule_figures import SENSITIVE, Figure, SearchedTables, coded_rows, rule_figures
from deid_assets.policy.loading import policy_from
from deid_assets.policy.rules.needs import needs_of
from deid_assets.store.tables import Table
from deid_assets_tests.scenarios.omop_delivery import OMOP


@pytest.fixture
def tables(tmp_path):
    """Canonical tables of 4 claims and 10 conditions: 3 have codes in both columns, and one an unknown code alone."""
    file = tmp_path / "store.duckdb"
    with duckdb.connect(str(file)) as connection:
        connection.execute("CREATE SCHEMA intake")
        connection.execute(
            "CREATE TABLE intake.members AS SELECT 'm1' AS member_id, 40 AS age, 'F' AS sex, NULL::DATE AS birth_date"
        )
        connection.execute(
            """CREATE TABLE intake.claims AS SELECT 'm1' AS member_id, 1 AS year, NULL::DATE AS service_date, 'x' AS claim_id,
            NULL::VARCHAR AS cpt, NULL::VARCHAR AS place, NULL::VARCHAR AS specialty, NULL::VARCHAR AS diagnosis_1,
            NULL::VARCHAR AS diagnosis_2, NULL::VARCHAR AS diagnosis_3, NULL::VARCHAR AS diagnosis_4,
            NULL::VARCHAR AS further_diagnoses, CASE WHEN i < 4 THEN 'claims' ELSE 'conditions' END AS event_table,
            CASE WHEN i BETWEEN 5 AND 7 THEN 'INFEC4' END AS condition, CASE WHEN i BETWEEN 5 AND 7 THEN 'other' END AS reason,
            (i = 9)::INTEGER AS unreadable_declared
            FROM range(14) AS r(i)"""
        )
        connection.execute(
            """CREATE TABLE intake.delivered_codes AS SELECT 'condition' AS source_column, 'diagnosis' AS kind, 3 AS written,
            0 AS unreadable, 0 AS other_system"""
        )
        connection.execute("CREATE TABLE intake.removed AS SELECT 'm2' AS member_id, 'r' AS reason, true AS sensitive")
        connection.execute(
            """CREATE TABLE intake.code_book AS FROM (VALUES ('drug', 'abacavir', 'hiv'), ('diagnosis', '042', 'hiv'),
            ('diagnosis', '4280', NULL), ('diagnosis', '3580', 'rare')) AS b(kind, code, removal_reason)"""
        )
    return SearchedTables(
        *(Table(file, "intake", name) for name in ("members", "claims", "delivered_codes", "removed", "code_book"))
    )


def test_they_are_counted_over_the_rows_of_their_table(tables):
    """A row with codes in two columns is one row."""
    figures = rule_figures(tables, "rare", None, {"conditions": ("condition", "reason"), "drugs": ("condition",)})
    assert figures[coded_rows("conditions")] == Figure(4, 10) and figures[coded_rows("drugs")] == Figure(0, 0)


def test_a_policy_needs_a_code_in_half_of_the_rows_of_each_table():
    needs = {need.figure: need for need in needs_of(policy_from(OMOP))}
    need = needs[coded_rows("conditions")]
    assert need.at_least == 0.5 and "the rows of conditions with a code in condition" in need.stated
    assert not need.met(Figure(3, 10)) and need.met(Figure(5, 10)) and coded_rows("measurements") in needs


def test_a_list_is_not_found_to_be_read_by_drugs_of_another_table(tables):
    """Of four members with claims, one each is found by a diagnosis of a claim, of a condition, and by a fill; one is rare."""
    with duckdb.connect(str(tables.claims.file)) as connection:
        rows = [
            ("m1", "claims", "diagnosis:042"), ("m2", "claims", "diagnosis:4280"), ("m2", "conditions", "diagnosis:042"),
            ("m3", "claims", None), ("m3", "fills", "drug:abacavir"), ("m4", "claims", "diagnosis:3580"),
            ("m5", "conditions", "diagnosis:042"),
        ]  # fmt: skip
        connection.execute("CREATE OR REPLACE TABLE intake.claims AS FROM intake.claims WHERE false")
        connection.execute("ALTER TABLE intake.claims ADD COLUMN declared_codes VARCHAR")
        for number, (member, table, codes) in enumerate(rows):
            connection.execute(
                "INSERT INTO intake.claims (claim_id, member_id, year, event_table, declared_codes, unreadable_declared)"
                " VALUES (?, ?, 1, ?, ?, 0)",
                [f"c{number}", member, table, codes],
            )
    figures = rule_figures(tables, "rare", None, {"conditions": ("condition",), "fills": ("reason",)})
    assert figures[SENSITIVE] == Figure(2, 4)

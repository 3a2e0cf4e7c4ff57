"""From a CDM to a release and to a CDM again: what goes in, what comes out, and the rules of the CDM itself."""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here
from deid_assets_tests.scenarios.omop_delivery import OMOP, omop_delivery
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import write_policy

pytestmark = pytest.mark.matrix
MEMBERS = 4_000


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Iterator[tuple[Pipeline, Path, Path]]:
    """A home with a release of visits, conditions and measurements with dates, the delivery, and the exported tables."""
    root = tmp_path_factory.mktemp("omop")
    delivery = omop_delivery(root, MEMBERS)
    (root / "policies").mkdir()
    write_policy(root / "policies", OMOP)
    code, printed = deid_here(root / "home", "run", "--policy", root / "policies" / "cdm.yaml", "--delivery", delivery)
    assert code == PUBLISHED, printed
    code, printed = deid_here(root / "home", "export", "cdm/0001", root / "out")
    assert code == 0 and "visit_occurrence: " in printed, printed
    with pipeline_in(root / "home", "cdm") as pipeline:
        yield pipeline, delivery, root / "out"


@pytest.fixture(scope="module")
def loaded(exported) -> Iterator[duckdb.DuckDBPyConnection]:
    """The exported tables under the definitions and primary keys of the CDM."""
    texts = [public_data("omop", f"OMOPCDM_duckdb_5.4_{part}.sql").read_text() for part in ("ddl", "primary_keys")]
    with duckdb.connect() as connection:
        connection.execute("CREATE SCHEMA cdm")
        for text in texts:
            connection.execute(text.replace("@cdmDatabaseSchema", "cdm"))
        for file in sorted(exported[2].iterdir()):
            connection.execute(f"INSERT INTO cdm.{file.stem} BY NAME FROM '{file}'")
        yield connection


def test_the_tables_load_under_the_definitions_and_every_key_refers_to_a_row(loaded):
    """DuckDB adds no foreign keys to tables that exist, so that each constraint of the CDM is asked as a query."""
    text = public_data("omop", "OMOPCDM_duckdb_5.4_constraints.sql").read_text()
    stated = r"TABLE cdm\.(\w+) ADD CONSTRAINT \w+ FOREIGN KEY \((\w+)\) REFERENCES cdm\.(\w+) \((\w+)\)"
    keys = re.findall(stated, text.replace("@cdmDatabaseSchema", "cdm"))
    assert len(keys) > 150
    checked = 0
    for table, column, other, key in keys:
        refers = (
            f"SELECT count({column}), count({column}) FILTER ({column} NOT IN (SELECT {key} FROM cdm.{other})) FROM cdm.{table}"
        )
        filled, orphans = loaded.execute(refers).fetchall()[0]
        assert orphans == 0, (table, column)
        checked += filled > 0
    assert checked > 20, "most tables have rows that refer to others"


def test_what_is_told_is_plausible(loaded):
    events = {
        "visit_occurrence": ("visit_start_date", "visit_end_date"),
        "condition_occurrence": ("condition_start_date", "condition_end_date"),
        "measurement": ("measurement_date", "measurement_date"),
        "observation": ("observation_date", "observation_date"),
    }
    for table, (first, last) in events.items():
        outside = f"""SELECT count(*), count(*) FILTER ({first} NOT BETWEEN observation_period_start_date AND
                observation_period_end_date OR {last} < {first})
            FROM cdm.{table} LEFT JOIN cdm.observation_period USING (person_id)"""
        rows, wrong = loaded.execute(outside).fetchall()[0]
        assert rows > 1_000 and wrong == 0, table
        lost = f"SELECT count(*) FROM cdm.{table} WHERE person_id NOT IN (SELECT person_id FROM cdm.person)"
        assert loaded.execute(lost).fetchall() == [(0,)], table
    years = "SELECT min(year_of_birth), max(year_of_birth), count(DISTINCT year_of_birth) FROM cdm.person"
    assert loaded.execute(years).fetchall() == [(1979, 1999, 2)], "one for each released class of ages"
    assert loaded.execute("SELECT count(DISTINCT visit_concept_id) FROM cdm.visit_occurrence").fetchall()[0][0] == 3


def test_nothing_is_in_the_tables_but_what_the_release_says(exported):
    """No identifier, code, date or text of the delivery: every text is a label of the release, or written by the product."""
    pipeline, delivery, out = exported
    release = pipeline.home.releases / "cdm" / "0001" / "data"
    files = ("Members", "Claims", "Conditions", "Measurements")
    released: set[str] = {name for file in files for name in duckdb.sql(f"FROM '{release}/{file}.parquet'").columns}
    for file in files:
        for column in duckdb.sql(f"FROM '{release}/{file}.parquet'").columns:
            found = duckdb.sql(f"SELECT DISTINCT \"{column}\"::VARCHAR FROM '{release}/{file}.parquet'").fetchall()
            released |= {row[0] for row in found}
    released |= {f"{file}.{column}" for file in files for column in released if column}
    for name in ("person", "visit_occurrence", "condition_occurrence", "measurement", "observation", "observation_period"):
        relation = duckdb.sql(f"FROM '{out}/{name}.parquet'")
        for column, kind in zip(relation.columns, relation.types, strict=True):
            values = {row[0] for row in duckdb.sql(f"SELECT DISTINCT {column}::VARCHAR FROM '{out}/{name}.parquet'").fetchall()}
            if str(kind) in ("VARCHAR", "DATE"):
                others = values - released - {None, "year of birth"}
                assert all(re.fullmatch("[0-9]{0,4}-[0-9]{4}", one) for one in others), (name, column)
            elif column.endswith("concept_id"):
                assert {int(value) for value in values} <= {0, 8507, 8532, 9201, 9202, 9203, 32810}, (name, column)
            else:
                assert {int(value) for value in values if value is not None} <= set(range(400_000)), (name, column)
    identifiers = duckdb.sql(f"SELECT person_source_value FROM '{delivery}/person.parquet'").fetchall()
    assert not {row[0] for row in identifiers} & released


def test_events_of_a_person_keep_their_order_across_tables(exported):
    """A condition is told on the day of a visit of the same person: in the delivery each is of one."""
    _, _, out = exported
    visits, conditions = (f"'{out}/{name}.parquet'" for name in ("visit_occurrence", "condition_occurrence"))
    (rows, alone) = duckdb.sql(
        f"""SELECT count(*), count(*) FILTER (visit_start_date IS NULL) FROM {conditions} AS c
        LEFT JOIN (SELECT DISTINCT person_id, visit_start_date FROM {visits}) AS v
        ON v.person_id = c.person_id AND v.visit_start_date = c.condition_start_date"""
    ).fetchall()[0]
    # Visits and conditions are cut each by its own number, so that some conditions lose their visit.
    assert rows > 10_000 and alone < 0.1 * rows


def test_a_release_that_was_changed_is_not_exported(exported, tmp_path):
    pipeline, _, _ = exported
    claims = pipeline.home.releases / "cdm" / "0001" / "data" / "Claims.csv"
    before = claims.read_bytes()
    claims.chmod(0o644)
    claims.write_bytes(before.replace(b"outpatient", b"inpatient", 1))
    try:
        code, printed = deid_here(pipeline.home.root, "export", "cdm/0001", tmp_path / "out")
    finally:
        claims.write_bytes(before)
    assert code == ERROR and "not exported, because it is not in order" in printed and not (tmp_path / "out").exists()

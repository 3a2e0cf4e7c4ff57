"""From a CDM to a release and to a CDM again: what goes in, what comes out, and the rules of the CDM itself.

Release and export are searched without the product's own reading of them: in the files, the delivery and the restricted store.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import numpy as np
import pytest

from deid_assets.reference.groups import condition_ranges, group_names
from deid_assets.sources.synthetic.layouts import ATC_GROUPS
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here
from deid_assets_tests.scenarios.omop_delivery import OMOP, omop_delivery
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import write_policy

pytestmark = pytest.mark.matrix
MEMBERS = 4_000
FILES = ("Members", "Claims", "Conditions", "Drugs", "Measurements", "Procedures")
EVENTS = ("visit_occurrence", "condition_occurrence", "drug_exposure", "measurement", "procedure_occurrence")


@pytest.fixture(scope="module")
def exported(tmp_path_factory) -> Iterator[tuple[Pipeline, Path, Path]]:
    """A home with a release of visits and four tables of events with dates, the delivery, and the exported tables."""
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
        "procedure_occurrence": ("procedure_date", "procedure_end_date"),
        "drug_exposure": ("drug_exposure_start_date", "drug_exposure_end_date"),
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
    released: set[str] = {name for file in FILES for name in duckdb.sql(f"FROM '{release}/{file}.parquet'").columns}
    for file in FILES:
        for column in duckdb.sql(f"FROM '{release}/{file}.parquet'").columns:
            found = duckdb.sql(f"SELECT DISTINCT \"{column}\"::VARCHAR FROM '{release}/{file}.parquet'").fetchall()
            released |= {row[0] for row in found}
    released |= {f"{file}.{column}" for file in FILES for column in released if column}
    for name in ("person", *EVENTS, "observation", "observation_period"):
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


def released_rows(pipeline: Pipeline, file: str) -> duckdb.DuckDBPyRelation:
    """A file of the release, every column as text."""
    return duckdb.read_csv(str(pipeline.home.releases / "cdm" / "0001" / "data" / f"{file}.csv"), all_varchar=True)


def test_no_file_has_a_column_that_the_policy_does_not_release(exported):
    pipeline, _, _ = exported
    of_events = {"MemberID", "ProviderID", "Year", "ServiceDate", "DaysSinceLastService", "ServicePeriod"}
    of_every_claim = {"Vendor": None, "PCP": None, "PayDelay": None, "CharlsonIndex": None, "SupLOS": "0"}
    declared = {
        "Claims": "Visit",
        "Conditions": "Condition",
        "Drugs": "Drug",
        "Measurements": "Test",
        "Procedures": "ProcedureKind",
    }
    allowed = {"Members": {"MemberID", "AgeAtFirstClaim", "Sex"}} | {one: of_events | {name} for one, name in declared.items()}
    allowed["Claims"] |= set(of_every_claim)
    folder = pipeline.home.releases / "cdm" / "0001" / "data"
    counts = {"Attrition", "Characteristics", "Distributions"}
    assert {file.stem for file in folder.iterdir() if file.suffix in (".csv", ".parquet")} == {*FILES, *counts}
    for file in FILES:
        assert set(released_rows(pipeline, file).columns) == allowed[file], file
        assert set(duckdb.read_parquet(str(folder / f"{file}.parquet")).columns) == allowed[file], file
    for column, only in of_every_claim.items():
        told = released_rows(pipeline, "Claims").project(column).distinct().fetchall()
        assert told == [(only,)], f"visits of this CDM have nothing that {column} could tell"


def test_no_label_is_finer_than_the_level_that_was_chosen(exported):
    """At its finest level a column has the groups of its codes, at the next one a single label; no code is in any text."""
    pipeline, delivery, _ = exported
    chosen = pipeline.table("cdm", "chosen_generalization").frame()
    levels = chosen.set_index("dimension")["level"]
    assert set(levels.index) == {"age", "visit", "condition", "test", "drug", "procedure_kind"}
    sections = set(group_names("cpt_section"))
    finest = {
        "visit": ("Claims", "Visit", {"inpatient", "outpatient", "emergency room"}),
        "condition": ("Conditions", "Condition", {found.group for found in condition_ranges()}),
        "test": ("Measurements", "Test", sections),
        "drug": ("Drugs", "Drug", {name.lower() for name in ATC_GROUPS.values()}),
        "procedure_kind": ("Procedures", "ProcedureKind", sections),
    }
    for name, (file, column, groups) in finest.items():
        shown = {row[0] for row in released_rows(pipeline, file).project(column).distinct().fetchall()} - {None}
        assert len(shown) <= 1 if levels[name] else shown <= groups, name
    ages = {row[0] for row in released_rows(pipeline, "Members").project("AgeAtFirstClaim").distinct().fetchall()}
    assert ages == {"0-39", "40+"} if levels["age"] else len(ages) > 2
    coded = "SELECT concept_id::VARCHAR FROM {0} UNION SELECT concept_code FROM {0} WHERE vocabulary_id <> 'ATC'"
    codes = {row[0] for row in duckdb.sql(coded.format(f"'{delivery}/concept.parquet'")).fetchall()}
    assert len(codes) > 2_000
    for file in FILES:
        rows = released_rows(pipeline, file)
        for column in {*rows.columns} - {"MemberID", "ProviderID"}:
            assert not codes & {row[0] for row in rows.project(f'"{column}"').distinct().fetchall()}, (file, column)


def test_drawn_dates_keep_the_order_and_the_days_of_all_events_of_a_person(exported):
    """The restricted store says which row of the delivery each drawn date is of; the files have these dates and no others."""
    pipeline, _, _ = exported
    true, drawn = (pipeline.table("cdm", name).frame() for name in ("claims", "dated_claims"))
    people = pipeline.table("cdm", "pseudonym_crosswalk").frame().query("kind == 'member'")
    members = released_rows(pipeline, "Members").project("MemberID")
    with duckdb.connect() as connection:
        for name, frame in (("true_rows", true), ("drawn_rows", drawn), ("people", people), ("members", members.df())):
            connection.register(name, frame)
        connection.execute(
            """CREATE TABLE events AS SELECT p.pseudonym::VARCHAR AS member, t.event_table AS kind, t.service_date AS day,
                d.service_date AS released FROM drawn_rows AS d JOIN true_rows AS t USING (claim_id)
                JOIN people AS p ON p.original_id = d.member_id JOIN members AS m ON m.MemberID = p.pseudonym::VARCHAR"""
        )
        days, kinds = (
            "SELECT member, day, min(released) AS first, max(released) AS last FROM events GROUP BY ALL",
            "count(DISTINCT kind)",
        )
        order = f"""SELECT count(*), count(*) FILTER (first <> last OR first < before) FROM (SELECT *, lag(last) OVER
            (PARTITION BY member ORDER BY day) AS before FROM ({days}))"""
        told, wrong = connection.execute(order).fetchall()[0]
        assert told > 5_000 and wrong == 0
        assert connection.execute(f"SELECT {kinds} FROM events").fetchall() == [(5,)]
        moved = "SELECT count(*) FILTER (day <> released) > 0.9 * count(*) FROM events"
        assert connection.execute(moved).fetchall() == [(True,)], "a date that was not drawn would be in order, too"
        for file in FILES[1:]:
            connection.register("file", released_rows(pipeline, file).df())
            kept = f"SELECT member, released FROM events WHERE kind = '{file.lower()}'"
            given = "SELECT MemberID, ServiceDate::DATE FROM file WHERE ServiceDate IS NOT NULL"
            different = f"SELECT count(*) FROM (({kept}) EXCEPT ALL ({given}) UNION ALL (({given}) EXCEPT ALL ({kept})))"
            assert connection.execute(different).fetchall() == [(0,)], file
            connection.unregister("file")


def test_no_identifier_of_the_delivery_can_be_told_from_those_of_the_release(exported):
    """Numbers of persons and rows are new: neither those of the delivery nor in their order."""
    pipeline, delivery, out = exported
    people = pipeline.table("cdm", "pseudonym_crosswalk").frame().query("kind == 'member'")
    given = people["original_id"].astype(int)
    assert abs(np.corrcoef(given, people["pseudonym"].rank())[0, 1]) < 0.1
    identifiers = set(people["original_id"])
    assert not identifiers & {row[0] for row in released_rows(pipeline, "Members").project("MemberID").fetchall()}
    for table in EVENTS:
        relation = duckdb.read_parquet(str(out / f"{table}.parquet"))
        key = relation.columns[0]
        rows, last = relation.aggregate(f"count(*), max({key})").fetchall()[0]
        assert key == f"{table}_id" and rows == last, "rows are numbered from 1, whatever their number was"
        delivered = f"SELECT max({key}) FROM '{delivery}/{table}.parquet'"
        assert duckdb.sql(delivered).fetchall()[0][0] > rows


def test_an_event_of_a_visit_is_of_its_person_and_day(loaded):
    for table, day in (("observation", "observation_date"), ("condition_occurrence", "condition_start_date")):
        other = f"v.person_id <> e.person_id OR v.visit_start_date <> e.{day}"
        counted = f"""SELECT count(*) FILTER ({other}) FROM cdm.{table} AS e
            JOIN cdm.visit_occurrence AS v USING (visit_occurrence_id)"""
        assert loaded.execute(counted).fetchall() == [(0,)], table
    twice = "SELECT count(*) FROM (SELECT person_id FROM cdm.observation_period GROUP BY 1 HAVING count(*) > 1)"
    assert loaded.execute(twice).fetchall() == [(0,)]


def test_conditions_are_told_on_days_of_visits(exported):
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

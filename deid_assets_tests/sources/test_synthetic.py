"""The synthetic delivery has the published shape and hangs together."""

from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.reference.groups import condition_groups, is_procedure, place_groups, procedure_groups, specialty_groups
from deid_assets.reference.sensitive import sensitive_codes
from deid_assets.sources.synthetic import shape
from deid_assets.sources.synthetic.delivery import write_delivery

MEMBERS = 24_000  # three blocks, the last one not full
PUBLISHED_MEAN = 5_426_238 / 145_650  # El Emam & Arbuckle 2013, ch. 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("delivery")
    write_delivery(folder, MEMBERS, seed=20)
    return folder


@pytest.fixture(scope="module")
def delivery(folder):
    """A connection with `members`, `claims` (with groups, reasons for removal and days since first claim)."""
    connection = duckdb.connect()
    connection.execute(f"CREATE TABLE members AS FROM '{folder}/members.parquet'")
    connection.execute(f"CREATE TABLE raw AS FROM '{folder}/claims.parquet'")
    looked_up = {
        "condition_group": ("diagnosis_1", condition_groups),
        "specialty_group": ("specialty", specialty_groups),
        "place_group": ("place", place_groups),
        "procedure_group": ("cpt", procedure_groups),
        "procedural": ("cpt", lambda codes: pd.DataFrame({"code": codes, "is": [is_procedure(c) for c in codes]})),
        "sensitive_procedure": ("cpt", lambda codes: sensitive_codes(codes, "procedure")),
    }
    joins, columns = [], []
    for name, (column, look_up) in looked_up.items():
        found = look_up(distinct(connection, column))
        found.columns = ["code", name]
        connection.register(f"frame_{name}", found)
        connection.execute(f"CREATE TABLE {name} AS FROM frame_{name}")
        joins.append(f"LEFT JOIN {name} ON {name}.code = raw.{column}")
        columns.append(f"{name}.{name}")
    diagnoses = sorted({code for place in range(1, 5) for code in distinct(connection, f"diagnosis_{place}")})
    connection.execute("CREATE TABLE sensitive (code VARCHAR)")
    connection.executemany(
        "INSERT INTO sensitive VALUES (?)", [[code] for code in sensitive_codes(diagnoses, "diagnosis")["code"]]
    )
    any_sensitive = " OR ".join(f"diagnosis_{place} IN (FROM sensitive)" for place in range(1, 5))
    connection.execute(
        f"""
        CREATE TABLE claims AS
        SELECT raw.*, {", ".join(columns)}, members.sex, members.age, members.birth_date,
            coalesce(({any_sensitive}), false) OR sensitive_procedure IS NOT NULL
                OR coalesce(place IN ('54', '55', '57'), false) AS sensitive,
            coalesce(NOT procedural, false) AS no_procedure,
            coalesce(service_date - members.birth_date <= 28, false) AS newborn,
            service_date - min(service_date) OVER (PARTITION BY member_id, year) AS days_since_first_claim
        FROM raw JOIN members USING (member_id) {" ".join(joins)}
        """
    )
    connection.execute("CREATE TABLE sensitive_members AS SELECT DISTINCT member_id FROM claims WHERE sensitive")
    connection.execute("CREATE TABLE remaining AS FROM claims WHERE member_id NOT IN (FROM sensitive_members)")
    yield connection
    connection.close()


def distinct(connection, column: str) -> list[str]:
    return [row[0] for row in connection.execute(f"SELECT DISTINCT {column} c FROM raw WHERE c IS NOT NULL").fetchall()]


def numbers(connection, sql: str) -> list:
    """The first row, or the single column, of a query."""
    rows = connection.execute(sql).fetchall()
    return list(rows[0]) if len(rows) == 1 else [row[0] for row in rows]


def shares(connection, column: str, table: str = "remaining") -> dict[str, float]:
    """Per cent of the claims by the values of a column, most frequent first."""
    sql = f"SELECT {column} v, 100.0 * count(*) / sum(count(*)) OVER () FROM {table} GROUP BY v ORDER BY 2 DESC, 1"
    return dict(connection.execute(sql).fetchall())


# --- claims per member -------------------------------------------------------------------------------------------


def test_the_quantile_function_has_the_published_moments():
    claims = shape.claims_at_rank((np.arange(1_000_000) + 0.5) / 1_000_000)
    assert claims.mean() == pytest.approx(PUBLISHED_MEAN, rel=0.002)
    assert np.quantile(claims, 0.95) == pytest.approx(139, abs=1)
    assert np.quantile(claims, 0.99) == pytest.approx(266, abs=2)
    assert np.maximum(claims - 139, 0).sum() / claims.sum() == pytest.approx(0.11, abs=0.002)
    assert 0.026 <= np.maximum(claims - 266, 0).sum() / claims.sum() <= 0.028
    assert np.median(claims) == 13
    assert 1_300 <= shape.claims_at_rank(np.array([1 - 1 / 145_650]))[0] <= 1_400


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=20))
def test_more_burden_never_means_fewer_claims(ranks):
    claims = shape.claims_at_rank(np.sort(np.array(ranks)))
    assert (np.diff(claims) >= 0).all()
    assert claims.min() >= 1


@pytest.mark.matrix
def test_burden_ranks_are_uniform_over_the_population(delivery):
    """Whatever attributes do to a member's rank, the population keeps the published distribution."""
    mean, median, p95, p99, cut_95, cut_99 = numbers(
        delivery,
        """
        WITH n AS (SELECT count(*) AS n FROM raw GROUP BY member_id)
        SELECT avg(n), median(n), quantile_cont(n, .95), quantile_cont(n, .99),
            sum(greatest(n - 139, 0)) / sum(n), sum(greatest(n - 266, 0)) / sum(n) FROM n
        """,
    )
    assert mean == pytest.approx(PUBLISHED_MEAN, rel=0.04)
    assert median == pytest.approx(13, abs=1)
    assert p95 == pytest.approx(139, abs=7)
    assert p99 == pytest.approx(266, abs=20)
    assert cut_95 == pytest.approx(0.11, abs=0.012)
    assert cut_99 == pytest.approx(0.027, abs=0.007)


def test_every_member_has_claims(delivery):
    assert numbers(delivery, "SELECT count(*), count(DISTINCT member_id) FROM members") == [MEMBERS, MEMBERS]
    assert numbers(delivery, "SELECT count(DISTINCT member_id) FROM raw") == [MEMBERS]
    assert numbers(delivery, "SELECT count(*) = count(DISTINCT claim_id) FROM raw") == [True]


def test_after_removal_and_cut_the_median_is_that_of_the_published_sample(delivery):
    """El Emam et al. 2012: median 11.

    Their mean of 23.6 needs more cutting than the numbers of El Emam & Arbuckle 2013 allow (docstring of `shape`).
    """
    median, cut_mean = numbers(
        delivery,
        """
        WITH n AS (SELECT count(*) AS n FROM remaining WHERE NOT no_procedure AND NOT newborn GROUP BY member_id),
            p AS (SELECT quantile_cont(n, .95) AS p FROM n)
        SELECT median(n), avg(least(n, p)) FROM n, p
        """,
    )
    assert median == pytest.approx(11, abs=1)
    assert cut_mean == pytest.approx(29, abs=1.5)


# --- members -----------------------------------------------------------------------------------------------------


def test_sensitive_members_are_as_many_and_as_ill_as_intended(delivery):
    share, excluded, remaining = numbers(
        delivery,
        f"""
        WITH n AS (
            SELECT count(*) AS n, member_id IN (FROM sensitive_members) AS excluded FROM raw GROUP BY member_id)
        SELECT count(*) FILTER (excluded) / {MEMBERS}, median(n) FILTER (excluded), median(n) FILTER (NOT excluded)
        FROM n
        """,
    )
    assert share == pytest.approx(shape.SENSITIVE_SHARE, abs=0.01)
    assert excluded == pytest.approx(34, abs=4)  # El Emam et al. 2012, Multimedia Appendix 1, section 3
    assert remaining == pytest.approx(12, abs=1.5)


@pytest.mark.parametrize("which", [0, 1], ids=["remaining", "excluded"])
def test_ages_are_those_of_appendix_table_3(delivery, which):
    found = numbers(
        delivery,
        f"""
        SELECT 100.0 * count(*) / sum(count(*)) OVER () FROM members
        WHERE (member_id IN (FROM sensitive_members)) = {bool(which)}
        GROUP BY least(age // 10, 8) ORDER BY least(age // 10, 8)
        """,
    )
    assert found == pytest.approx(shape.AGE_DECADES[which], abs=2.5 if which else 1)


def test_sexes_are_those_of_appendix_table_1(delivery):
    female = numbers(
        delivery,
        "SELECT avg((sex = 'F')::INT) FROM members GROUP BY member_id IN (FROM sensitive_members) ORDER BY 1 DESC",
    )
    assert female == pytest.approx([0.5359, 0.5129], abs=0.025)


def test_age_is_completed_years_at_the_first_claim_of_year_1_or_at_its_start(delivery):
    wrong = numbers(
        delivery,
        """
        WITH first AS (SELECT member_id, min(service_date) FILTER (year = 1) AS day FROM raw GROUP BY member_id),
            reference AS (
                SELECT members.*, coalesce(day, DATE '2007-01-01') AS day FROM members JOIN first USING (member_id))
        SELECT count(*) FILTER (greatest(date_sub('year', birth_date, day), 0) <> age) FROM reference
        """,
    )
    assert wrong == [0]


def test_days_in_hospital_are_mostly_none_with_a_long_tail_and_missing_without_enrolment(delivery):
    sql = """
        SELECT count(d) / count(*), count(*) FILTER (d = 0) / count(d), count(*) FILTER (d > 14) / count(d), max(d)
        FROM (SELECT days_in_hospital_y{year} AS d FROM members)
    """
    for year, enrolled in ((2, 0.68), (3, 0.63)):
        found = numbers(delivery, sql.format(year=year))
        assert found[0] == pytest.approx(enrolled, abs=0.015)
        assert found[1] == pytest.approx(0.84, abs=0.02)
        assert 0.01 < found[2] < 0.03
        assert 100 < found[3] <= 365


@pytest.mark.parametrize("year", [2, 3])
def test_days_in_hospital_agree_with_the_claims(delivery, year):
    """No claims of a year without enrolment; a known stay means at least a day in hospital; no stay, none."""
    unenrolled, none, least = numbers(
        delivery,
        f"""
        WITH stays AS (
            SELECT member_id, max(length_of_stay) FILTER (year = {year}) AS longest,
                count(*) FILTER (year = {year}) AS n, bool_or(place = '21' OR place = '23') AS hospital
            FROM raw GROUP BY member_id)
        SELECT count(*) FILTER (d IS NULL AND n > 0), count(*) FILTER (longest > 0 AND d = 0),
            count(*) FILTER (d > 0 AND NOT hospital) / count(*) FILTER (d > 0)
        FROM stays JOIN (SELECT member_id, days_in_hospital_y{year} AS d FROM members) USING (member_id)
        """,
    )
    assert (unenrolled, none) == (0, 0)
    assert least < 0.05  # lines of a stay may all be billed elsewhere, or have no place


# --- claims ------------------------------------------------------------------------------------------------------


def test_values_are_missing_at_the_published_rates(delivery):
    published = {
        "service_date": 2.0, "provider_id": 0.6, "vendor_id": 0.9, "pcp_id": 0.3, "specialty": 0.3, "place": 0.3,
        "cpt": 0.15, "pay_delay": 0.1, "diagnosis_1": 0.4,
    }  # fmt: skip
    per_cent = "SELECT 100.0 * (1 - count({0}) / count(*)) FROM raw"
    found = {name: numbers(delivery, per_cent.format(name))[0] for name in published}
    assert found == pytest.approx(published, abs=0.06)
    assert numbers(delivery, per_cent.format("length_of_stay")) == pytest.approx([97], abs=0.25)


def test_days_since_first_claim_fall_as_in_appendix_table_2(delivery):
    """Within 2.5 points a month. Most claims are in the first month, as published; the last is rarer than published."""
    found = numbers(
        delivery,
        """
        SELECT 100.0 * count(*) / sum(count(*)) OVER () FROM remaining WHERE service_date IS NOT NULL
        GROUP BY least(floor(days_since_first_claim / 30.4375), 11)
        ORDER BY least(floor(days_since_first_claim / 30.4375), 11)
        """,
    )
    published = [25.89, 9.52, 8.72, 8.24, 7.37, 7.46, 6.99, 6.8, 6.61, 5.63, 4.58, 2.0]
    assert found == pytest.approx(published, abs=2.5)


def test_lengths_of_stay_are_those_of_appendix_table_4(delivery):
    found = np.zeros(12)
    edges = [1, 2, 3, 4, 5, 6, 7, 15, 29, 57, 85, 183]
    days = np.array(numbers(delivery, "SELECT length_of_stay FROM remaining WHERE length_of_stay IS NOT NULL"))
    np.add.at(found, np.searchsorted(edges, days, side="right") - 1, 100 / len(days))
    published = shape.LENGTH_OF_STAY_SHARES
    assert found == pytest.approx(100 * published / published.sum(), abs=2)


def test_pay_delay_has_its_published_99th_percentile(delivery):
    assert numbers(delivery, "SELECT quantile_cont(pay_delay, .99) FROM raw") == pytest.approx([162], abs=4)


def test_the_leading_condition_groups_lead_and_hold_two_thirds_of_the_claims(delivery):
    found = shares(delivery, "condition_group")
    leading = {
        "MSC2a3", "METAB3", "ARTHSPIN", "NEUMENT", "RESPR4", "MISCHRT", "SKNAUT", "GIBLEED", "INFEC4", "TRAUMA",
    }  # fmt: skip
    assert set(list(found)[:10]) == leading
    assert sum(found[group] for group in leading) == pytest.approx(68, abs=2)
    assert len(found.keys() - {None}) == 45


def test_specialties_places_and_procedures_are_concentrated(delivery):
    specialty, place, procedure = (shares(delivery, f"{name}_group") for name in ("specialty", "place", "procedure"))
    assert list(specialty)[:3] == ["Internal", "Laboratory", "General Practice"]
    assert list(place)[:3] == ["Office", "Independent Lab", "Urgent Care"]
    assert list(procedure)[:4] == ["EM", "PL", "MED", "RAD"]
    assert sum(list(specialty.values())[:3]) == pytest.approx(66, abs=4)
    assert place["Office"] == pytest.approx(60, abs=3)
    assert procedure["EM"] == pytest.approx(37, abs=3)
    assert (len(specialty.keys() - {None}), len(place.keys() - {None}), len(procedure.keys() - {None})) == (12, 8, 17)


def test_newborn_claims_and_claims_that_are_no_procedure_are_a_few_per_cent(delivery):
    letters, revenue, newborn = numbers(
        delivery,
        """
        SELECT 100.0 * count(*) FILTER (no_procedure AND length(cpt) = 5) / count(*),
            100.0 * count(*) FILTER (no_procedure AND length(cpt) = 3) / count(*),
            100.0 * count(*) FILTER (newborn) / count(*) FROM claims
        """,
    )
    assert 1 < letters < 3
    assert 0.8 < revenue < 3
    assert 0.2 < newborn < 1


def test_a_members_claims_hang_together(delivery):
    """Two claims of one member agree in their condition far more often than claims of two members do."""
    within, between = numbers(
        delivery,
        """
        WITH cells AS (
            SELECT member_id, condition_group, count(*) AS c
            FROM claims WHERE condition_group IS NOT NULL GROUP BY ALL),
            people AS (SELECT sum(c * (c - 1)) / (sum(c) * (sum(c) - 1)) AS d FROM cells
                GROUP BY member_id HAVING sum(c) >= 10),
            groups AS (SELECT sum(c) AS c FROM cells GROUP BY condition_group)
        SELECT (SELECT avg(d) FROM people), (SELECT sum(c * c) / (sum(c) * sum(c)) FROM groups)
        """,
    )
    assert within > 0.27
    assert between < 0.08


def test_conditions_decide_specialties(delivery):
    """Nine tenths of the physical therapy is for what it treats, though that is a fifth of all claims."""
    treated = "('ARTHSPIN', 'TRAUMA', 'FXDISLC', 'MSC2a3', 'HIPFX', 'NEUMENT', 'STROKE')"
    sql = f"SELECT avg((condition_group IN {treated})::INT) FROM claims WHERE specialty = 'Physical therapy'"
    assert numbers(delivery, sql)[0] > 0.9


def test_a_member_sees_few_providers_and_one_primary_care_physician(delivery):
    assert numbers(delivery, "SELECT max(n) FROM (SELECT count(DISTINCT pcp_id) n FROM raw GROUP BY member_id)") == [1]
    per_member = "SELECT median(n) FROM (SELECT count(DISTINCT provider_id) n FROM raw GROUP BY member_id)"
    assert 4 <= numbers(delivery, per_member)[0] <= 10
    assert numbers(
        delivery,
        """
        SELECT max(specialties), max(vendors) FROM (
            SELECT count(DISTINCT specialty) AS specialties, count(DISTINCT vendor_id) AS vendors
            FROM raw GROUP BY provider_id HAVING provider_id IS NOT NULL)
        """,
    ) == [1, 1]


def test_no_row_is_impossible(delivery):
    impossible = {
        "service before birth": "service_date < birth_date",
        "negative delay": "pay_delay < 0",
        "length of stay below a day": "length_of_stay < 1",
        "year of another date": "year(service_date) - 2006 <> year",
        "year out of range": "year NOT BETWEEN 1 AND 3",
        "a man is pregnant": "sex = 'M' AND diagnosis_1 BETWEEN '630' AND '6799'",
        "pregnancy at the wrong age": "diagnosis_1 BETWEEN '630' AND '6799' AND age NOT BETWEEN 10 AND 55",
        "a man sees an obstetrician": "sex = 'M' AND specialty IN ('Obstetrics', 'Gynecology')",
        "a woman has a prostate": "sex = 'F' AND diagnosis_1 LIKE '600%'",
        "one diagnosis twice": "diagnosis_1 IN (diagnosis_2, diagnosis_3, diagnosis_4)"
        " OR diagnosis_2 IN (diagnosis_3, diagnosis_4) OR diagnosis_3 = diagnosis_4",
    }
    count = "SELECT count(*) FROM claims WHERE {}"
    found = {what: numbers(delivery, count.format(rule))[0] for what, rule in impossible.items()}
    assert found == dict.fromkeys(impossible, 0)

"""CSV, Parquet and DuckDB tables with a column map."""

import gzip
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from deid_assets.errors import DeliveryError
from deid_assets.reference.groups import known_codes
from deid_assets.schemas.contract import violations
from deid_assets.schemas.longitudinal import INTAKE
from deid_assets.sources.delivery import ClaimsMap, Delivery, MembersMap, SyntheticSource, TablesSource, Years
from deid_assets.sources.files import quoted_foreign
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.sources.synthetic import delivery as synthetic
from deid_assets.store.tables import Table
from deid_assets_tests.sources.deliveries import Taken, claim, member, take_in, write_parquet, write_tables

TUVA = Path(__file__).parents[3] / "shared" / "data" / "tuva"
needs_tuva = pytest.mark.skipif(not TUVA.is_dir(), reason="the public Tuva claims are not at hand")

MEMBERS = {"member_id": "Member No.", "sex": "sex", "age": "age"}
CLAIMS = {"claim_id": 'claim "id"', "member_id": "Member No.", "service_date": "day", "cpt": "select"}
MEMBER_ROWS = """SELECT * FROM (VALUES (1::BIGINT, 'F', 40), (2, 'M', 50)) AS t("Member No.", sex, age)"""
CLAIM_ROWS = '''
    SELECT * FROM (VALUES
        (10::BIGINT, 1::BIGINT, TIMESTAMP '2008-01-05 10:00:00', '99213'),
        (11, 2, TIMESTAMP '2009-02-01', 'j1100'),
        (12, 3, TIMESTAMP '2009-02-01', NULL)
    ) AS t("claim ""id""", "Member No.", day, "select")
'''


def source(members_file: str, claims_file: str | None, **options) -> TablesSource:
    tables = {name: options.pop(name, None) for name in ("members_table", "claims_table")}
    claims = claims_file and ClaimsMap(file=claims_file, table=tables["claims_table"], columns=CLAIMS)
    members = MembersMap(file=members_file, table=tables["members_table"], columns=MEMBERS)
    return TablesSource(members=members, claims=claims, years=Years(first=2008), **options)


def kept(taken: Taken) -> list[list]:
    frame = taken.frame("claims", "claim_id")
    return frame[["claim_id", "member_id", "year", "cpt", "days_since_first_claim"]].values.tolist()


EXPECTED = [["10", "1", 1, "99213", 0], ["11", "2", 2, "J1100", 0]]


def test_parquet_with_types_and_foreign_names(folder):
    write_parquet(folder / "people.parquet", MEMBER_ROWS)
    write_parquet(folder / "claims.parquet", CLAIM_ROWS)
    taken = take_in(folder, source("people.parquet", "claims.parquet"))
    assert kept(taken) == EXPECTED
    assert [str(count) for count in taken.report.quarantined] == [
        "claims.parquet: column Member No.: 1 line: claim of an unknown member"
    ]
    assert taken.frame("quarantined_rows")["source_row"].tolist() == [3]


def test_several_parquet_files_are_one_table(folder):
    write_parquet(folder / "people.parquet", MEMBER_ROWS)
    for number in range(3):
        write_parquet(folder / f"claims_{number}.parquet", f"{CLAIM_ROWS} LIMIT 1 OFFSET {number}")
    taken = take_in(folder, source("people.parquet", "claims_*.parquet"))
    assert kept(taken) == EXPECTED
    (listed,) = taken.frame("quarantined_rows").itertuples()
    assert (listed.source_file, listed.source_row) == ("claims_2.parquet", 1)


def test_tables_of_a_duckdb_file(tmp_path):
    file = tmp_path / "delivery.duckdb"
    connection = duckdb.connect(str(file))
    connection.execute(f'CREATE SCHEMA "of claims"; CREATE TABLE "of claims"."the claims" AS {CLAIM_ROWS}')
    connection.execute(f"CREATE TABLE people AS {MEMBER_ROWS}; CREATE VIEW some_people AS SELECT * FROM people")
    connection.execute(f"CREATE MACRO people_of() AS TABLE {MEMBER_ROWS}")
    connection.close()
    options = source("*.duckdb", "*.duckdb", members_table="people", claims_table="of claims.the claims")
    store = tmp_path / "store" / "s.duckdb"
    report = read_delivery(store, Delivery("test", "tables", (file,)), Reading(options, 1.0), None)
    assert kept(Taken(report, store)) == EXPECTED
    assert report.files == ("delivery.duckdb:people", "delivery.duckdb:of claims.the claims")
    for members_table, message in (
        ("nothing", "missing table"),
        (None, "must name the table"),
        ("some_people", "a view, which is not run"),
        ("people_of", "a macro, which is not run"),
    ):
        options = source("*.duckdb", None, members_table=members_table)
        with pytest.raises(DeliveryError, match=message):
            read_delivery(store, Delivery("test", "tables", (file,)), Reading(options, 1.0), None)


def test_csv_with_another_delimiter_date_format_and_sexes(folder):
    with gzip.open(folder / "people.csv.gz", "wt") as stream:
        stream.write("Member No.;sex;age\n1;w;40\n2;Mann;50\n")
    rows = ['"claim ""id""";Member No.;day;select', "10;1;05.01.2008;99213", "11;2;01.02.2009;"]
    (folder / "claims.csv").write_text("\n".join(rows) + "\n")
    options = source("people.csv.gz", "claims.csv", delimiter=";", date_format="%d.%m.%Y", sex_values={"W": "F", "mann": "M"})
    taken = take_in(folder, options)
    assert taken.report.quarantined == ()
    assert taken.frame("members", "member_id")["sex"].tolist() == ["F", "M"]
    assert [row[:3] for row in kept(taken)] == [["10", "1", 1], ["11", "2", 2]]


@pytest.mark.parametrize(("delivered", "first_year"), [("1", None), ("Y1", None), ("2008", 2008)])
def test_a_year_may_be_delivered(folder, delivered, first_year):
    (folder / "members.csv").write_text("id,sex,age\nm1,F,40\n")
    (folder / "claims.csv").write_text(f"id,year\nm1,{delivered}\nm1,9\n")
    options = TablesSource(
        members=MembersMap(file="members.csv", columns={"member_id": "id", "sex": "sex", "age": "age"}),
        claims=ClaimsMap(file="claims.csv", columns={"member_id": "id", "year": "year"}),
        years=first_year and Years(first=first_year),
    )
    taken = take_in(folder, options)
    claims = taken.frame("claims")
    assert claims["year"].tolist() == [1] and claims["service_date"].isna().all()
    assert claims["days_since_first_claim"].isna().all()
    assert [count.rule for count in taken.report.quarantined] == ["year outside 1 to 3"]


def test_claims_without_ids_are_named_by_their_rows(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim(""), claim("")])
    options = TablesSource(
        members=MembersMap(file="members.csv", columns={"member_id": "member_id", "sex": "sex", "age": "age"}),
        claims=ClaimsMap(file="claims.csv", columns={"member_id": "member_id", "service_date": "service_date"}),
        years=Years(first=2008),
    )
    taken = take_in(folder, options)
    assert taken.report.quarantined == () and taken.frame("claims")["claim_id"].nunique() == 2


def test_every_diagnosis_of_a_hospital_bill_can_be_mapped(folder):
    write_parquet(folder / "people.parquet", MEMBER_ROWS)
    write_parquet(
        folder / "claims.parquet",
        "SELECT * FROM (VALUES (1, '2008-01-05', '042', '428.0', NULL), (1, '2008-01-06', NULL, NULL, NULL),"
        " (1, '2008-01-07', 'v57.89', NULL, '25000')) AS t(person, day, admitted, fifth, last)",
    )
    columns = {"member_id": "person", "service_date": "day"}
    columns |= {"admitting_diagnosis": "admitted", "diagnosis_5": "fifth", "diagnosis_25": "last"}
    claims = ClaimsMap(file="claims.parquet", columns=columns)
    options = TablesSource(members=MembersMap(file="people.parquet", columns=MEMBERS), claims=claims, years=Years(first=2008))
    taken = take_in(folder, options, codes=None)
    listed = taken.frame("claims", "service_date")["further_diagnoses"]
    assert listed.fillna("none").tolist() == ["4280 042", "none", "25000 V5789"]


def test_a_delivery_without_claims_leaves_an_empty_table(folder):
    (folder / "people.csv").write_text("Member No.,sex,age\n1,F,40\n")
    taken = take_in(folder, source("people.csv", None))
    assert taken.report.rows_kept == {"members": 1, "claims": 0}
    claims = Table(taken.store, "intake", "claims")
    assert claims.count() == 0 and claims.columns()["service_date"] == "DATE"
    assert taken.report.quarantined_share("claims") == 0.0


def test_text_of_files_and_policy_is_never_sql(tmp_path):
    evil = "'); DROP TABLE intake.members; --"
    folder = tmp_path / evil.replace("/", "")
    folder.mkdir()
    name = f'x" AS y, {evil}'
    write_parquet(folder / "people.parquet", f"SELECT 1 AS {quoted_foreign(name)}, 'F' AS sex, 40 AS age")
    (folder / "people 'o'.csv").write_text('"{}",sex,age\n"{}",F,40\n'.format(name.replace('"', '""'), evil))
    columns = {"member_id": name, "sex": "sex", "age": "age"}
    for file, expected in (("people.parquet", "1"), ("people 'o'.csv", evil)):
        options = TablesSource(members=MembersMap(file=file, columns=columns), sex_values={evil: "F"})
        taken = take_in(folder, options, store=tmp_path / "store" / "s.duckdb")
        assert taken.frame("members")["member_id"].tolist() == [expected]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("people.parquet", b"PAR1 no parquet", "people.parquet: unreadable file: not a Parquet file"),
        ("people.parquet", b"", "people.parquet: empty file"),
        ("people.duckdb", b"no database", "people.duckdb: unreadable file: not a DuckDB file"),
        ("people.csv.gz", b"no gzip", "people.csv.gz: unreadable file"),
        ("people.xlsx", b"PK", "people.xlsx: unknown format"),
        ("people.csv", b"Member No.,sex,sex,age\n1,F,F,40\n", "column sex occurs twice"),
        ("people.csv", b"sex,age\nF,40\n", r"people.csv: missing column Member No. \(to be read as member_id\)"),
    ],
)
def test_a_fault_of_a_file_is_named(folder, name, content, message):
    (folder / name).write_bytes(content)
    with pytest.raises(DeliveryError, match=message):
        take_in(folder, source(name, None, members_table="people"))


def test_a_parquet_file_may_be_empty_or_lack_a_column(folder):
    write_parquet(folder / "people.parquet", f"{MEMBER_ROWS} LIMIT 0")
    with pytest.raises(DeliveryError, match="people.parquet: no rows"):
        take_in(folder, source("people.parquet", None))
    write_parquet(folder / "people.parquet", "SELECT 1 AS age, {'sex': 'F'} AS nested")
    with pytest.raises(DeliveryError, match=r"missing column Member No. \(to be read as member_id\), sex"):
        take_in(folder, source("people.parquet", None))


def test_files_of_two_formats_are_not_one_table(folder):
    write_parquet(folder / "people.parquet", MEMBER_ROWS)
    (folder / "people.csv").write_text("Member No.,sex,age\n1,F,40\n")
    with pytest.raises(DeliveryError, match=r"several formats \(CSV, Parquet\)"):
        take_in(folder, source("people.*", None))


def test_the_policy_must_name_a_file_of_a_folder(tmp_path):
    folder = write_tables(tmp_path / "in", [member("m1")], [claim("c1")])
    options = TablesSource(members=MembersMap(columns={"member_id": "member_id", "sex": "sex", "age": "age"}))
    with pytest.raises(DeliveryError, match="source.members.file"):
        take_in(folder, options)


def test_a_number_that_is_no_whole_number_is_of_the_wrong_type(folder):
    rows = """SELECT * FROM (VALUES (1, 'F', 45.5::DOUBLE), (2, 'F', 45.0), (3, 'F', 'NaN'), (4, 'F', NULL))
        AS t("Member No.", sex, age)"""
    write_parquet(folder / "people.parquet", rows)
    taken = take_in(folder, source("people.parquet", None))
    assert taken.frame("members", "member_id")["member_id"].tolist() == ["2", "4"]
    assert [(count.rule, count.rows) for count in taken.report.quarantined] == [("wrong type", 2)]


def test_what_the_generator_writes_is_taken_in_whole(tmp_path):
    synthetic.write_delivery(tmp_path / "in", members=500, seed=3)
    taken = take_in(tmp_path / "in", SyntheticSource(), 0.0, known_codes)
    assert taken.report.quarantined == () and taken.report.rows_kept["members"] == 500
    for table, contract in INTAKE.items():
        assert violations(Table(taken.store, "intake", table), contract) == {}


_TUVA_CLAIMS = {
    "member_id": "member_id", "service_date": "claim_start_date", "place": "place_of_service_code", "cpt": "hcpcs_code",
    "admission_date": "admission_date", "discharge_date": "discharge_date", "paid_date": "paid_date",
    "provider_id": "rendering_npi", "vendor_id": "billing_npi",
    **{f"diagnosis_{number}": f"diagnosis_code_{number}" for number in range(1, 5)},
}  # fmt: skip


def _tuva(unknown_codes: str) -> TablesSource:
    people = {"member_id": "member_id", "sex": "gender", "birth_date": "birth_date"}
    return TablesSource(
        members=MembersMap(file="eligibility_seed.csv", columns=people),
        claims=ClaimsMap(file="medical_claim_seed.csv", columns=_TUVA_CLAIMS),
        years=Years(first=2016),
        unknown_codes=unknown_codes,
    )


@needs_tuva
def test_public_claims_coded_in_icd_10_are_refused_whatever_becomes_of_unknown_codes(tmp_path):
    codes = known_codes
    said = set()
    for unknown in ("quarantine", "blank"):
        told = "of diagnosis_code_1, .* are codes of ICD-10-CM, where diagnosis_codes says ICD-9-CM. Set diagnosis_codes: icd10"
        with pytest.raises(DeliveryError, match=told) as error:
            take_in(TUVA, _tuva(unknown), 0.7, codes, tmp_path / "store" / "s.duckdb")
        said.add(str(error.value))
    assert len(said) == 1


@pytest.mark.parametrize("kind", ["INTEGER", "DOUBLE", "DECIMAL(6, 2)"])
@pytest.mark.parametrize("code", ["7953", "NULL"])
def test_diagnoses_that_are_numbers_have_lost_their_leading_zeros(folder, kind, code):
    """07953 (HIV type 2) and 7953 are one number: no list can tell them apart. A column without a code is no harm."""
    write_parquet(folder / "people.parquet", "SELECT 'm1' AS id, 'F' AS sex, 40 AS age")
    write_parquet(folder / "claims.parquet", f"SELECT 'm1' AS id, 1 AS year, {code}::{kind} AS dx")
    options = TablesSource(
        members=MembersMap(file="people.parquet", columns={"member_id": "id", "sex": "sex", "age": "age"}),
        claims=ClaimsMap(file="claims.parquet", columns={"member_id": "id", "year": "year", "diagnosis_1": "dx"}),
    )
    if code == "NULL":
        assert take_in(folder, options).report.rows_kept["claims"] == 1
    else:
        with pytest.raises(DeliveryError, match=r"column dx \(to be read as diagnosis_1\) contains numbers"):
            take_in(folder, options)


@pytest.mark.parametrize("as_file", [False, True])
def test_a_file_whose_name_reads_as_a_pattern_is_that_file(folder, tmp_path, as_file):
    """'claims[1].parquet' as a pattern would be claims1.parquet, another file."""
    write_parquet(folder / "people.parquet", MEMBER_ROWS)
    write_parquet(folder / "claims[1].parquet", f"{CLAIM_ROWS} LIMIT 2")
    write_parquet(folder / "claims1.parquet", f"{CLAIM_ROWS} LIMIT 1")
    paths = (folder / "people.parquet", folder / "claims[1].parquet") if as_file else (folder,)
    delivery = Delivery("a", "tables", paths)
    report = read_delivery(
        tmp_path / "store" / "s.duckdb", delivery, Reading(source("people.parquet", "claims[1].parquet"), 1.0), None
    )
    assert report.rows_kept["claims"] == 2


def test_columns_of_a_parquet_file_that_differ_in_case_only(folder):
    people = pa.table({"Member No.": [1, 2], "SEX": ["x", "x"], "sex": ["F", "M"], "age": [40, 50]})
    write_parquet(folder / "claims.parquet", CLAIM_ROWS)
    pq.write_table(people, folder / "people.parquet")
    with pytest.raises(DeliveryError, match="column sex occurs in upper and lower case: rename one"):
        take_in(folder, source("people.parquet", "claims.parquet"))
    pq.write_table(people.select(["Member No.", "sex", "SEX", "age"]), folder / "people.parquet")
    assert kept(take_in(folder, source("people.parquet", "claims.parquet"))) == EXPECTED

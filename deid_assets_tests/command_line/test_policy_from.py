"""`deid policy new --from`: what is recognized, that the policy is accepted and can be run, and that no value is told."""

import csv
import gzip
import shutil
import zipfile
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import load_policy
from deid_assets.policy.proposal.layouts import recognize
from deid_assets.policy.proposal.looking import look_at
from deid_assets.reference.groups import known_codes
from deid_assets.sources.delivery import Delivery, FromColumn
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.command_line import ERROR, deid_here, unwrapped
from deid_assets_tests.scenarios.tables_delivery import TABLES, good_tables, tables_of_synthetic


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("made") / "delivery"
    write_delivery(folder, 400, 3)
    return folder


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    """The current folder, with nothing in it."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path / "here"


def new(delivery: Path, *more: object) -> tuple[int, str]:
    home = Path.cwd() / ".deid"
    return deid_here(home, "policy", "new", "ours", "--title", "Ours", "--owner", "team:us", "--from", delivery, *more)


def proposed(delivery: Path) -> tuple[str, str]:
    """What the command prints, and the text of the policy, once `policy check` accepted it."""
    code, printed = new(delivery)
    assert code == 0, printed
    assert "ours.yaml was written. Next: deid policy check ours.yaml" in unwrapped(printed)
    checked, said = deid_here(Path.cwd() / ".deid", "policy", "check", "ours.yaml")
    assert checked == 0, said
    return unwrapped(printed), Path("ours.yaml").read_text()


def taken_in(delivery: Path, tmp_path: Path):
    """Read a delivery under the proposed policy as it is."""
    policy = load_policy(Path("ours.yaml"))
    received = Delivery("one", "tables", (delivery,))
    declared = policy.columns.declared
    at_most = policy.intake.quarantine_at_most
    store = tmp_path / "store" / "one.duckdb"
    codes = policy.diagnosis_codes
    return read_delivery(
        store, received, Reading(policy.source, at_most, declared=declared, diagnosis_codes=codes), known_codes
    )


def test_tables_of_other_names_are_mapped_and_taken_in_after_one_edit(synthetic, here, tmp_path):
    delivery = tables_of_synthetic(synthetic, tmp_path / "tables")
    printed, text = proposed(delivery)
    assert "members.csv: members, one row per person, 400 rows, 5 columns" in printed
    assert "claims.csv: claims, one row per claim" in printed
    assert "diagnosis_codes: icd9cm" in text and "of dx have the form of ICD-9-CM codes" in text
    source = load_policy(Path("ours.yaml")).source
    by_hand = {table: TABLES["source"][table]["columns"] for table in ("members", "claims")}
    assert source.members.columns == by_hand["members"] and len(by_hand["members"]) == 5
    filled = {name: theirs for name, theirs in by_hand["claims"].items() if theirs not in ("admitted", "left")}
    assert source.claims.columns == filled and len(filled) == 9, "as in the policy that reads these tables"
    assert (source.years.first, source.years.last) == (2007, 2009)
    assert "1.8% of the rows of claims.csv have no day, and are quarantined" in printed, printed
    Path("ours.yaml").write_text(text.replace("quarantine_at_most: 0.01", "quarantine_at_most: 0.05"))
    report = taken_in(delivery, tmp_path)
    assert report.rows_kept["members"] == 400


def test_files_of_the_generator_are_heritage_and_taken_in(synthetic, here, tmp_path):
    printed, _ = proposed(synthetic)
    assert "Layout: Heritage." in printed
    assert not taken_in(synthetic, tmp_path).quarantined


def write_own(folder: Path, code: str = "E119", members: int = 60) -> Path:
    """Tables with German dates, semicolons, coded sex and packed claims by year."""
    folder.mkdir(parents=True)
    with (folder / "people.csv").open("w", newline="") as file:
        rows = csv.writer(file, delimiter=";")
        rows.writerow(["PersonNo", "Gender", "BirthDate", "Zip", "Race", "LastName", "Email"])
        for number in range(members):
            born = f"{number % 28 + 1:02d}.{number % 12 + 1:02d}.{1930 + number % 60}"
            last = f"Quixote{number}", f"quixote{number}@example.org"
            rows.writerow(
                [f"P{number:05d}", 1 + number % 2, born, 10001 + number % 9, "Zorblax" if number % 3 else "Vlurp", *last]
            )
    for year in (2021, 2022):
        with gzip.open(folder / f"claims_{year}.csv.gz", "wt", newline="") as file:
            rows = csv.writer(file, delimiter=";")
            rows.writerow(["ClaimNo", "PersonNo", "Doctor", "FamilyDoctor", "ServiceDay", "Place", "Procedure", "Dx1", "Paid"])
            for number in range(200):
                day = f"{number % 28 + 1:02d}.{number % 12 + 1:02d}.{year}"
                codes = ["81", "99213", ("I10", "J449", code)[number % 3], 7 * number]
                rows.writerow([f"C{year}{number}", f"P{number % members:05d}", "Drsmith77", "Drjones88", day, *codes])
    return folder


def test_dates_codes_of_sex_years_and_files_of_several_years_are_recognized(here, tmp_path):
    printed, text = proposed(write_own(tmp_path / "own"))
    source = load_policy(Path("ours.yaml")).source
    assert source.delimiter == ";" and source.sex_values == {"1": "M", "2": "F"}
    assert source.members.date_formats == {"birth_date": ("%d.%m.%Y",)}
    assert source.claims.file == "claims_*.csv.gz"
    assert (source.years.first, source.years.last) == (2021, 2022)
    assert "diagnosis_codes: icd10cm" in text and "67% of Dx1 have the form of ICD-10-CM codes" in printed, printed
    assert set(load_policy(Path("ours.yaml")).columns.members) == {"race", "zip3"}
    assert "LastName" in text and "CHECK" in text


def test_spans_of_an_unknown_layout_are_recognized_and_joined(here, tmp_path):
    people = write_own(tmp_path / "own") / "people.csv"
    head, *rows = people.read_text().splitlines()
    people.write_text("\n".join([head, *rows, *rows[:20]]) + "\n")
    printed, text = proposed(tmp_path / "own")
    assert "people.csv: members, one row per span, 80 rows" in printed and "unit: span" in text
    report = taken_in(tmp_path / "own", tmp_path)
    assert report.rows_kept["members"] == 60 and "members: 80 spans were joined to 60 people" in report.warnings


def test_columns_that_may_be_diagnoses_are_mapped_or_named(here, tmp_path):
    lines = ["person,sex,age", *(f"P{n},{'FM'[n % 2]},{n % 80}" for n in range(50))]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "people.csv").write_text("\n".join(lines) + "\n")
    codes = [f"P{n % 50},2020-01-{n % 28 + 1:02d},I10,{'I10' if n % 2 else 'none'},,J449" for n in range(100)]
    (tmp_path / "in" / "visits.csv").write_text("\n".join(["person,day,dx_1,dx_other,dx_2,admitting_dx", *codes]) + "\n")
    printed, _ = proposed(tmp_path / "in")
    columns = load_policy(Path("ours.yaml")).source.claims.columns
    assert {name: column for name, column in columns.items() if "diagnosis" in name} == {
        "diagnosis_1": "dx_1", "diagnosis_2": "dx_2", "admitting_diagnosis": "admitting_dx"
    }  # fmt: skip
    assert "not mapped: dx_other. If they contain diagnoses" in printed


def test_two_systems_of_codes_in_one_column_are_told(here, tmp_path):
    printed, text = proposed(write_own(tmp_path / "own", "4280"))
    assert "diagnosis_codes: by_date" in text
    assert "% of all diagnoses have the form of ICD-9-CM codes" in printed


def test_no_value_of_the_data_is_printed_or_written(here, tmp_path):
    delivery = write_own(tmp_path / "own")
    printed, text = proposed(delivery)
    values = {"Zorblax", "Vlurp", "Quixote", "Drsmith77", "Drjones88", "I10", "J449", "E119", "10001", "99213", "C2021", "P000"}
    for path in delivery.iterdir():
        read = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
        values |= {cell for row in read.decode().splitlines()[1:] for cell in row.split(";") if len(cell) > 4}
    assert not {value for value in values if value in text or value in printed}


def test_no_value_of_a_flat_table_is_printed_or_written(here, tmp_path):
    kinds = ["plumvork", "grindlewax", "snorbit"]
    lines = ["person_id,born,age,kind,zip,income,full_name,note"]
    lines += [
        f"P{n:06d},{1931 + n % 60}-{n % 12 + 1:02d}-{n % 28 + 1:02d},{20 + n % 67},{kinds[n % 3]},{80200 + n % 30},{n * 137},"
        f"Quixote Number{n},free text {n}"
        for n in range(300)
    ]
    (tmp_path / "flat.csv").write_text("\n".join(lines) + "\n")
    printed, text = proposed(tmp_path / "flat.csv")
    beside = Path("ours_hierarchy_age.csv").read_text().splitlines()
    assert beside[0] == "0;0-4;0-9;0-19;*" and beside[-1] == "100;100-104;100-109;100-119;*"
    cells = {cell for line in lines[1:] for cell in line.split(",") if len(cell) > 3}
    said = (text.replace("1.86", "") + printed).replace(str(tmp_path), "")  # the folder of the tests has a number, too
    assert not {cell for cell in cells | {"86"} if cell in said}
    policy = load_policy(Path("ours.yaml"))
    assert policy.source.person == "person_id"
    assert {qi.column: policy.hierarchy_of(qi.release_as).level_names for qi in policy.quasi_identifiers} == {
        "born": ("7 characters", "4 characters", "0 characters"),
        "age": ("value", "level 1", "level 2", "level 3", "level 4"),
        "kind": ("whole text", "0 characters"),
        "zip": ("3 characters", "2 characters", "0 characters"),
    }
    assert "full_name (identifies people)" in " ".join(text.replace("#", "").split())


def test_a_date_is_no_attribute_whatever_its_name(here, tmp_path):
    """Only the person knows an amount. Others may know the day of a payment, and attributes are published as they are."""
    lines = ["kind,paid_amount,paid_date,tested"]
    lines += [
        f"k{n % 3},{n % 50}.5,{n % 28 + 1:02d}/{n % 12 + 1:02d}/2019,2019-{n % 12 + 1:02d}-{n % 28 + 1:02d}" for n in range(300)
    ]
    (tmp_path / "flat.csv").write_text("\n".join(lines) + "\n")
    printed, _ = proposed(tmp_path / "flat.csv")
    policy = load_policy(Path("ours.yaml"))
    assert [one.column for one in policy.attributes] == ["paid_amount"]
    assert [one.column for one in policy.quasi_identifiers] == ["kind", "tested"]
    assert "not published: paid_date (dates that do not begin with the year" in printed


def test_no_exact_date_or_zip_code_and_nothing_that_identifies_is_proposed_for_a_flat_table(here, tmp_path):
    """However many people share it: 40 rows have each of these values."""
    cells = {
        "sex": "F", "visit": "2020-03-0{n}", "day": "2020030{n}", "zip": "0213{n}", "patient_name": "Ann{n}", "lname": "Lee{n}",
        "postcode": "0213{n}", "copay": "12.3{n}", "remark": "see Dr. House{n}", "test_result": "call 555-123-456{n}",
        "score": "s{n}",
    }  # fmt: skip
    rows = [",".join(cell.format(n=n % 5 + 1) for cell in cells.values()) for n in range(200)]
    (tmp_path / "flat.csv").write_text("\n".join([",".join(cells), *rows]) + "\n")
    printed, _ = proposed(tmp_path / "flat.csv")
    policy = load_policy(Path("ours.yaml"))
    lengths = {qi.column: policy.hierarchies[qi.hierarchy].lengths for qi in policy.quasi_identifiers}
    assert lengths == {"visit": (7, 4, 0), "day": (6, 4, 0), "zip": (3, 2, 0)}
    assert [one.column for one in policy.attributes] == ["score"]
    for name in ("patient_name", "lname", "postcode", "remark", "test_result"):
        assert f"{name} (identifies people)" in printed
    assert "copay (decimal, 5 values)" in printed


def test_columns_of_a_flat_table_with_alike_or_reserved_names_have_names_of_their_own(here, tmp_path):
    names = ["Eye Color", "eye-color", "EyeColor", "rowid"]
    (tmp_path / "flat.csv").write_text(
        "\n".join([",".join(names), *(f"a{n % 2},b{n % 2},c{n % 2},d{n % 2}" for n in range(99))])
    )
    proposed(tmp_path / "flat.csv")
    released = {qi.column: qi.release_as for qi in load_policy(Path("ours.yaml")).quasi_identifiers}
    assert released == dict(zip(names, ["eye_color", "eye_color_2", "eye_color_2_2", "column_rowid"], strict=True))


def test_a_duckdb_file_is_looked_at_by_table(synthetic, here, tmp_path):
    with duckdb.connect(str(tmp_path / "one.duckdb")) as connection:
        for table in ("members", "claims"):
            connection.execute(f"CREATE TABLE {table} AS SELECT * FROM '{synthetic}/{table}.parquet'")
        connection.execute("CREATE VIEW peeking AS SELECT 1 AS x")
    printed, _ = proposed(tmp_path / "one.duckdb")
    assert "one.duckdb:members: members" in printed and "peeking" not in printed
    assert not taken_in(tmp_path / "one.duckdb", tmp_path).quarantined


def test_adult_is_a_flat_table(here):
    printed, text = proposed(public_data("adult", "adult.csv"))
    assert "adult.csv: a flat table, 30,162 rows, 9 columns" in printed
    assert "# CHECK" in text and [one.column for one in load_policy(Path("ours.yaml")).attributes] == ["salary-class"]
    assert "Bachelors" not in text and "White" not in text
    code, printed = deid_here(here / ".deid", "plan", "--policy", "ours.yaml", "--delivery", public_data("adult", "adult.csv"))
    assert code == 0 and "This is no guarantee" in printed, printed


def test_desynpuf_is_recognized_by_headers_and_keeps_its_policy(here, tmp_path):
    for number, path in enumerate(sorted(public_data("desynpuf", "sample-2").iterdir())):
        (tmp_path / "renamed").mkdir(exist_ok=True)
        shutil.copyfile(path, tmp_path / "renamed" / f"table{number}.csv")
    printed, _ = proposed(tmp_path / "renamed")
    assert "not used" not in printed
    assert "Layout: CMS DE-SynPUF." in printed and load_policy(Path("ours.yaml")).source.kind == "desynpuf"


def test_spans_and_lines_of_tuva_are_joined_without_an_edit(here, tmp_path):
    printed, text = proposed(public_data("tuva"))
    assert "Layout: Tuva." in printed and "one row per span, 31 rows" in printed and "one row per claim line, 2,075" in printed
    assert "unit: span" in text and "unit: line" in text and "diagnosis_codes: icd10cm" in text
    report = taken_in(public_data("tuva"), tmp_path)
    assert report.rows_kept == {"members": 10, "claims": 1896} and not report.quarantined
    assert {"enrolled_from", "enrolled_until"} <= set(load_policy(Path("ours.yaml")).source.members.columns)
    assert "members: 31 spans were joined to 10 people" in report.warnings
    (joined,) = [warning for warning in report.warnings if "lines were joined" in warning]
    assert joined.startswith("claims: 2,075 lines were joined to 1,896 events of 1,138 claims") and "place 1 (0.09%)" in joined


def test_tables_of_events_of_synthea_are_proposed_and_taken_in(here, tmp_path):
    printed, text = proposed(public_data("synthea"))
    assert "Layout: Synthea." in printed and "medications.csv: medications, a table of events, 93 rows" in printed
    assert "left out: coverage spans. No list searches them: check that they have neither codes nor free text" in printed
    assert "for you to describe" not in printed, "every table has its codes, or a reason why it is left out"
    assert "claims.csv: no list searches DIAGNOSIS1, DIAGNOSIS2" in printed and "no list searches REASONCODE" in printed
    policy = load_policy(Path("ours.yaml"))
    assert policy.event_tables == ("claims", "conditions", "encounters", "immunizations", "medications", "procedures")
    assert policy.removal.coded_claims_at_least.diagnosis is None
    assert policy.listed_columns == ("condition", "encounter_kind", "vaccine", "drug", "procedure_kind")
    report = taken_in(public_data("synthea"), tmp_path)
    assert report.rows_kept["medications"] > 0 and not report.quarantined
    unknown = [one for one in report.warnings if "are unknown (100.00%" in one]
    assert [one.partition(":")[0] for one in unknown] == [
        "conditions", "encounters", "immunizations", "medications", "procedures"
    ], "no table says what codes of SNOMED CT and CVX are, or names ingredients"  # fmt: skip


def test_fills_of_tuva_are_proposed_and_all_unknown_without_a_table_of_drugs(here, tmp_path):
    folder = shutil.copytree(public_data("tuva"), tmp_path / "tuva")
    header = (folder / "pharmacy_claim_header.csv").read_text().strip().replace("\ufeff", "")
    names = header.split(",")
    row = dict.fromkeys(names, "") | {"patient_id": "10", "dispensing_date": "2016-03-04", "ndc_code": "00093104801"}
    lines = [header, *(",".join((row | {"claim_id": f"F{number}"})[name] for name in names) for number in range(3))]
    (folder / "pharmacy_claim_header.csv").write_text("\n".join(lines) + "\n")
    printed, _ = proposed(folder)
    assert "ndc_code: no table says what these drugs are, so that all are unknown and the delivery is refused" in printed
    assert load_policy(Path("ours.yaml")).source.events["fills"].columns["member_id"] == "patient_id"
    report = taken_in(folder, tmp_path)
    assert any(one.startswith("fills: 3 of 3 codes in ndc_code are unknown (100.00%") for one in report.warnings)


@pytest.fixture
def omop(tmp_path) -> Path:
    """The public OMOP database as it is unpacked, with the files that macOS wrote beside its own."""
    with zipfile.ZipFile(public_data("omop", "Synthea27NjParquet_5.4.zip")) as packed:
        packed.extractall(tmp_path / "omop")
    return tmp_path / "omop"


def test_omop_is_recognized_in_a_zip_file(here):
    packed = public_data("omop", "Synthea27NjParquet_5.4.zip")
    printed, text = proposed(packed)
    assert "Layout: OMOP." in printed and "unpack it into a folder" in printed
    assert 'sex_values: {"8507": M, "8532": F}' in text and "drug_exposure.parquet" in text


def test_events_of_omop_are_read_by_its_vocabulary(here, omop, tmp_path):
    printed, text = proposed(omop)
    assert "39 files ._*: macOS wrote it beside another file" in printed
    policy = load_policy(Path("ours.yaml"))
    assert policy.event_tables == (
        "claims", "conditions", "deaths", "devices", "drugs", "measurements", "observations", "procedures"
    )  # fmt: skip
    assert set(policy.source.vocabulary.tables) == {"concept", "concept_relationship"}, "no concept has an ancestor there"
    assert not policy.source.unreadable
    assert policy.columns.claims["visit"].groups["9202"] == "outpatient"
    assert policy.sensitive_columns == ("condition", "cause", "observation"), "what tells of diagnoses"
    assert set(policy.sensitive_columns) < set(policy.inference.columns) and "diagnosis" not in policy.inference.columns
    report = taken_in(omop, tmp_path)
    assert report.rows_kept["members"] == 28 and not report.quarantined
    unknown = [one.split(" in ")[0] for one in report.warnings if "are unknown (100.00%" in one]
    # Its vocabulary has no concept of ICD or CPT; the names of its drugs are those of RxNorm.
    assert unknown == [
        "conditions: 435 of 435 codes", "deaths: 3 of 3 codes", "devices: 1 of 1 codes", "measurements: 10,040 of 10,040 codes",
        "observations: 8,008 of 8,008 codes", "procedures: 1,649 of 1,649 codes",
    ]  # fmt: skip


def test_codes_that_have_the_form_of_a_system_go_through_it(here, tmp_path):
    """Source values of ICD-10-CM and CPT need no vocabulary; drugs without one are NDCs."""
    folder = tmp_path / "cdm"
    folder.mkdir()
    people = [f"{n},{(8507, 8532)[n % 2]},19{40 + n % 50},19{40 + n % 50}-02-03" for n in range(1, 41)]
    tables = {
        "person": ["person_id,gender_concept_id,year_of_birth,birth_datetime", *people],
        "visit_occurrence": ["visit_occurrence_id,person_id,visit_start_date,visit_end_date,visit_concept_id"]
        + [f"{n},{1 + n % 40},2020-01-{1 + n % 28:02d},2020-01-{1 + n % 28:02d},9202" for n in range(120)],
        "condition_occurrence": [
            "condition_occurrence_id,person_id,condition_concept_id,condition_start_date,condition_source_value",
            *(f"{n},{1 + n % 40},{(5, 6)[n % 2]},2020-01-{1 + n % 28:02d},{('I10', 'J44.9')[n % 2]}" for n in range(120)),
        ],
        "procedure_occurrence": [
            "procedure_occurrence_id,person_id,procedure_concept_id,procedure_date,procedure_source_value",
            *(f"{n},{1 + n % 40},{n},2020-01-{1 + n % 28:02d},{('99213', '85025')[n % 2]}" for n in range(120)),
        ],
        "drug_exposure": [
            "drug_exposure_id,person_id,drug_concept_id,drug_exposure_start_date,drug_source_value",
            *(f"{n},{1 + n % 40},{n},2020-01-{1 + n % 28:02d},00093104801" for n in range(120)),
        ],
    }
    for name, lines in tables.items():
        (folder / f"{name}.csv").write_text("\n".join(lines) + "\n")
    proposed(folder)
    columns = load_policy(Path("ours.yaml")).columns.events
    kinds = {name: (one.kind, one.from_) for table, own in columns.items() if table != "claims" for name, one in own.items()}
    assert kinds == {
        "condition": ("diagnosis", "condition_source_value"),
        "procedure_kind": ("cpt_section", "procedure_source_value"),
        "drug": ("ndc", "drug_source_value"),
    }
    report = taken_in(folder, tmp_path)
    assert [one.partition(":")[0] for one in report.warnings if "are unknown" in one] == ["drugs"]
    asked = load_policy(Path("ours.yaml")).removal.coded_claims_at_least
    assert (asked.diagnosis, asked.procedure, asked.place) == (None, None, None)
    # Without a table that has them, diagnoses are asked of the claims, and no policy goes without them for no reason.
    (folder / "condition_occurrence.csv").unlink()
    for file in here.glob("ours*"):
        file.unlink()
    printed, text = proposed(folder)
    asked = load_policy(Path("ours.yaml")).removal.coded_claims_at_least
    assert (asked.diagnosis, asked.procedure, asked.place) == (0.5, None, 0.5)
    assert "no column of ICD-9-CM or ICD-10-CM diagnoses was found: without one, no sensitive code is searched" in printed
    Path("ours.yaml").write_text(text.replace("coded_claims_at_least: {", "coded_claims_at_least: {diagnosis: null, "))
    with pytest.raises(PolicyError, match="removes members for diagnoses, and the policy reads none"):
        load_policy(Path("ours.yaml"))


def test_tables_with_free_text_wait_for_a_reason_and_every_event_of_omop_has_a_date(here, tmp_path):
    """A table without rows is not looked at. Dates are proposed with the tables, and drawn anew."""
    folder = tmp_path / "cdm"
    folder.mkdir()
    tables = {
        "person": "SELECT n AS person_id, 8507 AS gender_concept_id, 1950 AS year_of_birth, "
        "DATE '1950-02-03' AS birth_datetime",
        "visit_occurrence": "SELECT n AS visit_occurrence_id, n AS person_id, DATE '2020-01-02' AS visit_start_date, "
        "DATE '2020-01-02' AS visit_end_date, 9202 AS visit_concept_id",
        "condition_occurrence": "SELECT n AS condition_occurrence_id, n AS person_id, "
        "DATE '2020-01-02' AS condition_start_date, 'I10' AS condition_source_value",
        "note": "SELECT n AS note_id, n AS person_id, 'text' AS note_text",
        "specimen": "SELECT n AS specimen_id, n AS person_id, 'text' AS specimen_source_value",
    }
    for name, query in tables.items():
        rows = 0 if name == "note" else 40
        duckdb.sql(f"COPY (SELECT * FROM ({query} FROM range({rows}) AS r(n))) TO '{folder / name}.parquet' (FORMAT parquet)")
    printed, text = proposed(folder)
    assert "not looked at: note.parquet" in printed and "specimens, for you to describe or to leave out" in printed
    policy = load_policy(Path("ours.yaml"))
    assert [one.holds for one in policy.source.further_tables if one.left_out is None] == ["specimens"]
    assert "specimens" in policy.source.unreadable[0]
    assert (policy.dates.anchor, policy.dates.width, policy.dates.derived) == ("year", 364, "drop")
    released = [qi.column for qi in policy.quasi_identifiers.claims]
    assert released == ["service_interval", "service_period", "visit", "condition"]
    assert policy.long_tail.unit == "member" and "Dates are drawn anew, by one sequence for all events of a person" in text


def test_a_file_is_not_replaced(here, tmp_path):
    delivery = good_tables(tmp_path / "good")
    Path("ours.yaml").write_text("mine")
    code, printed = new(delivery)
    assert code == ERROR and "ours.yaml already exists" in printed and Path("ours.yaml").read_text() == "mine"
    Path("ours.yaml").unlink()
    (tmp_path / "flat.csv").write_text("age,kind\n" + "".join(f"{20 + n},k{n % 3}\n" for n in range(30)))
    Path("ours_hierarchy_age.csv").write_text("mine")
    code, printed = new(tmp_path / "flat.csv")
    assert code == ERROR and "ours_hierarchy_age.csv already exists" in unwrapped(printed)
    assert [path.name for path in here.iterdir() if path.is_file()] == ["ours_hierarchy_age.csv"]


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("no.csv", None, "no.csv: missing file or folder"),
        ("empty.csv", b"", "empty file"),
        ("bytes.csv", b"\xff\xfe\x00secretvalue", "not a header in UTF-8"),
        ("some.parquet", b"secretvalue", "not a Parquet file"),
        ("some.duckdb", b"secretvalue" * 2_000, "not a DuckDB file"),
        ("some.zip", b"secretvalue", "not a zip file"),
        ("some.csv.gz", b"secretvalue", "not a gz file"),
        ("bare.csv", b"39,secretvalue\n40,other\n", "does not look like names of columns"),
        ("words.csv", b"secretvalue,red\nother,blue\nthird,red\n", "also a value below it"),
        ("header.csv", b"a,b\n", "no rows"),
    ],
)
def test_what_cannot_be_read_is_refused_without_a_value(here, tmp_path, name, content, said):
    if content is not None:
        (tmp_path / name).write_bytes(content)
    code, printed = new(tmp_path / name)
    assert code == ERROR and said in unwrapped(printed), printed
    assert "secretvalue" not in printed and not Path("ours.yaml").exists()


def test_an_empty_folder_and_a_link_are_refused(here, tmp_path):
    (tmp_path / "empty").mkdir()
    assert new(tmp_path / "empty")[0] == ERROR
    (tmp_path / "linked").mkdir()
    (tmp_path / "linked" / "members.csv").symlink_to("/etc/passwd")
    code, printed = new(tmp_path / "linked")
    assert code == ERROR and "symbolic link" in printed


def test_files_inside_a_zip_stay_in_the_folder_of_copies(tmp_path):
    with zipfile.ZipFile(tmp_path / "many.zip", "w") as archive:
        archive.writestr("../../one.csv", "a,b\n1,2\n3,4\n")
        archive.writestr("two.csv", "c,d\n1,2\n3,4\n")
    assert [table.file for table in look_at(tmp_path / "many.zip").tables] == ["one.csv", "two.csv"]
    assert not (tmp_path.parent.parent / "one.csv").exists()


def test_from_and_like_exclude_each_other(here, tmp_path):
    code, printed = new(good_tables(tmp_path / "good"), "--like", "heritage")
    assert code == 64 and "give one of them" in unwrapped(printed)


def test_copies_are_removed(tmp_path):
    look = look_at(good_tables(tmp_path / "good"), tmp_path)
    assert recognize(look).claims is not None
    assert [path.name for path in tmp_path.iterdir()] == ["good"]


def test_columns_of_codes_are_guessed_by_their_codes(tmp_path):
    """Procedure codes are digits but for a few, and the specialty of a provider is no provider."""
    folder = tmp_path / "in"
    folder.mkdir()
    people = [f"p{number},{'FM'[number % 2]},{1940 + number}-03-04" for number in range(60)]
    codes = ["99213", "85025", "J1100", "80053"]
    lines = [
        f"c{number},p{number % 60},2019-0{1 + number % 9}-05,Internal medicine,N{number % 7},11,{codes[number % 4]},E11.9"
        for number in range(400)
    ]
    (folder / "people.csv").write_text("\n".join(["subscriber,sex,born", *people]))
    header = "clm_id,subscriber,from_date,provider_specialty,rendering_npi,pos,hcpcs,dx1"
    (folder / "medical.csv").write_text("\n".join([header, *lines]))
    code, printed = deid_here(
        tmp_path / "deid", "policy", "new", "ours", "--title", "Ours", "--owner", "team:x", "--from", folder,
        "--output", tmp_path / "ours.yaml",
    )  # fmt: skip
    assert code == 0, printed
    mapped = load_policy(tmp_path / "ours.yaml").source.claims.columns
    assert {name: mapped[name] for name in ("provider_id", "specialty", "place", "cpt", "diagnosis_1")} == {
        "provider_id": "rendering_npi", "specialty": "provider_specialty", "place": "pos", "cpt": "hcpcs", "diagnosis_1": "dx1"
    }  # fmt: skip


def propose(folder, tmp_path, name="ours"):
    named = ("--title", "Ours", "--owner", "team:x", "--from", folder, "--output", tmp_path / "ours.yaml")
    return deid_here(tmp_path / "deid", "policy", "new", name, *named)


def test_a_column_that_names_the_coding_system_is_proposed_where_both_occur(tmp_path):
    lines = [f"c{n},p{n % 60},2019-0{1 + n % 9}-05,99213,{'9,4019' if n % 10 == 0 else '10,I10'}" for n in range(400)]
    folder = write_two(tmp_path / "in", "clm_id,subscriber,from_date,hcpcs,icd_version,dx1", lines)
    code, printed = propose(folder, tmp_path)
    assert code == 0 and "10.0% of all diagnoses have the form of ICD-9-CM codes: icd_version tells" in unwrapped(printed), (
        printed
    )
    assert load_policy(tmp_path / "ours.yaml").diagnosis_codes == FromColumn(from_="icd_version")


def test_a_name_that_leaves_the_folder_is_refused(tmp_path):
    folder = write_two(tmp_path / "in", "clm_id,subscriber,from_date,dx1", ["c1,p1,2019-01-01,I10"])
    code, printed = propose(folder, tmp_path, "../elsewhere")
    assert code == ERROR and "a name consists of lower-case letters" in unwrapped(printed)


def test_a_link_to_nothing_is_not_replaced(tmp_path):
    (tmp_path / "ours.yaml").symlink_to(tmp_path / "nothing.yaml")
    folder = write_two(tmp_path / "in", "clm_id,subscriber,from_date,dx1", ["c1,p1,2019-01-01,I10"])
    code, printed = propose(folder, tmp_path)
    assert code == ERROR and "already exists" in unwrapped(printed)


def write_two(folder, header, lines):
    folder.mkdir()
    people = [f"p{number},{'FM'[number % 2]},{1940 + number}-03-04" for number in range(60)]
    (folder / "people.csv").write_text("\n".join(["subscriber,sex,born", *people]))
    (folder / "medical.csv").write_text("\n".join([header, *lines]))
    return folder


def test_a_damaged_archive_is_named_however_it_is_packed(tmp_path):
    packed = tmp_path / "in.zip"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_LZMA) as archive:
        for name in ("people.csv", "medical.csv"):
            archive.writestr(name, "id,sex\n" + "p1,F\n" * 10_000)
    whole = bytearray(packed.read_bytes())
    whole[60:120] = bytes(60)
    packed.write_bytes(whole)
    code, printed = propose(packed, tmp_path)
    assert code == ERROR and "in.zip: unreadable file: not a zip file, damaged or encrypted" in unwrapped(printed), printed


def test_columns_of_codes_are_proposed_by_their_names_and_values(tmp_path):
    """Amounts have the form of revenue codes, and no name of them; a table of drugs is for the team to write."""
    header = "clm_id,subscriber,from_date,dx1,hcpcs,hcpcs_2,revenue_center_code,taxonomy,ndc,paid"
    lines = [
        f"c{n},p{n % 60},2019-0{1 + n % 9}-05,I10,99213,{('J1100', 'A0428')[n % 2]},{('0450', '0120', '250')[n % 3]},"
        f"{('207Q00000X', '282N00000X')[n % 2]},{('0093-1048-01', '61958070101')[n % 2]},{(450, 120)[n % 2]}"
        for n in range(400)
    ]
    code, printed = propose(write_two(tmp_path / "in", header, lines), tmp_path)
    assert code == 0, printed
    policy = load_policy(tmp_path / "ours.yaml")
    assert {name: (column.kind, column.from_) for name, column in policy.columns.claims.items()} == {
        "hcpcs_letter": ("hcpcs_letter", "hcpcs_2"),
        "revenue_group": ("revenue_group", "revenue_center_code"),
        "taxonomy_kind": ("taxonomy_kind", "taxonomy"),
    }
    assert {"HcpcsLetter", "RevenueGroup", "TaxonomyKind"} <= set(policy.claim_names.values())
    assert "100% of ndc have the form of NDCs: to release groups of drugs, declare" in unwrapped(printed), printed
    text = (tmp_path / "ours.yaml").read_text()
    assert not [value for value in ("61958070101", "0093-1048-01", "J1100", "207Q00000X", "0450") if value in text + printed]
    checked, said = deid_here(tmp_path / "deid", "policy", "check", tmp_path / "ours.yaml")
    assert checked == 0, said


def test_columns_in_which_some_codes_have_no_group_are_not_proposed(tmp_path):
    lines = [f"c{n},p{n % 60},2019-0{1 + n % 9}-05,I10,99213,{'0450' if n % 20 else '0070'}" for n in range(400)]
    code, printed = propose(write_two(tmp_path / "in", "clm_id,subscriber,from_date,dx1,hcpcs,rev_cd", lines), tmp_path)
    assert code == 0, printed
    assert not load_policy(tmp_path / "ours.yaml").columns.claims and "not read: rev_cd" in (tmp_path / "ours.yaml").read_text()

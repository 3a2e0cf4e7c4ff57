"""A release as an OMOP CDM, from made-up files: what becomes of each column, and that nothing is lost, added or moved."""

import json
from pathlib import Path

import duckdb
import pytest

from deid_assets.errors import ReleaseError
from deid_assets.release.omop import export, tables
from deid_assets.release.omop.export import export_omop
from deid_assets.store.digests import file_digest

FILES = {
    "Members": "MemberID,Age,Sex,Race\n900,40-59,F,\n800,80+,M,other\n700,any,,\n",
    "Claims": (
        "MemberID,ProviderID,Vendor,PCP,Year,ServiceDate,Visit,Group,Paid\n"
        "900,77,55,,Y1,2019-03-04,inpatient,METAB3,\n"
        "900,76,55,,Y2,2020-01-02,outpatient,,10\n"
        "800,,,,Y1,2019-02-02,,AMI,\n"
        "800,,,,Y1,,other,AMI,\n"
    ),
    "Fills": "MemberID,ProviderID,Year,ServiceDate,Drug,Supply\n800,77,Y1,2019-05-05,statins,30\n800,77,Y1,2019-05-06,,30\n",
    "LabResults": "MemberID,Year,ServiceDate,Test\n900,Y1,2019-03-05,chemistry\n",
    "Attrition": "step,members\n",
}  # fmt: skip
POLICY = {
    "title": "A release",
    "owners": ["team:privacy"],
    "dates": {"release_as": "ServiceDate"},
    "quasi_identifiers": {
        "members": [
            {"column": "age", "release_as": "Age"},
            {"column": "sex", "release_as": "Sex"},
            {"column": "race", "release_as": "Race"},
        ],
        "claims": [
            {"column": "visit", "release_as": "Visit"},
            {"column": "condition_group", "release_as": "Group"},
            {"column": "drug", "release_as": "Drug"},
            {"column": "test", "release_as": "Test"},
        ],
    },
    "attributes": [{"column": "paid", "release_as": "Paid"}, {"column": "supply", "release_as": "Supply"}],
    "columns": {
        "members": {"race": {"kind": "text"}},
        "claims": {"visit": {"kind": "group"}, "paid": {"kind": "rounded"}},
        "fills": {"drug": {"kind": "ndc"}, "supply": {"kind": "integer"}},
        "lab_results": {"test": {"kind": "concept", "of": "procedure"}},
    },
}


def release(folder: Path, files=None, policy=POLICY) -> Path:
    """A folder with the files of a release and the parts of its manifest that are read."""
    (folder / "data").mkdir(parents=True)
    files = FILES | (files or {})
    for name, text in files.items():
        (folder / "data" / f"{name}.csv").write_text(text)
    named = {name: {"columns": [{"name": one} for one in text.split("\n")[0].split(",")]} for name, text in files.items()}
    (folder / "data" / "dictionary.json").write_text(json.dumps({"tables": named}))
    listed = [{"path": f"data/{path.name}", "sha256": file_digest(path)} for path in sorted((folder / "data").iterdir())]
    manifest = {
        "policy": {"name": "p", "text": json.dumps(policy)},
        "number": 1,
        "created": "2026-01-02T03:04:05Z",
        "files": listed,
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="module")
def cdm(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("omop")
    export_omop(release(root / "release"), root / "cdm")
    return root / "cdm"


def rows(cdm: Path, table: str, columns: str) -> list[tuple]:
    return duckdb.sql(f"SELECT {columns} FROM '{cdm}/{table}.parquet' ORDER BY 1").fetchall()


def test_persons_have_new_numbers_and_years_of_birth_of_their_class(cdm):
    """The middle of ages 40 to 59 in 2019, the least age of an open class, and 0 where the label names none."""
    assert rows(cdm, "person", "person_id, gender_concept_id, year_of_birth, race_concept_id") == [
        (1, 0, 0, 0), (2, 8507, 1939, 0), (3, 8532, 1969, 0)
    ]  # fmt: skip
    told = rows(cdm, "observation", "person_id, observation_source_value, value_as_string, observation_date::VARCHAR")
    assert (3, "year of birth", "1959-1979", "2019-03-04") in told and (2, "year of birth", "-1939", "2019-02-02") in told
    assert (2, "Members.Race", "other", "2019-02-02") in told and not [one for one in told if one[0] == 1]


def test_claims_are_visits_and_their_groups_conditions_of_the_visit(cdm):
    visits = "visit_occurrence_id, person_id, visit_concept_id, visit_start_date::VARCHAR, provider_id, care_site_id"
    assert rows(cdm, "visit_occurrence", visits) == [
        (1, 2, 0, "2019-02-02", None, None), (2, 3, 9202, "2020-01-02", 1, 1), (3, 3, 9201, "2019-03-04", 2, 1)
    ]  # fmt: skip
    conditions = "condition_occurrence_id, person_id, condition_concept_id, condition_source_value, visit_occurrence_id"
    assert rows(cdm, "condition_occurrence", conditions) == [(1, 2, 0, "AMI", 1), (2, 3, 0, "METAB3", 3)]


def test_other_tables_of_events_keep_every_row_and_what_has_no_place_is_an_observation(cdm):
    drugs = "drug_exposure_id, person_id, drug_source_value, drug_exposure_start_date = drug_exposure_end_date, provider_id"
    assert rows(cdm, "drug_exposure", drugs) == [(1, 2, "statins", True, 2), (2, 2, None, True, 2)]
    assert rows(cdm, "measurement", "person_id, measurement_source_value") == [(3, "chemistry")]
    told = rows(cdm, "observation", "person_id, observation_source_value, value_as_string, visit_occurrence_id")
    assert told.count((2, "Fills.Supply", "30", None)) == 2 and (3, "Claims.Paid", "10", 2) in told
    periods = "person_id, observation_period_start_date::VARCHAR, observation_period_end_date::VARCHAR"
    assert rows(cdm, "observation_period", periods) == [(2, "2019-02-02", "2019-05-06"), (3, "2019-03-04", "2020-01-02")]


def test_no_pseudonym_is_in_any_table(cdm):
    for file in cdm.iterdir():
        values = {str(value) for row in duckdb.sql(f"FROM '{file}'").fetchall() for value in row}
        assert not {"900", "800", "700", "77", "76", "55"} & values, file.name


def test_the_same_release_gives_the_same_bytes(cdm, tmp_path):
    export_omop(release(tmp_path / "release"), tmp_path / "again")
    files = {file.name: file.read_bytes() for file in cdm.iterdir()}
    assert {file.name: file.read_bytes() for file in (tmp_path / "again").iterdir()} == files


def test_what_has_no_place_is_told(tmp_path):
    written = export_omop(release(tmp_path / "release"), tmp_path / "cdm")
    assert written.undated == {"Claims": 1} and written.left_out == ("Attrition",) and written.rows["person"] == 3
    assert written.without_events == 1, "member 700 has no event"


@pytest.mark.parametrize(
    "names",
    [
        {"Visit": "visit", "Group": "place", "Paid": "label", "Race": "cdm_provider"},
        {"Visit": "cdm_number", "Group": "Pseudonym", "Paid": "Number", "Race": "cdm_person"},
        {"Visit": "cdm_day", "Group": "cdm_providers", "Paid": "cdm_person", "Race": "cdm_member"},
        {"Visit": "providers", "Group": "sites", "Paid": "first", "Race": "Provider_Id"},
    ],
)
def test_released_columns_may_have_any_name(cdm, tmp_path, names):
    """Those that the queries give, too: the same tables but for the names of observations."""
    files = {name: text for name, text in FILES.items() if name in ("Members", "Claims")}
    policy = json.loads(json.dumps(POLICY))
    for old, new in names.items():
        files = {name: text.replace(old, new, 1) for name, text in files.items()}
        for one in (*policy["quasi_identifiers"]["members"], *policy["quasi_identifiers"]["claims"], *policy["attributes"]):
            one["release_as"] = new if one["release_as"] == old else one["release_as"]
    export_omop(release(tmp_path / "release", files, policy), tmp_path / "cdm")
    for table in ("person", "visit_occurrence", "condition_occurrence", "drug_exposure"):
        assert (tmp_path / "cdm" / f"{table}.parquet").read_bytes() == (cdm / f"{table}.parquet").read_bytes()


def test_without_dates_there_is_no_cdm(tmp_path):
    for number, dates in enumerate((None, {"release_as": "ServiceDate", "format": "days_since_first_service"})):
        with pytest.raises(ReleaseError, match="has no dates"):
            export_omop(release(tmp_path / str(number), policy=POLICY | {"dates": dates}), tmp_path / "cdm")
    assert not (tmp_path / "cdm").exists()


def test_a_changed_file_is_refused_and_nothing_is_left(tmp_path):
    made = release(tmp_path / "release")
    (made / "data" / "Claims.csv").write_text(FILES["Claims"].replace("METAB3", "AMI"))
    with pytest.raises(ReleaseError, match=r"data/Claims\.csv is not as the manifest lists it"):
        export_omop(made, tmp_path / "cdm")
    assert [path.name for path in tmp_path.iterdir()] == ["release"]


LOST, NOT_OF_MEMBERS = "WHERE false", "WHERE observation_source_value NOT LIKE 'Members.%'"


@pytest.mark.parametrize(
    ("table", "changed", "said"),
    [
        ("condition_occurrence", LOST, r"Claims\.Group"),
        (
            "condition_occurrence",
            "UNION ALL SELECT 9, 2, 0, DATE '2019-02-02', DATE '2019-02-02', 32810, NULL, NULL, 'AMI'",
            r"Claims\.Group",
        ),
        ("condition_occurrence", "SELECT * REPLACE (NULL AS visit_occurrence_id)", r"Claims\.Group"),
        ("person", "WHERE person_id < 3", r"Members\.Age, Members\.Sex"),
        ("person", "SELECT * REPLACE ('M' AS gender_source_value)", r"Members\.Age, Members\.Sex"),
        ("person", "SELECT * REPLACE (8507 AS gender_concept_id)", r"Members\.Age, Members\.Sex"),
        ("person", "SELECT * REPLACE (year_of_birth + 11 AS year_of_birth)", r"Members\.Age, Members\.Sex"),
        ("observation", NOT_OF_MEMBERS, r"Claims\.PCP, Claims\.Visit|Claims\.Visit"),
        ("observation", "WHERE observation_source_value <> 'year of birth'", "Members"),
        ("observation", "UNION ALL SELECT 99, 2, 0, DATE '2019-02-02', 32810, 'more', NULL, NULL, 'Other.Column'", "Members"),
        ("visit_occurrence", LOST, "Claims"),
        ("visit_occurrence", "SELECT * REPLACE (1 AS provider_id)", "Claims"),
        ("visit_occurrence", "SELECT * REPLACE (NULL AS care_site_id)", "Claims"),
        ("drug_exposure", "SELECT * REPLACE (NULL AS provider_id)", r"Fills\.Drug"),
    ],
)
def test_tables_that_do_not_say_what_the_release_says_are_refused(tmp_path, monkeypatch, table, changed, said):
    """A row that is lost, or one that nothing of the release is, or is of somebody else; and so for each of its cells."""
    made = tables.queries

    def broken(*of):
        found = dict(made(*of))
        inner = found[table].removesuffix(" ORDER BY 1")
        found[table] = f"{changed} FROM ({inner})" if changed.startswith("SELECT") else f"SELECT * FROM ({inner}) {changed}"
        return found

    monkeypatch.setattr(export, "queries", broken)
    with pytest.raises(ReleaseError, match=f"{table} does not read back as .*(?:{said}).* of the release"):
        export_omop(release(tmp_path / "release"), tmp_path / "cdm")
    assert not (tmp_path / "cdm").exists()


def test_events_of_nobody_are_refused(tmp_path):
    """A release has every member of its events; of any other folder, the rows would be lost."""
    with pytest.raises(ReleaseError, match="visit_occurrence does not read back as Claims of the release"):
        export_omop(release(tmp_path / "release", {"Members": "MemberID,Age,Sex,Race\n900,40-59,F,\n"}), tmp_path / "cdm")
    assert not (tmp_path / "cdm").exists()


def test_members_may_have_no_columns(tmp_path):
    own = POLICY["quasi_identifiers"] | {"members": []}
    files = {"Members": "MemberID\n900\n800\n700\n"}
    export_omop(release(tmp_path / "release", files, POLICY | {"quasi_identifiers": own}), tmp_path / "cdm")
    assert rows(tmp_path / "cdm", "person", "person_id, year_of_birth") == [(1, 0), (2, 0), (3, 0)]
    assert not [one for one in rows(tmp_path / "cdm", "observation", "observation_source_value") if "Members" in one[0]]


def test_a_folder_that_exists_is_not_replaced(tmp_path):
    (tmp_path / "cdm").mkdir()
    with pytest.raises(ReleaseError, match="cdm exists already"):
        export_omop(release(tmp_path / "release"), tmp_path / "cdm")

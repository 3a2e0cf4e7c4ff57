"""What deliveries hold of what rules need: read through the intake, searched by the lists, judged as the gate judges."""

from pathlib import Path

import duckdb
import pandas as pd
import pytest

from deid_assets.assessments.rule_needs import need_refusals
from deid_assets.errors import DeliveryError, PolicyError
from deid_assets.methods.preparation.eligibility import distinct_codes, removed_members_query
from deid_assets.methods.preparation.rule_figures import SearchedTables
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.policy.models import Policy
from deid_assets.reference.groups import code_book_of, known_codes
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.intake import Reading, read_delivery
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.public_data import public_data
from deid_assets_tests.scenarios.policies import changed
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic

MEMBERS = 1_500
BLANK = changed(TABLES, source__unknown_codes="blank")
ICD10 = ("I509", "E119", "J449", "F1020", "Z3800", "M545", "K219", "B20")


@pytest.fixture(scope="module")
def synthetic(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("synthetic")
    write_delivery(folder / "made", MEMBERS, 3)
    return tables_of_synthetic(folder / "made", folder / "tables")


@pytest.fixture
def delivered(synthetic, tmp_path):
    """The delivery with a column of members or claims made by SQL, as a folder."""

    def made(**columns: str) -> Path:
        folder = tmp_path / "tables"
        folder.mkdir()
        tables = {"born": "members", "days_y2": "members", "sex": "members"}
        for name in ("members", "claims"):
            replaced = {column: sql for column, sql in columns.items() if tables.get(column, "claims") == name}
            shown = f" REPLACE ({', '.join(f'{sql} AS {column}' for column, sql in replaced.items())})" if replaced else ""
            with duckdb.connect() as connection:
                connection.execute(
                    f"COPY (SELECT *{shown} FROM read_csv('{synthetic}/{name}.csv', all_varchar = true))"
                    f" TO '{folder}/{name}.csv' (HEADER)"
                )
        return folder

    return made


def refused(folder: Path, policy: Policy, store: Path) -> set[str]:
    """Rules that the gate refuses, each with its figure."""
    file = store / "store.duckdb"
    at_most = policy.intake.quarantine_at_most
    read_delivery(file, Delivery("d", policy.source.kind, (folder,)), Reading(policy.source, at_most), known_codes)
    members, claims, quarantined, codes = (
        Table(file, "intake", name) for name in ("members", "claims", "quarantined_rows", "delivered_codes")
    )
    removal = policy.removal
    book = Table(file, "preparation", "code_book")
    write_table(book, code_book_of(claims.query(distinct_codes(claims)), removal.code_list, removal.rare_visible_diseases))
    removed = Table(file, "preparation", "removed_members")
    write_table(removed, removed_members_query(members, claims, quarantined, book, (), removal.listed_kinds))
    found = need_refusals(policy, SearchedTables(members, claims, codes, removed, book))
    assert all(refusal.rule == "rule_cannot_apply" and refusal.name.split(":")[0] in refusal.text for refusal in found)
    return {refusal.name for refusal in found}


def mapped_without(values: dict, table: str, *columns: str) -> dict:
    made = changed(values)
    for column in columns:
        del made["source"][table]["columns"][column]
    return made


@pytest.mark.matrix
def test_a_delivery_that_holds_everything_is_not_refused(synthetic, tmp_path):
    assert refused(synthetic, policy_from(TABLES), tmp_path) == set()
    assert refused(synthetic, policy_from(BLANK), tmp_path) == set()


@pytest.mark.matrix
def test_diagnoses_that_were_all_blanked_refuse(delivered, tmp_path):
    found = refused(delivered(dx="'?' || coalesce(dx, '1')"), policy_from(BLANK), tmp_path)
    assert {"removal.code_list: coded_claims/diagnosis", "removal.code_list: readable_codes/diagnosis_1"} <= found
    assert "removal.code_list: sensitive_members" not in found, "places and procedures still find some"


@pytest.mark.matrix
def test_a_part_of_them_that_was_blanked_refuses_unless_the_policy_accepts_it(delivered, tmp_path):
    folder = delivered(dx="CASE WHEN hash(no) % 5 = 0 THEN 'X1' ELSE dx END")
    assert refused(folder, policy_from(BLANK), tmp_path) == {"removal.code_list: readable_codes/diagnosis_1"}
    lower = changed(BLANK)
    lower["removal"]["readable_codes_at_least"] = 0.75
    assert refused(folder, policy_from(lower), tmp_path) == set()


@pytest.mark.matrix
def test_icd_10_refuses_however_low_the_policy_goes(delivered, tmp_path):
    codes = ", ".join(f"'{code}'" for code in ICD10)
    folder = delivered(dx=f"list_extract([{codes}], 1 + (no::BIGINT % {len(ICD10)})::INTEGER)")
    lower = changed(BLANK)
    lower["removal"] |= {
        "readable_codes_at_least": 0.5, "coded_claims_at_least": {"diagnosis": None}, "sensitive_members_at_least": None,
    }  # fmt: skip
    for unknown in ("blank", "quarantine"):
        lower["source"]["unknown_codes"] = unknown
        for off in ({}, {"code_list": None, "rare_visible_diseases": False}):
            values = changed(lower)
            values["removal"] |= off
            with pytest.raises(DeliveryError, match=r"100% of dx are codes of ICD-10-CM.*Set diagnosis_codes: icd10cm"):
                refused(folder, policy_from(values), tmp_path)


@pytest.mark.matrix
def test_no_diagnosis_is_mapped(synthetic, tmp_path):
    values = mapped_without(TABLES, "claims", "diagnosis_1")
    assert refused(synthetic, policy_from(values), tmp_path) == {"removal.code_list: coded_claims/diagnosis"}
    values["removal"]["coded_claims_at_least"] = {"diagnosis": None}
    assert refused(synthetic, policy_from(values), tmp_path) == set()


def test_the_wrong_column_is_mapped_to_diagnoses(synthetic, tmp_path):
    values = mapped_without(BLANK, "claims", "specialty")
    values["source"]["claims"]["columns"]["diagnosis_1"] = "specialty"
    assert "removal.code_list: readable_codes/diagnosis_1" in refused(synthetic, policy_from(values), tmp_path)


def test_one_column_is_not_mapped_to_two_kinds_of_codes():
    """Procedure codes have the form of diagnoses: nothing in the delivery would tell."""
    values = changed(TABLES)
    values["source"]["claims"]["columns"]["diagnosis_1"] = "cpt"
    with pytest.raises(PolicyError, match="cpt: mapped as two columns of codes"):
        policy_from(values)


def test_codes_that_lost_their_leading_zeros_refuse(delivered, tmp_path):
    """One code in fifty: 042 is written 42, which no list finds."""
    folder = delivered(dx="CASE WHEN hash(no) % 50 = 0 THEN '42' ELSE dx END")
    assert refused(folder, policy_from(BLANK), tmp_path) == {"removal.code_list: readable_codes/diagnosis_1"}


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("columns", "needs"),
    [
        (("place",), {"removal.code_list: coded_claims/place"}),
        (("cpt",), {f"removal.{rule}: coded_claims/procedure" for rule in ("code_list", "non_procedure_claims")}),
    ],
)
def test_no_place_or_procedure_is_mapped(synthetic, tmp_path, columns, needs):
    assert refused(synthetic, policy_from(mapped_without(TABLES, "claims", *columns)), tmp_path) == needs


@pytest.mark.matrix
def test_birth_dates_that_are_not_delivered_refuse_where_a_member_may_be_newborn(delivered, tmp_path):
    values = mapped_without(TABLES, "members", "birth_date")
    values["source"]["members"]["columns"]["age"] = "born"
    ages = "CASE WHEN hash(id) % 10 = 0 THEN '1' ELSE '40' END"
    folder = delivered(born=ages)
    assert refused(folder, policy_from(values), tmp_path) == {"removal.newborn_days: newborn_claims"}
    values["removal"]["newborn_days"] = None
    assert refused(folder, policy_from(values), tmp_path) == set()


def test_adults_need_no_dates_of_birth(delivered, tmp_path):
    values = mapped_without(TABLES, "members", "birth_date")
    values["source"]["members"]["columns"]["age"] = "born"
    assert refused(delivered(born="'40'"), policy_from(values), tmp_path) == set()


@pytest.mark.matrix
def test_codes_that_no_list_finds_refuse_in_a_large_delivery(delivered, tmp_path):
    folder = delivered(dx="'4280'", cpt="'99213'", place="'11'")
    assert refused(folder, policy_from(TABLES), tmp_path) == {"removal.code_list: sensitive_members"}
    may = changed(TABLES)
    may["removal"]["sensitive_members_at_least"] = None
    assert refused(folder, policy_from(may), tmp_path) == set()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("sample", "policy"),
    [
        ("header-samples", "desynpuf"),
        ("header-samples", "claims_dates"),
        ("sample-2", "desynpuf"),
        ("sample-2", "claims_dates"),
        ("sample-1-partial", "desynpuf"),
        ("sample-1-partial", "claims_dates"),
    ],
)
def test_desynpuf_has_what_its_policies_need(sample, policy, tmp_path):
    assert refused(public_data("desynpuf", sample), policy_by_name(policy), tmp_path) == set()


@pytest.mark.matrix
def test_what_cannot_be_read_is_counted_by_column(delivered, tmp_path):
    refused(delivered(dx="CASE WHEN hash(no) % 200 = 0 THEN 'E11.9' ELSE 'heart' END"), policy_from(BLANK), tmp_path)
    table = Table(tmp_path / "store.duckdb", "intake", "delivered_codes").frame("source_column").set_index("source_column")
    assert list(table.index) == sorted(
        ["diagnosis_1", "diagnosis_2", "diagnosis_3", "diagnosis_4", "further_diagnoses", "cpt", "place", "specialty"]
    )
    first = table.loc["diagnosis_1"]
    assert first["written"] == first["unreadable"] > 200 * 0.5 * first["other_system"] > 0
    assert isinstance(table, pd.DataFrame) and table.loc["diagnosis_2", "written"] == 0

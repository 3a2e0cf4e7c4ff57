"""Declared columns of codes: their groups, what lists of sensitive codes read, and codes without a group."""

import duckdb
import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.errors import DeliveryError
from deid_assets.reference.codes import ndc11
from deid_assets.sources.derivations import AMBIGUOUS, Declared, code_group, drug_group
from deid_assets_tests.sources.deliveries import SOURCE, take_in, write_parquet
from deid_assets_tests.sources.test_declared_columns import rules, taken, values

DRUGS = [
    ("61958070101", "antivirals", "emtricitabine / tenofovir"),
    ("00093104801", "diabetes", "metformin"),
    ("01234567890", "antivirals", "acyclovir"),
]
BLANK = SOURCE.model_copy(update={"unknown_codes": "blank"})


def grouped(tmp_path, by: str, codes: list[str]) -> dict[str, str | None]:
    """The group of each code, where rows with unknown ones are kept."""
    found = taken_blank(tmp_path, code_group("claims", "CODE", by), codes).frame("claims").set_index("claim_id")["c_code"]
    groups = [found[f"c{number}"] for number in range(1, len(codes) + 1)]
    return {code: group if isinstance(group, str) else None for code, group in zip(codes, groups, strict=True)}


def taken_blank(tmp_path, made, codes):
    """Take in a claim for each code; unknown ones become blank."""
    taken(tmp_path, [{}], [{"CODE": code} for code in codes], c_code=made)
    return take_in(tmp_path / "in", BLANK, store=tmp_path / "blank.duckdb", declared=Declared({}, {"claims": {"c_code": made}}))


class TestGroups:
    def test_hcpcs_by_letter(self, tmp_path):
        assert grouped(tmp_path, "hcpcs_letter", ["J1100", "h0020", "A0428", "99213", "0016T", "W1234", "9921"]) == {
            "J1100": "drugs not by mouth, chemotherapy", "h0020": "behavioral health",
            "A0428": "ambulance, supplies, radiopharmaceuticals", "99213": "CPT", "0016T": "CPT", "W1234": None, "9921": None,
        }  # fmt: skip

    def test_cpt_by_section(self, tmp_path):
        codes = ["00100", "99100", "10021", "69990", "70010", "80047", "90281", "99199", "99213", "99499", "99500"]
        assert [*grouped(tmp_path, "cpt_section", [*codes, "1234F", "0016T", "0001U", "J1100", "T1006"]).values()] == [
            "anesthesia", "anesthesia", "surgery", "surgery", "radiology", "pathology and laboratory", "medicine", "medicine",
            "evaluation and management", "evaluation and management", "medicine", "category II: performance measures",
            "category III: new services", "laboratory analyses", "HCPCS level II", "HCPCS level II",
        ]  # fmt: skip

    @pytest.mark.parametrize("code", ["0450", "450", "450.0", " 0450 "])
    def test_a_revenue_code_with_or_without_its_leading_zero(self, tmp_path, code):
        assert grouped(tmp_path, "revenue_group", [code]) == {code: "emergency"}

    def test_revenue_codes_by_their_first_three_digits(self, tmp_path):
        codes = [
            "0120",
            "0200",
            "0250",
            "0270",
            "0300",
            "0320",
            "0360",
            "0510",
            "0540",
            "0651",
            "1002",
            "0001",
            "0070",
            "45000",
        ]
        assert [*grouped(tmp_path, "revenue_group", codes).values()] == [
            "room and board", "intensive care", "pharmacy", "supplies", "laboratory and pathology", "radiology",
            "operating room", "clinic", "ambulance", "hospice and respite", "behavioral health", "total charges", None, None,
        ]  # fmt: skip

    def test_numbers_are_revenue_codes_and_lists_read_them_with_their_zeros(self, tmp_path):
        (tmp_path / "in").mkdir()
        write_parquet(tmp_path / "in" / "members.parquet", "SELECT 'm1' AS member_id, 'F' AS sex, 50 AS age")
        claims = "SELECT 'c' || n AS claim_id, 'm1' AS member_id, DATE '2008-03-05' AS service_date, v AS REV"
        write_parquet(tmp_path / "in" / "claims.parquet", f"{claims} FROM (VALUES (1, 450::DOUBLE), (2, 906)) AS t(n, v)")
        tables = {
            "members": SOURCE.members.model_copy(
                update={"file": "members.parquet", "columns": {one: one for one in ("member_id", "sex", "age")}}
            ),
            "claims": SOURCE.claims.model_copy(
                update={"file": "claims.parquet", "columns": {one: one for one in ("claim_id", "member_id", "service_date")}}
            ),
        }
        declared = Declared({}, {"claims": {"bill": code_group("claims", "REV", "revenue_group")}})
        found = take_in(tmp_path / "in", SOURCE.model_copy(update=tables), declared=declared)
        assert values(found, "claims", "bill") == ["emergency", "behavioral health"]
        assert values(found, "claims", "declared_codes") == ["procedure:0450", "procedure:0906"]

    def test_taxonomy_by_kind(self, tmp_path):
        codes = ["207Q00000X", "101YM0800X", "261QM2800X", "363LP0808X", "999999999X", "207Q"]
        assert [*grouped(tmp_path, "taxonomy_kind", codes).values()] == [
            "physicians", "behavioral health", "clinics and centers", "physician assistants and advanced practice nurses", None,
            None,
        ]  # fmt: skip


class TestUnknownCodes:
    """What becomes of a code without a group is what becomes of other unknown codes."""

    @pytest.mark.parametrize(
        "made", [code_group("claims", "CODE", "revenue_group"), drug_group("claims", "CODE", DRUGS)], ids=["revenue", "ndc"]
    )
    def test_they_quarantine_their_rows_or_are_blank_and_counted(self, tmp_path, made):
        known = "0450" if made.coded.kind == "procedure" else "00093104801"
        unknown = "0070" if made.coded.kind == "procedure" else "00000000000"
        found = taken(tmp_path, [{}], [{"CODE": code} for code in (known, unknown, "")], c_code=made)
        assert rules(found) == [("CODE", "unknown code", 1)]
        assert len(values(found, "claims", "c_code")) == 2
        blank = take_in(
            tmp_path / "in", BLANK, store=tmp_path / "b.duckdb", declared=Declared({}, {"claims": {"c_code": made}})
        )
        assert values(blank, "claims", "c_code")[1:] == [None, None] and blank.report.quarantined == ()
        assert values(blank, "claims", "unreadable_declared") == [0, 1, 0]
        assert blank.report.blanked_codes == {"c_code": 1}
        counted = blank.frame("delivered_codes").set_index("source_column").loc["c_code"]
        assert (counted["kind"], counted["written"], counted["unreadable"]) == (made.coded.kind, 2, 1)

    def test_claims_without_such_columns_have_no_column_of_their_codes(self, tmp_path):
        found = taken(tmp_path, [{}], [{}])
        assert not {"declared_codes", "unreadable_declared"} & set(found.frame("claims").columns)


class TestDrugs:
    def test_are_grouped_by_eleven_digits_and_lists_read_their_ingredients(self, tmp_path):
        written = ["61958-0702-1", "61958-701-01", "0093-1048-01", "1234-5678-90", "61958070101", ""]
        found = taken_blank(tmp_path, drug_group("claims", "CODE", DRUGS), written)
        assert values(found, "claims", "c_code") == [None, "antivirals", "diabetes", "antivirals", "antivirals", None]
        assert values(found, "claims", "declared_codes") == [
            None, "drug:emtricitabine / tenofovir", "drug:metformin", "drug:acyclovir", "drug:emtricitabine / tenofovir", None,
        ]  # fmt: skip
        assert values(found, "claims", "unreadable_declared") == [1, 0, 0, 0, 0, 0]

    @pytest.mark.parametrize("source", [SOURCE, BLANK], ids=["quarantine", "blank"])
    def test_ten_digits_without_hyphens_are_ambiguous_whatever_becomes_of_unknown_codes(self, tmp_path, source):
        made = {"c_code": drug_group("claims", "CODE", DRUGS)}
        taken(tmp_path, [{}], [{"CODE": code} for code in ("0093104801", "1234567890", "00093104801")], **made)
        found = take_in(tmp_path / "in", source, store=tmp_path / "b.duckdb", declared=Declared({}, {"claims": made}))
        assert rules(found) == [("CODE", AMBIGUOUS, 2)]
        with pytest.raises(DeliveryError) as refused:
            take_in(tmp_path / "in", source, at_most=0.1, store=tmp_path / "c.duckdb", declared=Declared({}, {"claims": made}))
        assert (
            AMBIGUOUS in str(refused.value) and "2 of 3 rows" in str(refused.value) and "0093104801" not in str(refused.value)
        )

    def test_two_columns_of_codes_are_read_and_counted_together(self, tmp_path):
        made = {"c_drug": drug_group("claims", "NDC", DRUGS), "c_bill": code_group("claims", "REV", "revenue_group")}
        taken(tmp_path, [{}], [{"NDC": "00093104801", "REV": "0450"}, {"NDC": "9", "REV": "9"}, {}], **made)
        found = take_in(tmp_path / "in", BLANK, store=tmp_path / "b.duckdb", declared=Declared({}, {"claims": made}))
        assert values(found, "claims", "declared_codes") == ["drug:metformin;procedure:0450", None, None]
        assert values(found, "claims", "unreadable_declared") == [0, 2, 0]

    def test_a_table_without_ingredients_tells_lists_nothing(self, tmp_path):
        found = taken_blank(tmp_path, drug_group("claims", "CODE", [("00093104801", "diabetes", None)]), ["00093104801"])
        assert values(found, "claims", "declared_codes") == [None] and values(found, "claims", "c_code") == ["diabetes"]

    def test_a_quote_in_a_group_is_text(self, tmp_path):
        found = taken_blank(tmp_path, drug_group("claims", "CODE", [("00093104801", "o'1", "it's")]), ["00093104801"])
        assert values(found, "claims", "c_code") == ["o'1"] and values(found, "claims", "declared_codes") == ["drug:it's"]


@given(st.from_regex(r"[0-9]{3,6}(-[0-9]{2,5}){0,2}(-[0-9]{0,3})?", fullmatch=True))
def test_the_forms_of_the_delivery_are_those_of_the_table(code):
    """An NDC of a claim is read by SQL, and one of the table by Python."""
    made = drug_group("claims", "NDC", [("00000000000", "g", None)])
    sql = made.coded.unknown.split("book.ndc = ")[1].removesuffix(") IS NULL)")
    with duckdb.connect() as connection:
        row = connection.execute(f'SELECT {sql} FROM (SELECT ? AS "{made.cells[0].name}") AS t', [code]).fetchone()
    assert row[0] == ndc11(code)

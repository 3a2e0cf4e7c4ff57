"""What the contracts of the stages allow, and that every column says what it is."""

import pytest

from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.reference.groups import (
    GROUP_NAMES,
    condition_groups,
    known_codes,
    place_groups,
    procedure_groups,
    specialty_groups,
)
from deid_assets.reference.known_columns import UNREADABLE
from deid_assets.schemas import CONTRACTS
from deid_assets.schemas.candidate import release_contracts
from deid_assets.schemas.contract import Role, violations
from deid_assets.sources.delivery import CLAIM_COLUMNS, MEMBER_COLUMNS
from deid_assets.stages import STAGE_OF
from deid_assets.store.tables import Query, Table, write_table
from deid_assets_tests.policy.policy_texts import public_values

POLICIES = ("heritage", "heritage_public", "desynpuf")
MEMBER = {
    "member_id": "'a'", "sex": "'F'", "age": "40::INTEGER", "birth_date": "DATE '1960-01-01'",
    "death_date": "NULL::DATE",
    "days_in_hospital_y2": "0::INTEGER", "days_in_hospital_y3": "NULL::INTEGER",
}  # fmt: skip
CLAIM = {
    "claim_id": "'c'", "member_id": "'a'", "provider_id": "'p'", "vendor_id": "'v'", "pcp_id": "NULL::VARCHAR",
    "year": "1::INTEGER", "service_date": "DATE '2001-01-01'", "specialty": "'Internal'", "place": "'11'",
    "cpt": "'99213'", "length_of_stay": "NULL::INTEGER", "pay_delay": "0::INTEGER",
    "days_since_first_claim": "0::INTEGER", "diagnosis_1": "'4280'", "diagnosis_2": "'V5789'",
    "diagnosis_3": "'E8889'", "diagnosis_4": "NULL::VARCHAR",
    "further_diagnoses": "'042 V501 E8889'", "unreadable_diagnoses": "0::INTEGER",
    "unreadable_procedures": "0::INTEGER", "unreadable_places": "0::INTEGER",
}  # fmt: skip


@pytest.fixture
def broken(tmp_path):
    def made(contract, row: dict[str, str], **changes: str) -> dict[str, int]:
        table = Table(tmp_path / "store.duckdb", "tests", "held")
        write_table(table, "SELECT " + ", ".join(f'{value} AS "{name}"' for name, value in (row | changes).items()))
        return violations(table, contract)

    return made


@pytest.mark.parametrize("policy", POLICIES)
def test_every_column_says_what_it_means_and_what_role_it_has(policy):
    for contract in (*CONTRACTS.values(), *release_contracts(policy_by_name(policy)).values()):
        for name, described in contract.columns.items():
            assert described.description, name
            assert described.metadata["role"] in set(Role), name
            assert all(check.error for check in described.checks), "a rule needs a name, or it cannot be reported"


@pytest.mark.parametrize("policy", POLICIES)
def test_nothing_that_is_published_identifies_directly(policy):
    for contract in release_contracts(policy_by_name(policy)).values():
        roles = {described.metadata["role"] for described in contract.columns.values()}
        assert Role.DIRECT_IDENTIFIER not in roles
        assert contract.columns["MemberID"].metadata["role"] == Role.PSEUDONYM


def test_contracts_are_of_assets_that_exist():
    assert set(CONTRACTS) <= set(STAGE_OF)


def test_canonical_tables_have_the_columns_that_sources_deliver():
    assert set(CONTRACTS["members"].columns) == set(MEMBER_COLUMNS)
    assert set(CONTRACTS["claims"].columns) == {*CLAIM_COLUMNS, *UNREADABLE.values()}


class TestIntake:
    def test_canonical_rows_keep_the_contract(self, broken):
        assert broken(CONTRACTS["members"], MEMBER) == {}
        assert broken(CONTRACTS["claims"], CLAIM) == {}

    @pytest.mark.parametrize(
        ("changes", "rule"),
        [
            ({"sex": "'U'"}, "sex: F or M"),
            ({"age": "121::INTEGER"}, "age: 0 to 120"),
            ({"age": "-1::INTEGER"}, "age: 0 to 120"),
            ({"days_in_hospital_y3": "-1::INTEGER"}, "days_in_hospital_y3: 0 to 366"),
            ({"member_id": "NULL::VARCHAR"}, "member_id: not_nullable"),
        ],
    )
    def test_members(self, broken, changes, rule):
        assert broken(CONTRACTS["members"], MEMBER, **changes) == {rule: 1}

    @pytest.mark.parametrize(
        ("changes", "rule"),
        [
            ({"year": "51::INTEGER"}, "year: 1 to 50"),
            ({"year": "NULL::INTEGER"}, "year: not_nullable"),
            ({"length_of_stay": "-1::INTEGER"}, "length_of_stay: at least 0"),
            ({"pay_delay": "-1::INTEGER"}, "pay_delay: at least 0"),
            ({"days_since_first_claim": "-1::INTEGER"}, "days_since_first_claim: 0 to 366"),
            ({"diagnosis_1": "'428.0'"}, "diagnosis_1: dotless code of ICD-9-CM, or of ICD-10-CM with its system"),
            ({"diagnosis_4": "'v501'"}, "diagnosis_4: dotless code of ICD-9-CM, or of ICD-10-CM with its system"),
            (
                {"further_diagnoses": "'042  V501'"},
                "further_diagnoses: dotless codes of ICD-9-CM, or of ICD-10-CM with their system, separated by blanks",
            ),
            ({"diagnosis_2": "'42'"}, "diagnosis_2: dotless code of ICD-9-CM, or of ICD-10-CM with its system"),
        ],
    )
    def test_claims(self, broken, changes, rule):
        assert broken(CONTRACTS["claims"], CLAIM, **changes) == {rule: 1}

    def test_every_known_diagnosis_is_written_as_the_contract_asks(self, tmp_path):
        """The two must agree, or a code that intake lets through breaks the contract."""
        stems = [f"{number:03}" for number in range(1, 1000, 7)] + [f"V{number:02}" for number in range(1, 92)]
        codes = [stem + ending for stem in [*stems, "E888", "E950"] for ending in ("", "0", "9", "09")]
        found = known_codes(codes, "diagnosis")
        known = found.loc[found["known"], "code"].tolist()
        assert len(known) > 500
        table = Table(tmp_path / "store.duckdb", "tests", "held")
        others = ", ".join(f"{CLAIM[name]} AS {name}" for name in CLAIM if name not in ("claim_id", "diagnosis_1"))
        sql = f"SELECT code AS claim_id, code AS diagnosis_1, {others} FROM (SELECT unnest(?) AS code)"
        write_table(table, Query(sql, (known,)))
        assert violations(table, CONTRACTS["claims"]) == {}


class TestPreparation:
    def test_every_group_that_a_code_can_get_is_allowed(self):
        places = place_groups(["11", "12", "20", "21", "22", "24", "81", "99"])["group"]
        assert set(places.dropna()) <= set(GROUP_NAMES["place"])
        assert set(procedure_groups(["00100", "99213", "59000", "69990"])["group"]) <= set(GROUP_NAMES["procedure"])
        assert set(condition_groups(["4280", "410", "V221"])["group"]) <= set(GROUP_NAMES["diagnosis"])
        assert set(specialty_groups(["01"])["group"].dropna()) <= set(GROUP_NAMES["specialty"])

    def test_the_numbers_of_groups_are_those_published(self):
        """El Emam et al. 2012, Multimedia Appendix 1, sections 7 to 9: 45 condition groups, 17 of CPT codes, 8 places."""
        assert (len(GROUP_NAMES["diagnosis"]), len(GROUP_NAMES["procedure"]), len(GROUP_NAMES["place"])) == (45, 17, 8)

    def test_groups_are_spelt_as_in_the_heritage_files(self):
        assert {"FLaELEC", "ODaBNCA", "MSC2a3"} <= set(GROUP_NAMES["diagnosis"])


class TestRelease:
    def contracts(self, **changes):
        return release_contracts(policy_from(public_values(**changes)))

    def test_tables_and_columns_of_the_heritage_files(self):
        found = self.contracts()
        assert list(found["release_members"].columns) == ["MemberID", "AgeAtFirstClaim", "Sex"]
        assert list(found["release_days_in_hospital"].columns) == ["Year", "MemberID", "DaysInHospital"]
        assert set(found["release_claims"].columns) == {
            "MemberID", "ProviderID", "Vendor", "PCP", "Year", "Specialty", "PlaceSvc", "PayDelay", "LengthOfStay",
            "DSFS", "PrimaryConditionGroup", "CharlsonIndex", "ProcedureGroup", "SupLOS",
        }  # fmt: skip

    def test_claims_truncated_is_a_column_only_where_the_policy_publishes_it(self):
        days = release_contracts(policy_by_name("heritage"))["release_days_in_hospital"]
        assert list(days.columns) == ["Year", "MemberID", "ClaimsTruncated", "DaysInHospital"]

    def test_the_keys_are_the_member_and_the_member_in_a_year(self):
        found = self.contracts()
        assert found["release_members"].unique == ["MemberID"]
        assert found["release_days_in_hospital"].unique == ["MemberID", "Year"]

    def test_labels_are_those_of_the_hierarchies_at_any_level(self, broken):
        contract = self.contracts()["release_members"]
        row = {"MemberID": f"{10**14}::BIGINT", "AgeAtFirstClaim": "'80+'", "Sex": "'F'"}
        for age in ("'0-19'", "'20-24'", "'7'", "NULL::VARCHAR"):
            assert broken(contract, row, AgeAtFirstClaim=age) == {}
        assert broken(contract, row, AgeAtFirstClaim="'3-17'") == {"AgeAtFirstClaim: a label of the hierarchy": 1}
        assert broken(contract, row, MemberID="4711::BIGINT") == {"MemberID: a pseudonym of 15 digits": 1}

    def test_pay_delays_are_numbers_of_which_the_largest_is_open(self, broken):
        contract = self.contracts()["release_claims"]
        row = dict.fromkeys(contract.columns, "NULL::VARCHAR") | {
            "MemberID": f"{10**14}::BIGINT", "ProviderID": "NULL::BIGINT", "Vendor": "NULL::BIGINT",
            "PCP": "NULL::BIGINT", "Year": "'Y1'", "CharlsonIndex": "'1-2'", "SupLOS": "0::TINYINT",
        }  # fmt: skip
        for delay in ("'0'", "'162+'", "NULL::VARCHAR"):
            assert broken(contract, row, PayDelay=delay) == {}
        assert broken(contract, row, PayDelay="'about 3'") == {"PayDelay: a number, or a number and +": 1}
        assert broken(contract, row, Year="'Y0'") == {"Year: Y and the number of the year": 1}

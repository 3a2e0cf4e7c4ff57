"""Declared columns of codes in a policy, and tables of drugs: what is refused, what is kept, what is published."""

import pytest
import yaml

from deid_assets.errors import PolicyError
from deid_assets.policy.loading import load_policy, policy_from
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.needs import needs_of
from deid_assets.release.reproduction import _write_policy
from deid_assets_tests.scenarios.omop_delivery import OMOP
from deid_assets_tests.scenarios.policies import SMALL, changed

DRUGS = "61958-0701-01;antivirals;emtricitabine\n00093104801;diabetes;metformin\n"
NOBODY = {"removal__code_list": None, "removal__rare_visible_diseases": False, "removal__absence_posterior_at_most": None}


def declared(**columns) -> dict:
    """The small policy with declared columns of claims, each a quasi-identifier with a fixed hierarchy."""
    listed = [{"column": name, "release_as": name.capitalize(), "hierarchy": "any_text"} for name in columns]
    values = changed(
        SMALL,
        columns={
            "claims": {name: {"from": name.upper(), "meaning": f"kind of {name}"} | made for name, made in columns.items()}
        },
        hierarchies__any_text={"kind": "prefixes", "lengths": [None, 0]},
    )
    values["quasi_identifiers"]["claims"] += listed
    values["dimensions"] += [{"name": name, "columns": [name]} for name in columns]
    return values


def of_drugs(folder, table: str = DRUGS, made=None, **changes) -> Policy:
    (folder / "drugs.csv").write_text(table)
    return policy_from(changed(declared(drug=made or {"kind": "ndc", "file": "drugs.csv"}), **changes), folder)


@pytest.mark.parametrize("kind", ["hcpcs_letter", "cpt_section", "revenue_group", "taxonomy_kind"])
def test_groups_of_codes_that_ship_are_declared_by_their_name(kind):
    policy = policy_from(declared(billed={"kind": kind}))
    assert policy.columns.claims["billed"].values and policy.files == ()
    assert [need.figure for need in needs_of(policy)].count("readable_codes/billed") == 1
    assert policy_from(policy.content()).hash == policy.hash


def test_groups_of_codes_fit_a_hierarchy_of_codes_only_if_it_has_all():
    values = declared(billed={"kind": "hcpcs_letter"})
    values["hierarchies"]["any_text"] = {"kind": "codes", "level_names": ["group", "any"], "values": {"CPT": ["any"]}}
    with pytest.raises(PolicyError, match="no class for"):
        policy_from(values)


def test_members_have_no_columns_of_codes_that_lists_would_not_read():
    values = changed(SMALL, columns={"members": {"drug": {"kind": "ndc", "from": "NDC", "file": "x.csv", "meaning": "drug"}}})
    with pytest.raises(PolicyError, match="'ndc' is not allowed"):
        policy_from(values)


class TestTablesOfDrugs:
    def test_are_read_in_eleven_digits(self, tmp_path):
        drugs = of_drugs(tmp_path).columns.claims["drug"]
        assert drugs.drugs == {
            "61958070101": ("antivirals", "emtricitabine"), "00093104801": ("diabetes", "metformin")
        } and drugs.values == ("antivirals", "diabetes")  # fmt: skip

    @pytest.mark.parametrize(
        ("table", "said"),
        [
            ("1234567890;a;metformin\n", "1 row with an NDC of ten digits without hyphens, which stands for several codes"),
            ("metformin;a;metformin\n", "1 row without an NDC of 11 digits"),
            ("61958-0701-1;a;metformin\n61958-701-01;b;metformin\n", "has an NDC twice, as 11 digits"),
            ("00093104801;;metformin\n", "1 row has no group"),
            ("00093104801;diabetes;\n", "1 row without a name of an ingredient"),
            ("00093104801;diabetes;6809\n", "1 row without a name of an ingredient"),
            ("00093104801;diabetes;metformin;x\n", "has 4 columns; a table of drugs has three"),
            ("00093104801\n", "has 1 column; a table of drugs has three"),
        ],
    )
    def test_that_cannot_be_read_are_refused_by_their_rows(self, tmp_path, table, said):
        with pytest.raises(PolicyError, match=said) as refused:
            of_drugs(tmp_path, table)
        assert "00093104801" not in str(refused.value) and "1234567890" not in str(refused.value)

    @pytest.mark.parametrize(
        "changes",
        [
            {},
            {"removal__code_list": "extended"},
            *({"removal__code_list": None, "removal__sets": [name]} for name in ("hiv", "substance_use", "reproductive")),
            {"removal__code_list": None, "removal__sets": ["abuse", "mental_health"]},
        ],
    )
    def test_without_ingredients_are_refused_where_drugs_remove_members(self, tmp_path, changes):
        with pytest.raises(PolicyError, match="the table of drugs names no ingredients, and removal"):
            of_drugs(tmp_path, "00093104801;diabetes\n", **changes)

    @pytest.mark.parametrize("changes", [NOBODY, {"removal__code_list": None, "removal__sets": ["abuse", "genetics"]}])
    def test_without_ingredients_are_read_where_no_list_names_drugs(self, tmp_path, changes):
        policy = of_drugs(tmp_path, "00093104801;diabetes\n", **changes)
        assert policy.columns.claims["drug"].values == ("diabetes",)

    @pytest.mark.parametrize(
        "made",
        [
            {"kind": "group", "file": "drugs.csv"},
            {"kind": "text", "translated": {"61958-0701-01": "antivirals", "00093104801": "diabetes"}},
            {"kind": "text", "from": "NDC_CD"},
            {"kind": "text", "from": "national_drug_code"},
        ],
    )
    def test_another_kind_of_column_is_no_way_around_the_lists(self, tmp_path, made):
        with pytest.raises(PolicyError, match="reads NDCs, and no list of sensitive drugs reads a column of this kind"):
            of_drugs(tmp_path, "61958-0701-01;antivirals\n00093104801;diabetes\n", made)
        assert of_drugs(tmp_path, "61958-0701-01;antivirals\n00093104801;diabetes\n", made, **NOBODY)

    def test_belong_to_the_policy_and_only_their_digest_is_published(self, tmp_path):
        one, other = of_drugs(tmp_path), of_drugs(tmp_path, DRUGS.replace("emtricitabine", "entecavir"))
        assert one.files == ("drugs.csv",) and one.hash != other.hash and one.public_hash != other.public_hash
        public = one.public_content()["columns"]["claims"]["drug"]
        assert set(public) == {"kind", "from", "meaning", "file", "sha256"} and public["file"] == "not shown"
        assert one.identity("drug") == other.identity("drug"), "another ingredient makes no other column"

    def test_the_kept_text_makes_the_same_policy_again(self, tmp_path):
        for number, table in enumerate((DRUGS, "00093104801;diabetes\n")):
            policy = of_drugs(tmp_path, table, **({} if number == 0 else NOBODY))
            file = tmp_path / f"again{number}" / "small.yaml"
            file.parent.mkdir()
            _write_policy(policy.content(), file, "2012-01-01T00:00:00Z")
            assert load_policy(file).hash == policy.hash and yaml.safe_load(file.read_text())

    def test_without_a_table_every_drug_is_unknown(self):
        policy = policy_from(declared(drug={"kind": "ndc"}))
        assert policy.columns.claims["drug"].drugs == {} and policy.files == () and policy.listed_columns == ("drug",)


CONCEPTS = "372328;ears;icd10cm:H65.90 icd10cm:H66.90\n201826;diabetes;icd10cm:E11.9\n9;none;\n"


def of_concepts(folder, table: str = CONCEPTS, **made) -> Policy:
    (folder / "concepts.csv").write_text(table)
    own = {"kind": "concept", "of": "diagnosis", "file": "concepts.csv"} | made
    return policy_from(declared(condition=own), folder)


class TestTablesOfConcepts:
    def test_say_groups_and_the_codes_that_a_concept_stands_for(self, tmp_path):
        policy = of_concepts(tmp_path)
        found = policy.columns.claims["condition"].meanings
        assert found["372328"].group == "ears" and found["372328"].stands_for == ("icd10cm:H6590", "icd10cm:H6690")
        assert found["9"].stands_for == () and policy.listed_columns == ("condition",)

    @pytest.mark.parametrize(
        ("table", "made", "said"),
        [
            ("1;ears\n", {}, "has 2 columns; a table of concepts has three"),
            ("1;ears;\n1;nose;\n", {}, "a concept twice"),
            ("1; ;icd10cm:E11.9\n", {}, "1 row has no group"),
            ("1;ears;icd10cm:E11.9 H66.90\n", {}, "1 row without a known diagnosis code for one of its codes"),
            ("1;visits;E11.9\n", {"of": "procedure"}, "1 row without a known procedure code for one of its codes"),
            ("1;statins;12\n", {"of": "drug"}, "1 row without a name of an ingredient"),
            (CONCEPTS, {"named": "NAME"}, "named is for drugs"),
        ],
    )
    def test_that_cannot_be_read_are_refused_by_their_rows(self, tmp_path, table, made, said):
        with pytest.raises(PolicyError, match=said):
            of_concepts(tmp_path, table, **made)

    def test_belong_to_the_policy_and_only_their_digest_is_published(self, tmp_path):
        one, other = of_concepts(tmp_path), of_concepts(tmp_path, CONCEPTS.replace("H66.90", "B20"))
        assert one.files == ("concepts.csv",) and one.hash != other.hash and one.public_hash != other.public_hash
        public = one.public_content()["columns"]["claims"]["condition"]
        assert set(public) == {"kind", "of", "from", "named", "meaning", "file", "sha256"} and public["file"] == "not shown"
        assert one.identity("condition") == other.identity("condition")

    def test_the_kept_text_makes_the_same_policy_again(self, tmp_path):
        for number, policy in enumerate((of_concepts(tmp_path), policy_from(declared(drug={"kind": "concept", "of": "drug"})))):
            file = tmp_path / f"again{number}" / "small.yaml"
            file.parent.mkdir()
            _write_policy(policy.content(), file, "2012-01-01T00:00:00Z")
            assert load_policy(file).hash == policy.hash

    def test_a_policy_that_reads_no_diagnoses_says_why(self):
        """OMOP without conditions: members are removed for diagnoses, and the claims need none."""
        own = {name: one for name, one in OMOP["columns"].items() if name != "conditions"}
        claims = [one for one in OMOP["quasi_identifiers"]["claims"] if one["column"] != "condition"]
        events = {name: one for name, one in OMOP["source"]["events"].items() if name != "conditions"}
        values = changed(OMOP, columns=own, source__events=events, quasi_identifiers__claims=claims)
        values["dimensions"] = [one for one in values["dimensions"] if one["name"] != "condition"]
        values["hierarchies"] = {name: one for name, one in values["hierarchies"].items() if name != "condition"}
        with pytest.raises(PolicyError, match="removes members for diagnoses, and the policy reads none"):
            policy_from(values)
        reason = "All are of a screening whose result nobody wrote down."
        stated = policy_from(changed(values, source__claims__without_codes=reason))
        assert stated.source.claims.without_codes == reason and stated.hash != policy_from(OMOP).hash

    def test_a_diagnosis_has_the_groups_of_those_of_claims(self):
        policy = policy_from(declared(condition={"kind": "diagnosis", "system": "icd10cm"}))
        assert "METAB3" in policy.columns.claims["condition"].values
        assert [need.figure for need in needs_of(policy)].count("readable_codes/condition") == 1

    def test_rare_diseases_are_searched_in_diagnoses_alone(self):
        columns = {"condition": {"kind": "diagnosis", "system": "icd10cm"}, "billed": {"kind": "revenue_group"}}
        policy = policy_from(changed(declared(**columns), removal__code_list=None))
        assert policy.removal.rare_visible_diseases and policy.listed_columns == ("condition",)

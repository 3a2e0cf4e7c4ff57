"""Every asset has a contract, and with it a column schema and a blocking check, under every policy."""

import dagster as dg
import pandas as pd
import pytest
from pandera.config import CONFIG, ValidationDepth

from deid_assets.assessments.evidence import Evidence, Method, to_frame
from deid_assets.assets.publishing import gating_checks
from deid_assets.building import build_definitions
from deid_assets.methods.adversary.adversary_power import correlation_of
from deid_assets.methods.lattice.diagnosis import COLUMNS as DIAGNOSIS_COLUMNS
from deid_assets.methods.lattice.predictive_tagging import all_nodes, node_text
from deid_assets.methods.population.encoding import COLUMNS as DOMAIN_COLUMNS
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS
from deid_assets.resources import PUBLISHED
from deid_assets.schemas import CONTRACTS, contracts_of, longitudinal
from deid_assets.schemas.contract import Role, violations
from deid_assets.stages import RELEASE, STAGE_OF, stages_of
from deid_assets.store.home import Home
from deid_assets.store.tables import Table, write_table
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.stages import STAGES

POLICIES = ("heritage", "heritage_public", "desynpuf", "claims_dates")
LISTED = [asset for assets in STAGES.values() for asset in assets]
DIGEST = "0" * 64


def listed(policy: str) -> list[str]:
    """The assets of a policy."""
    return [asset for assets in stages_of(policy_by_name(policy)).values() for asset in assets]


@pytest.fixture(scope="module")
def definitions(tmp_path_factory):
    policies = {name: policy_by_name(name) for name in POLICIES}
    return build_definitions(policies, Home(tmp_path_factory.mktemp("home")))


@pytest.fixture
def broken(tmp_path):
    def made(asset: str, content: str | pd.DataFrame, **changes) -> dict[str, int]:
        table = Table(tmp_path / "store.duckdb", STAGE_OF[asset], asset)
        write_table(table, content)
        return violations(table, contracts_of(policy_from(public_values(**changes)))[asset])

    return made


@pytest.mark.parametrize("name", POLICIES)
class TestEveryPolicy:
    def test_every_asset_has_a_contract_and_every_contract_an_asset(self, name):
        assert set(contracts_of(policy_by_name(name))) == set(listed(name))

    def test_every_column_is_described_in_its_role(self, name):
        for asset, contract in contracts_of(policy_by_name(name)).items():
            for column, described in contract.columns.items():
                assert described.description and described.dtype, f"{asset}.{column}"
                assert described.metadata["role"] in set(Role), f"{asset}.{column}"
                assert all(check.error for check in described.checks), f"{asset}.{column}"

    def test_counts_days_and_shares_have_units(self, name):
        contracts = contracts_of(policy_by_name(name))
        for asset, column, unit in (
            ("claims", "length_of_stay", "days"),
            ("eligible_claims", "pay_delay", "days"),
            ("member_profiles", "days_in_hospital_y2", "days"),
            ("member_profiles", "claims", "claims"),
            ("claim_support_scores", "score", "share of members"),
            ("value_diversity", "n_values", "claims"),
            ("generalization_lattice", "draws", "draws"),
            ("generalization_lattice", "share", "share of draws"),
            ("generalization_lattice", "upper", "share of draws"),
            ("lattice_diagnosis", "share", "share"),
            ("release_claims", "PayDelay", "days"),
            ("release", "bytes", "bytes"),
        ):
            assert contracts[asset].columns[column].metadata["unit"] == unit, f"{asset}.{column}"

    def test_what_the_insurer_calls_a_person_is_a_direct_identifier(self, name):
        for asset, contract in contracts_of(policy_by_name(name)).items():
            for column in {"member_id", "claim_id", "original_id", "raw_row", "birth_date"} & set(contract.columns):
                assert contract.columns[column].metadata["role"] == Role.DIRECT_IDENTIFIER, f"{asset}.{column}"

    def test_what_leaves_the_restricted_store_identifies_nobody_directly(self, name):
        for asset in (*STAGES["candidate"], *STAGES["assessment"], *STAGES["release"]):
            columns = contracts_of(policy_by_name(name))[asset].columns.values()
            assert Role.DIRECT_IDENTIFIER not in {described.metadata["role"] for described in columns}

    def test_the_column_schema_of_an_asset_is_its_contract(self, definitions, name):
        contracts = contracts_of(policy_by_name(name))
        # Stages have no table, and the columns of published tables are those of the dictionary of each release.
        besides = {*stages_of(policy_by_name(name)), PUBLISHED} - {RELEASE}
        for spec in definitions.resolve_all_asset_specs():
            policy, asset, *_ = spec.key.path
            if policy != name or asset in besides:
                continue
            schema = spec.metadata["dagster/column_schema"]
            schema = schema.value if isinstance(schema, dg.TableSchemaMetadataValue) else schema
            assert [column.name for column in schema.columns] == list(contracts[asset].columns)
            assert all(column.tags["role"] and column.description for column in schema.columns)

    def test_every_asset_has_one_blocking_check_of_its_contract(self, definitions, name):
        specs = [spec for checks in definitions.asset_checks for spec in checks.check_specs]
        held = [spec for spec in specs if spec.blocking and spec.name.endswith("_keeps_contract")]
        found = [tuple(spec.asset_key.path) for spec in held]
        assert sorted(asset for policy, asset in found if policy == name) == sorted(listed(name))


def test_every_asset_before_the_release_must_have_kept_its_contract_for_the_gate():
    required = {key.name for key in gating_checks(policy_by_name("heritage"), dg.AssetKey(["heritage", "release"]))}
    listed = [asset for stage, assets in STAGES.items() for asset in assets if stage != "release"]
    assert {f"{asset}_keeps_contract" for asset in listed} <= required
    assert "release_keeps_contract" not in required, "it is judged after the release"


def test_contracts_that_do_not_depend_on_the_policy_are_the_same_everywhere():
    ours, theirs = (contracts_of(policy_by_name(name)) for name in ("heritage", "heritage_public"))
    assert all(ours[asset] is theirs[asset] is CONTRACTS[asset] for asset in CONTRACTS)


@pytest.mark.parametrize("asset", LISTED)
def test_a_table_without_rows_keeps_every_contract(broken, asset):
    """Nobody in quarantine, nobody suppressed, no diagnosis: the good case."""
    columns = contracts_of(policy_from(public_values()))[asset].columns
    kinds = {"string": "VARCHAR", "int8": "TINYINT", "int32": "INTEGER", "int64": "BIGINT", "float64": "DOUBLE"}
    types = {name: kinds.get(str(column.dtype), str(column.dtype)) for name, column in columns.items()}
    selected = ", ".join(f'NULL::{kind} AS "{name}"' for name, kind in types.items())
    assert broken(asset, f"SELECT {selected} WHERE false") == {}


@pytest.mark.parametrize("depth", ["SCHEMA_ONLY", "DATA_ONLY"])
def test_the_environment_can_not_switch_contracts_off(broken, monkeypatch, depth):
    monkeypatch.setattr(CONFIG, "validation_enabled", False)
    monkeypatch.setattr(CONFIG, "validation_depth", ValidationDepth[depth])
    assert broken("suppressed_members", "SELECT NULL::VARCHAR AS member_id") == {"member_id: not_nullable": 1}
    assert "member_id: dtype" in broken("suppressed_members", "SELECT 1::INTEGER AS member_id")


class TestKeys:
    def test_every_key_of_several_is_held(self, broken):
        """One pseudonym of two members would make them one."""
        rows = f"SELECT 'member' AS kind, id AS original_id, {10**14} + n AS pseudonym FROM (VALUES {{}}) AS t(id, n)"
        assert broken("pseudonym_crosswalk", rows.format("('a', 1), ('b', 2)")) == {}
        repeated = {"table: multiple_fields_uniqueness": 2}
        assert broken("pseudonym_crosswalk", rows.format("('a', 1), ('b', 1), ('c', 2)")) == repeated
        assert broken("pseudonym_crosswalk", rows.format("('a', 1), ('a', 2), ('c', 3)")) == repeated

    def test_claims_and_grouped_claims_are_held_to_their_key_and_filters_of_them_are_not(self):
        keys = {asset: CONTRACTS[asset].unique for asset in CONTRACTS if "claim_id" in CONTRACTS[asset].columns}
        assert keys == {
            "claims": ["claim_id"],
            "grouped_claims": ["claim_id"],
            "eligible_claims": None,
            "claim_support_scores": None,
            "truncated_claims": None,
        }


class TestLattice:
    def row(self, **changes) -> pd.DataFrame:
        dimensions = {dimension.name: 0 for dimension in policy_from(public_values()).dimensions}
        row = {"node": node_text([0] * len(dimensions)), **dimensions} | {
            "height": 0, "loss": 0.0, "flagged": 3, "draws": 100, "share": 0.03, "lower": 0.01, "upper": 0.05,
            "decision": "candidate", "reached": "measured", "inferred_from": None, "minimal": True, "chosen": True,
            "certificate": False, "to_suppress": 0.02,
        }  # fmt: skip
        frame = pd.DataFrame([row | changes])
        return frame.astype(dict.fromkeys(("node", "decision", "reached", "inferred_from"), "str"))

    def test_columns_follow_the_dimensions_of_the_policy(self):
        for name in POLICIES:
            policy = policy_by_name(name)
            columns = list(contracts_of(policy)["generalization_lattice"].columns)
            names = [dimension.name for dimension in policy.dimensions]
            assert columns[: 1 + len(names)] == ["node", *names]

    def test_a_node_keeps_the_contract(self, broken):
        assert broken("generalization_lattice", self.row()) == {}
        unmeasured = self.row(reached="not_reached", decision="open", flagged=None, draws=None, share=float("nan"))
        assert broken("generalization_lattice", unmeasured.astype({"flagged": "Int64", "draws": "Int64"})) == {}

    @pytest.mark.parametrize(
        ("changes", "rule"),
        [
            ({"share": 1.5}, "share: 0 to 1"),
            ({"lower": -0.1}, "lower: 0 to 1"),
            ({"upper": float("nan")}, "upper: not_nullable"),
            ({"draws": 0}, "draws: at least 1"),
            ({"flagged": -1}, "flagged: at least 0"),
            ({"decision": "maybe"}, "decision: one of the 4 decisions"),
            ({"reached": "guessed"}, "reached: measured, inferred or not reached"),
            ({"loss": 1.01}, "loss: 0 to 1"),
            ({"age": -1}, "age: 0 to "),
            ({"age": 99}, "age: 0 to "),
        ],
    )
    def test_impossible_numbers_break_it(self, broken, changes, rule):
        (found,) = broken("generalization_lattice", self.row(**changes)).items()
        assert found[0].startswith(rule) and found[1] == 1

    def test_levels_are_those_of_the_policy(self, broken):
        policy = policy_from(public_values())
        heights = [levels - 1 for levels in policy.dimension_levels]
        names = [dimension.name for dimension in policy.dimensions]
        nodes = [
            self.row(node=node_text(node), height=sum(node), **dict(zip(names, node, strict=True)))
            for node in all_nodes(heights)[:: max(1, policy.node_count // 20)]
        ]
        assert broken("generalization_lattice", pd.concat(nodes)) == {}


class TestContractsAgreeWithTheCode:
    """Names that a contract repeats, because methods know nothing of contracts."""

    def test_columns_of_diagnosis_and_domains(self):
        contracts = contracts_of(policy_from(public_values()))
        assert tuple(contracts["lattice_diagnosis"].columns) == DIAGNOSIS_COLUMNS
        assert tuple(contracts["value_domains"].columns) == DOMAIN_COLUMNS

    def test_quasi_identifiers_of_claims(self):
        assert set(longitudinal.MEASURED_COLUMNS) == {"year", *CLAIM_COLUMNS}

    def test_a_correlation_table(self, broken):
        values = pd.DataFrame({name: [0.1 * n, 0.5, 0.2 + n] for n, name in enumerate(longitudinal.MEASURED_COLUMNS)})
        made = correlation_of(values).reset_index(names="quasi_identifier")
        assert broken("diversity_correlation", made) == {}

    @pytest.mark.parametrize("asset", STAGES["assessment"])
    def test_evidence(self, broken, asset):
        measured = Method("demographic_risk", "methods#demographic-risk").at_most("smallest_class", "members", 20, 20, 100)
        frame = to_frame([Evidence(asset, "delivery", DIGEST, DIGEST, "1", (measured,))])
        assert broken(asset, frame) == {}
        other = to_frame([Evidence("another", "delivery", DIGEST, DIGEST, "1", (measured,))])
        assert broken(asset, other) == {f"asset: {asset}": 1}

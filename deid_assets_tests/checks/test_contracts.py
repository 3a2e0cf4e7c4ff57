"""Contract checks: they count what breaks a contract and block; they never show a value."""

import warnings

import dagster as dg
import pytest

from deid_assets.checks.of_assets import asset_checks
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policy_by_name
from deid_assets.resources import Keys, RestrictedStore, Workplace
from deid_assets.store.home import Home

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

POLICY = "heritage_public"
CANARY = "CANARY-4711"
GOOD = "SELECT 'm1' AS member_id UNION ALL SELECT 'm2'"


def evaluate(home: Home, sql: str, asset: str = "released_sample") -> tuple[dg.AssetCheckEvaluation, str]:
    """Make an asset's table and run its contract check; returns the evaluation and every event as text."""

    made_by = {"method_version": "1", "policy_sections": []}

    @dg.asset(key_prefix=POLICY, name=asset, partitions_def=deliveries_of(POLICY), metadata=made_by)
    def table() -> str:
        return sql

    (check,) = [
        one
        for one in asset_checks(policy_by_name(POLICY), Keys(POLICY), deliveries_of(POLICY))
        if asset in {key.asset_key.path[-1] for key in one.check_keys}
    ]
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(deliveries_of(POLICY).name, ["2012"])
        result = dg.materialize(
            [table, check],
            instance=instance,
            partition_key="2012",
            resources={
                "io_manager": RestrictedStore(Workplace(str(home.root))).definition(),
                "deid": Workplace(str(home.root)),
            },
            raise_on_error=False,
        )
        (found,) = result.get_asset_check_evaluations()
        return found, str(result.all_events)


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path)


def numbers(evaluation: dg.AssetCheckEvaluation) -> dict:
    return {name: value.value for name, value in evaluation.metadata.items()}


def test_a_table_that_keeps_its_contract_passes(home):
    found, _ = evaluate(home, GOOD)
    assert found.passed and found.blocking
    assert numbers(found) == {"measured": 0, "threshold": 0}


def test_what_breaks_it_is_counted_by_column_and_rule_and_not_shown(home):
    found, events = evaluate(home, f"SELECT unnest(['{CANARY}', '{CANARY}', NULL]) AS member_id")
    assert not found.passed
    assert numbers(found) == {
        "measured": 3, "threshold": 0, "member_id: not_nullable": 1, "table: multiple_fields_uniqueness": 2,
    }  # fmt: skip
    assert CANARY not in events


def test_a_wrong_type_and_a_column_too_many(home):
    found, events = evaluate(home, f"SELECT 7 AS member_id, '{CANARY}' AS more")
    assert not found.passed and numbers(found)["more: column_in_schema"] == 1
    assert CANARY not in events


def test_published_tables_are_held_against_the_labels_of_the_policy(home):
    row = f'SELECT {10**14}::BIGINT AS "MemberID", \'{{}}\' AS "AgeAtFirstClaim", \'F\' AS "Sex"'
    assert evaluate(home, row.format("80+"), "release_members")[0].passed
    found, _ = evaluate(home, row.format("10-14"), "release_members")
    assert found.passed, "five years are a level of the hierarchy"
    found, events = evaluate(home, row.format(CANARY), "release_members")
    assert numbers(found)["AgeAtFirstClaim: a label of the hierarchy"] == 1
    assert CANARY not in events

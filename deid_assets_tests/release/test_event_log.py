"""The second witness: the event log says whether every check passed on what is current, for this delivery."""

import warnings

import dagster as dg
import pytest

from deid_assets.release.event_log import current_materialization, data_versions, stale_inputs, witness

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

DELIVERIES = dg.DynamicPartitionsDefinition(name="event_log_deliveries")
CLAIMS, CANDIDATE = dg.AssetKey(["policy", "claims"]), dg.AssetKey(["policy", "candidate"])
CHECK = dg.AssetCheckKey(CANDIDATE, "candidate_is_safe")


@dg.asset(key_prefix="policy", partitions_def=DELIVERIES, code_version="1")
def claims() -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"made_under": "this policy"})


@dg.asset(key_prefix="policy", partitions_def=DELIVERIES, code_version="1", deps=[CLAIMS])
def candidate() -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"made_under": "this policy"})


def check(passed: bool = True, severity=dg.AssetCheckSeverity.ERROR, raises: bool = False) -> dg.AssetChecksDefinition:
    @dg.asset_check(asset=CANDIDATE, name=CHECK.name, partitions_def=DELIVERIES, blocking=True)
    def candidate_is_safe() -> dg.AssetCheckResult:
        if raises:
            raise RuntimeError("no result")
        return dg.AssetCheckResult(passed=passed, severity=severity)

    return candidate_is_safe


@pytest.fixture
def log():
    """Run assets and checks, then ask the witness."""
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(DELIVERIES.name, ["first", "second"])

        class Log:
            def __init__(self):
                self.instance = instance

            def run(self, *definitions, selection=None, partition="first"):
                wanted = [*definitions]
                return dg.materialize(
                    wanted, instance=instance, partition_key=partition, selection=selection, raise_on_error=False
                )

            def report_failure(self, partition="first"):
                """As the API for checks that ran elsewhere does."""
                event = dg.AssetCheckEvaluation(CANDIDATE, CHECK.name, passed=False, metadata={}, partition=partition)
                instance.report_runless_asset_event(event)

            def problems(self, partition="first", keys=(CHECK,)):
                found = witness(instance, keys, partition)
                assert all(refusal.rule == "check_not_passed" for refusal in found)
                return [refusal.text.split(": ", 1)[1] for refusal in found]

            def stale(self, partition="first", **made_under):
                wanted = {key: made_under.get(key.path[-1], "this policy") for key in (CLAIMS, CANDIDATE)}
                found = stale_inputs(instance, wanted, partition)
                return [(refusal.rule, refusal.name) for refusal in found]

        yield Log()


class TestWitness:
    def test_a_check_that_passed_on_the_current_materialization(self, log):
        log.run(claims, candidate, check())
        assert log.problems() == []

    def test_an_asset_that_was_never_made(self, log):
        assert log.problems() == ["its asset was never materialized for this delivery"]

    def test_a_check_that_never_ran(self, log):
        log.run(claims, candidate)
        assert log.problems() == ["the check never ran for this delivery"]

    def test_a_check_that_failed(self, log):
        log.run(claims, candidate, check(passed=False))
        assert log.problems() == ["the check did not pass"]

    def test_a_warning_is_no_pass(self, log):
        log.run(claims, candidate, check(passed=False, severity=dg.AssetCheckSeverity.WARN))
        assert log.problems() == ["the check did not pass"]

    def test_a_check_that_raised(self, log):
        log.run(claims, candidate, check(raises=True))
        assert log.problems() == ["the check did not pass"]

    def test_a_pass_and_then_a_failure_on_the_same_materialization(self, log):
        log.run(claims, candidate, check())
        log.report_failure()
        assert log.problems() == ["the check did not pass"]

    def test_a_pass_of_an_earlier_materialization(self, log):
        log.run(claims, candidate, check())
        log.run(claims, candidate, selection=[candidate])
        assert log.problems() == ["the check judged an earlier materialization"]

    def test_a_pass_of_another_delivery(self, log):
        log.run(claims, candidate, check(), partition="second")
        log.run(claims, candidate, partition="first")
        assert log.problems() == ["the check never ran for this delivery"]
        assert log.problems("second") == []

    def test_a_failure_of_another_delivery_is_none_of_this_one(self, log):
        log.run(claims, candidate, check())
        log.run(claims, candidate, check(passed=False), partition="second")
        assert log.problems() == []

    def test_every_check_has_to_pass(self, log):
        log.run(claims, candidate, check())
        another = dg.AssetCheckKey(CANDIDATE, "another")
        assert log.problems(keys=[CHECK, another]) == ["the check never ran for this delivery"]


class TestStaleInputs:
    def test_what_was_made_from_what_is_current(self, log):
        log.run(claims, candidate)
        assert log.stale() == []

    def test_an_input_that_was_made_again(self, log):
        log.run(claims, candidate)
        log.run(claims)
        assert log.stale() == [("stale_input", "candidate")]
        log.run(claims, candidate, selection=[candidate])
        assert log.stale() == []

    def test_what_was_made_under_an_earlier_text_of_the_policy(self, log):
        log.run(claims, candidate)
        assert log.stale(candidate="a later text") == [("stale_policy", "candidate")]

    def test_what_does_not_say_under_which_policy_it_was_made(self, log):
        @dg.asset(key_prefix="policy", name="candidate", partitions_def=DELIVERIES, code_version="1", deps=[CLAIMS])
        def silent() -> None:
            pass

        log.run(claims, silent)
        assert log.stale() == [("stale_policy", "candidate")]

    def test_an_asset_that_is_missing(self, log):
        log.run(claims)
        assert log.stale() == [("missing_asset", "candidate")]

    def test_deliveries_are_kept_apart(self, log):
        log.run(claims, candidate)
        log.run(claims, partition="second")
        assert log.stale() == []
        assert log.stale("second") == [("missing_asset", "candidate")]


def test_the_current_materialization_is_the_newest_of_the_delivery(log):
    assert current_materialization(log.instance, CLAIMS, "first") is None
    log.run(claims)
    older = current_materialization(log.instance, CLAIMS, "first").storage_id
    log.run(claims)
    newest = current_materialization(log.instance, CLAIMS, "first").storage_id
    log.run(claims, partition="second")
    assert older < newest == current_materialization(log.instance, CLAIMS, "first").storage_id


def test_the_lineage_names_the_data_version_of_every_asset(log):
    log.run(claims)
    found = data_versions(log.instance, [CLAIMS, CANDIDATE], "first")
    assert found["candidate"] == "unknown" and len(found["claims"]) > 8

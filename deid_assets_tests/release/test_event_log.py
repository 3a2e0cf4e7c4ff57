"""The second witness: the event log says whether every check passed on what is current, for this delivery."""

import warnings

import dagster as dg
import pytest
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run_iterator

from deid_assets.release import event_log
from deid_assets.release.lineage.graph import Materialized

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

DELIVERIES = dg.DynamicPartitionsDefinition(name="event_log_deliveries")
CLAIMS, CANDIDATE = dg.AssetKey(["policy", "claims"]), dg.AssetKey(["policy", "candidate"])
CHECK = dg.AssetCheckKey(CANDIDATE, "candidate_is_safe")
ONLY_THE_CHECK = dg.AssetSelection.checks(CHECK)


@dg.asset(key_prefix="policy", partitions_def=DELIVERIES, code_version="1")
def claims() -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"made_under": "this policy"})


@dg.asset(key_prefix="policy", partitions_def=DELIVERIES, code_version="1", deps=[CLAIMS])
def candidate() -> dg.MaterializeResult:
    return dg.MaterializeResult(metadata={"made_under": "this policy"})


@dg.resource
def locked_out(context) -> None:
    raise RuntimeError("another run has the store")


def check(
    passed: bool = True, severity=dg.AssetCheckSeverity.ERROR, raises: bool = False, needs: frozenset[str] = frozenset()
) -> dg.AssetChecksDefinition:
    @dg.asset_check(
        asset=CANDIDATE, name=CHECK.name, partitions_def=DELIVERIES, blocking=True, required_resource_keys=set(needs)
    )
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

            def run(self, *definitions, selection=None, partition="first", resources=None):
                wanted = [*definitions]
                return dg.materialize(
                    wanted,
                    instance=instance,
                    partition_key=partition,
                    selection=selection,
                    raise_on_error=False,
                    resources=resources,
                )

            def plan(self, *definitions, selection=None, partition="first"):
                """A run that is recorded, with all that it plans, and has not begun; as one in a queue."""
                job = dg.Definitions(
                    assets=[d for d in definitions if not isinstance(d, dg.AssetChecksDefinition)],
                    asset_checks=[d for d in definitions if isinstance(d, dg.AssetChecksDefinition)],
                    jobs=[dg.define_asset_job("planned", selection or dg.AssetSelection.all(), partitions_def=DELIVERIES)],
                    executor=dg.in_process_executor,
                ).resolve_job_def("planned")
                return job, instance.create_run_for_job(job, tags={"dagster/partition": partition})

            def begin(self, job, planned):
                """Execute a run that was planned."""
                list(execute_run_iterator(InMemoryJob(job), planned, instance))

            def check_alone(self, one):
                self.begin(*self.plan(claims, candidate, one, selection=ONLY_THE_CHECK))

            def lock_out(self, *, partition="first"):
                """A run that fails before its first step, as one that finds its store in use."""
                result = self.run(
                    claims, candidate, check(needs=frozenset({"store"})), partition=partition, resources={"store": locked_out}
                )
                assert not result.success
                assert not [event for event in result.all_events if event.is_step_start]

            def report_failure(self, partition="first"):
                """As the API for checks that ran elsewhere does."""
                event = dg.AssetCheckEvaluation(CANDIDATE, CHECK.name, passed=False, metadata={}, partition=partition)
                instance.report_runless_asset_event(event)

            def problems(self, partition="first", keys=(CHECK,), run_id="the run that asks"):
                found = event_log.witness(event_log.Current(instance, partition), keys, run_id)
                assert all(refusal.rule == "check_not_passed" for refusal in found)
                return [refusal.text.split(": ", 1)[1] for refusal in found]

            def stale(self, partition="first", **made_under):
                wanted = {key: made_under.get(key.path[-1], "this policy") for key in (CLAIMS, CANDIDATE)}
                found = event_log.stale_inputs(event_log.Current(instance, partition), wanted)
                return [(refusal.rule, refusal.name) for refusal in found]

        yield Log()


class TestWitness:
    def test_a_check_that_passed_on_the_current_materialization(self, log):
        log.run(claims, candidate, check())
        assert log.problems() == []

    def test_an_asset_that_was_never_made(self, log):
        assert log.problems() == ["its asset has never been materialized for this delivery"]

    def test_a_check_that_never_ran(self, log):
        log.run(claims, candidate)
        assert log.problems() == ["the check has never run for this delivery"]

    def test_a_check_that_failed(self, log):
        log.run(claims, candidate, check(passed=False))
        assert log.problems() == ["the check did not pass"]

    def test_a_warning_is_no_pass(self, log):
        log.run(claims, candidate, check(passed=False, severity=dg.AssetCheckSeverity.WARN))
        assert log.problems() == ["the check did not pass"]

    def test_a_check_that_raised(self, log):
        log.run(claims, candidate, check(raises=True))
        assert log.problems() == ["the check started again and has no result"]

    def test_a_pass_and_then_a_check_that_raised_on_the_same_materialization(self, log):
        log.run(claims, candidate, check())
        log.check_alone(check(raises=True))
        assert log.problems() == ["the check started again and has no result"]

    def test_a_check_that_raised_and_then_a_pass_on_another_materialization(self, log):
        log.run(claims, candidate, check(raises=True))
        log.run(claims, candidate, check())
        assert log.problems() == []

    def test_a_run_that_was_locked_out_says_nothing(self, log):
        log.run(claims, candidate, check())
        log.lock_out()
        assert log.problems() == []

    def test_a_run_that_was_locked_out_is_no_pass(self, log):
        log.lock_out()
        log.run(claims, candidate)
        assert log.problems() == ["the check has never run for this delivery"]

    def test_a_run_that_waits_says_nothing(self, log):
        log.run(claims, candidate, check())
        log.plan(claims, candidate, check())
        assert log.problems() == []

    def test_what_the_present_run_plans_has_to_end(self, log):
        log.run(claims, candidate, check())
        _, present = log.plan(claims, candidate, check())
        assert log.problems(run_id=present.run_id) == ["the check has not finished in this run"]

    def test_a_failure_after_a_pass_counts_even_if_it_was_planned_before(self, log):
        """A run that waited in the queue begins when the one that came later has ended."""
        log.run(claims, candidate)
        job, waiting = log.plan(claims, candidate, check(passed=False), selection=ONLY_THE_CHECK)
        log.check_alone(check())
        assert log.problems() == []
        log.begin(job, waiting)
        assert log.problems() == ["the check did not pass"]

    def test_a_check_that_raised_after_a_pass_counts_even_if_it_was_planned_before(self, log):
        log.run(claims, candidate)
        job, waiting = log.plan(claims, candidate, check(raises=True), selection=ONLY_THE_CHECK)
        log.check_alone(check())
        log.begin(job, waiting)
        assert log.problems() == ["the check started again and has no result"]

    def test_a_pass_that_was_planned_before_another_run_counts(self, log):
        job, waiting = log.plan(claims, candidate, check())
        log.run(claims, candidate, check())
        log.begin(job, waiting)
        assert log.problems() == []

    def test_a_run_that_ended_between_materialization_and_check(self, log):
        """A kill leaves the check planned, and the pass of the materialization before."""
        log.run(claims, candidate, check())
        log.plan(claims, candidate, check())
        log.run(claims, candidate, selection=[candidate])
        assert log.problems() == ["the check judged an earlier materialization"]

    def test_a_planned_check_of_a_run_that_was_deleted_might_have_begun(self, log):
        log.run(claims, candidate, check())
        _, gone = log.plan(claims, candidate, check())
        log.instance.delete_run(gone.run_id)
        assert log.problems() == ["the check started again and has no result"]

    def test_a_failure_before_a_pass_on_the_same_materialization_counts(self, log):
        """The same rows gave two answers: nobody can say which is right."""
        log.run(claims, candidate, check(passed=False))
        log.check_alone(check())
        assert log.problems() == ["the check did not pass"]
        log.run(claims, candidate, check())
        assert log.problems() == []

    @pytest.mark.matrix
    def test_a_long_history_is_read_to_its_end(self, log):
        log.run(claims, candidate, check())
        for _ in range(45):
            log.plan(claims, candidate, check())
        assert log.problems() == []

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
        assert log.problems() == ["the check has never run for this delivery"]
        assert log.problems("second") == []

    def test_a_failure_of_another_delivery_is_none_of_this_one(self, log):
        log.run(claims, candidate, check())
        log.run(claims, candidate, check(passed=False), partition="second")
        assert log.problems() == []

    def test_every_check_has_to_pass(self, log):
        log.run(claims, candidate, check())
        another = dg.AssetCheckKey(CANDIDATE, "another")
        assert log.problems(keys=[CHECK, another]) == ["the check has never run for this delivery"]


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
    assert event_log.current_materialization(log.instance, CLAIMS, "first") is None
    log.run(claims)
    older = event_log.current_materialization(log.instance, CLAIMS, "first").storage_id
    log.run(claims)
    newest = event_log.current_materialization(log.instance, CLAIMS, "first").storage_id
    log.run(claims, partition="second")
    assert older < newest == event_log.current_materialization(log.instance, CLAIMS, "first").storage_id


def test_the_lineage_names_the_data_version_of_every_asset(log):
    log.run(claims)
    found = event_log.data_versions(event_log.Current(log.instance, "first"), [CLAIMS, CANDIDATE])
    assert found["candidate"] == "unknown" and len(found["claims"]) > 8


@dg.asset_check(asset=CANDIDATE, name="newest_delivery_is_recent")
def of_no_partition() -> dg.AssetCheckResult:
    """As a check that asks about the newest delivery, whichever that is."""
    return dg.AssetCheckResult(passed=True)


def test_both_records_of_a_check_are_found_whether_it_belongs_to_a_delivery_or_to_none(log):
    assert log.run(claims, candidate, check(), of_no_partition).success
    record = event_log.current_materialization(log.instance, CANDIDATE, "first")
    made = Materialized(CANDIDATE.to_user_string(), record.storage_id, record.run_id, "", "first", None, None, {})
    lineage = event_log.recorded_lineage(log.instance, made, ())
    assert len(event_log.recorded_checks(log.instance, lineage)) == 2
    assert event_log.differing_records(log.instance, lineage) == []


STAGE = dg.AssetKey(["policy", "candidates"])


@dg.asset(key=STAGE, partitions_def=DELIVERIES, code_version="1", deps=[CLAIMS, CANDIDATE])
def stage() -> None:
    """A whole stage of two tables."""


class TestStages:
    """A release is made from its stages, and a stage must have been made from the tables that are there."""

    def problems(self, log, partition="first"):
        return [
            (one.rule, one.text)
            for one in event_log.stale_stages(event_log.Current(log.instance, partition), {STAGE: [CLAIMS, CANDIDATE]})
        ]

    def test_a_stage_of_the_current_tables_is_accepted(self, log):
        assert log.run(claims, candidate, stage).success
        assert self.problems(log) == []

    def test_a_stage_that_was_never_made_refuses(self, log):
        assert log.run(claims, candidate).success
        (problem,) = self.problems(log)
        assert problem == ("missing_asset", "candidates: this stage has never been materialized for this delivery")

    def test_a_stage_of_another_delivery_is_none(self, log):
        assert log.run(claims, candidate, stage, partition="second").success
        assert [rule for rule, _ in self.problems(log)] == ["missing_asset"]

    @pytest.mark.parametrize("again", [claims, candidate], ids=["claims", "candidate"])
    def test_a_table_made_again_after_its_stage_refuses_until_the_stage_is_made_again(self, log, again):
        assert log.run(claims, candidate, stage).success
        assert log.run(claims, candidate, stage, selection=[again]).success
        (problem,) = self.problems(log)
        text = f"candidates: this stage was not made from the current {again.key.path[-1]}; materialize the stage again"
        assert problem == ("stale_input", text)
        assert log.run(claims, candidate, stage, selection=[stage]).success
        assert self.problems(log) == []

    def test_a_stage_made_before_its_tables_refuses(self, log):
        assert log.run(claims, candidate, stage, selection=[stage]).success
        assert log.run(claims, candidate, stage, selection=[claims, candidate]).success
        assert {rule for rule, _ in self.problems(log)} == {"stale_input"} and len(self.problems(log)) == 2

    def test_a_stage_whose_definition_left_a_table_out_refuses(self, log):
        @dg.asset(key=STAGE, partitions_def=DELIVERIES, code_version="1", deps=[CLAIMS])
        def incomplete() -> None:
            pass

        assert log.run(claims, candidate, incomplete).success
        (problem,) = self.problems(log)
        assert problem[0] == "stale_input" and "current candidate" in problem[1]

    def test_a_failed_blocking_check_keeps_the_stage_and_what_depends_on_it_from_being_made(self, log):
        @dg.asset(key=["policy", "release"], partitions_def=DELIVERIES, code_version="1", deps=[STAGE])
        def release() -> None:
            pass

        assert not log.run(claims, candidate, check(passed=False), stage, release).success
        assert event_log.current_materialization(log.instance, CANDIDATE, "first") is not None
        for key in (STAGE, release.key):
            assert event_log.current_materialization(log.instance, key, "first") is None

    def test_the_log_tells_of_each_table_or_that_there_is_none(self, log):
        @dg.asset(key=CLAIMS, partitions_def=DELIVERIES)
        def counted() -> dg.MaterializeResult:
            return dg.MaterializeResult(metadata={"dagster/row_count": 7, "content": "abc"})

        assert log.run(counted).success
        found, missing = event_log.recorded_tables(log.instance, [CLAIMS, CANDIDATE], "first")
        assert (found.name, found.rows, found.content) == ("claims", 7, "abc") and found.event is not None
        assert (missing.name, missing.event) == ("candidate", None)

    def test_the_lineage_of_a_release_in_the_making_is_that_of_the_current_tables(self, log):
        assert log.run(claims, candidate).success
        assert log.run(claims, candidate).success
        found = event_log.current_lineage(log.instance, dg.AssetKey(["policy", "release"]), [CANDIDATE], "first")
        events = {name: made.event for name, made in found.before.items()}
        current = {key: event_log.current_materialization(log.instance, key, "first").storage_id for key in (CLAIMS, CANDIDATE)}
        assert events == {key.to_user_string(): event for key, event in current.items()}
        assert found.depths["policy/claims"] < found.depths["policy/candidate"] < found.depths["policy/release"]

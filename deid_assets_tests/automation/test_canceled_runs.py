"""A canceled run says so, and no refusal or error of its own; what it had published stays published."""

from pathlib import Path

import dagster as dg
import pytest

from deid_assets.automation.ended_runs import CANCELED, RunSummary, canceled_sensor, tag_outcome
from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.resources import OUTCOME_TAG, RELEASED


@dg.op
def work() -> None:
    raise AssertionError("not executed here")


@dg.job(name="release_small")
def job() -> None:
    work()


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def canceled(instance, **about: object) -> str:
    run = instance.create_run_for_job(job, **about)
    instance.report_run_canceling(run)
    instance.report_run_canceled(run)
    return run.run_id


@pytest.mark.parametrize(
    ("summary", "shown"),
    [
        (RunSummary(ERROR, reasons=("the run was interrupted",)), CANCELED),
        (RunSummary(REFUSED), CANCELED),
        (RunSummary(ERROR, release=Path("small/0001")), RELEASED),
        (RunSummary(PUBLISHED, release=Path("small/0001")), RELEASED),
        (RunSummary(ERROR, waiting="small/0001"), "\N{HOURGLASS} awaiting approval"),
    ],
)
def test_a_canceled_run_is_tagged_with_what_is_out(instance, summary, shown):
    run_id = canceled(instance)
    tag_outcome(instance, run_id, summary)
    assert instance.get_run_by_id(run_id).tags[OUTCOME_TAG].split()[-1] == shown.split()[-1]


def test_a_run_that_was_canceled_in_the_ui_is_tagged_by_the_daemon(instance):
    location = dg.Definitions(jobs=[job]).get_repository_def()
    sensor = canceled_sensor([location.get_job("release_small")])
    before = sensor.evaluate_tick(dg.build_sensor_context(instance, repository_def=location)).cursor
    ran = canceled(instance)
    published = canceled(instance, tags={OUTCOME_TAG: RELEASED})
    again = canceled(instance, tags={OUTCOME_TAG: RELEASED}, parent_run_id=published, root_run_id=published)
    for _ in range(3):  # a tick looks at one run or more
        before = sensor.evaluate_tick(dg.build_sensor_context(instance, repository_def=location, cursor=before)).cursor
    shown = [instance.get_run_by_id(run_id).tags[OUTCOME_TAG] for run_id in (ran, published, again)]
    assert shown == [CANCELED, RELEASED, CANCELED]

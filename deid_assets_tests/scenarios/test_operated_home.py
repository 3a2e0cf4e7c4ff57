"""Three deliveries, by sensor, schedule and command line, and what an auditor finds afterwards.

Whole runs are in the matrix. What the daemon asks for is tested here on a home that has a release already.
"""

import datetime
import json
from collections.abc import Iterator

import dagster as dg
import pytest
from dagster._daemon.sensor import SensorLaunchContext

from deid_assets.automation.deliveries import BECAUSE_TAG
from deid_assets.automation.in_use import state_use
from deid_assets.automation.instance import dagster_instance
from deid_assets.resources import OUTCOME_TAG, STORE_TAG
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.daemon import Daemon
from deid_assets_tests.scenarios.operated import FIRST, SECOND, THIRD, Operated, complete, deliver_without_some
from deid_assets_tests.scenarios.pipeline import Pipeline, change, copy_of, pipeline_in

pytestmark = pytest.mark.matrix

CHANGED = "the policy's recipients changed"


def runs_of(home: Home, delivery: str) -> list[dg.DagsterRun]:
    """The runs of a delivery, oldest first."""
    with dagster_instance(home) as instance:
        return list(reversed(instance.get_runs(dg.RunsFilter(tags={STORE_TAG: f"small/{delivery}"}))))


def levels_of(pipeline: Pipeline, delivery: str) -> list[str]:
    """The chosen generalization of a delivery."""
    return pipeline.table(delivery, "chosen_generalization").frame()["level_name"].tolist()


def fails(*_: object, **__: object) -> None:
    raise OSError("the database does not answer")


class TestWhatTheDaemonAsksFor:
    """Runs are queued, and not executed."""

    @pytest.fixture
    def home(self, published, tmp_path) -> Iterator[Pipeline]:
        with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
            state_use(pipeline.home, "heritage_public", retired=True)
            yield pipeline

    def test_a_tick_of_the_sensor_queues_one_run_of_a_delivery_once_it_is_complete(self, home, tmp_path):
        inbox = tmp_path / "in"
        inbox.mkdir()
        state_use(home.home, "small", deliveries=str(inbox))
        daemon = Daemon(home.home, executes=False)
        deliver_without_some(home.home.deliveries / KEY, inbox / SECOND, remainder=0)
        (inbox / SECOND / "_SUCCESS").unlink()
        daemon.sensors()
        assert not runs_of(home.home, SECOND)
        complete(inbox / SECOND)
        daemon.sensors()
        daemon.sensors()
        (run,) = runs_of(home.home, SECOND)
        assert (run.job_name, run.tags["dagster/partition"], run.status.value) == ("release_small", SECOND, "QUEUED")
        ticks = [(tick.status.value, tick.tick_data.skip_reason) for tick in daemon.ticks("deliveries_of_small")]
        assert [status for status, _ in ticks] == ["SKIPPED", "SUCCESS", "SKIPPED"]
        assert "1 without _SUCCESS is not complete yet" in ticks[0][1]

    def test_a_delivery_whose_run_the_daemon_could_not_request_is_not_forgotten(self, home, tmp_path, monkeypatch):
        """Dagster has added the partition by then."""
        state_use(home.home, "small", deliveries=str(tmp_path))
        daemon = Daemon(home.home, executes=False)
        deliver_without_some(home.home.deliveries / KEY, tmp_path / SECOND, remainder=0)
        with monkeypatch.context() as broken:
            broken.setattr(SensorLaunchContext, "set_run_requests", fails)
            with pytest.raises(AssertionError, match="the database does not answer"):
                daemon.sensors()
        with daemon.instance() as instance:
            assert instance.get_dynamic_partitions("deliveries_of_small") == [KEY, SECOND]
        assert not runs_of(home.home, SECOND)
        daemon.sensors()
        daemon.sensors()
        assert len(runs_of(home.home, SECOND)) == 1

    def test_a_tick_of_the_schedule_queues_a_run_when_something_changed(self, home):
        state_use(home.home, "small", schedule="0 6 * * 1", fresh_days=35)
        daemon = Daemon(home.home, executes=False)
        daemon.schedules()
        before = runs_of(home.home, KEY)
        code, _ = deid_here(home.home.root, "member", "opt-out", "somebody", "--unmatched-ok", "--reason", "asked")
        assert code == PUBLISHED
        daemon.schedules()
        (run,) = [run for run in runs_of(home.home, KEY) if run not in before]
        assert run.tags[BECAUSE_TAG] == "the policy's opt_outs changed"
        daemon.schedules()
        told = [tick.tick_data.skip_reason for tick in daemon.ticks("rerelease_small")]
        unchanged = f"unchanged: the delivery {KEY} was released under this policy and these methods before"
        assert told == [unchanged, None, f"a run of small/{KEY} is at work"]
        assert len(daemon.ticks("freshness_small")) == 3

    def test_a_release_turns_overdue(self, home):
        state_use(home.home, "small", fresh_days=35)
        daemon, release = Daemon(home.home, executes=False), dg.AssetKey(["small", "release"])
        states = [daemon.freshness(release, datetime.timedelta(days=days)) for days in (1, 34, 36)]
        assert [state.value for state in states] == ["PASS", "PASS", "FAIL"]


class TestThreeDeliveries:
    def test_the_first_was_released_by_the_sensor_once_it_was_complete(self, operated: Operated):
        first, second, *_ = operated.sensor_ticks
        assert first[0] == "SKIPPED" and "1 without _SUCCESS is not complete yet" in first[1]
        assert second[0] == "SUCCESS"
        (run,) = runs_of(operated.home, FIRST)
        assert run.tags[OUTCOME_TAG] == "published"

    def test_the_second_was_refused_and_released_once_the_generalization_was_pinned(self, operated: Operated):
        refused, released = runs_of(operated.home, SECOND)
        assert "refused for privacy" in refused.tags[OUTCOME_TAG] and released.tags[OUTCOME_TAG] == "published"
        assert "releases/small/0002" in operated.printed
        assert not operated.home.refused_report("small", SECOND).exists(), "it is over with the release"
        (again, *_) = operated.schedule_ticks
        assert again[0] == "SKIPPED" and "a run with the same inputs was not published before" in again[1]
        public = json.loads((operated.release(2) / "manifest.json").read_bytes())
        (found,) = (item for item in public["evidence"] if item["asset"] == "cross_release_risk")
        measured = {one["name"]: one for one in found["measurements"]}
        assert measured["earlier_releases"]["value"] == 1 and measured["linked_high_risk_share"]["passed"]
        assert 0 < measured["linked_high_risk_share"]["value"] < measured["linked_high_risk_share"]["bound"] <= 0.015
        kept = operated.home.store / "manifests" / "small" / "0001.rows.parquet"
        assert kept.stat().st_mode & 0o077 == 0 and not list(operated.home.releases.rglob("*.rows.parquet"))

    def test_each_of_two_generalizations_passes_by_itself_and_the_gate_alone_refuses_both(self, operated: Operated, tmp_path):
        """Together they are 20 years of age with days in hospital."""
        with copy_of(operated.refused, tmp_path / "refused") as pipeline:
            assert [levels_of(pipeline, key) for key in (FIRST, SECOND)] == [["40 years", "days"], ["20 years", "none or any"]]
            before = pipeline.published_bytes()
            summary = pipeline.run(SECOND, ["release"])
            assert summary.exit_code == REFUSED and pipeline.published_bytes() == before, summary
            said = "the records of members in small/0001 can be linked with those of this release"
            assert pipeline.releases == ["small/0001"] and said in " ".join(summary.reasons)
        with pipeline_in(operated.copied_to(tmp_path / "released")) as pipeline:
            assert levels_of(pipeline, SECOND) == ["40 years", "days"], "pinned"

    def test_the_third_was_released_again_by_the_schedule_without_somebody_who_opted_out(self, operated: Operated):
        first, again = runs_of(operated.home, THIRD)
        assert {run.tags[OUTCOME_TAG] for run in (first, again)} == {"published"}
        assert operated.schedule_ticks[1:] == [
            ["SKIPPED", f"unchanged: the delivery {THIRD} was released under this policy and these methods before"],
            ["SUCCESS", "the policy's opt_outs changed"],
        ]
        _, printed = deid_here(operated.root, "member", "where", operated.opted_out)
        held = ["holds this person" in line for line in printed.splitlines()]
        assert held == [True, True, True, False], printed
        outside = [path for path in operated.root.rglob("*") if path.is_file() and not path.is_relative_to(operated.home.store)]
        outside = [path for path in outside if not path.is_relative_to(operated.home.deliveries)]
        holding = [path.name for path in outside if operated.opted_out.encode() in path.read_bytes()]
        assert holding == ["opt_outs.jsonl"], "only the list itself names them"

    def test_the_command_line_knows_what_the_schedule_released(self, operated: Operated, tmp_path):
        """It reads the same policy and the same list of opt-outs, whichever way the policy is named."""
        for name in ("small", operated.root.parent / "small.yaml"):
            code, printed = deid_here(operated.root, "run", "--policy", name, "--delivery", operated.inbox / THIRD)
            assert code == PUBLISHED and "Unchanged" in printed and "releases/small/0004" in unwrapped(printed), printed


class TestTheAuditOfTheSecond:
    @pytest.fixture(scope="class")
    def audited(self, operated: Operated) -> tuple[dict, str]:
        code, printed = deid_here(operated.root, "audit", "small/0002")
        assert code == PUBLISHED and "release small/0002 is in order" in printed, printed
        folder = operated.home.store / "manifests" / "small"
        return json.loads((folder / "0002.audit.json").read_text()), (folder / "0002.audit.html").read_text()

    def test_explains_delivery_run_policy_and_what_both_releases_disclose(self, operated: Operated, audited):
        document, page = audited
        _, released = runs_of(operated.home, SECOND)
        assert document["run"]["run"] == released.run_id and document["delivery"]["key"] == SECOND
        assert '"generalization": "pinned"' in json.dumps(json.loads(document["policy_text"]))
        linked = [one for one in document["measurements"] if one["name"] == "linked_high_risk_share"]
        assert linked and all(one["passed"] and one["threshold"] == 0.015 for one in linked)
        assert all(one["passed"] for one in document["checks"])
        assert "linked_high_risk_share" in page and "data:image/svg+xml;base64," in page

    def test_tells_the_runs_that_were_refused_before(self, operated: Operated, audited):
        document, page = audited
        refused, _ = runs_of(operated.home, SECOND)
        (before,) = document["runs_before"]
        assert before["run"] == refused.run_id and before["tags"][OUTCOME_TAG] == refused.tags[OUTCOME_TAG]
        assert any("linked_high_risk_share" in one["check"] for one in before["failed_checks"])
        assert refused.run_id in page

    @pytest.mark.parametrize(
        ("file", "old", "new", "says"),
        [
            ("releases/small/0002/data/Claims.csv", b",Y1,", b",Y2,", "data/Claims.csv is as listed: it was changed"),
            ("releases/small/0002/manifest.json", b"named", b"namex", "manifest and signature do not belong together"),
            ("releases/registry.jsonl", b'"number":2', b'"number":7', "was changed: its hash is not that of its content"),
        ],
    )
    def test_finds_a_changed_byte(self, operated: Operated, tmp_path, file, old, new, says):
        root = operated.copied_to(tmp_path / "deid")
        change(root / file, old, new)
        code, printed = deid_here(root, "audit", "small/0002")
        assert code == ERROR and says in unwrapped(printed), printed

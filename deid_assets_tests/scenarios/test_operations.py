"""Operating a home: re-releases on a schedule, deliveries that are removed, stores past their retention."""

import os
from pathlib import Path

import dagster as dg
import yaml

from deid_assets.automation.deliveries import BECAUSE_TAG, due_for, freshness_check, release_schedule
from deid_assets.automation.housekeeping import PURGED, REMOVED, removals
from deid_assets.automation.in_use import state_use
from deid_assets.building import build_definitions
from deid_assets.command_line import deliveries
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policies_in
from deid_assets.resources import INPUTS_TAG, OUTCOME_TAG, STORE_TAG, Workplace
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import copy_of

PARTITIONS = str(deliveries_of("small").name)


def change_policy(pipeline, **sections) -> None:
    (file,) = pipeline.home.policies.glob("small*.yaml")
    values = yaml.safe_load(file.read_text())
    for name, changed in sections.items():
        values[name] = {**values.get(name, {}), **changed}
    file.write_text(yaml.safe_dump(values))


def tick(pipeline) -> dg.RunRequest | dg.SkipReason:
    """One evaluation of the policy's schedule."""
    made = build_definitions(["small"], pipeline.home)
    schedule = release_schedule(Workplace(str(pipeline.home.root)), "small", made.jobs[0], deliveries_of("small"), "0 6 * * 1")
    return schedule(dg.build_schedule_context(pipeline.instance))


class TestSchedule:
    def test_nothing_is_released_again_when_nothing_changed(self, home):
        skipped = tick(home)
        assert isinstance(skipped, dg.SkipReason) and skipped.skip_message.startswith(f"unchanged: the delivery {KEY} was")

    def test_a_changed_policy_is_released_again_and_the_run_says_what_changed(self, home):
        change_policy(home, recipients={"terms_of_use": "Other terms."})
        requested = tick(home)
        assert requested.partition_key == KEY
        assert requested.tags[BECAUSE_TAG] == "the policy's recipients changed"

    def test_a_newer_delivery_is_released_and_the_older_one_is_not(self, home):
        home.synthetic("newer", 100, seed=2)
        requested = tick(home)
        assert requested.partition_key == "newer"
        assert requested.tags[BECAUSE_TAG] == "the delivery newer has not been read yet"

    def test_a_run_that_was_refused_with_these_inputs_is_not_repeated(self, home):
        change_policy(home, recipients={"terms_of_use": "Other terms."})
        inputs = due_for(home.home, policies_in(home.home.policies)["small"], KEY).inputs
        tags = {STORE_TAG: f"small/{KEY}", INPUTS_TAG: inputs[:16]}
        home.instance.add_run(dg.DagsterRun(job_name="release_small", tags=tags, status=dg.DagsterRunStatus.FAILURE))
        assert "a run with the same inputs was not published before" in tick(home).skip_message

    def test_a_run_at_work_is_waited_for(self, home):
        change_policy(home, recipients={"terms_of_use": "Other terms."})
        tags = {STORE_TAG: f"small/{KEY}"}
        home.instance.add_run(dg.DagsterRun(job_name="release_small", tags=tags, status=dg.DagsterRunStatus.STARTED))
        assert tick(home).skip_message == f"a run of small/{KEY} is at work"

    def test_a_policy_that_another_project_gives_needs_no_file_in_the_home(self, home):
        given = {"small": policies_in(home.home.policies)["small"]}
        (file,) = home.home.policies.glob("small*.yaml")
        file.unlink()
        state_use(home.home, "small", schedule="0 6 * * 1")
        (schedule,) = build_definitions(given, home.home).schedules
        skipped = schedule(dg.build_schedule_context(home.instance))
        assert skipped.skip_message.startswith(f"unchanged: the delivery {KEY} was")

    def test_a_policy_without_a_delivery_waits_for_one(self, home):
        home.instance.delete_dynamic_partition(PARTITIONS, KEY)
        assert tick(home).skip_message == "small has no delivery yet"


class TestFreshness:
    def evaluate(self, pipeline, days: int) -> dg.AssetCheckResult:
        check = freshness_check(pipeline.home, dg.AssetKey(["small", "release"]), deliveries_of("small"), days)
        return check(dg.build_asset_check_context(instance=pipeline.instance))

    def test_the_newest_delivery_passes_once_it_is_released(self, home):
        assert self.evaluate(home, 35).passed

    def test_a_newer_delivery_without_a_release_fails_although_an_older_one_is_fresh(self, home):
        home.synthetic("newer", 100, seed=2)
        result = self.evaluate(home, 35)
        assert not result.passed and result.metadata["newest_delivery"].value == "newer"

    def test_an_old_delivery_fails(self, home):
        os.utime(home.home.deliveries / f"{KEY}.json", (1, 1))
        assert not self.evaluate(home, 35).passed


class TestRemoval:
    def test_a_released_delivery_is_not_removed(self, home):
        code, printed = deid_here(home.home.root, "delivery", "remove", KEY, "--policy", "small", "--reason", "a test")
        assert code == ERROR and f"delivery {KEY} was released as small/0001" in unwrapped(printed)
        assert home.store_file(KEY).exists() and not list(removals(home.home))

    def test_a_delivery_that_was_not_released_goes_with_its_store_and_the_removal_is_recorded(self, home):
        home.synthetic("2026", 100, seed=2)
        home.synthetic("2026.1", 100, seed=3)
        for key in ("2026", "2026.1"):
            home.store_file(key).write_bytes(b"a store")
        home.home.refused_report("small", "2026").write_text("refused")
        code, printed = deid_here(home.home.root, "delivery", "remove", "2026", "--policy", "small", "--reason", "wrong file")
        assert code == PUBLISHED, printed
        assert not home.store_file("2026").exists() and not home.home.refused_report("small", "2026").exists()
        assert home.store_file("2026.1").exists(), "a key that begins alike is another delivery"
        assert home.instance.get_dynamic_partitions(PARTITIONS) == [KEY, "2026.1"]
        assert not (home.home.deliveries / "2026.json").exists()
        (line,) = removals(home.home)
        assert (line.what, line.policy, line.delivery, line.reason) == (REMOVED, "small", "2026", "wrong file")

    def test_an_unknown_delivery_is_an_error(self, home):
        code, printed = deid_here(home.home.root, "delivery", "remove", "other", "--policy", "small", "--reason", "a test")
        assert code == ERROR and "policy small has no delivery other" in unwrapped(printed)

    def test_a_delivery_is_added_without_a_run(self, home, tmp_path):
        folder = tmp_path / "2027"
        folder.mkdir()
        (folder / "members.parquet").write_bytes(b"any")
        code, printed = deid_here(home.home.root, "delivery", "add", folder, "--policy", "small")
        assert code == PUBLISHED, printed
        assert home.instance.get_dynamic_partitions(PARTITIONS) == [KEY, "2027"]
        assert not home.store_file("2027").exists()


class TestPurge:
    def test_without_a_retention_nothing_can_be_past_it(self, home):
        code, printed = deid_here(home.home.root, "purge")
        assert code == ERROR and "no policy has a retention" in unwrapped(printed)

    def test_a_store_past_its_retention_is_listed_and_removed_on_request_only(self, home):
        state_use(home.home, "small", retention_days=30)
        code, printed = deid_here(home.home.root, "purge", "--yes")
        assert (code, unwrapped(printed)) == (PUBLISHED, "No restricted store is past its retention.")
        os.utime(home.store_file(KEY), (1, 1))
        copied = home.home.deliveries / "small" / KEY
        copied.mkdir(parents=True)
        (copied / "members.parquet").write_bytes(b"a copy of an upstream table")
        code, printed = deid_here(home.home.root, "purge")
        assert code == PUBLISHED and "would be removed" in printed and home.store_file(KEY).exists()
        before = home.published_bytes()
        code, printed = deid_here(home.home.root, "purge", "--yes", "--reason", "contract ended")
        assert code == PUBLISHED and not home.store_file(KEY).exists() and not copied.exists()
        (line,) = removals(home.home)
        assert (line.what, line.reason) == (PURGED, "contract ended")
        assert home.published_bytes() == before, "releases stay"

    def test_one_that_a_crash_interrupted_is_done_again(self, home, monkeypatch):
        state_use(home.home, "small", retention_days=30)
        os.utime(home.store_file(KEY), (1, 1))
        copied = home.home.deliveries / "small" / KEY
        copied.mkdir(parents=True)

        def interrupted(folder: Path) -> None:
            raise RuntimeError("killed")

        with monkeypatch.context() as patch:
            patch.setattr(deliveries.shutil, "rmtree", interrupted)
            assert deid_here(home.home.root, "purge", "--yes")[0] == ERROR
        assert copied.exists()
        assert deid_here(home.home.root, "purge", "--yes")[0] == PUBLISHED
        assert not copied.exists() and not home.store_file(KEY).exists()


class TestOutcome:
    def test_a_run_says_what_came_of_it(self, published):
        (run,) = published.pipeline.instance.get_runs(dg.RunsFilter(tags={STORE_TAG: f"small/{KEY}"}))
        assert run.tags[OUTCOME_TAG] == "published" and len(run.tags[INPUTS_TAG]) == 16


class TestPoliciesInUse:
    def test_no_folder_of_the_home_is_watched(self, home, tmp_path):
        root = home.home.root
        (tmp_path / "link").symlink_to(root / "deliveries")
        (tmp_path / "in").mkdir()
        inside = (root, root / "deliveries", root / "store", root / "releases", tmp_path / "in" / ".." / root.name)
        for folder in (*inside, tmp_path / "link", root.parent, "/"):
            code, printed = deid_here(home.home.root, "policy", "adopt", "claims_dates", "--deliveries", folder)
            assert code == ERROR and "where no delivery arrives" in unwrapped(printed), printed

    def test_the_folder_of_its_releases_is_not_watched_wherever_it_is(self, tmp_path, monkeypatch):
        monkeypatch.setenv("DEID_PUBLISHED", str(tmp_path / "out" / "published"))
        for folder in (tmp_path / "out" / "published", tmp_path / "out"):
            folder.mkdir(parents=True, exist_ok=True)
            code, printed = deid_here(tmp_path / "deid", "policy", "adopt", "heritage_public", "--deliveries", folder)
            assert code == ERROR and "where no delivery arrives" in unwrapped(printed), printed

    def test_adopt_list_and_retire(self, home, tmp_path):
        (tmp_path / "in").mkdir()
        code, printed = deid_here(
            home.home.root, "policy", "adopt", "claims_dates", "--deliveries", tmp_path / "in", "--retention", 400
        )
        assert code == PUBLISHED, printed
        _, listed = deid_here(home.home.root, "policy", "list")
        stars = {line.split()[1] for line in listed.splitlines() if line.startswith("*")}
        assert stars == {"heritage_public", "claims_dates", "small"}
        assert deid_here(home.home.root, "policy", "retire", "small")[0] == PUBLISHED
        _, listed = deid_here(home.home.root, "policy", "list")
        assert "* small" not in listed and "  small" in listed
        code, printed = deid_here(home.home.root, "policy", "retire", "small")
        assert code == ERROR and "small is not in use" in unwrapped(printed)

    def test_partitions_of_an_earlier_version_become_those_of_each_policy(self, home):
        home.instance.delete_dynamic_partition(PARTITIONS, KEY)
        home.instance.add_dynamic_partitions("deliveries", ["other", KEY])
        with copy_of(home.home.root, home.home.root.parent / "moved") as moved:
            assert moved.instance.get_dynamic_partitions(PARTITIONS) == [KEY]
            assert moved.instance.get_dynamic_partitions("deliveries") == []

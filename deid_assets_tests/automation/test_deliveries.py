"""The sensor of a watched folder: complete deliveries become partitions with a run each; others are left alone."""

import os
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import pytest

from deid_assets.automation.deliveries import Watched, delivery_sensor
from deid_assets.automation.housekeeping import REMOVED, record_removal
from deid_assets.building import build_definitions
from deid_assets.errors import DeliveryError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policies_in
from deid_assets.resources import STORE_TAG
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import content_read, register_delivery, registered_delivery, require_same_content
from deid_assets.store.home import Home, StoreLock
from deid_assets_tests.scenarios.policies import SMALL, write_policy

PARTITIONS = deliveries_of("small")


@pytest.fixture
def home(tmp_path) -> Home:
    made = Home(tmp_path / "deid").create()
    write_policy(made.policies, SMALL)
    return made


@pytest.fixture
def inbox(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    return folder


@pytest.fixture
def instance():
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def deliver(inbox, key: str, complete: bool = True) -> None:
    folder = inbox / key
    folder.mkdir(exist_ok=True)
    (folder / "members.parquet").write_bytes(b"members")
    if complete:
        (folder / "_SUCCESS").touch()


def tick(home, inbox, instance, launches: bool = True) -> dg.SensorResult:
    """One evaluation of the sensor, and what Dagster does with its partitions and, unless it fails there, its runs."""
    policy = policies_in(home.policies)["small"]
    made = build_definitions({"small": policy}, home)
    job = made.jobs[0]
    sensor = delivery_sensor(home, policy, job, PARTITIONS, Watched(inbox, "_SUCCESS"))
    result = sensor(dg.build_sensor_context(instance, definitions=made))
    for request in result.dynamic_partitions_requests or ():
        instance.add_dynamic_partitions(request.partitions_def_name, list(request.partition_keys))
    for request in (result.run_requests or ()) if launches else ():
        started(instance, request.partition_key)
    return result


def started(instance, key: str, status: str = "STARTED") -> None:
    instance.add_run(
        dg.DagsterRun(job_name="release_small", status=dg.DagsterRunStatus[status], tags={STORE_TAG: f"small/{key}"})
    )


def test_a_complete_delivery_is_registered_and_run_once(home, inbox, instance):
    deliver(inbox, "2026-01")
    first = tick(home, inbox, instance)
    assert [request.partition_key for request in first.run_requests] == ["2026-01"]
    assert registered_delivery(home, "2026-01") == Delivery("2026-01", "synthetic", (inbox / "2026-01",), {}, "_SUCCESS")
    assert instance.get_dynamic_partitions(PARTITIONS.name) == ["2026-01"]
    second = tick(home, inbox, instance)
    assert not second.run_requests and "1 known delivery" in second.skip_reason.skip_message


def test_a_run_whose_request_dagster_lost_is_requested_again(home, inbox, instance):
    """As when the daemon is killed after it has added the partition, or cannot launch the run."""
    deliver(inbox, "2026-01")
    (lost,) = tick(home, inbox, instance, launches=False).run_requests
    started(instance, "2026-01", "NOT_STARTED")
    (again,) = tick(home, inbox, instance).run_requests
    assert again.run_key == lost.run_key, "so that Dagster starts the run that it has made, and makes no second one"
    assert not tick(home, inbox, instance).run_requests


def test_a_delivery_is_not_run_again_because_the_history_of_its_run_was_deleted(home, inbox, instance):
    deliver(inbox, "2026-01")
    tick(home, inbox, instance)
    lock = StoreLock.of(home, "small", "2026-01")
    lock.acquire()  # as the run does
    lock.release()
    (run,) = instance.get_runs()
    instance.delete_run(run.run_id)
    assert not tick(home, inbox, instance).run_requests


@pytest.mark.parametrize("is_registered", [False, True])
def test_a_delivery_that_somebody_added_is_not_run_by_itself(home, inbox, instance, is_registered):
    deliver(inbox, "2026-01")
    if is_registered:
        register_delivery(home, Delivery("2026-01", "synthetic", (inbox / "2026-01",)))
    instance.add_dynamic_partitions(PARTITIONS.name, ["2026-01"])
    assert not tick(home, inbox, instance).run_requests


def test_a_half_copied_delivery_is_left_alone_until_its_marker_is_there(home, inbox, instance):
    deliver(inbox, "2026-01", complete=False)
    before = tick(home, inbox, instance)
    assert not before.run_requests and "1 without _SUCCESS is not complete yet" in before.skip_reason.skip_message
    assert not list(home.deliveries.glob("*.json"))
    deliver(inbox, "2026-01")
    assert len(tick(home, inbox, instance).run_requests) == 1


def test_deliveries_are_run_in_the_order_in_which_they_became_complete(home, inbox, instance):
    for key, when in (("a", 300), ("b", 100), ("c", 200)):
        deliver(inbox, key)
        os.utime(inbox / key / "_SUCCESS", (when, when))
    assert [request.partition_key for request in tick(home, inbox, instance).run_requests] == ["b", "c", "a"]


def test_files_links_and_hidden_folders_are_no_deliveries(home, inbox, instance, tmp_path):
    deliver(tmp_path, "elsewhere")
    (inbox / "link").symlink_to(tmp_path / "elsewhere")
    (inbox / "notes.txt").write_text("a file")
    deliver(inbox, ".copying")
    assert not tick(home, inbox, instance).run_requests


def test_a_removed_delivery_comes_back_only_with_a_newer_marker(home, inbox, instance):
    deliver(inbox, "2026-01")
    marker = inbox / "2026-01" / "_SUCCESS"
    os.utime(marker, (1, 1))
    tick(home, inbox, instance)
    record_removal(home, REMOVED, "small", "2026-01", "a test")
    instance.delete_dynamic_partition(PARTITIONS.name, "2026-01")
    assert not tick(home, inbox, instance).run_requests
    os.utime(marker, (4_000_000_000, 4_000_000_000))
    again = tick(home, inbox, instance).run_requests
    assert [request.run_key for request in again] == ["2026-01:4000000000000000000"]


def test_a_missing_folder_is_named_with_what_to_do(home, inbox, instance):
    with pytest.raises(DeliveryError, match="does not exist; create it, or name another one with `deid policy adopt small"):
        tick(home, inbox / "gone", instance)


@pytest.fixture
def said(monkeypatch) -> list[str]:
    """What the sensor logs."""
    lines: list[str] = []
    log = SimpleNamespace(warning=lines.append, error=lines.append)
    monkeypatch.setattr(dg.SensorEvaluationContext, "log", property(lambda _: log))
    return lines


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["lost+found", "@eaDir", "2026 02", "März", "January 2026"], "5 folders"),
        (["2026-02 (1)"], "1 folder"),
        (["a..b", "x" * 129, "-2026", "2026\n02", os.fsdecode(b"M\xe4rz")], "5 folders"),
    ],
)
def test_what_is_no_delivery_is_left_alone_and_the_others_go_on(home, inbox, instance, said, names, told):
    for name in (*names, "2026-01"):
        deliver(inbox, name)
    result = tick(home, inbox, instance)
    assert [request.partition_key for request in result.run_requests] == ["2026-01"]
    assert len(said) == 1 and said[0].startswith(
        f"{told} in {inbox} cannot be read, or cannot be a delivery because of the name"
    )


def test_a_folder_that_cannot_be_read_is_left_alone(home, inbox, instance, said, monkeypatch):
    for name in ("closed", "2026-01"):
        deliver(inbox, name)
    look = Path.stat

    def closed(path: Path, **options) -> os.stat_result:
        if path.parent.name == "closed":
            raise PermissionError(13, "Permission denied")
        return look(path, **options)

    monkeypatch.setattr(Path, "stat", closed)
    result = tick(home, inbox, instance)
    assert [request.partition_key for request in result.run_requests] == ["2026-01"]
    assert len(said) == 1 and said[0].startswith("1 folder in")


def test_a_marker_that_is_no_file_completes_nothing(home, inbox, instance):
    (inbox / "2026-01" / "_SUCCESS").mkdir(parents=True)
    assert "1 without _SUCCESS is not complete yet" in tick(home, inbox, instance).skip_reason.skip_message


def test_a_delivery_that_cannot_be_registered_keeps_no_other_waiting_and_is_named(home, inbox, instance, said, tmp_path):
    register_delivery(home, Delivery("2026-01", "synthetic", (tmp_path / "elsewhere",)))
    for key in ("2026-01", "2026-02"):
        deliver(inbox, key)
    result = tick(home, inbox, instance)
    assert [request.partition_key for request in result.run_requests] == ["2026-02"]
    problem = "a different delivery is registered as 2026-01: it has another path"
    assert len(said) == 1 and problem in said[0]
    with pytest.raises(DeliveryError, match=problem):
        tick(home, inbox, instance)


def test_a_watched_folder_that_cannot_be_read_is_named(home, inbox, instance, monkeypatch):
    def closed(_path: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "scandir", closed)
    with pytest.raises(DeliveryError, match=f"the watched folder {inbox} cannot be read: Permission denied"):
        tick(home, inbox, instance)


class TestContent:
    def test_a_watched_delivery_is_final_once_it_was_read(self, home, inbox):
        deliver(inbox, "2026-01")
        delivery = Delivery("2026-01", "synthetic", (inbox / "2026-01",), {}, "_SUCCESS")
        assert content_read(home, delivery.key) is None
        first = delivery.digest()
        require_same_content(home, delivery, first)
        require_same_content(home, delivery, first)
        (inbox / "2026-01" / "members.parquet").write_bytes(b"others")
        with pytest.raises(DeliveryError, match="its content has changed since it was first read"):
            require_same_content(home, delivery, delivery.digest())
        assert content_read(home, delivery.key) == first

    def test_a_delivery_that_somebody_named_may_be_delivered_again(self, home, inbox):
        deliver(inbox, "2026-01")
        delivery = Delivery("2026-01", "synthetic", (inbox / "2026-01",))
        require_same_content(home, delivery, "0" * 64)
        require_same_content(home, delivery, "1" * 64)
        assert content_read(home, delivery.key) == "1" * 64

    def test_a_watched_delivery_is_not_read_without_its_marker(self, inbox):
        deliver(inbox, "2026-01", complete=False)
        delivery = Delivery("2026-01", "synthetic", (inbox / "2026-01",), {}, "_SUCCESS")
        with pytest.raises(DeliveryError, match="its marker _SUCCESS is missing"):
            delivery.digest()

    def test_a_damaged_note_of_the_content_is_named(self, home):
        (home.deliveries / "2026-01.sha256").write_text("no digest")
        with pytest.raises(DeliveryError, match="2026-01.sha256 is damaged"):
            content_read(home, "2026-01")

    def test_a_record_keeps_its_marker(self):
        delivery = Delivery("a", "tables", (), {"n": 1}, "done")
        assert Delivery.from_json(delivery.to_json()) == delivery
        assert "complete_when" not in Delivery("a", "tables", ()).to_json()

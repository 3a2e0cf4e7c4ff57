"""The run history on kept connections: Dagster's own files, read by Dagster's own storage, and closed with the instance."""

import contextlib
import sqlite3

import dagster as dg
import pytest
from dagster_shared.check import CheckError
from sqlalchemy import Engine, event
from sqlalchemy.pool import Pool

from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
from deid_assets.store.home import Home

ASSET = dg.AssetKey(["small", "one"])


@dg.asset(key=ASSET)
def one() -> None:
    """An asset whose materialization is recorded."""


@dg.asset
def two() -> None:
    """Another one."""


@pytest.fixture
def home(tmp_path) -> Home:
    home = Home(tmp_path / "deid").create()
    prepare_dagster_home(home)
    return home


@contextlib.contextmanager
def counted_connections():
    opened = []

    def count(connection, record):
        opened.append(connection)

    event.listen(Pool, "connect", count)
    try:
        yield opened
    finally:
        event.remove(Pool, "connect", count)


def recorded(instance) -> list[str]:
    return [record.run_id for record in instance.fetch_materializations(ASSET, limit=10).records]


def test_dagsters_own_storage_reads_each_event_while_the_run_history_is_open(home):
    with dagster_instance(home) as instance:
        run_id = dg.materialize([one], instance=instance).run_id
        with dg.DagsterInstance.from_config(str(home.dagster)) as another:
            assert recorded(another) == [run_id]
            assert another.get_run_by_id(run_id).is_success
            events = [entry.event_log_entry.dagster_event_type for entry in another.get_records_for_run(run_id).records]
            assert events[-1] == dg.DagsterEventType.RUN_SUCCESS
    with dagster_instance(home) as instance:
        assert recorded(instance) == [run_id]


def test_what_dagsters_own_storage_records_meanwhile_is_seen(home):
    with dagster_instance(home) as instance:
        assert recorded(instance) == []
        with dg.DagsterInstance.from_config(str(home.dagster)) as another:
            run_id = dg.materialize([one], instance=another).run_id
        assert recorded(instance) == [run_id]
        assert instance.get_run_by_id(run_id).is_success


def test_more_events_open_no_more_connections(home):
    with dagster_instance(home) as instance, counted_connections() as opened:
        dg.materialize([one], instance=instance)
        of_a_run = len(opened)
        run_id = dg.materialize([one], instance=instance).run_id
        of_another = len(opened) - of_a_run
        for _ in range(20):
            instance.report_engine_event("once more", run_id=run_id, job_name="one")
        assert len(opened) == of_a_run + of_another
    assert of_another <= of_a_run < 10


def test_events_of_a_batch_are_recorded_in_one_transaction_of_each_file(home):
    with dagster_instance(home) as instance:
        run_id = dg.materialize([one], instance=instance).run_id
        entries = [record.event_log_entry for record in instance.get_records_for_run(run_id).records]
        commits = []
        count = commits.append
        event.listen(Engine, "commit", count)
        try:
            instance.event_log_storage.store_event_batch(entries)
        finally:
            event.remove(Engine, "commit", count)
        assert len(commits) == 2 < len(entries)
        assert len(instance.get_records_for_run(run_id).records) == 2 * len(entries)
        assert recorded(instance) == [run_id, run_id]


def test_of_a_batch_that_fails_nothing_is_recorded(home, monkeypatch):
    with dagster_instance(home) as instance:
        run_id = dg.materialize([one], instance=instance).run_id
        entries = [record.event_log_entry for record in instance.get_records_for_run(run_id).records]
        storage, (*most, last) = instance.event_log_storage, entries
        store = storage.store_event
        monkeypatch.setattr(storage, "store_event", lambda entry: store(entry if entry is not last else None))
        with pytest.raises(CheckError):
            storage.store_event_batch(entries)
        assert len(instance.get_records_for_run(run_id).records) == len(entries)
        assert recorded(instance) == [run_id]
        storage.store_event_batch(most)
        assert recorded(instance) == [run_id, run_id]


def test_what_a_run_plans_is_recorded_as_a_batch(home, monkeypatch):
    stored = []
    with dagster_instance(home) as instance:
        storage = instance.event_log_storage
        batched = storage.store_event_batch
        monkeypatch.setattr(storage, "store_event_batch", lambda events: (stored.append(len(events)), batched(events)))
        job = dg.define_asset_job("both").resolve(asset_graph=dg.Definitions([one, two]).resolve_asset_graph())
        run = instance.create_run_for_job(job)
        planned = instance.get_records_for_run(run.run_id, of_type=dg.DagsterEventType.ASSET_MATERIALIZATION_PLANNED).records
    assert stored == [2] and len(planned) == 2


def test_closed_with_the_instance_nothing_is_left_beside_the_files(home):
    with dagster_instance(home) as instance:
        dg.materialize([one], instance=instance)
    files = [file for file in home.dagster.rglob("*") if file.is_file() and "db" in file.suffix]
    assert files and all(file.suffix == ".db" for file in files), files
    for file in files:
        with contextlib.closing(sqlite3.connect(file)) as connection:
            assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]

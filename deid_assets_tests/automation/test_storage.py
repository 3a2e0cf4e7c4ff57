"""Where the run history is: in the home's files, or in a PostgreSQL database; never in both, and never in a third place."""

import re

import dagster as dg
import pytest
import yaml

from deid_assets.automation import storage
from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
from deid_assets.errors import StoreError
from deid_assets.store.home import Home
from deid_assets_tests.postgres import PASSWORD, needs_postgres
from deid_assets_tests.processes import wait_for

ADDRESS = f"postgresql+psycopg2://deid:{PASSWORD}@127.0.0.1:1/deid"
ASSET = dg.AssetKey(["small", "one"])


@dg.asset(key=ASSET)
def one() -> None:
    """An asset whose materialization is recorded."""


@pytest.fixture
def home(tmp_path, monkeypatch) -> Home:
    monkeypatch.delenv("DEID_STORAGE", raising=False)
    return Home(tmp_path / "deid").create()


@pytest.fixture
def at_once(monkeypatch) -> None:
    """Dagster does not wait between its attempts to reach the server."""
    monkeypatch.setattr("dagster_postgres.utils.calculate_delay", lambda **_: 0)


def settings(home: Home) -> dict:
    return yaml.safe_load((home.dagster / "dagster.yaml").read_text())


def recorded(instance) -> list[str]:
    return [record.run_id for record in instance.fetch_materializations(ASSET, limit=10).records]


class TestAddress:
    @pytest.mark.parametrize(
        "address",
        [
            f"postgresql://deid:{PASSWORD}@127.0.0.1/deid",
            f"postgres://deid:{PASSWORD}@127.0.0.1/deid",
            f"postgresql+psycopg://deid:{PASSWORD}@127.0.0.1/deid",
            f"postgresql+psycopg2://deid:{PASSWORD}@127.0.0.1",
            f"postgresql+psycopg2://deid:{PASSWORD}@127.0.0.1:port/deid",
            f"host=127.0.0.1 password={PASSWORD}",
            "sqlite:///history.db",
            " ",
            "",
        ],
    )
    def test_any_other_than_psycopg2s_is_refused_and_not_shown(self, home, monkeypatch, address):
        monkeypatch.setenv("DEID_STORAGE", address)
        with pytest.raises(
            StoreError, match=re.escape("must be like postgresql+psycopg2://USER:PASSWORD@HOST/DATABASE")
        ) as caught:
            prepare_dagster_home(home)
        assert PASSWORD not in str(caught.value) and caught.value.__cause__ is None
        assert not (home.dagster / "dagster.yaml").exists()

    def test_without_the_extra_it_says_what_to_install(self, home, monkeypatch):
        monkeypatch.setenv("DEID_STORAGE", ADDRESS)
        monkeypatch.setattr(storage.importlib.util, "find_spec", lambda name: None)
        with pytest.raises(StoreError, match="install the extra `postgres`"):
            prepare_dagster_home(home)

    def test_the_settings_name_the_variable_and_no_password(self, home, monkeypatch):
        prepare_dagster_home(home)
        shipped = settings(home)
        monkeypatch.setenv("DEID_STORAGE", ADDRESS)
        prepare_dagster_home(home)
        assert settings(home) == shipped | {"storage": {"postgres": {"postgres_url": {"env": "DEID_STORAGE"}}}}
        assert PASSWORD not in (home.dagster / "dagster.yaml").read_text()

    @needs_postgres
    def test_a_server_that_does_not_answer_is_one_sentence_without_the_address(self, home, monkeypatch, at_once):
        monkeypatch.setenv("DEID_STORAGE", ADDRESS)
        prepare_dagster_home(home)
        with (
            pytest.raises(StoreError, match="the PostgreSQL database in DEID_STORAGE does not answer") as caught,
            dagster_instance(home),
        ):
            pass
        assert PASSWORD not in str(caught.value) and caught.value.__suppress_context__


class TestOneStorage:
    """A history that is looked for elsewhere would be an empty one."""

    def test_a_home_on_postgresql_needs_its_address_from_then_on(self, home, monkeypatch):
        monkeypatch.setenv("DEID_STORAGE", ADDRESS)
        prepare_dagster_home(home)
        written = (home.dagster / "dagster.yaml").read_bytes()
        monkeypatch.delenv("DEID_STORAGE")
        for ask in (lambda: prepare_dagster_home(home), lambda: dagster_instance(home).__enter__()):
            with pytest.raises(StoreError, match="is in a PostgreSQL database: set DEID_STORAGE to its address"):
                ask()
        assert (home.dagster / "dagster.yaml").read_bytes() == written

    def test_a_home_with_files_is_not_left_for_a_database(self, home, monkeypatch):
        prepare_dagster_home(home)
        with dagster_instance(home) as instance:
            dg.materialize([one], instance=instance)
        monkeypatch.setenv("DEID_STORAGE", ADDRESS)
        for ask in (lambda: prepare_dagster_home(home), lambda: dagster_instance(home).__enter__()):
            with pytest.raises(
                StoreError, match="is in SQLite files. Unset it; or, .* move .*/home/history away: audits of earlier"
            ):
                ask()
        assert "storage" not in settings(home)


@needs_postgres
def test_runs_are_recorded_in_the_database_and_nowhere_else(home, postgres, monkeypatch, at_once):
    monkeypatch.setenv("DEID_STORAGE", postgres)
    prepare_dagster_home(home)
    heard = []
    with dagster_instance(home) as instance:
        run_id = dg.materialize([one], instance=instance).run_id
        with dg.DagsterInstance.from_config(str(home.dagster)) as another:  # as webserver and daemon open it
            assert recorded(another) == [run_id] and another.get_run_by_id(run_id).is_success
            assert type(another.event_log_storage).__name__ == "PostgresEventLogStorage"
        # `deid run` prints what is told while a run is at work.
        instance.add_event_listener(run_id, heard.append)
        instance.report_engine_event("told", run_id=run_id, job_name="one")
        wait_for("the listener", lambda: any("told" in record.dagster_event.message for record in heard))
    with dagster_instance(home) as instance:
        assert recorded(instance) == [run_id]
    assert not list(home.root.rglob("*.db"))
    monkeypatch.setenv("DEID_STORAGE", postgres.replace(PASSWORD, "wrong"))
    with pytest.raises(StoreError, match="does not answer, or does not let this user in"), dagster_instance(home):
        pass

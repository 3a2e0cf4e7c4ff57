"""Where the run history is: in the home's files, or in a PostgreSQL database; never in both, and never in a third place."""

import re
from concurrent.futures import ThreadPoolExecutor

import dagster as dg
import pytest
import yaml

from deid_assets.automation import instance as storage
from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
from deid_assets.errors import StoreError
from deid_assets.home_identity import identity
from deid_assets.resources import RestrictedStore, Workplace
from deid_assets.store.home import Home
from deid_assets_tests.postgres import PASSWORD, needs_postgres
from deid_assets_tests.processes import wait_for
from deid_assets_tests.scenarios.command_line import deid_here

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


@pytest.mark.parametrize("command", ["releases", "deliveries", "policy list", "journal check", "approvals", "rules show"])
def test_commands_that_need_no_history_say_too_that_nobody_named_its_database(home, command):
    assert "note:" not in deid_here(home.root, *command.split())[1]
    (home.dagster / "dagster.yaml").write_text("storage: {postgres: {postgres_url: {env: DEID_STORAGE}}}\n")
    code, printed = deid_here(home.root, *command.split())
    sentence = f"the run history of the home {home.root} is in a PostgreSQL database: set DEID_STORAGE to its address"
    assert code == (1 if command == "journal check" else 0), "a home that decided nothing has no journal to check"
    assert printed.count(sentence) == 1 and f"note: {sentence}" in printed


def test_a_database_beside_files_is_said_by_commands_that_need_no_history(home, monkeypatch):
    (home.dagster / "history").mkdir()
    (home.dagster / "history" / "runs.db").touch()
    monkeypatch.setenv("DEID_STORAGE", ADDRESS)
    code, printed = deid_here(home.root, "releases")
    assert code == 0 and "note: DEID_STORAGE is set, but the run history" in printed and "is in SQLite files" in printed, (
        printed
    )


@pytest.mark.parametrize(
    "command", ["run", "plan", "ui --port 3999", "audit small/0001", "delivery add in --policy heritage_public"]
)
def test_commands_that_need_it_end_with_that_sentence_once(home, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "in").mkdir()
    (home.dagster / "dagster.yaml").write_text("storage: {postgres: {postgres_url: {env: DEID_STORAGE}}}\n")
    (home.releases / "small" / "0001").mkdir(parents=True)
    (home.releases / "small" / "0001" / "manifest.json").write_text("{}")
    code, printed = deid_here(home.root, *command.split())
    assert code == 1 and printed.count("is in a PostgreSQL database: set DEID_STORAGE to its address") == 1, printed


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


@needs_postgres
class TestOneHome:
    """Another home in the same history would take its runs, partitions and materializations for its own."""

    def test_the_first_home_has_the_database_and_another_is_one_sentence(self, home, tmp_path, postgres, monkeypatch, at_once):
        monkeypatch.setenv("DEID_STORAGE", postgres)
        for _ in range(2):
            prepare_dagster_home(home)
            with dagster_instance(home) as instance:
                assert type(instance.run_storage).__name__ == "PostgresRunStorage"
        other = Home(tmp_path / "other").create()
        prepare_dagster_home(other)
        with pytest.raises(StoreError, match="of another home than .*: give each home a database of its own") as caught:
            dagster_instance(other).__enter__()
        assert PASSWORD not in str(caught.value)
        with dagster_instance(home) as instance:
            dg.materialize([one], instance=instance)

    def test_of_two_that_come_at_once_one_has_it(self, tmp_path, postgres, monkeypatch, at_once):
        monkeypatch.setenv("DEID_STORAGE", postgres)
        homes = [Home(tmp_path / name).create() for name in ("one", "two", "three")]
        for own in homes:
            prepare_dagster_home(own)
        with dg.DagsterInstance.from_config(str(homes[0].dagster)):
            pass  # makes the tables

        def comes(own: Home) -> bool:
            try:
                with dagster_instance(own):
                    return True
            except StoreError:
                return False

        with ThreadPoolExecutor(3) as threads:
            assert sorted(threads.map(comes, homes)) == [False, False, True]

    def test_a_run_that_the_ui_starts_is_refused_too(self, home, tmp_path, postgres, monkeypatch, at_once):
        monkeypatch.setenv("DEID_STORAGE", postgres)
        prepare_dagster_home(home)
        with dagster_instance(home):
            pass
        other = Home(tmp_path / "other").create()
        monkeypatch.setenv("DEID_HOME", str(other.root))
        store = RestrictedStore(Workplace(str(other.root)))
        with (
            dg.DagsterInstance.from_config(str(home.dagster)) as instance,
            dg.build_init_resource_context(instance=instance) as context,
            pytest.raises(StoreError, match="of another home"),
        ):
            store.setup_for_execution(context)


class TestIdentity:
    def test_is_drawn_once_and_owned(self, home, tmp_path):
        own = identity(home)
        assert len(own) == 32 and identity(home) == own and identity(Home(tmp_path / "b").create()) != own
        assert (home.root / "identity").stat().st_mode & 0o777 == 0o600

    @pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 32])
    def test_a_file_that_is_none_is_one_sentence(self, home, content):
        (home.root / "identity").write_bytes(content)
        with pytest.raises(StoreError, match="restore it from a backup"):
            identity(home)

    def test_without_a_database_nothing_is_asked(self, home):
        prepare_dagster_home(home)
        with dagster_instance(home):
            pass
        assert not (home.root / "identity").exists()

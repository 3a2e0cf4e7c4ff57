"""The restricted store's IO manager: tables in, handles out, a lock for the run, metadata without values."""

import stat
import warnings
from pathlib import Path
from types import SimpleNamespace

import dagster as dg
import duckdb
import pandas as pd
import pytest

from deid_assets import resources
from deid_assets.errors import StoreError
from deid_assets.partitions import deliveries_of
from deid_assets.policy.loading import policy_by_name, policy_from
from deid_assets.release.keys import Secret
from deid_assets.resources import (
    RestrictedStore,
    Workplace,
    column_schema,
    job_name,
    made_under,
    observed_schema,
)
from deid_assets.schemas import contracts_of
from deid_assets.store.home import Home, StoreLock
from deid_assets.store.tables import Query, Table, connect, write_table
from deid_assets_tests.policy.policy_texts import public_values

warnings.filterwarnings("ignore", category=dg.PreviewWarning)

CANARY = "CANARY-4711"
POLICY = "heritage_public"
MEMBERS = dg.AssetKey([POLICY, "members"])
MADE = {"method_version": "1", "policy_sections": ["removal", "opt_outs"]}


@dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata=MADE)
def members() -> str:
    return "SELECT 'm1' AS member_id, 40 AS age UNION ALL SELECT 'm2', NULL"


@dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata=MADE | {"derived_columns": {"n": ["members.age"]}})
def removed_members(members: Table) -> Query:
    return Query(f"SELECT member_id, ?::INTEGER AS n FROM {members.sql}", (7,))


@dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata=MADE)
def code_book(members: Table) -> pd.DataFrame:
    return pd.DataFrame({"code": pd.Series(["x", None], dtype="str")})


@dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata=MADE)
def claims(members: Table) -> str:
    return f"SELECT '{CANARY}'::INTEGER AS n FROM {members.sql}"


@pytest.fixture
def home(tmp_path) -> Home:
    return Home(tmp_path / "deid")


def store_in(home: Home, *policies: str) -> RestrictedStore:
    return RestrictedStore(Workplace(str(home.root)), frozenset(policies or [POLICY]))


def run(home: Home, *assets, partition="2012") -> dg.ExecuteInProcessResult:
    """Run assets in a job that is called after their policy, as the main job of a policy is."""
    definitions = dg.Definitions(
        assets=list(assets),
        jobs=[dg.define_asset_job(job_name(POLICY), dg.AssetSelection.assets(*assets))],
        resources={"io_manager": store_in(home).definition()},
        executor=dg.in_process_executor,
    )
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions(deliveries_of(POLICY).name, [partition])
        job = definitions.resolve_job_def(job_name(POLICY))
        return job.execute_in_process(instance=instance, partition_key=partition, raise_on_error=False)


def metadata_of(result, asset: str) -> dict:
    events = {event.asset_key.path[-1]: event for event in result.get_asset_materialization_events()}
    return events[asset].materialization.metadata


class TestTables:
    def test_a_select_a_query_and_a_frame_become_the_assets_tables(self, home):
        assert run(home, members, removed_members, code_book).success
        store = Workplace(str(home.root))
        tables = {name: store.table(dg.AssetKey([POLICY, name]), "2012") for name in ("members", "removed_members")}
        assert tables["members"].schema == "intake" and tables["removed_members"].schema == "preparation"
        assert tables["removed_members"].frame("member_id").values.tolist() == [["m1", 7], ["m2", 7]]

    def test_a_policy_and_a_delivery_have_a_file_of_their_own(self, home):
        store = Workplace(str(home.root))
        files = {store.table(dg.AssetKey([policy, "members"]), key).file for policy in "ab" for key in ("x", "y")}
        assert files == {home.store / policy / f"{key}.duckdb" for policy in "ab" for key in ("x", "y")}

    def test_the_file_is_for_its_owner_only(self, home):
        run(home, members)
        file = home.store / POLICY / "2012.duckdb"
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


class TestMetadata:
    def test_rows_name_time_and_memory(self, home):
        found = metadata_of(run(home, members), "members")
        assert found["dagster/row_count"].value == 2
        assert found["dagster/table_name"].value == "intake.members"
        assert found["peak_memory_gb"].value > 0

    def test_columns_have_the_types_of_the_table(self, home):
        schema = metadata_of(run(home, members), "members")["dagster/column_schema"].schema
        found = {column.name: column.type for column in schema.columns}
        assert found == {"member_id": "VARCHAR", "age": "INTEGER"}

    def test_lineage_follows_names_and_what_an_asset_declares(self, home):
        found = metadata_of(run(home, members, removed_members), "removed_members")
        lineage = found["dagster/column_lineage"].lineage.deps_by_column
        assert lineage == {
            "member_id": [dg.TableColumnDep(MEMBERS, "member_id")],
            "n": [dg.TableColumnDep(MEMBERS, "age")],
        }

    def test_an_asset_without_inputs_has_no_lineage(self, home):
        assert "dagster/column_lineage" not in metadata_of(run(home, members), "members")


class TestMadeUnder:
    """What of the policy a table was made by, as a keyed digest: the gate refuses what an earlier text of it made."""

    SECRET, OTHER = (Secret(letter * 64, "environment") for letter in (b"a", b"b"))

    def digest(self, secret=SECRET, version="1", sections=("removal", "opt_outs"), **changes) -> str:
        return made_under(policy_from(public_values(**changes)), secret, version, sections)

    def test_it_changes_with_the_method_and_with_the_sections_that_are_read(self):
        assert self.digest() == self.digest()
        others = {
            self.digest(version="2"),
            self.digest(removal__newborn_days=14),
            self.digest(opt_outs__members=["a person"]),
            self.digest(sections=("removal",)),
        }
        assert len(others) == 4 and self.digest() not in others
        assert self.digest(risk__threshold=0.04) == self.digest(), "a section that is not read"

    def test_who_opted_out_cannot_be_guessed_from_it_without_the_secret(self):
        assert self.digest(self.SECRET) != self.digest(self.OTHER)

    def test_every_materialization_states_it(self, home):
        stated = metadata_of(run(home, members), "members")["made_under"].value
        secret = Workplace(root=str(home.root)).secret()
        assert stated == made_under(policy_by_name(POLICY), secret, MADE["method_version"], MADE["policy_sections"])


class TestErrors:
    def test_a_value_in_an_error_of_the_database_does_not_reach_the_event_log(self, home):
        result = run(home, members, claims)
        assert not result.success
        (failure,) = [event for event in result.all_events if event.is_step_failure]
        assert f"{POLICY}/claims failed with ConversionException" in failure.step_failure_data.error.to_string()
        assert CANARY not in str(result.all_events)

    def test_the_details_are_in_the_restricted_store(self, home):
        run(home, members, claims)
        (details,) = (home.store / "errors").iterdir()
        assert CANARY in details.read_text()
        assert stat.S_IMODE(details.stat().st_mode) == 0o600


def lock_of_another(home: Home, policy: str = POLICY) -> StoreLock:
    """The lock for another run, to which every run that left its name there has ended."""
    return StoreLock.of(home, policy, "2012", is_over=lambda run_id: True)


class TestLocks:
    def test_a_run_does_not_begin_while_another_holds_the_store(self, home):
        other = StoreLock.of(home, POLICY, "2012")
        other.acquire()
        try:
            result = run(home, members)
        finally:
            other.release()
        assert not result.success
        assert not (home.store / POLICY / "2012.duckdb").exists()

    def test_it_is_held_while_the_run_lasts_and_free_afterwards(self, home):
        seen = []

        @dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata=MADE, name="members")
        def watching() -> str:
            seen.append(StoreLock.of(home, POLICY, "2012").try_acquire())
            return "SELECT 1 AS n"

        assert run(home, watching).success
        free = lock_of_another(home)
        assert (seen, free.try_acquire()) == ([False], True)
        free.release()

    def test_a_run_of_checks_alone_holds_the_stores_of_their_assets(self, home):
        """Such as the UI starts when somebody executes one check."""
        check = dg.AssetCheckKey(MEMBERS, "members_keeps_contract")
        started = dg.DagsterRun(
            job_name="__ASSET_JOB",
            asset_check_selection={check},
            asset_selection=set(),
            tags={"dagster/partition": "2012"},
        )
        store = store_in(home)
        store.setup_for_execution(SimpleNamespace(run=started, instance=None))
        other = StoreLock.of(home, POLICY, "2012")
        free = other.try_acquire()
        other.release()
        store.teardown_after_execution(SimpleNamespace(run=started))
        assert not free

    def test_a_second_lock_of_the_same_run_is_the_first(self, home):
        store = store_in(home)
        store.lock(POLICY, "2012")
        store.lock(POLICY, "2012")
        other = StoreLock.of(home, POLICY, "2012")
        assert not other.try_acquire()
        store.teardown_after_execution(SimpleNamespace())
        assert other.try_acquire()
        other.release()

    def test_where_one_of_two_stores_is_busy_neither_is_held(self, home):
        started = dg.DagsterRun(
            job_name="two_policies",
            asset_selection={dg.AssetKey(["a_policy", "members"]), dg.AssetKey(["b_policy", "members"])},
            tags={"dagster/partition": "2012"},
        )
        busy, free = lock_of_another(home, "b_policy"), lock_of_another(home, "a_policy")
        busy.acquire()
        with pytest.raises(StoreError):
            store_in(home, "a_policy", "b_policy").setup_for_execution(SimpleNamespace(run=started, instance=None))
        assert free.try_acquire()
        busy.release()
        free.release()

    def test_it_is_free_after_a_run_that_failed(self, home):
        run(home, members, claims)
        free = lock_of_another(home)
        assert free.try_acquire()
        free.release()

    def test_another_run_waits_for_the_end_of_a_run_that_let_go_between_two_steps(self, home):
        with dg.DagsterInstance.ephemeral() as instance:
            started, second = (instance.add_run(a_run(status)) for status in ("STARTED", "STARTING"))
            first, other = (store_in(home) for _ in range(2))
            context = SimpleNamespace(run=started, instance=instance)
            first.setup_for_execution(context)
            first.teardown_after_execution(context)
            with pytest.raises(StoreError, match=f"another run is working .* \\(run {started.run_id} is between two steps"):
                other.setup_for_execution(SimpleNamespace(run=second, instance=instance))
            first.setup_for_execution(context)  # the next step of the first run
            first.teardown_after_execution(context)
            instance.report_run_failed(started)
            other.setup_for_execution(SimpleNamespace(run=second, instance=instance))
            other.teardown_after_execution(SimpleNamespace(run=second))


def is_open(file: Path) -> bool:
    """Whether this process has the store open: DuckDB then refuses another configuration."""
    try:
        duckdb.connect(str(file), read_only=True).close()
    except duckdb.ConnectionException:
        return True
    return False


class TestStoresThatStayOpen:
    """Between the steps of a process a small store is open, one that has grown is not, and after the run none is."""

    @pytest.fixture
    def table(self, home) -> Table:
        table = Workplace(str(home.root)).table(MEMBERS, "2012")
        write_table(table, "SELECT 'm1' AS member_id, 40 AS age")
        return table

    def over(self, store: RestrictedStore) -> None:
        store.teardown_after_execution(SimpleNamespace(run=None))

    def test_a_small_store_is_open_from_its_first_use_to_the_end(self, home, table):
        store = store_in(home)
        assert not is_open(table.file)
        for _ in range(2):
            store.keep_open(table.file)
            assert is_open(table.file)
        self.over(store)
        assert not is_open(table.file), "opened twice, it would still be"

    def test_a_store_that_is_not_there_yet_is_opened_once_it_is(self, home, table):
        store, later = store_in(home), table.file.with_name("2013.duckdb")
        store.keep_open(later)
        assert not later.exists()
        table.file.rename(later)
        store.keep_open(later)
        assert is_open(later)
        self.over(store)

    def test_a_store_that_has_grown_is_closed(self, home, table, monkeypatch):
        store = store_in(home)
        store.keep_open(table.file)
        monkeypatch.setattr(resources, "SMALL_STORE", table.file.stat().st_size - 1)
        store.keep_open(table.file)
        assert not is_open(table.file)
        store.keep_open(table.file)
        assert not is_open(table.file)

    def test_steps_keep_it_open_and_a_run_leaves_it_closed_even_if_it_failed(self, home):
        seen = []

        @dg.asset(key_prefix=POLICY, partitions_def=deliveries_of(POLICY), metadata=MADE, name="removed_members")
        def watching(members: Table) -> str:
            seen.append(is_open(members.file))
            return "SELECT 'm1'::INTEGER AS n"

        assert not run(home, members, watching).success
        assert seen == [True] and not is_open(home.store / POLICY / "2012.duckdb")

    def test_what_is_written_into_an_open_store_is_read(self, home, table):
        store = store_in(home)
        store.keep_open(table.file)
        assert table.frame()["age"].tolist() == [40]
        write_table(table, "SELECT 'm1' AS member_id, 41 AS age")
        assert table.frame()["age"].tolist() == [41]
        self.over(store)

    def test_what_another_process_wrote_between_two_parts_of_a_run_is_read(self, home, table):
        store = store_in(home)
        store.keep_open(table.file)
        assert table.frame()["age"].tolist() == [40]
        self.over(store)
        with duckdb.connect(str(table.file)) as another:
            another.execute("UPDATE intake.members SET age = 42")
        store.keep_open(table.file)
        assert table.frame()["age"].tolist() == [42]
        self.over(store)

    def harmed(self, file: Path) -> None:
        with connect(file) as connection:
            connection.execute("CREATE MACRO min(x) AS 100")

    def test_while_it_is_open_it_is_asked_once_for_plain_tables_and_again_before_it_is_judged(self, home, table):
        store = store_in(home)
        store.keep_open(table.file)
        store.require_plain_tables(table.file)
        self.harmed(table.file)
        store.require_plain_tables(table.file)
        with pytest.raises(StoreError, match="contains macros"):
            store.require_plain_tables(table.file, again=True)
        self.over(store)

    @pytest.mark.parametrize("closed_by", ["the end of the part of the run", "its growth"])
    def test_once_it_was_closed_what_was_found_before_does_not_count(self, home, table, monkeypatch, closed_by):
        store = store_in(home)
        store.keep_open(table.file)
        store.require_plain_tables(table.file)
        if closed_by == "its growth":
            with monkeypatch.context() as patch:
                patch.setattr(resources, "SMALL_STORE", 0)
                store.keep_open(table.file)
        else:
            self.over(store)
        with duckdb.connect(str(table.file)) as another:
            another.execute("CREATE MACRO main.min(x) AS 100")
        store.keep_open(table.file)
        with pytest.raises(StoreError, match="contains macros"):
            store.require_plain_tables(table.file)
        self.over(store)

    def test_a_store_that_is_not_kept_open_is_asked_every_time(self, home, table):
        store = store_in(home)
        store.require_plain_tables(table.file)
        self.harmed(table.file)
        with pytest.raises(StoreError, match="contains macros"):
            store.require_plain_tables(table.file)


def a_run(status: str) -> dg.DagsterRun:
    return dg.DagsterRun(
        job_name=job_name(POLICY),
        status=dg.DagsterRunStatus(status),
        asset_selection={MEMBERS},
        tags={"dagster/partition": "2012"},
    )


class TestColumnSchema:
    schema = column_schema(contracts_of(policy_by_name("heritage_public"))["members"])

    def test_it_says_role_unit_and_constraints(self):
        columns = {column.name: column for column in self.schema.columns}
        assert columns["age"].tags == {"role": "quasi-identifier", "unit": "completed_years"}
        assert columns["age"].constraints.other == ["0 to 120"]
        assert columns["age"].constraints.nullable and not columns["member_id"].constraints.nullable
        assert columns["member_id"].constraints.unique and not columns["age"].constraints.unique

    def test_what_is_observed_has_the_tables_types_and_the_contracts_meaning(self):
        found = observed_schema({"age": "INTEGER", "new": "VARCHAR"}, dg.TableSchemaMetadataValue(self.schema))
        age, new = found.columns
        assert (age.type, age.tags["role"]) == ("INTEGER", "quasi-identifier")
        assert (new.name, new.type) == ("new", "VARCHAR")

    def test_without_a_contract_there_are_names_and_types(self):
        assert observed_schema({"a": "INTEGER"}, None).columns == [dg.TableColumn("a", "INTEGER")]


class TestWorkplace:
    def test_secret_and_key_are_made_once_and_are_the_owners(self, home, monkeypatch):
        for name in ("DEID_SECRET", "DEID_SECRET_FILE", "DEID_SECRET_COMMAND"):
            monkeypatch.delenv(name, raising=False)
        workplace = Workplace(root=str(home.root))
        assert workplace.secret().commitment() == workplace.secret().commitment()
        assert workplace.signing_key().public == workplace.signing_key().public
        assert all(stat.S_IMODE(file.stat().st_mode) == 0o600 for file in home.keys.iterdir())

    def test_a_policy_that_is_given_is_used_as_it_is(self, home):
        """Also where the home, or the product, has another of its name."""
        own = policy_from(public_values(policy=POLICY, title="A title of our own"))
        policies = Workplace(str(home.root), {POLICY: own})
        assert policies.named(POLICY) is own
        assert policies.named("heritage").name == "heritage"

    def test_policies_are_those_that_ship_and_those_of_the_home(self, home):
        assert Workplace(root=str(home.root)).named("heritage_public").name == "heritage_public"


def test_no_resource_shows_where_the_secret_is(home):
    shown = repr(Workplace(root=str(home.root)))
    assert str(Path(home.keys)) not in shown

"""The resources of assets: the policies, the secret, the deliveries, and the restricted store's IO manager.

The IO manager passes `Table` handles to assets and converts a returned SELECT to the asset's table in one transaction.
Lineage therefore follows parameter names, and no row moves through Python.
"""

import contextlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, TypeVar, cast

import dagster as dg
import duckdb
import numpy as np
from pandera.ibis import DataFrameSchema

from deid_assets.assessments.earlier_releases import EarlierRelease, EverReleased
from deid_assets.assessments.membership_changes import Leavers
from deid_assets.dagster_internals import RETRY_ON_ASSET_OR_OP_FAILURE_TAG, InputAssetVersionInfo, StepExecutionContext
from deid_assets.errors import PolicyError, ReleaseError, StoreError
from deid_assets.home_identity import require_own_history
from deid_assets.meter import meter
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.kinds import AnyPolicy, require_runnable
from deid_assets.policy.loading import applying_opt_outs, policy_called
from deid_assets.policy.models import Policy
from deid_assets.release import cumulative
from deid_assets.release.event_log import current_materialization
from deid_assets.release.keyring import secret_of, signing_key_of
from deid_assets.release.keys import Secret, SigningKey
from deid_assets.release.registry.chain import Registry
from deid_assets.sources.delivery import Delivery, SourceOptions
from deid_assets.sources.registration import registered_delivery
from deid_assets.sources.upstream import Copies
from deid_assets.stages import RELEASE, STAGE_OF, WORK_OF, Work
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home, StoreLock, plain_key
from deid_assets.store.parts import ByPerson, write_by_person
from deid_assets.store.tables import Rows, Table, columns_of, fingerprint, held_open, require_plain_tables, write_table

SMALL_STORE = 64_000_000
"""Bytes of a store file, at most, that stays open between steps: DuckDB keeps what it has read of it in memory."""

JOB_PREFIX = "release_"
"""A policy's main job is named after it."""

POLICY_TAG = "deid/policy"
"""Tag of a run, and of a step: the name of its policy."""

STORE_TAG = "deid/store"
"""Tag of a run: the policy and delivery whose store it writes."""

INPUTS_TAG = "deid/inputs"
"""Tag of a run: the beginning of the keyed digest of its inputs, once the delivery has been read."""

OUTCOME_TAG = "deid/outcome"
"""Tag of a run: what came of it, once that is known."""

REQUESTED_TAG = "deid/requested"
"""Tag of a run in a home that a run in another project executes: the project's daemon started that one."""

REPETITION_TAG = "deid/repetition"
"""Tag of a run that was made again for this reason: how often."""

RELEASED = "published"
"""The outcome of a run that published a release, or found it published; set by the release, wherever the run was started."""


PUBLISHED = "published"
"""The part of a published table's key between the policy and the table."""


_OVERTAKEN_TAG = "deid/overtaken"

AGAIN_DUE = "due"
"""What `again_tag` says until the release is made again; later the run that does so, or why none does."""


def again_tag(policy: str) -> str:
    """The tag of a run whose release of this policy is to be made again. A run may make releases of several policies."""
    return f"deid_again/{policy}"


def overtaken(run: dg.DagsterRun, policy: str) -> dict[str, str]:
    """The tags of a run that fails because another release came meanwhile, and is to be made again.

    Retries that a project has set would repeat the release alone, and fail again.
    """
    return {_OVERTAKEN_TAG: run.run_id, again_tag(policy): AGAIN_DUE, RETRY_ON_ASSET_OR_OP_FAILURE_TAG: "false"}


def overtaken_policies(run: dg.DagsterRun) -> frozenset[str]:
    """The policies whose releases are made again because others came while this run made them.

    Whoever executes such a run once more in the UI copies its tags, which are about the earlier run.
    """
    if run.tags.get(_OVERTAKEN_TAG) != run.run_id:
        return frozenset()
    return frozenset(key.removeprefix(again_tag("")) for key in run.tags if key.startswith(again_tag("")))


def job_name(policy: str) -> str:
    """The name of a policy's main job."""
    return f"{JOB_PREFIX}{policy}"


Kind = TypeVar("Kind", bound=ReleasePolicy)
Content: TypeAlias = Rows | ByPerson | Table


def policy_name(key: dg.AssetKey) -> str:
    """The policy that an asset belongs to: the part of its key before its name."""
    return key.path[-2]


def sibling(key: dg.AssetKey, name: str) -> dg.AssetKey:
    """The key of the asset of this name of the policy that another asset belongs to."""
    return dg.AssetKey([*key.path[:-1], name])


def published_key(release: dg.AssetKey, table: str) -> dg.AssetKey:
    """The key of a table that a release publishes, which is called like its file.

    No table of the restricted store begins so.
    """
    return dg.AssetKey([*release.path[:-1], PUBLISHED, table])


@dataclass(frozen=True)
class Keys:
    """The keys of one policy's assets and resources in a code location.

    Attributes
    ----------
    policy
        The policy's name.
    prefix
        Parts of asset keys before the policy's name.
    resource
        The key of the `Workplace`, and the beginning of that of the store.
    """

    policy: str
    prefix: tuple[str, ...] = ()
    resource: str = "deid"

    def asset(self, name: str) -> dg.AssetKey:
        """The key of an asset."""
        return dg.AssetKey([*self.prefix, self.policy, name])

    def published(self, table: str) -> dg.AssetKey:
        """The key of a published table."""
        return published_key(self.asset(RELEASE), table)

    @property
    def scope(self) -> str:
        """The part that the keys of all assets share, as text."""
        return "/".join((*self.prefix, self.policy))

    @property
    def store(self) -> str:
        """The key of the IO manager."""
        return f"{self.resource}_store"


_readings: dict[tuple[str, str], set[str]] = {}
"""By run and step: digests of the bytes of the policy and its files, whenever the step read different ones."""


@dataclass(frozen=True)
class Workplace:
    """The home folder, and what assets may use in it: policies, secret, signing key, deliveries.

    Attributes
    ----------
    root
        The home. Policies that ship and those in the home's `policies` are read again whenever they are asked for.
    given
        Policies by name that are used as they are, whatever policies the home contains. Its list of members who opted out
        applies to them, too.
    copies
        If deliveries are tables of another project: where their copies are.
    """

    root: str
    given: Mapping[str, AnyPolicy] = field(default_factory=dict, repr=False, hash=False)
    copies: Copies | None = None

    def policy_of(self, context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext, kind: type[Kind]) -> Kind:
        """The policy of the running asset or of the running check's asset.

        Parameters
        ----------
        kind
            The required kind: a longitudinal policy, or that of a flat table.

        Raises
        ------
        PolicyError
            If a policy of another kind now has the name, or it asks for a mode that was removed.
        """
        policy = self.named(policy_name(asset_key_of(context)))
        require_runnable(policy)
        if not isinstance(policy, kind):
            raise PolicyError(
                f"the policy '{policy.name}' is now of another kind than when the assets were loaded; reload them"
            )
        step = context.op_execution_context.get_step_execution_context()
        _readings.setdefault((step.run_id, step.step.key), set()).add(policy.reading)
        return policy

    def named(self, name: str) -> AnyPolicy:
        """The policy of this name."""
        folder = self.home.policies
        return applying_opt_outs(self.given[name], folder) if name in self.given else policy_called(name, folder)

    def table(self, key: dg.AssetKey, delivery: str) -> Table:
        """The handle on the table of one asset and delivery, whether or not it exists."""
        policy, name = key.path[-2:]
        return Table(self.home.store / policy / f"{plain_key(delivery)}.duckdb", STAGE_OF[name], name)

    @property
    def home(self) -> Home:
        """The home folder."""
        return Home(Path(self.root))

    def secret(self) -> Secret:
        """Return the secret of the home."""
        return secret_of(self.home)

    def signing_key(self) -> SigningKey:
        """Return the key that signs releases."""
        return signing_key_of(self.home)

    @property
    def restricted_manifests(self) -> Path:
        """The folder of the restricted editions of manifests."""
        return self.home.store / "manifests"

    def released_before(self, population: Table, own: str) -> int:
        """Count the members of the population in earlier releases, other than those about to be released.

        Parameters
        ----------
        population
            Contains the member_id of every delivered member.
        own
            A SELECT of the member_id of those about to be released.
        """
        earlier = self._earlier_releases()
        if not len(earlier.tags):
            return earlier.not_comparable
        return earlier.members_besides(*self._population_and_own(population, own))

    def ever_released(self) -> EverReleased:
        """The members of all earlier releases of members and claims."""
        earlier = self._earlier_releases()
        return EverReleased(earlier.tags, earlier.not_comparable)

    def leavers(self, policy: Policy, delivery: str) -> Leavers:
        """Members of earlier releases who may not be in a release of this delivery, from earlier releases alone."""
        return cumulative.leavers(policy, self.releases_made(), self.secret(), self.delivery(delivery).digest())

    def removed_before(self, policy: Policy) -> np.ndarray:
        """(n,) uint64: tags of members who stay removed, because an earlier release removed them; see `leavers`."""
        return cumulative.removed_before(policy, self.releases_made(), self.secret())

    def releases_before(self, population: Table, own: str) -> tuple[str, ...]:
        """The earlier releases with members that `released_before` counts, as policy/number."""
        return self._earlier_releases().holding_others(*self._population_and_own(population, own))

    def _earlier_releases(self) -> cumulative.EarlierReleases:
        return cumulative.earlier_releases(self.releases_made(), self.secret().commitment())

    def _population_and_own(self, population: Table, own: str) -> tuple[np.ndarray, np.ndarray]:
        return self.member_tags(population, f"SELECT member_id FROM {population.sql}"), self.member_tags(population, own)

    def releases_made(self) -> tuple[cumulative.Made, ...]:
        """Every earlier release in the restricted store, checked against what was published."""
        return tuple(cumulative.releases_made(self.restricted_manifests, Registry(self.home.releases / "registry.jsonl")))

    def earlier_of(self, delivery: str) -> tuple[EarlierRelease, ...]:
        """Every earlier release, as one of this delivery is compared with it."""
        return cumulative.releases_before(self.releases_made(), self.secret().commitment(), self.delivery(delivery).digest())

    def stores_of_releases(self) -> dict[str, Path]:
        """Name of each release, as policy/number, to the store of its delivery, whether it is still there or not."""
        return {one.name: self.home.store / one.policy / f"{plain_key(one.delivery)}.duckdb" for one in self.releases_made()}

    def tags_in_order(self, member_ids: Iterable[str]) -> np.ndarray:
        """(n,) uint64: the tag of each member, in the order given."""
        return cumulative.tags_in_order(member_ids, self.secret())

    def member_tags(self, population: Table, members: str) -> np.ndarray:
        """(n,) uint64: tags of the members that a SELECT of member_id returns from the file of a table."""
        return cumulative.member_tags(population.query(members).iloc[:, 0].tolist(), self.secret())

    def delivery(self, key: str) -> Delivery:
        """The delivery that was registered under this key, or copied from another project's tables."""
        return registered_delivery(self.home, key) if self.copies is None else self.copies.delivery(self.home, key)

    def as_delivered(self, source: SourceOptions) -> SourceOptions:
        """A policy's source, with the files that deliveries have here."""
        return source if self.copies is None else self.copies.as_copied()


def note_own_input(step: StepExecutionContext, key: dg.AssetKey, partition: str) -> None:
    """Let the event log say which materialization of this delivery a step reads or judges.

    Dagster notes the newest materialization of an asset, whatever its partition is: while deliveries are released side by
    side, that may be another delivery's. No other run writes the store of this one meanwhile.
    """
    found = step.maybe_fetch_and_get_input_asset_version_info(key)
    if found is None or found.run_id == step.run_id:
        return  # what this run made is of this delivery
    noted = cast("dict[dg.AssetKey, InputAssetVersionInfo | None]", step.input_asset_records)
    record = current_materialization(step.instance, key, partition)
    noted[key] = None
    if record is not None:
        noted[key] = replace(found, storage_id=record.storage_id, run_id=record.run_id, timestamp=record.timestamp)


def ended_in(instance: dg.DagsterInstance) -> Callable[[str], bool]:
    """Says of the id of a run whether it has ended; a run that this instance does not know counts as ended."""

    def is_over(run_id: str) -> bool:
        run = instance.get_run_by_id(run_id)
        return run is None or run.is_finished

    return is_over


@dataclass
class RestrictedStore(dg.IOManager):
    """Writes what an asset returns as its table, provides `Table` handles, and describes every table it writes.

    It is set up in every process of a run, before the first step there, and holds the locks of the stores that the run
    writes until the process has done its steps. Between steps of one process it keeps small stores open.

    Attributes
    ----------
    workplace
        The home, and the policies under which tables are made.
    own
        `Keys.scope` of the policies whose stores a run locks before its first step, if it has selected assets of theirs.
        The other assets of a project are none of our business.
    """

    workplace: Workplace
    own: frozenset[str] = frozenset()
    _run_id: str | None = None
    _is_over: Callable[[str], bool] | None = None
    _locks: dict[tuple[str, str], StoreLock] = field(default_factory=dict)
    _open: dict[Path, contextlib.ExitStack] = field(default_factory=dict)
    _plain: set[Path] = field(default_factory=set)

    def definition(self) -> dg.IOManagerDefinition:
        """The resource; every process of a run has a store of its own."""

        def restricted_store(context: dg.InitResourceContext) -> Any:
            store = RestrictedStore(self.workplace, self.own)
            store.setup_for_execution(context)
            try:
                yield store
            finally:
                store.teardown_after_execution(context)

        return dg.IOManagerDefinition(
            restricted_store, description="The restricted store: a DuckDB file for each policy and delivery."
        )

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Take the locks of the stores that the run writes."""
        here = Home.here()
        if here.root == self.workplace.home.root:
            here.create()  # a run that the UI starts may be the first one in its home
            if context.instance:
                require_own_history(here, context.instance)
        run = context.run
        self._run_id = run.run_id if run else None
        self._is_over = ended_in(context.instance) if context.instance else None
        partition = run.tags.get("dagster/partition") if run else None
        if run is None or partition is None:
            return
        selected = {*(run.asset_selection or ()), *(key.asset_key for key in run.asset_check_selection or ())}
        policies = {policy_name(key) for key in selected if "/".join(key.path[:-1]) in self.own}
        names = {scope.split("/")[-1] for scope in self.own}
        if not selected and run.job_name.removeprefix(JOB_PREFIX) in names:
            policies = {run.job_name.removeprefix(JOB_PREFIX)}
        try:
            for name in sorted(policies):
                self.lock(name, partition)
        except StoreError:
            self.teardown_after_execution(context)
            raise

    def lock(self, policy: str, delivery: str) -> None:
        """Take the lock of a store for the rest of this process's part of the run, unless it has it already.

        Steps of one run in several processes wait for each other here. Every step calls this, because a user-defined job
        does not announce which stores it writes.

        Raises
        ------
        StoreError
            If another run has it.
        """
        if (policy, delivery) not in self._locks:
            lock = StoreLock.of(self.workplace.home, policy, delivery, self._run_id, self._is_over)
            lock.acquire()
            self._locks[policy, delivery] = lock

    def keep_open(self, file: Path) -> None:
        """Keep a small store open until the run ends, as opening it takes longer than most steps.

        A store that has grown is closed between steps: its part of the memory is the kernel's.
        """
        small = file.exists() and file.stat().st_size <= SMALL_STORE
        if small and file not in self._open:
            held = contextlib.ExitStack()
            held.enter_context(held_open(file))
            self._open[file] = held
        elif not small and file in self._open:
            self._plain.discard(file)
            self._open.pop(file).close()

    def require_plain_tables(self, file: Path, again: bool = False) -> None:
        """Refuse a store with anything other than plain tables.

        No other process can change a store that is open here: one that stays open is asked once, and again before it is
        judged.

        Raises
        ------
        StoreError
            With the kinds of objects found.
        """
        if again or file not in self._plain:
            require_plain_tables(file)
        if file in self._open:
            self._plain.add(file)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Close the stores, let go of their locks until the run's next step, and forget which policies the run has read."""
        self._plain.clear()
        while self._open:
            self._open.popitem()[1].close()
        while self._locks:
            lock = self._locks.popitem()[1]
            if self._run_id is None:
                lock.release()
            else:
                lock.pause()
        for key in [key for key in _readings if context.run is not None and key[0] == context.run.run_id]:
            del _readings[key]

    def handle_output(self, context: dg.OutputContext, obj: Content) -> None:
        """Write an asset's return value as its table."""
        self.lock(policy_name(context.asset_key), context.partition_key)
        file = self.workplace.table(context.asset_key, context.partition_key).file
        with without_values(context.asset_key.to_user_string(), self.workplace.home.store), held_open(file):
            self.keep_open(file)
            self._write(context, obj)

    def _write(self, context: dg.OutputContext, obj: Content) -> None:
        table = self.workplace.table(context.asset_key, context.partition_key)
        rows = written(table, obj)
        columns = table.columns()
        metadata: dict[str, str | float | dg.TableSchema | dg.TableColumnLineage] = {
            "dagster/row_count": rows,
            "dagster/table_name": f"{table.schema}.{table.name}",
            "dagster/column_schema": observed_schema(columns, context.definition_metadata.get("dagster/column_schema")),
            "content": fingerprint(table, content_key(self.workplace.secret())),
            **self._made_under(context),
            **meter.read(context.run_id, context.step_key),
        }
        lineage = self._column_lineage(context, table.file, columns)
        if lineage.deps_by_column:
            metadata["dagster/column_lineage"] = lineage
        context.add_output_metadata(metadata)

    def _made_under(self, context: dg.OutputContext) -> dict[str, str]:
        """Digest of the policy that made this table; the gate refuses tables made by an earlier text, or without a digest.

        Raises
        ------
        PolicyError
            If the policy or a file that it names changed while the table was made, so that its origin is unknown.
        """
        stated = context.definition_metadata
        read = _readings.get((context.run_id, context.step_key), set())
        if "policy_sections" not in stated:
            return {}
        policy = self.workplace.named(policy_name(context.asset_key))
        if not read <= {policy.reading}:
            raise PolicyError(
                f"policy {policy.name}: its text, or a file that it names, changed while {context.asset_key.path[-1]} was "
                "made; run again"
            )
        secret = self.workplace.secret()
        digest = made_under(policy, secret, stated["method_version"], stated["policy_sections"])
        return {"made_under": digest, "policy_reading": policy_reading(policy, secret)}

    def load_input(self, context: dg.InputContext) -> Table:
        """Return the handle on the table of an input."""
        self.lock(policy_name(context.asset_key), context.partition_key)
        table = self.workplace.table(context.asset_key, context.partition_key)
        with without_values(context.asset_key.to_user_string(), self.workplace.home.store):
            self.keep_open(table.file)
        note_own_input(context.step_context, context.asset_key, context.partition_key)
        return table

    def _column_lineage(self, context: dg.OutputContext, file: Path, columns: Mapping[str, str]) -> dg.TableColumnLineage:
        """Column lineage: a column keeps its name as long as its content is the same, so lineage follows the names.

        Columns derived from others under a new name are declared with the asset, as `derived_columns`.
        """
        derived = context.definition_metadata.get("derived_columns", {})
        inputs = (dep.asset_key for dep in context.asset_spec.deps)
        own = [key for key in inputs if key.path[:-1] == context.asset_key.path[:-1] and key.path[-1] in STAGE_OF]
        parents = {key: self.workplace.table(key, context.partition_key) for key in own}
        in_store = columns_of(file) if parents else {}
        known = {key: in_store[table] for key, table in parents.items()}
        deps = {}
        for column in columns:
            sources = [(key, column) for key, names in known.items() if column in names]
            for origin in derived.get(column, ()):
                asset, origin_column = origin.split(".")
                sources.append((sibling(context.asset_key, asset), origin_column))
            if sources:
                deps[column] = [dg.TableColumnDep(asset_key=key, column_name=name) for key, name in sources]
        return dg.TableColumnLineage(deps)


def written(table: Table, content: Content) -> int:
    """Write what an asset returns as its table, in the way that `stages.py` declares; return its number of rows.

    Parameters
    ----------
    content
        Its rows; or a handle on the table, if the asset has written it.

    Raises
    ------
    ReleaseError
        If the asset is declared to work by person and does not, or does so and is not declared to.
    """
    work = WORK_OF[table.name]
    if isinstance(content, ByPerson) != (work is Work.PER_PERSON):
        made = "by person" if isinstance(content, ByPerson) else "of everybody at once"
        raise ReleaseError(
            f"{table.name} is declared as {work.label} in stages.py, but its rows are made {made}; declare what it is"
        )
    if isinstance(content, ByPerson):
        return write_by_person(table, content)
    return table.count() if isinstance(content, Table) else write_table(table, content)


def content_key(secret: Secret) -> bytes:
    """Key of the fingerprints that detect changed tables; keyed, because guesses could be tested against a plain one."""
    return secret.derive("content of tables")


def content_of(table: Table, secret: Secret) -> str | None:
    """The fingerprint of a table; None if it does not exist."""
    try:
        return fingerprint(table, content_key(secret))
    except (duckdb.CatalogException, duckdb.IOException):
        return None


def made_under(policy: ReleasePolicy, secret: Secret, version: str, sections: Sequence[str]) -> str:
    """A keyed digest of a method's version, of the policy sections that an asset reads, and of the files that they name.

    Keyed, because one section names members who opted out, and guesses could be tested against a plain digest.
    """
    files = json.dumps(policy.file_digests(*sections)) if sections else "{}"
    return secret.keyed_digest("made under", version, *sections, policy.section_hash(*sections), files)


def policy_reading(policy: ReleasePolicy, secret: Secret) -> str:
    """A keyed digest of the bytes of a policy's text and of every file that it names."""
    return secret.keyed_digest("policy reading", policy.reading)


def asset_key_of(context: dg.AssetExecutionContext | dg.AssetCheckExecutionContext) -> dg.AssetKey:
    """The key of the running asset, or of the asset that the running check judges."""
    if isinstance(context, dg.AssetCheckExecutionContext):
        check: dg.AssetCheckKey = next(iter(context.selected_asset_check_keys))
        return check.asset_key
    # A release makes its published tables, too, whose keys are longer.
    key: dg.AssetKey = min(context.selected_asset_keys, key=lambda one: (len(one.path), one))
    return key


def column_schema(contract: DataFrameSchema) -> dg.TableSchema:
    """A contract's columns for the UI: type, meaning, role, unit, constraints."""
    return dg.TableSchema(
        columns=[
            dg.TableColumn(
                name=name,
                type=str(column.dtype),
                description=column.description,
                constraints=dg.TableColumnConstraints(
                    nullable=column.nullable,
                    unique=name in (contract.unique or []) and len(contract.unique or []) == 1,
                    other=[str(check.error) for check in column.checks if check.error],
                ),
                tags={key: value.replace(" ", "_") for key, value in (column.metadata or {}).items() if value},
            )
            for name, column in contract.columns.items()
        ]
    )


def observed_schema(columns: Mapping[str, str], stated: object) -> dg.TableSchema:
    """The columns of a table, with their DuckDB types and their descriptions in the contract."""
    schema = stated.schema if isinstance(stated, dg.TableSchemaMetadataValue) else stated
    known = {column.name: column for column in schema.columns} if isinstance(schema, dg.TableSchema) else {}
    found = []
    for name, kind in columns.items():
        column = known.get(name)
        found.append(
            dg.TableColumn(name, kind)
            if column is None
            else dg.TableColumn(name, kind, column.description, column.constraints, column.tags)
        )
    return dg.TableSchema(columns=found)

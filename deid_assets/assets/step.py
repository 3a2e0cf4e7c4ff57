"""What the function of an asset may use besides its tables: the policy, the delivery, the home, and the run.

And the decorator of every asset: its stage, the policy sections that it reads, a resource meter, and what the run's log says
of how far the run and its long steps are: few lines, as each is an event.
"""

import contextlib
import inspect
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Generic, TypeVar, cast

import dagster as dg
import pandas as pd

from deid_assets import resources
from deid_assets.assessments.kernel_input import CODED
from deid_assets.cluster.executors import asked_parts
from deid_assets.dagster_internals import StepEventStatus
from deid_assets.errors import REFUSED_MARK, DeidError, RefusedError, ReleaseError, StoreError
from deid_assets.figures.rendering import markdown_image
from deid_assets.forecast import LONG, Forecast, announcement, operation
from deid_assets.meter import meter
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release import event_log
from deid_assets.release.keys import Secret
from deid_assets.release.public_cells import shapes_of_measurements
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import CLAIMS, RELEASE, STAGE_OF, stages_of
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home
from deid_assets.store.parts import ByPerson, Parts
from deid_assets.store.tables import Rows, Table, held_open

P = TypeVar("P", bound=AnyPolicy, covariant=True)


@dataclass(frozen=True)
class Step(Generic[P]):
    """An asset of a policy that is being made from a delivery.

    Attributes
    ----------
    context
        Of the run.
    workplace
        The home, and what assets may use in it.
    model
        Of the policies that have the asset.
    """

    context: dg.AssetExecutionContext
    workplace: resources.Workplace
    model: type[P]

    @cached_property
    def policy(self) -> P:
        """The policy, as it is when it is first asked for."""
        return self.workplace.policy_of(self.context, self.model)

    @property
    def instance(self) -> dg.DagsterInstance:
        """The instance with the event log."""
        return self.context.instance

    @property
    def key(self) -> str:
        """The key of the delivery."""
        return self.context.partition_key

    @property
    def delivery(self) -> Delivery:
        """The delivery."""
        return self.workplace.delivery(self.key)

    @property
    def home(self) -> Home:
        """The home."""
        return self.workplace.home

    @property
    def secret(self) -> Secret:
        """The secret of the home."""
        return self.workplace.secret()

    @property
    def names(self) -> tuple[str, str]:
        """Names of the policy and of the delivery: derived keys differ by both."""
        return resources.policy_name(self.own), self.key

    @property
    def own(self) -> dg.AssetKey:
        """The key of the asset that is being made, or of one of them."""
        return resources.asset_key_of(self.context)

    @property
    def store(self) -> resources.RestrictedStore:
        """The store of the asset that is being made."""
        key = self.context.assets_def.get_io_manager_key_for_asset_key(self.own)
        store: resources.RestrictedStore = getattr(self.context.resources, key)
        return store

    @property
    def name(self) -> str:
        """The name of the step in the run."""
        return self.context.op_execution_context.get_step_execution_context().step.key

    def sibling(self, name: str) -> dg.AssetKey:
        """The key of another asset of the policy."""
        return resources.sibling(self.own, name)

    def table(self, name: str) -> Table:
        """The handle on the table of an asset of the policy, whether or not it exists."""
        return self.workplace.table(self.sibling(name), self.key)

    def require_as_made(self, name: str, beside: Iterable[dg.AssetKey]) -> None:
        """Refuse a table that is not the one that its asset wrote, or was made of other tables than the current ones.

        The gate asks this of every table before anything is published. It is asked here of a table that stands for others,
        because whoever reads it does not read them.

        Parameters
        ----------
        name
            Of the table's asset.
        beside
            Keys of tables that are there, among them those that it is made of.

        Raises
        ------
        StoreError
            With what is wrong.
        """
        key, secret, policy = self.sibling(name), self.secret, self.policy
        made_under = {one: resources.made_under(policy, secret, *made_from(policy, one.path[-1])) for one in (key, *beside)}
        content = [(key, resources.content_of(self.table(name), secret))]
        log = event_log.Current(self.instance, self.key)
        wrong = event_log.stale_inputs(log, made_under) + event_log.not_as_stated(log, event_log.TABLE, content)
        if texts := [one.text for one in wrong if one.name == name]:
            raise StoreError("; ".join(texts))

    def by_person(self, make: Callable[..., Rows], *tables: Table) -> ByPerson:
        """Rows that are made for the people of one part after the other; see `ByPerson`."""
        return ByPerson(make, tables, Parts(asked_parts() or 1, self.secret.derive("parts of people")))

    def tell(self, metadata: Mapping[str, Any]) -> None:
        """Add metadata to the materialization."""
        self.context.add_output_metadata(metadata)


_PARTITION = "dagster/partition"
_LOOKED_AT, _READ = 12, 3
"""So many of the newest runs are looked at, and of so many at most it is read what their steps took."""
_known: dict[str, Forecast] = {}
"""What was read of earlier runs, by the id of the run that is at work in this process."""
_ALIKE = 2.0
"""The delivery of an earlier run may be so many times as large or as small: what steps take is in no fixed ratio to it."""


class StepLog:
    """Says in a run's log how far a step is, every few seconds.

    Parameters
    ----------
    of
        What is counted.
    seconds
        Between two lines, at least; 0: every one is said.
    """

    def __init__(self, context: dg.AssetExecutionContext, of: str, seconds: float = LONG):
        self._context, self._of, self._seconds, self._last, self._ended = context, of, seconds, time.monotonic(), False

    def __call__(self, done: int, total: int, text: str) -> None:
        """Say how many are done, unless it was said just now."""
        # Nodes may be measured after all are decided, and every call would be a line of the log.
        ends, self._ended = done == total and not self._ended, done == total
        if ends or time.monotonic() - self._last >= self._seconds:
            self._last = time.monotonic()
            self._context.log.info(f"{done:,} of {total:,} {self._of}: {text}")


def announce(context: dg.AssetExecutionContext, workplace: resources.Workplace) -> None:
    """Say in the run's log how far the run is, if the step that begins will be long."""
    step, run = context.op_execution_context.get_step_execution_context().step.key, context.run
    forecast = known_forecast(context.instance, workplace, run)
    if forecast.expected.get(step, 0.0) < LONG:
        return
    # Steps may have a process each: what has ended is known to the event log.
    stats = context.instance.get_run_step_stats(run.run_id)
    for one in sorted((one for one in stats if one.start_time is not None), key=lambda one: one.start_time or 0.0):
        forecast.began(one.step_key, one.start_time or 0.0)
        if one.end_time is not None:
            forecast.ended(one.step_key, one.end_time)
    forecast.began(step, time.time())
    context.log.info(announcement(forecast, step, time.time()))


def known_forecast(instance: dg.DagsterInstance, workplace: resources.Workplace, run: dg.DagsterRun) -> Forecast:
    """`forecast_of` for the progress line and all steps of a process: earlier runs are read once."""
    known = _known.get(run.run_id)
    if known is None:
        known = forecast_of(instance, workplace, run)
        _known.clear()
        _known[run.run_id] = known
    return Forecast(known.expected, known.before)


def forecast_of(instance: dg.DagsterInstance, workplace: resources.Workplace, run: dg.DagsterRun) -> Forecast:
    """The forecast of a run at its beginning."""
    plan = instance.get_execution_plan_snapshot(str(run.execution_plan_snapshot_id))
    steps = plan.step_keys_to_execute
    return Forecast(steps, _earlier_times(instance, workplace, run, steps))


def _earlier_times(
    instance: dg.DagsterInstance, workplace: resources.Workplace, run: dg.DagsterRun, steps: Sequence[str]
) -> dict[str, float]:
    """What steps took in the newest runs on deliveries of about this size: of the same policy, else of another one."""
    ended = dg.RunsFilter(statuses=[dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED])
    size, alike = _size(workplace, run), []
    for record in instance.get_run_records(filters=ended, limit=_LOOKED_AT):
        earlier = _size(workplace, record.dagster_run)
        if size is not None and earlier is not None and 1 / _ALIKE <= size / earlier <= _ALIKE:
            alike.append(record.dagster_run)
    alike.sort(key=lambda one: one.tags.get(resources.POLICY_TAG) != run.tags.get(resources.POLICY_TAG))
    own: dict[str, float] = {}
    others: dict[str, float] = {}
    for one in alike[:_READ]:
        for stats in instance.get_run_step_stats(one.run_id):
            if stats.status == StepEventStatus.SUCCESS and stats.start_time is not None and stats.end_time is not None:
                seconds = stats.end_time - stats.start_time
                own.setdefault(stats.step_key, seconds)
                others.setdefault(operation(stats.step_key), seconds)
        if own.keys() >= set(steps):
            break
    found = {step: own.get(step, others.get(operation(step))) for step in steps}
    return {step: seconds for step, seconds in found.items() if seconds is not None}


def _size(workplace: resources.Workplace, run: dg.DagsterRun) -> int | None:
    """Bytes of the delivery of a run; None if they are not there (any more)."""
    with contextlib.suppress(DeidError, OSError):
        return sum(file.path.stat().st_size for file in workplace.delivery(run.tags.get(_PARTITION, "")).files()) or None
    return None


_MADE_FROM: dict[tuple[str, str], tuple[str, tuple[str, ...], tuple[str, ...]]] = {}
"""Of every asset, by the kind of policy ('': the only one) and the name: declared method version, policy sections, and those
that are read besides if the policy compares nodes."""

_MAKE_ROWS = ("intake", "preparation", "adversary", "generalization", "candidate")
"""Stages that make the rows of a release; later stages only measure them."""


@dataclass(frozen=True)
class StageAsset:
    """An asset, or several that one function makes, of any policy: `made` gives those of one policy.

    Attributes
    ----------
    function
        Takes the step, and the tables of its inputs.
    outs
        The assets by name, with their metadata, kinds and description.
    op_name
        Name of the operation, after the policy's.
    inputs
        Names of the assets whose tables the function takes.
    stages
        If any: the function takes the tables of `inputs`, but the asset depends on the assets of these stages instead.
    published
        Names of the tables that a release publishes. Each is an asset that is made with it.
    further
        Inputs that are no assets of the policy.
    """

    function: Callable[..., object]
    outs: Mapping[str, Mapping[str, Any]]
    op_name: str
    inputs: tuple[str, ...]
    stages: tuple[str, ...] = ()
    published: tuple[str, ...] = ()
    further: Mapping[str, dg.AssetIn] = field(default_factory=dict)

    def __post_init__(self) -> None:
        outside = [name for name in self.inputs if self.stages and STAGE_OF[CLAIMS.get(name, (name,))[0]] not in self.stages]
        if outside:
            raise ReleaseError(f"{self.op_name} reads {', '.join(outside)}, and depends on none of their stages")

    def made(self, keys: resources.Keys, model: type[AnyPolicy], asset_of: Callable[[str], str] = str) -> dg.AssetsDefinition:
        """The assets of one policy.

        Parameters
        ----------
        keys
            Their keys, and those of their resources.
        model
            Of the policy.
        asset_of
            The asset that makes the table of an input.
        """
        read = {name: keys.asset(asset_of(name)) for name in self.inputs}
        ins = {} if self.stages else {name: dg.AssetIn(key=key) for name, key in read.items()}
        # Inputs that are not loaded.
        read_besides = [keys.asset(stage) for stage in self.stages]
        one_step = not inspect.isgeneratorfunction(self.function)

        def run(context: dg.AssetExecutionContext, **tables: object) -> object:
            workplace: resources.Workplace = getattr(context.resources, keys.resource)
            if self.stages:
                tables = {name: workplace.table(key, context.partition_key) for name, key in read.items()}
            step = Step(context, workplace, model)
            # The IO manager reads the meter when the table is written.
            meter.start(context.run.run_id, step.name)
            announce(context, workplace)
            for key in read_besides:
                resources.note_own_input(context.op_execution_context.get_step_execution_context(), key, context.partition_key)
            with guarded(step) if one_step or CODED in read else contextlib.nullcontext():
                if CODED in read and not self.stages:  # the gate asks of every table
                    step.require_as_made(CODED, read.values())
                if one_step:
                    return self.function(step, **tables)
            return self.function(step, **tables)

        def run_or_wait(context: dg.AssetExecutionContext, **tables: object) -> object:
            result = cast("tuple[dg.Output[object], ...] | None", run(context, **tables))
            yield from result or ()

        for one in (run, run_or_wait):
            del one.__annotations__["return"]  # Dagster would take it for the type of the output
        # A release that waits for approval returns None: nothing is materialized, and what comes after it is skipped.
        required = RELEASE not in self.outs
        outs = {
            name: dg.AssetOut(key=keys.asset(name), io_manager_key=keys.store, is_required=required, **described)
            for name, described in self.outs.items()
        }
        published = {
            published_output(table): dg.AssetOut(
                key=keys.published(table),
                io_manager_key=keys.store,
                is_required=required,
                dagster_type=dg.Nothing,
                **published_description(table, self.outs[RELEASE]),
            )
            for table in self.published
        }
        of_outputs: dict[str, set[dg.AssetKey]] = {RELEASE: {keys.asset(stage) for stage in self.stages}}
        of_outputs |= {output: {keys.asset(RELEASE)} for output in published}
        made: dg.AssetsDefinition = dg.multi_asset(
            name="__".join((*keys.prefix, keys.policy, self.op_name)),
            outs=outs | published,
            internal_asset_deps=of_outputs if published else None,
            ins={**ins, **self.further},
            deps=read_besides,
            required_resource_keys={keys.resource},
            op_tags={resources.POLICY_TAG: keys.policy},
        )(run if required else run_or_wait)
        return made


def published_output(table: str) -> str:
    """The name of the output of a release that is a published table."""
    return f"{resources.PUBLISHED}_{table}"


def published_description(table: str, release: Mapping[str, Any]) -> dict[str, Any]:
    """What the definition of a published table says, from that of its release."""
    return {
        "metadata": {**release["metadata"], resources.PUBLISHED: table},
        "kinds": {"parquet", "csv"},
        "description": f"The published table {table}, made with its release: data/{table}.parquet and data/{table}.csv.",
    }


def stage_asset(
    policy_sections: Sequence[str] = (),
    version: str = "1",
    kinds: Sequence[str] = ("duckdb",),
    derived_columns: Mapping[str, Sequence[str]] | None = None,
    of_kind: str = "",
    name: str | None = None,
    description: str | None = None,
    inputs: Sequence[str] | None = None,
    stages: Sequence[str] = (),
) -> Callable[[Callable[..., object]], StageAsset]:
    """Create an asset of the stage that `stages.py` names for it.

    Parameters
    ----------
    policy_sections
        Sections of the policy that it reads. Its code version is `version` and their hash, so a changed threshold does
        not make the intake stale.
    version
        Increase it when the asset's code computes something else.
    derived_columns
        For columns derived from others under a new name: their source, as "asset.column".
    of_kind
        Kind of the policies that have this asset, if those of another kind have one of the same name.
    name, description
        Of the asset; default: name and docstring of the function.
    inputs
        Tables that the asset reads, by the names of their assets, if the function takes them as keyword arguments; default:
        the names of the function's parameters.
    stages
        Stages whose assets it depends on, instead of the tables that it reads.
    """

    def make(function: Callable[..., object]) -> StageAsset:
        asset = name or function.__name__
        described = {
            "metadata": asset_metadata(asset, policy_sections, version, derived_columns, of_kind),
            "kinds": set(kinds),
            "description": description or inspect.getdoc(function),
        }
        # The first parameter is the step.
        read = tuple(inspect.signature(function).parameters)[1:] if inputs is None else tuple(inputs)
        return StageAsset(function, {asset: described}, asset, read, tuple(stages))

    return make


def stage_assets(
    outs: Mapping[str, Mapping[str, Any]], inputs: Sequence[str] = ()
) -> Callable[[Callable[..., object]], StageAsset]:
    """Create several assets that one generator function makes; it is called like them together.

    Parameters
    ----------
    outs
        By name: metadata (`asset_metadata`), kinds and description.
    inputs
        As in `stage_asset`.
    """
    return lambda function: StageAsset(function, outs, function.__name__, tuple(inputs))


def asset_metadata(
    name: str,
    policy_sections: Sequence[str],
    version: str,
    derived_columns: Mapping[str, Sequence[str]] | None = None,
    of_kind: str = "",
    if_compared: Sequence[str] = (),
) -> dict[str, object]:
    """Metadata from which `definitions.specialize` gives an asset its group and code version for one policy.

    `if_compared` are sections that it reads besides under a policy that compares nodes by what their releases keep.
    """
    _MADE_FROM[of_kind, name] = (version, tuple(policy_sections), tuple(if_compared))
    return {
        "stage": STAGE_OF[name],
        "policy_sections": list(policy_sections),
        "method_version": version,
        "derived_columns": {column: list(sources) for column, sources in (derived_columns or {}).items()},
    }


def made_from(policy: AnyPolicy, name: str) -> tuple[str, tuple[str, ...]]:
    """Declared method version of a policy's asset, and the policy sections that it reads."""
    version, sections, if_compared = _MADE_FROM.get((policy.kind, name)) or _MADE_FROM["", name]
    compares = policy.has_events and policy.risk.nodes_by_gain is not None
    return version, sections + (if_compared if compares else ())


def shapes_of(policy: AnyPolicy, delivery: Delivery, levels: Mapping[str, int]) -> dict[str, str]:
    """The inputs of each measurement (`public_cells.shapes_of_measurements`), by the sections that assets declare."""
    names = [name for stage in _MAKE_ROWS for name in stages_of(policy).get(stage, ())]
    return shapes_of_measurements(
        policy, delivery, levels, {section for name in names for section in made_from(policy, name)[1]}
    )


@contextlib.contextmanager
def guarded(step: Step[AnyPolicy]) -> Iterator[None]:
    """Hold the store open, require plain tables, and keep values out of unforeseen errors; a refusal passes through."""
    store = step.store
    store.lock(*step.names)
    file = step.table(step.own.path[-1]).file
    with refusals_fail(), without_values(step.name.replace("__", "/"), step.home.store, (dg.Failure,)), held_open(file):
        if file.exists():
            store.require_plain_tables(file, again=STAGE_OF[step.own.path[-1]] == RELEASE)
        yield


@contextlib.contextmanager
def refusals_fail() -> Iterator[None]:
    """Turn a refusal into a failure of the step that no retry can mend, marked as a refusal."""
    try:
        yield
        return
    except RefusedError as error:
        told = {} if error.sentence is None else {SENTENCE: error.sentence}
        failure = dg.Failure(f"{REFUSED_MARK}{error}", metadata={"refused": True, **told}, allow_retries=False)
    except dg.Failure as refusal:
        if "refused" in refusal.metadata and refusal.metadata["refused"].value:
            refusal.description = f"{REFUSED_MARK}{refusal.description}"
        raise
    # Dagster stores chains; the failure says all that the error says.
    try:
        raise failure
    finally:
        failure.__cause__ = failure.__context__ = None


SENTENCE = "sentence"
"""Metadata of a refusal before the gate: why, without a number of people, for those who may not see exact numbers."""


def markdown_table(frame: pd.DataFrame) -> dg.MarkdownMetadataValue:
    """A small table of aggregates as Markdown metadata, with shortened numbers and escaped text."""
    head = "| " + " | ".join(frame.columns) + " |"
    rule = "|" + "---|" * len(frame.columns)
    rows = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.itertuples(index=False)]
    return dg.MetadataValue.md("\n".join([head, rule, *rows]))


def image(figure: bytes, alt: str) -> dg.MarkdownMetadataValue:
    """A figure as Markdown metadata, with what it shows in words."""
    return dg.MetadataValue.md(markdown_image(figure, alt))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value).replace("|", "\\|")

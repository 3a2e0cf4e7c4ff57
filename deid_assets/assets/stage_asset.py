"""The decorator of every asset: its stage, the policy sections that it reads, and a resource meter."""

import contextlib
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import dagster as dg
import pandas as pd

from deid_assets.assets.step import Step
from deid_assets.assets.step_log import announce
from deid_assets.errors import REFUSED_MARK, RefusedError, ReleaseError
from deid_assets.figures.rendering import markdown_image
from deid_assets.meter import meter
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.public_cells import shapes_of_measurements
from deid_assets.resources import (
    POLICY_TAG,
    PUBLISHED,
    Keys,
    Workplace,
    note_own_input,
)
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import CLAIMS, RELEASE, STAGE_OF, stages_of
from deid_assets.store.guard import without_values
from deid_assets.store.tables import held_open

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
    """

    function: Callable[..., object]
    outs: Mapping[str, Mapping[str, Any]]
    op_name: str
    inputs: tuple[str, ...]
    stages: tuple[str, ...] = ()
    published: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        outside = [name for name in self.inputs if self.stages and STAGE_OF[CLAIMS.get(name, (name,))[0]] not in self.stages]
        if outside:
            raise ReleaseError(f"{self.op_name} reads {', '.join(outside)}, and depends on none of their stages")

    def made(
        self,
        keys: Keys,
        model: type[AnyPolicy],
        asset_of: Callable[[str], str] = str,
        further: Mapping[str, dg.AssetIn] | None = None,
    ) -> dg.AssetsDefinition:
        """The assets of one policy.

        Parameters
        ----------
        keys
            Their keys, and those of their resources.
        model
            Of the policy.
        asset_of
            The asset that makes the table of an input.
        further
            Inputs that are no assets of the policy.
        """
        read = {name: keys.asset(asset_of(name)) for name in self.inputs}
        ins = {} if self.stages else {name: dg.AssetIn(key=key) for name, key in read.items()}
        # Inputs that are not loaded.
        read_besides = [keys.asset(stage) for stage in self.stages]
        one_step = not inspect.isgeneratorfunction(self.function)

        def run(context: dg.AssetExecutionContext, **tables: object) -> object:
            workplace: Workplace = getattr(context.resources, keys.resource)
            if self.stages:
                tables = {name: workplace.table(key, context.partition_key) for name, key in read.items()}
            step = Step(context, workplace, model)
            # The IO manager reads the meter when the table is written.
            meter.start(context.run.run_id, step.name)
            announce(context, workplace)
            for key in read_besides:
                note_own_input(context.op_execution_context.get_step_execution_context(), key, context.partition_key)
            with guarded(step) if one_step else contextlib.nullcontext():
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
            ins={**ins, **(further or {})},
            deps=read_besides,
            required_resource_keys={keys.resource},
            op_tags={POLICY_TAG: keys.policy},
        )(run if required else run_or_wait)
        return made


def published_output(table: str) -> str:
    """The name of the output of a release that is a published table."""
    return f"{PUBLISHED}_{table}"


def published_description(table: str, release: Mapping[str, Any]) -> dict[str, Any]:
    """What the definition of a published table says, from that of its release."""
    return {
        "metadata": {**release["metadata"], PUBLISHED: table},
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

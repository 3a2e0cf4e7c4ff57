"""The decorator of every asset: its stage, the policy sections that it reads, and a resource meter."""

import contextlib
import functools
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pandas as pd

from deid_assets.errors import RefusedError
from deid_assets.meter import meter
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.public_cells import shapes_of_measurements
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import STAGE_OF, stages_of
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home
from deid_assets.store.tables import held_open, require_plain_tables

_MADE_FROM: dict[tuple[str, str], tuple[str, tuple[str, ...]]] = {}
"""Declared method version and policy sections of every asset, by the kind of policy ('': the only one) and the name."""

_MAKE_ROWS = ("intake", "preparation", "adversary", "generalization", "candidate")
"""Stages that make the rows of a release; later stages only measure them."""


def stage_asset(
    policy_sections: Sequence[str] = (),
    version: str = "1",
    kinds: Sequence[str] = ("duckdb",),
    derived_columns: Mapping[str, Sequence[str]] | None = None,
    of_kind: str = "",
    name: str | None = None,
    description: str | None = None,
    inputs: Sequence[str] | None = None,
    **options: Any,
) -> Callable[[Callable[..., object]], dg.AssetsDefinition]:
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
    name, description
        Of the asset; default: name and docstring of the function.
    inputs
        Tables that the asset reads, by the names of their assets, if the function takes them as keyword arguments; default:
        the names of the function's parameters.
    of_kind
        Kind of the policies that have this asset, if those of another kind have one of the same name. It is part of the name of
        the operation: Dagster loads no two operations of one name together.
    """

    def make(function: Callable[..., object]) -> dg.AssetsDefinition:
        @functools.wraps(function)
        def metered(context: dg.AssetExecutionContext, *args: object, **kwargs: object) -> object:
            start_meter(context)
            with guarded(context):
                return function(context, *args, **kwargs)

        asset = name or function.__name__
        ins = None if inputs is None else {table: dg.AssetIn() for table in inputs}
        described: dict[str, Any] = {
            "metadata": asset_metadata(asset, policy_sections, version, derived_columns, of_kind),
            "kinds": set(kinds),
            "description": description or inspect.getdoc(function),
            **options,
        }
        if not of_kind:
            made: dg.AssetsDefinition = dg.asset(name=asset, ins=ins, **described)(metered)
            return made
        return dg.multi_asset(name=f"{of_kind}_{asset}", outs={asset: dg.AssetOut(**described)}, ins=ins)(metered)

    return make


def asset_metadata(
    name: str,
    policy_sections: Sequence[str],
    version: str,
    derived_columns: Mapping[str, Sequence[str]] | None = None,
    of_kind: str = "",
) -> dict[str, object]:
    """Metadata from which `definitions.specialize` gives an asset its group and code version for one policy."""
    _MADE_FROM[of_kind, name] = (version, tuple(policy_sections))
    return {
        "stage": STAGE_OF[name],
        "policy_sections": list(policy_sections),
        "method_version": version,
        "derived_columns": {column: list(sources) for column, sources in (derived_columns or {}).items()},
    }


def made_from(policy: AnyPolicy, name: str) -> tuple[str, tuple[str, ...]]:
    """Declared method version and policy sections of a policy's asset."""
    kind = getattr(policy, "kind", "")
    return _MADE_FROM[(kind, name) if (kind, name) in _MADE_FROM else ("", name)]


def shapes_of(policy: AnyPolicy, delivery: Delivery, levels: Mapping[str, int]) -> dict[str, str]:
    """The inputs of each measurement (`public_cells.shapes_of_measurements`), by the sections that assets declare."""
    names = [name for stage in _MAKE_ROWS for name in stages_of(policy).get(stage, ())]
    return shapes_of_measurements(
        policy, delivery, levels, {section for name in names for section in made_from(policy, name)[1]}
    )


@contextlib.contextmanager
def guarded(context: dg.AssetExecutionContext) -> Iterator[None]:
    """Hold the store open, require plain tables, and keep values out of unforeseen errors; a refusal passes through."""
    name = context.op_execution_context.get_step_execution_context().step.key.replace("__", "/")
    store = context.resources.io_manager
    store.lock(prefix_of(context), context.partition_key)
    file = store.table(next(iter(context.selected_asset_keys)), context.partition_key).file
    with refusals_fail(), without_values(name, Home(Path(store.root)).store, (dg.Failure,)), held_open(file):
        if file.exists():
            require_plain_tables(file)
        yield


@contextlib.contextmanager
def refusals_fail() -> Iterator[None]:
    """Turn a refusal into a failure of the step that no retry can mend."""
    try:
        yield
        return
    except RefusedError as error:
        failure = dg.Failure(str(error), metadata={"refused": True}, allow_retries=False)
    # Dagster stores chains; the failure says all that the error says.
    try:
        raise failure
    finally:
        failure.__cause__ = failure.__context__ = None


def start_meter(context: dg.AssetExecutionContext) -> None:
    """Start the meter of the running step; the IO manager reads it when the table is written."""
    meter.start(context.run.run_id, context.op_execution_context.get_step_execution_context().step.key)


def prefix_of(context: dg.AssetExecutionContext) -> str:
    """The policy's name: the first part of the keys of the assets that are being made."""
    key: dg.AssetKey = next(iter(context.selected_asset_keys))
    return key.path[0]


def markdown_table(frame: pd.DataFrame) -> dg.MarkdownMetadataValue:
    """A small table of aggregates as Markdown metadata, with shortened numbers and escaped text."""
    head = "| " + " | ".join(frame.columns) + " |"
    rule = "|" + "---|" * len(frame.columns)
    rows = ["| " + " | ".join(_cell(value) for value in row) + " |" for row in frame.itertuples(index=False)]
    return dg.MetadataValue.md("\n".join([head, rule, *rows]))


def _cell(value: object) -> str:
    if isinstance(value, float):
        return "" if value != value else f"{value:.4g}"
    return str(value).replace("|", "\\|")

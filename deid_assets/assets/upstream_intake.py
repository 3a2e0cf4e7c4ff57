"""Intake of tables that another project makes: they are copied, and the copy is the delivery."""

from collections.abc import Iterable, Mapping

import dagster as dg

from deid_assets.assets.intake import intake
from deid_assets.assets.step import StageAsset, Step, guarded
from deid_assets.errors import DeliveryError
from deid_assets.policy.models import Policy
from deid_assets.sources.upstream import Copies
from deid_assets.store.home import Home

INPUT = "upstream_"
"""Beginning of the name of an input that is an asset of another project; the table follows."""


def intake_of(copies: Copies, inputs: Mapping[str, dg.AssetIn]) -> StageAsset:
    """The intake of a policy whose deliveries are assets of another project.

    Parameters
    ----------
    copies
        The tables, and how they are read.
    inputs
        The upstream assets by the names of inputs.
    """

    def intake_from_assets(step: Step[Policy], **values: object) -> Iterable[dg.Output[object]]:
        with guarded(step):
            take_in(step.context, copies, inputs, values, step.home)
        yield from intake.function(step)  # type: ignore[misc]

    return StageAsset(intake_from_assets, intake.outs, intake.op_name, (), further=inputs)


def take_in(
    context: dg.AssetExecutionContext,
    copies: Copies,
    inputs: Mapping[str, dg.AssetIn],
    values: Mapping[str, object],
    home: Home,
) -> None:
    """Copy the upstream's tables into the home, as they are now.

    Parameters
    ----------
    copies, inputs
        As in `intake_of`.
    values
        What the project's IO manager loaded, by input.

    Raises
    ------
    DeliveryError
        If a table is missing, cannot be read, or has no partition for this delivery.
    """
    partitions = {
        name: _partitions(context, name, inputs[f"{INPUT}{name}"].partition_mapping is not None) for name in copies.tables
    }
    loaded = {name.removeprefix(INPUT): value for name, value in values.items()}
    copies.take(home, context.partition_key, partitions, loaded)


def further_inputs(assets: Mapping[str, dg.AssetIn]) -> dict[str, dg.AssetIn]:
    """The inputs of the intake, by the tables that they provide."""
    return {f"{INPUT}{name}": asset for name, asset in assets.items()}


def _partitions(context: dg.AssetExecutionContext, table: str, is_mapped: bool) -> tuple[str, ...]:
    """The partitions of the upstream that belong to this delivery; that of the delivery if the upstream has none.

    Raises
    ------
    DeliveryError
        If it has none for this delivery, or if nobody said which of its months or days a delivery is.
    """
    step = context.op_execution_context.get_step_execution_context()
    name = f"{INPUT}{table}"
    if not step.has_asset_partitions_for_input(name):
        return (context.partition_key,)
    theirs, ours = context.asset_partitions_def_for_input(name), context.assets_def.partitions_def
    if type(theirs) is not type(ours) and not is_mapped:
        raise DeliveryError(
            f"{table}: the upstream asset has partitions of another kind than deliveries; say which of them belong to a "
            "delivery by a partition_mapping"
        )
    found = tuple(step.asset_partitions_subset_for_input(name).get_partition_keys())
    if not found:
        raise DeliveryError(f"{table}: the upstream asset has no partition for this delivery; materialize it first")
    return found

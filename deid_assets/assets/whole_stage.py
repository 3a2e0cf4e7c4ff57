"""The asset of a whole stage: it stands for the tables of the stage, so that a release has a handful of inputs.

It is made from all tables of its stage, after their blocking checks have passed in the same run. It judges nothing:
the gate asks for every table and every check itself, and whether this asset was made from the tables that are there.
"""

import dagster as dg
import pandas as pd

from deid_assets.assets.step import markdown_table
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.event_log import RecordedTable, recorded_tables
from deid_assets.resources import POLICY_TAG, Keys, note_own_input, sibling
from deid_assets.stages import before_release, stages_of

STANDS_FOR = {
    "intake": "The delivery in canonical form: every table that was read from its files.",
    "preparation": "Who and what may be released, under pseudonyms: sampled, grouped, without the long tail.",
    "adversary": "What an adversary knows of their target.",
    "generalization": "How coarse the released columns are, and which rows are suppressed for it.",
    "candidate": "The rows that would be published.",
    "counts": "The counts that would be published beside the rows.",
    "accounting": "What became of every delivered row and value, and what analysts' questions get as answers.",
    "assessment": "What attacks and measurements found in the candidate.",
}
"""What each stage is, by its name."""

_VERSION = "1"


def stages_before(policy: AnyPolicy, release: dg.AssetKey) -> dict[dg.AssetKey, list[dg.AssetKey]]:
    """The assets of the stages before a release, each with the tables that it stands for."""
    stages = stages_of(policy)
    return {sibling(release, stage): [sibling(release, name) for name in stages[stage]] for stage in before_release(stages)}


def upstream(policy: AnyPolicy, release: dg.AssetKey) -> list[dg.AssetKey]:
    """Every table before a release."""
    return [table for tables in stages_before(policy, release).values() for table in tables]


def whole_stages(policy: AnyPolicy, keys: Keys, partitions_def: dg.PartitionsDefinition) -> tuple[dg.AssetsDefinition, ...]:
    """The assets of a policy's stages before the release."""
    stages = stages_of(policy)
    return tuple(_whole_stage(policy, keys, partitions_def, stage, stages[stage]) for stage in before_release(stages))


def _whole_stage(
    policy: AnyPolicy, keys: Keys, partitions_def: dg.PartitionsDefinition, stage: str, names: tuple[str, ...]
) -> dg.AssetsDefinition:
    tables = [keys.asset(name) for name in names]

    spec = dg.AssetSpec(
        keys.asset(stage),
        deps=tables,
        partitions_def=partitions_def,
        group_name=f"{policy.name}/{stage}",
        code_version=_VERSION,
        owners=list(policy.owners),
        kinds={"stage"},
        description=f"{STANDS_FOR[stage]} This asset stands for all tables of the stage.",
    )

    # The operation of a table may be called like the stage.
    @dg.multi_asset(
        name="__".join((*keys.prefix, keys.policy, f"stage_{stage}")), specs=[spec], op_tags={POLICY_TAG: keys.policy}
    )
    def stage_of_tables(context: dg.AssetExecutionContext) -> dg.MaterializeResult[None]:
        for table in tables:
            note_own_input(context.op_execution_context.get_step_execution_context(), table, context.partition_key)
        found = recorded_tables(context.instance, tables, context.partition_key)
        missing = [one.name for one in found if one.event is None]
        if missing:
            raise dg.Failure(
                f"{stage}: {', '.join(missing)} {'has' if len(missing) == 1 else 'have'} never been materialized for this "
                "delivery; materialize the whole stage",
                metadata={"refused": False},
                allow_retries=False,
            )
        return dg.MaterializeResult(metadata={"tables": markdown_table(_shown(found)), "number_of_tables": len(found)})

    return stage_of_tables


def _shown(tables: list[RecordedTable]) -> pd.DataFrame:
    """Each table with its rows and the beginning of its keyed fingerprint."""
    return pd.DataFrame(
        [(one.name, "" if one.rows is None else f"{one.rows:,}", one.content[:12]) for one in tables],
        columns=["table", "rows", "fingerprint"],
    )

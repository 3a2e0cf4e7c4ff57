"""What every intake does with a delivery that it has read."""

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import dagster as dg

from deid_assets.assets.publishing import inputs_digest
from deid_assets.assets.step import StageAsset, Step, asset_metadata, guarded, stage_assets
from deid_assets.errors import RefusedError
from deid_assets.methods.preparation.eligibility import LeftOut
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.known_people import elsewhere_note, known_people, remember, remember_delivery, share_problems
from deid_assets.resources import INPUTS_TAG
from deid_assets.sources.registration import require_same_content
from deid_assets.sources.report import delivery_version
from deid_assets.store import durable
from deid_assets.store.tables import Table

Read = tuple[str, Mapping[str, Mapping[str, Any]]]
"""The digest of the bytes that were read (`Delivery.digest`), and the metadata of each table."""


def intake_assets(
    descriptions: Mapping[str, str], policy_sections: Sequence[str], version: str
) -> Callable[[Callable[[Step[Any], Mapping[str, Table]], Read]], StageAsset]:
    """Create the assets of an intake from a function that reads a delivery into their tables.

    Parameters
    ----------
    descriptions
        Of each asset, by name.
    policy_sections, version
        As in `stage_asset`.
    """

    def make(read: Callable[[Step[Any], Mapping[str, Table]], Read]) -> StageAsset:
        @stage_assets(
            {
                name: {
                    "description": text,
                    "metadata": asset_metadata(name, policy_sections, version),
                    "kinds": {"duckdb"},
                }
                for name, text in descriptions.items()
            }
        )
        @functools.wraps(read)
        def taken_in(step: Step[Any]) -> Iterator[dg.Output[object]]:
            tables = {name: step.table(name) for name in descriptions}
            durable.owner_only(next(iter(tables.values())).file.parent)
            with guarded(step):
                digest, metadata = read(step, tables)
                data_version = _data_version(step, digest)
            for name, table in tables.items():
                yield dg.Output(table, output_name=name, metadata=dict(metadata[name]), data_version=data_version)

        return taken_in

    return make


def _data_version(step: Step[AnyPolicy], digest: str) -> dg.DataVersion:
    """Give the data version of tables that were read from a delivery, and tag the run with the digest of its inputs.

    Without a data version of its own, a table would have that of the code, whatever was delivered.

    Raises
    ------
    DeliveryError
        If the delivery is final, and an earlier run read other content.
    """
    require_same_content(step.home, step.delivery, digest)
    inputs = inputs_digest(step.policy, step.secret, step.delivery, digest)
    step.instance.add_run_tags(step.context.run.run_id, {INPUTS_TAG: inputs[:16]})
    return dg.DataVersion(delivery_version(digest))


def require_known_opt_outs(step: Step[AnyPolicy], left_out: LeftOut) -> None:
    """Remember whom of the people who opted out a delivery has, and refuse lists that cannot be trusted.

    Raises
    ------
    RefusedError
        If identifiers may be spelled otherwise than in the delivery, or match fewer people than the policy asks for.
    """
    policy = step.policy
    listed = (*policy.opt_outs.all_members, *policy.opt_outs.withdrawn)
    if not listed:
        return
    secret = step.secret
    remember_delivery(step.home, policy.name, step.key, left_out.people, secret)
    known = known_people(step.home, listed, secret)
    remember(step.home, known.matched, secret)
    if known.unmatched(listed):
        # Without numbers: they count people, and logs are read by others than the operator of this home.
        step.context.log.warning(
            "some identifiers on lists of opt-outs are those of no person of any delivery here, and leave nobody out: `deid "
            "run` and the restricted report of a refusal say how many"
        )
    if elsewhere_note(policy, step.key, step.home, secret):
        step.context.log.warning(
            "some identifiers on the home's list of opt-outs are those of people whom other deliveries have, and leave nobody "
            "out of this one: `deid run` and the restricted report of a refusal say how many"
        )
    problems = (*left_out.problems, *share_problems(policy, known))
    if problems:
        raise RefusedError(f"refused: {'; '.join(problems)}")

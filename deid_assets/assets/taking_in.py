"""What every intake does with a delivery that it has read."""

import dagster as dg

from deid_assets.assets.publishing import inputs_digest
from deid_assets.errors import RefusedError
from deid_assets.methods.preparation.eligibility import LeftOut
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release.known_people import elsewhere_note, known_people, remember, remember_delivery, share_problems
from deid_assets.resources import INPUTS_TAG, Workplace
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import require_same_content
from deid_assets.sources.report import delivery_version


def data_version_of(
    context: dg.AssetExecutionContext, policy: AnyPolicy, workplace: Workplace, delivery: Delivery, digest: str
) -> dg.DataVersion:
    """Give the data version of tables that were read from a delivery, and tag the run with the digest of its inputs.

    Without a data version of its own, a table would have that of the code, whatever was delivered.

    Parameters
    ----------
    digest
        `Delivery.digest` over the bytes that were read.

    Raises
    ------
    DeliveryError
        If the delivery is final, and an earlier run read other content.
    """
    require_same_content(workplace.home, delivery, digest)
    inputs = inputs_digest(policy, workplace.secret(), delivery, digest)
    context.instance.add_run_tags(context.run.run_id, {INPUTS_TAG: inputs[:16]})
    return dg.DataVersion(delivery_version(digest))


def require_known_opt_outs(
    context: dg.AssetExecutionContext, policy: AnyPolicy, workplace: Workplace, left_out: LeftOut
) -> None:
    """Remember whom of the people who opted out a delivery has, and refuse lists that cannot be trusted.

    Raises
    ------
    RefusedError
        If identifiers may be spelled otherwise than in the delivery, or match fewer people than the policy asks for.
    """
    listed = (*policy.opt_outs.all_members, *policy.opt_outs.withdrawn)
    if not listed:
        return
    secret = workplace.secret()
    remember_delivery(workplace.home, policy.name, context.partition_key, left_out.people, secret)
    known = known_people(workplace.home, listed, secret)
    remember(workplace.home, known.matched, secret)
    if known.unmatched(listed):
        # Without numbers: they count people, and logs are read by others than the operator of this home.
        context.log.warning(
            "some identifiers on lists of opt-outs are those of no person of any delivery here, and leave nobody out: `deid "
            "run` and the restricted report of a refusal say how many"
        )
    if elsewhere_note(policy, context.partition_key, workplace.home, secret):
        context.log.warning(
            "some identifiers on the home's list of opt-outs are those of people whom other deliveries have, and leave nobody "
            "out of this one: `deid run` and the restricted report of a refusal say how many"
        )
    problems = (*left_out.problems, *share_problems(policy, known))
    if problems:
        raise RefusedError(f"refused: {'; '.join(problems)}")

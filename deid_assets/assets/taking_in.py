"""What every intake does with a delivery that it has read."""

import dagster as dg

from deid_assets.assets.publishing import inputs_digest
from deid_assets.policy.kinds import AnyPolicy
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

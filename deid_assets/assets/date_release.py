"""What a release says about its dates, with the keys and the noise of this home."""

from functools import partial
from typing import Any

from deid_assets.assets.stage_asset import shapes_of
from deid_assets.methods.counts.protected_counts import CountNoise
from deid_assets.methods.dates.as_delivered import ReleasedDates
from deid_assets.policy.models import Policy
from deid_assets.release.derived_keys import date_keys
from deid_assets.release.manifest.described_dates import described_dates
from deid_assets.resources import Workplace


def told_of_dates(policy: Policy, released: ReleasedDates, workplace: Workplace, delivery: str) -> dict[str, Any]:
    """Describe the dates of a release, see `described_dates`; the same rows give the same noise."""
    secret, received = workplace.secret(), workplace.delivery(delivery)
    noise = CountNoise(secret.derive("protected counts"), received.digest())
    cell = {"cell": "dates/members beyond the percentile", "shape": shapes_of(policy, received, {})["class_sizes"]}
    _, *compared_with = date_keys(secret, policy.name, delivery)
    return described_dates(policy, released, partial(noise.protect, cell), compared_with)

"""What a release says about its dates, with the keys and the noise of this home."""

from typing import Any

from deid_assets.assets.stage_asset import shapes_of
from deid_assets.methods.counts.tables import CellName
from deid_assets.methods.dates.as_delivered import ReleasedDates
from deid_assets.policy.models import Policy
from deid_assets.release.counts.noise import Plan
from deid_assets.release.derived_keys import date_keys
from deid_assets.release.manifest.described_dates import described_dates
from deid_assets.resources import Workplace

FURTHEST_OFF = CellName("dates", "members", "beyond the percentile")
"""The only number about people in what a release says about its dates."""


def plan_dates(policy: Policy, workplace: Workplace, delivery: str, plan: Plan) -> None:
    """Add the number to the plan, before it is drawn."""
    plan.note(FURTHEST_OFF, _shape(policy, workplace, delivery), 0)


def told_of_dates(policy: Policy, released: ReleasedDates, workplace: Workplace, delivery: str, plan: Plan) -> dict[str, Any]:
    """Describe the dates of a release, see `described_dates`; the same rows give the same noise."""
    shape = _shape(policy, workplace, delivery)
    _, *compared_with = date_keys(workplace.secret(), policy.name, delivery)
    return described_dates(policy, released, lambda count: plan.protect(FURTHEST_OFF, shape, count), compared_with)


def _shape(policy: Policy, workplace: Workplace, delivery: str) -> str:
    return shapes_of(policy, workplace.delivery(delivery), {})["class_sizes"]

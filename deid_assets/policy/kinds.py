"""The kinds of policies that there are."""

from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy

AnyPolicy = Policy | FlatPolicy
"""What a file may hold: the policy of a longitudinal release, or that of a flat table."""

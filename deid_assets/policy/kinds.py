"""The kinds of policies that there are."""

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy

AnyPolicy = Policy | FlatPolicy | CohortPolicy
"""What a file may hold: the policy of a longitudinal release, of a flat table, or of a cohort's demographics."""

MODELS: dict[object, type[Policy] | type[FlatPolicy] | type[CohortPolicy]] = {"flat": FlatPolicy, "cohort": CohortPolicy}
"""Model by the policy's `kind`; longitudinal policies have none."""

"""The kinds of policies that there are."""

from collections.abc import Mapping
from typing import Literal

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy

AnyPolicy = Policy | FlatPolicy | CohortPolicy
"""What a file may hold: the policy of a longitudinal release, of a flat table, or of a cohort's demographics."""

Kind = Literal["longitudinal", "flat", "cohort"]

MODELS: Mapping[object, type[Policy] | type[FlatPolicy] | type[CohortPolicy]] = {
    "longitudinal": Policy,
    "flat": FlatPolicy,
    "cohort": CohortPolicy,
}
"""Model by the policy's `kind`; the text of a longitudinal policy states none."""

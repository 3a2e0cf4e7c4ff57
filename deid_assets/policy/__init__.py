"""Policies: what is published, how coarsely, against which adversary, and which thresholds decide.

A policy is a YAML file. `sections/` defines its content, `hierarchies/` applies its hierarchies, `rules/` checks that a
policy is meaningful, and `loading.py` reads files and reports errors with their location. The policies that ship with the
package are in `shipped/`.
"""

from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.loading import load_policy, policy_by_name, policy_from, shipped_policies, with_sections
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.validation import check_vacuous

__all__ = [
    "Hierarchy",
    "Policy",
    "check_vacuous",
    "load_policy",
    "policy_by_name",
    "policy_from",
    "shipped_policies",
    "with_sections",
]

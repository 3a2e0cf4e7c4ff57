"""Policies: what is published, how coarse, against whom it is protected, and which thresholds decide.

A policy is a YAML file. `sections/` says what it may hold, `hierarchies/` carries out its hierarchies, `rules/` holds
what makes a policy meaningful, `loading.py` reads files and says what is wrong where, `explanation.py` puts a policy into
words. The policies that ship are in `shipped/`.
"""

from deid_assets.policy.explanation import explain
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.loading import load_policy, policy_by_name, policy_from, shipped_policies, with_sections
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.validation import check_vacuous

__all__ = [
    "Hierarchy",
    "Policy",
    "check_vacuous",
    "explain",
    "load_policy",
    "policy_by_name",
    "policy_from",
    "shipped_policies",
    "with_sections",
]

"""Policies: what is published, how coarse, against whom it is protected, and which thresholds decide.

A policy is a YAML file. `models.py` says what it may hold, `hierarchies.py` carries out its hierarchies,
`validation.py` holds the rules that make a policy meaningful, `loading.py` reads files and says what is wrong where,
`explanation.py` puts a policy into words. The policies that ship lie beside these modules as YAML.
"""

from deid_assets.policy.explanation import explain
from deid_assets.policy.hierarchies import Hierarchy
from deid_assets.policy.loading import load_policy, policy_by_name, policy_from, shipped_policies, with_sections
from deid_assets.policy.models import Policy
from deid_assets.policy.validation import check_vacuous

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

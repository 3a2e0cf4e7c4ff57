"""A step of a policy outside a run, for functions that ask one for policy, delivery and home."""

from types import SimpleNamespace
from typing import Any

from deid_assets.assets.step import Step
from deid_assets.resources import Workplace


def step_of(policy: Any, workplace: Workplace, delivery: str, **of_context: Any) -> Step[Any]:
    """The step of a policy's asset on a delivery; the policy is used as it is given."""
    step = Step(SimpleNamespace(partition_key=delivery, **of_context), workplace, type(policy))
    vars(step)["policy"] = policy
    return step

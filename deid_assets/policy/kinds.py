"""The kinds of policies that there are, and the modes that earlier versions had.

Policies that ask for such a mode are still read, compared and audited, and no longer run.
"""

from collections.abc import Mapping
from typing import Any, Literal

from deid_assets.errors import PolicyError
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


_BY_CLASS = (
    "recoding: by_class was removed, because labels whose level depends on the class tell what the class is made of; leave the "
    "key out, so that every column has one level for all members, and let risk.suppression.at_most leave out the members whom "
    "it does not protect"
)
_VALUES = (
    "risk.suppression.values_at_most: this version suppresses no single values; remove the key, and suppress members instead "
    "(risk.suppression.at_most) or give a column a coarser level"
)


def require_runnable(policy: AnyPolicy) -> None:
    """Require that a policy asks for no mode that was removed, before anything new is made under it.

    Raises
    ------
    PolicyError
        In one sentence: where the policy is, the field, and what to use instead.
    """
    require_no_removed_mode(policy.model_dump(include={"recoding", "risk"}), policy.origin.shown or f"policy {policy.name}")


def require_no_removed_mode(content: Mapping[str, Any], where: str) -> None:
    """The same for the content of a policy, as a manifest has it.

    Raises
    ------
    PolicyError
        As above; `where` says where the policy is.
    """
    if content.get("recoding") == "by_class":
        raise PolicyError(f"{where}: {_BY_CLASS}")
    if content.get("risk", {}).get("suppression", {}).get("values_at_most", 0) > 0:
        raise PolicyError(f"{where}: {_VALUES}")

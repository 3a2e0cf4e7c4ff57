"""What earlier versions could do and this one does not: a policy that asks for it can be read, and no longer be run."""

from deid_assets.errors import PolicyError
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.models import Policy


def require_runnable(policy: ReleasePolicy, where: str = "") -> None:
    """Refuse to make a release under a policy that asks for what this version does not do.

    Releases and policies of earlier versions stay readable, so that this is no rule of reading.

    Parameters
    ----------
    where
        What the message calls the policy, such as its file; default: its name.

    Raises
    ------
    PolicyError
        If it asks for suppressed values.
    """
    if isinstance(policy, Policy) and policy.risk.suppression.values_at_most > 0:
        raise PolicyError(
            f"{where or f'policy {policy.name}'}: risk.suppression.values_at_most: this version suppresses no single values; "
            "remove the key, and suppress members instead (risk.suppression.at_most) or give a column a coarser level"
        )

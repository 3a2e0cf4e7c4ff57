"""A change that would make a node pass, as the sections of the policy that say it."""

import yaml

from deid_assets.errors import PolicyError
from deid_assets.methods.lattice_diagnosis import Change
from deid_assets.policy.loading import with_sections
from deid_assets.policy.models import Policy


def changed_sections(policy: Policy, change: Change) -> str | None:
    """The changed sections, whole, as YAML to put in the place of the policy's own; None where no policy may hold them.

    Nothing in it is a person's: it names columns, dimensions and thresholds.
    """
    sections: dict = {}
    if change.without:
        sections |= _sections(policy, "quasi_identifiers", "dimensions")
        listed = sections["quasi_identifiers"]
        for part in listed:
            listed[part] = [entry for entry in listed[part] if entry["column"] not in change.without]
        for dimension in sections["dimensions"]:
            dimension["columns"] = [column for column in dimension["columns"] if column not in change.without]
        sections["dimensions"] = [dimension for dimension in sections["dimensions"] if dimension["columns"]]
    if change.suppress_at_most is not None:
        sections |= _sections(policy, "risk")
        sections["risk"]["suppression"] = {"at_most": change.suppress_at_most}
    try:
        with_sections(policy, **sections)
    except PolicyError:
        return None
    return yaml.safe_dump(sections, sort_keys=False, allow_unicode=True, width=120)


def _sections(policy: Policy, *names: str) -> dict:
    return policy.model_dump(mode="json", by_alias=True, include=set(names), exclude_unset=True)

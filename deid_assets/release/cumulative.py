"""What was released of the same population before: alpha is cumulative over all releases of one population (methods.md 0)."""

import json
from pathlib import Path

from deid_assets.errors import ReleaseError
from deid_assets.release.registry import Registry


def released_elsewhere(
    restricted: Path, registry: Registry, delivery_digest: str, policy: str, delivery: str, secret_commitment: str
) -> int:
    """Count the members of this delivery that other releases hold.

    The sample of a policy and delivery is drawn by one key, so that its releases hold the same members, or some of them;
    releases under other policies, of the same files under another key, or of another secret hold others.

    Parameters
    ----------
    restricted
        Folder of the restricted editions of manifests, as <policy>/<number>.json.
    registry
        Names every release there is; one whose restricted manifest is missing is not taken for nothing.
    delivery_digest
        Digest of the delivery's content: what makes it the same population.
    policy, delivery, secret_commitment
        The policy and the key of the delivery that is about to be released, and the commitment to the secret.

    Raises
    ------
    ReleaseError
        If a manifest cannot be read: what was released before would be unknown.
    """
    largest: dict[tuple[str, str, str], int] = {}
    for entry in registry.chain().entries:
        file = restricted / entry.policy / f"{entry.number:04d}.json"
        try:
            manifest = json.loads(file.read_bytes())
            place = (manifest["policy"]["name"], manifest["delivery"]["key"], manifest["secret_commitment"])
            same = manifest["delivery"]["digest"] == delivery_digest
            released = next(
                step["rows_out"] for step in manifest["attrition"] if step["stage"] == "released_members"
            )
        except (OSError, ValueError, KeyError, TypeError, StopIteration):
            raise ReleaseError(
                f"the restricted manifest {file.parent.name}/{file.name} cannot be read, so that it is not known what was "
                "released before; restore it from a backup"
            ) from None
        if same and place != (policy, delivery, secret_commitment):
            largest[place] = max(largest.get(place, 0), int(released))
    return sum(largest.values())

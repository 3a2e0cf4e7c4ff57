"""What `deid policy pool` does: print a hierarchy with levels at which values are pooled by their support in a delivery."""

import json
import math
from collections.abc import Sequence

from deid_assets.errors import PolicyError, StoreError
from deid_assets.methods.population.pools import pooled_level, siblings_of
from deid_assets.policy.hierarchies.hierarchy import CodeTable
from deid_assets.policy.models import Policy
from deid_assets.stages import STAGE_OF
from deid_assets.store.home import Home, StoreLock, plain_key
from deid_assets.store.tables import Table

_POOLED = "pooled below "
"""How the names of pooled levels begin."""


def pooled_hierarchy(home: Home, policy: Policy, column: str, delivery: str, held_by: Sequence[float]) -> str:
    """Return a hierarchy of kind `codes` as YAML: the values of a column, its pooled levels, and its other levels.

    Pooled levels that the hierarchy already has are replaced: their pools are no classes to pool values in.

    Parameters
    ----------
    column
        A claim-level quasi-identifier whose hierarchy lists its values and has a coarser level.
    delivery
        Key of a delivery that this policy was run on.
    held_by
        Shares of the members: values held by fewer are pooled, one level for each share.

    Raises
    ------
    PolicyError
        If the hierarchy does not list its values, or has one level only, or if a value is called like a pool.
    StoreError
        If the delivery's claims are not in the restricted store.
    """
    if column not in policy.claim_names:
        raise PolicyError(
            f"{column} is not a claim-level quasi-identifier of {policy.name}; these are: {', '.join(policy.claim_names)}"
        )
    hierarchy = policy.hierarchy_of(column)
    rule = hierarchy.rule
    whole = [level for level, name in enumerate(hierarchy.level_names) if not name.startswith(_POOLED)]
    if not isinstance(rule, CodeTable) or len(whole) == 1 or whole[0] != 0:
        raise PolicyError(
            f"the hierarchy of {column} needs kind codes or csv and a level above its values: values are pooled within their "
            "class there"
        )
    rows = [[row[level] for level in whole] for row in rule.rows]
    file = home.store / policy.name / f"{plain_key(delivery)}.duckdb"
    if not file.exists():
        raise StoreError(f"{policy.name} has no store of delivery {delivery}; run it first")
    claims, profiles = (Table(file, STAGE_OF[name], name) for name in ("grouped_claims", "member_profiles"))
    lock = StoreLock.of(home, policy.name, delivery)
    lock.acquire()
    try:
        families = siblings_of(claims, column, {row[0]: row[1] for row in rows})
        members = profiles.count()
    finally:
        lock.release()
    shares = sorted(held_by)
    try:
        # Rounded up: fewer than 2.5 members are two. Rounded first, because .07 * 100 is slightly more than 7.
        pooled = [pooled_level(families, math.ceil(round(share * members, 6))) for share in shares]
    except ValueError:
        raise PolicyError(f"a value of {column} is called like a pool, '... (pooled)': rename it in the hierarchy") from None
    first, *others = (hierarchy.level_names[level] for level in whole)
    names = [first, *(f"{_POOLED}{100 * share:g} %" for share in shares), *others]
    lines = [f"{policy.quasi_identifier(column).hierarchy}:", "  kind: codes", f"  level_names: {_yaml(names)}", "  values:"]
    lines += [f"    {_yaml(row[0])}: {_yaml([*(labels[row[0]] for labels in pooled), *row[1:]])}" for row in rows]
    return "\n".join(lines)


def _yaml(value: str | Sequence[str]) -> str:
    """JSON of texts and lists of texts is YAML."""
    return json.dumps(value, ensure_ascii=False)

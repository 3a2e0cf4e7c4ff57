"""Values pooled by support: the levels of a hierarchy between its values and their parents (methods#pooled-values).

Rare values disclose most. At a pooled level, those held by too few members share one class with their siblings, and the others
stay as they are. Pools are made once, from one delivery, and written into the policy: they are the same for every node, for
every later delivery, and for values that a delivery lacks.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.store.tables import Table, quoted

_FEWEST_VALUES = 2


@dataclass(frozen=True, eq=False)
class Siblings:
    """The values of one parent, rarest first.

    Attributes
    ----------
    parent
        Label of their class at the next level.
    values
        The values, by support and then by name.
    support
        (values,) int: members with each value on any claim.
    together
        (values,) int: members with this value or a rarer one of these.
    """

    parent: str
    values: tuple[str, ...]
    support: np.ndarray
    together: np.ndarray

    def pooled(self, members: int) -> int:
        """Return how many of the values, rarest first, are pooled if fewer than so many members make a value rare.

        All rare values are pooled. The pool takes the next-rarest values until it holds two values and as many members; if it
        cannot, it takes all. It never shrinks as `members` grows, so the levels of rising numbers nest.

        Examples
        --------
        >>> asthma = Siblings("lungs", ("a", "b", "c"), np.array([5, 30, 90]), np.array([5, 32, 100]))
        >>> [asthma.pooled(members) for members in (5, 6, 33, 91)]
        [0, 2, 3, 3]
        """
        rare = int(np.count_nonzero(self.support < members))
        if not rare:
            return 0
        enough = int(np.searchsorted(self.together, members)) + 1
        return min(max(rare, enough, _FEWEST_VALUES), len(self.values))


def siblings_of(claims: Table, column: str, parents: Mapping[str, str]) -> list[Siblings]:
    """Count who holds the values of a column, by parent, in the order of the parents.

    Parameters
    ----------
    claims
        Claims of all members, before the long tail is cut.
    parents
        The label of each value at the next level, for every value of the hierarchy; those that no claim has count as held by
        nobody.
    """
    held = f"(SELECT DISTINCT member_id, {quoted(column)} AS value FROM {claims.sql} WHERE {quoted(column)} IS NOT NULL)"
    found = claims.arrays(f"SELECT value, count(*) AS members FROM {held} GROUP BY value")
    support = dict(zip(found["value"], found["members"].tolist(), strict=True))
    families: dict[str, list[str]] = {}
    for value, parent in parents.items():
        families.setdefault(parent, []).append(value)
    ordered = {parent: sorted(own, key=lambda value: (support.get(value, 0), value)) for parent, own in families.items()}
    rows = [(value, number, rank) for number, own in enumerate(ordered.values()) for rank, value in enumerate(own)]
    # A member counts for the rarest value that they hold: the sums are over distinct members.
    first = claims.arrays(
        f"SELECT family, rank, count(*) AS members FROM (SELECT member_id, family, min(rank) AS rank FROM {held}"
        " JOIN (SELECT unnest(?) AS value, unnest(?) AS family, unnest(?) AS rank) USING (value) GROUP BY member_id, family)"
        " GROUP BY family, rank",
        [list(column) for column in zip(*rows, strict=True)],
    )
    result = []
    for number, (parent, own) in enumerate(ordered.items()):
        is_own = first["family"] == number
        newly = np.zeros(len(own), dtype=np.int64)
        newly[first["rank"][is_own]] = first["members"][is_own]
        counts = np.array([support.get(value, 0) for value in own], dtype=np.int64)
        result.append(Siblings(parent, tuple(own), counts, np.cumsum(newly)))
    return result


def pooled_level(families: Sequence[Siblings], members: int) -> dict[str, str]:
    """Return the label of each value at a pooled level: its own, that of its pool, or that of its parent if all are pooled.

    Parameters
    ----------
    members
        Values that fewer members hold are pooled.

    Raises
    ------
    ValueError
        If a value is called like a pool.

    Examples
    --------
    >>> heart = Siblings("heart", ("a", "b", "c"), np.array([1, 2, 9]), np.array([1, 3, 9]))
    >>> pooled_level([heart], 3)
    {'a': 'heart (pooled)', 'b': 'heart (pooled)', 'c': 'c'}
    >>> pooled_level([heart], 10)
    {'a': 'heart', 'b': 'heart', 'c': 'heart'}
    """
    labels: dict[str, str] = {}
    for family in families:
        size = family.pooled(members)
        pool = family.parent if size == len(family.values) else f"{family.parent} (pooled)"
        labels |= {value: pool if rank < size else value for rank, value in enumerate(family.values)}
    kept = {value for value, label in labels.items() if value == label}
    if kept & {label for value, label in labels.items() if value != label}:
        raise ValueError("a value is called like a pool")
    return labels

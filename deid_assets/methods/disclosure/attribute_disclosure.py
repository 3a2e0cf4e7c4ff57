"""Attribute disclosure: what an equivalence class reveals about a member without revealing which record is theirs.

El Emam et al. 2012 leave it out ("Identity Versus Attribute Disclosure"; methods#attribute-disclosure). If all 20 members of a
class have the same condition, the class hides which record belongs to whom, but not the condition. The measures below are
computed on the released rows, for classes of members with the same known values, one sensitive attribute at a time:

=============  ====================================================================================================
homogeneity    Members in classes whose members all have the same value. If members may have several values of the
               attribute, such as condition groups: members in classes whose members have a value in common. Lacking
               a value in common is not disclosure.
l-diversity    Number of distinct values in a class, or exp of the entropy of their distribution; the minimum over
               classes (Machanavajjhala et al. 2007). For several values per member: number of distinct sets of
               values, and 1 if all members have a value in common, because the target then has it for certain.
t-closeness    Earth mover's distance between the distribution in a class and that in the release; the maximum over
               classes (Li et al. 2007). With equal distances: half the sum of absolute differences. For ordered
               values: the sum of absolute differences of cumulative shares, divided by the number of steps. For
               several values per member: the distance of having or not having a value, maximum over values.
=============  ====================================================================================================

A value that every released member has is disclosed by the release as a whole, not by a class, so no class counts as
homogeneous in it. An attribute with a single value in the release, such as one generalized to "any", has no l: no class could
be more diverse.

A missing value counts as a value, and as the lowest of ordered values. A small class is far from the whole by chance alone:
with 20 members, a share of one half has a standard deviation of .11.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deid_assets.store.tables import quoted

CELLS_AT_ONCE = 4_000_000
"""Largest number of cells of the table of classes by values that is held in memory."""


@dataclass(frozen=True)
class ClassDisclosure:
    """What the equivalence classes of a release disclose about one sensitive attribute.

    Attributes
    ----------
    classes, members
        Number of equivalence classes, and number of members in them.
    homogeneous_members
        Members in classes whose members share a value that not every released member has.
    least_distinct, least_entropy
        l of distinct and of entropy l-diversity, minimum over classes; None if nobody is released or if all released members
        have the same value.
    greatest_distance, mean_distance
        t of t-closeness, in [0, 1]: maximum over classes, and mean over members; None if nobody is released.
    """

    classes: int
    members: int
    homogeneous_members: int
    least_distinct: int | None
    least_entropy: float | None
    greatest_distance: float | None
    mean_distance: float | None

    @property
    def homogeneous_share(self) -> float | None:
        """Share of members in homogeneous classes; None if nobody is released."""
        return self.homogeneous_members / self.members if self.members else None

    @property
    def tells_nothing(self) -> bool:
        """Whether all released members have the same value, so that no class discloses more than the release itself."""
        return self.members > 0 and self.least_distinct is None


def class_value_counts(members: str, class_columns: Sequence[str], value: str) -> str:
    """SELECT the number of members of each class with each value, for an attribute with one value per member.

    Parameters
    ----------
    members
        SQL to put after FROM; one row per member.
    class_columns
        Columns that define the equivalence classes; if empty, all members form one class.
    value
        Column of the sensitive attribute.

    Returns
    -------
    str
        SELECT of class (BIGINT, from 0) | value | members.
    """
    return f"""
        SELECT _class AS class, {quoted(value)} AS value, count(*)::BIGINT AS members
        FROM ({_numbered(members, class_columns)}) GROUP BY ALL ORDER BY ALL"""


def held_counts(members: str, key: str, class_columns: Sequence[str], held: str, value: str) -> str:
    """SELECT the number of members of each class with each value, for an attribute with several values per member.

    Parameters
    ----------
    members, class_columns
        As for `class_value_counts`.
    key
        Column that identifies members, in `members` and `held`.
    held
        SQL to put after FROM; rows of key and value, which may repeat. Missing values are ignored.
    """
    return f"""
        SELECT _class AS class, {quoted(value)} AS value, count(DISTINCT {quoted(key)})::BIGINT AS members
        FROM ({_numbered(members, class_columns)}) AS m
        JOIN (SELECT {quoted(key)}, {quoted(value)} FROM {held} WHERE {quoted(value)} IS NOT NULL) AS h
        USING ({quoted(key)}) GROUP BY ALL ORDER BY ALL"""


def sets_of_values(members: str, key: str, class_columns: Sequence[str], held: str, value: str) -> str:
    """SELECT the counts of `class_value_counts` with each member's set of values, possibly empty, taken as one value."""
    names = "".join(f", m.{quoted(name)}" for name in class_columns)
    joined = f"""(
        SELECT m.{quoted(key)}{names}, coalesce(h.held, '') AS held_set FROM {members} AS m
        LEFT JOIN (
            SELECT {quoted(key)}, string_agg(DISTINCT {quoted(value)}, chr(31) ORDER BY {quoted(value)}) AS held
            FROM {held} WHERE {quoted(value)} IS NOT NULL GROUP BY {quoted(key)}) AS h USING ({quoted(key)}))"""
    return class_value_counts(joined, class_columns, "held_set")


def _numbered(members: str, class_columns: Sequence[str]) -> str:
    names = ", ".join(quoted(name) for name in class_columns)
    number = f"dense_rank() OVER (ORDER BY {names}) - 1" if names else "0"
    # A released column may be named class, but none starts with an underscore.
    return f"SELECT ({number})::BIGINT AS _class, * FROM {members}"


def leading_number(value: str) -> str:
    """SQL for the number at the start of a label, such as 15 in '15+' and 1 in '1-2'; NULL if there is none."""
    return f"try_cast(regexp_extract({quoted(value)}, '-?[0-9]+([.][0-9]+)?') AS DOUBLE)"


def single_valued(classes: ArrayLike, ranks: ArrayLike, members: ArrayLike, ordered: bool = False) -> ClassDisclosure:
    """Measure disclosure of an attribute with one value per member.

    Parameters
    ----------
    classes, ranks, members
        (pairs,) integers, one row per pair of class and value that occurs: class from 0, value from 0 (its rank if values
        are ordered), and number of members of the class with the value.
    ordered
        Whether values are ordered, so that the distance between two values is the difference of their ranks.

    Examples
    --------
    Two classes, one of which is homogeneous:

    >>> single_valued([0, 0, 1], [0, 1, 1], [5, 5, 10])  # doctest: +NORMALIZE_WHITESPACE
    ClassDisclosure(classes=2, members=20, homogeneous_members=10, least_distinct=1, least_entropy=1.0,
        greatest_distance=0.25, mean_distance=0.25)
    """
    group, rank, count = (np.asarray(column, dtype=np.int64) for column in (classes, ranks, members))
    if not group.size:
        return ClassDisclosure(0, 0, 0, None, None, None, None)
    sizes = np.bincount(group, weights=count)
    share = count / sizes[group]
    distinct = np.bincount(group)
    entropy = -np.bincount(group, weights=share * np.log(share))
    whole = np.bincount(rank, weights=count) / count.sum()
    varies = np.count_nonzero(whole) > 1
    distance = _distances(group, rank, share, whole, sizes.size, _ordered if ordered else _equal)
    return ClassDisclosure(
        sizes.size,
        int(sizes.sum()),
        int(sizes[distinct == 1].sum()) if varies else 0,
        int(distinct.min()) if varies else None,
        float(np.exp(np.maximum(entropy, 0.0)).min()) if varies else None,
        float(distance.max()),
        float(distance @ sizes / sizes.sum()),
    )


def several_valued(
    sizes: ArrayLike, classes: ArrayLike, ranks: ArrayLike, members: ArrayLike, sets: ClassDisclosure
) -> ClassDisclosure:
    """Measure disclosure of an attribute with several values per member.

    Parameters
    ----------
    sizes
        (classes,) members of each class.
    classes, ranks, members
        (pairs,) class, value, and number of members of the class with the value.
    sets
        Result of `single_valued` for the sets of values; its l is used if no class has a value in common.

    Examples
    --------
    Both members of a class hold value 0, one of them value 1 as well; of two others nobody holds any:

    >>> sets = single_valued([0, 0, 1], [0, 1, 2], [1, 1, 2])
    >>> found = several_valued([2, 2], [0, 0], [0, 1], [2, 1], sets)
    >>> found.homogeneous_members, found.least_distinct, found.greatest_distance
    (2, 1, 0.5)
    """
    whole_sizes = np.asarray(sizes, dtype=float)
    group, rank, count = (np.asarray(column, dtype=np.int64) for column in (classes, ranks, members))
    if not whole_sizes.size:
        return sets
    holders = np.bincount(rank, weights=count) if rank.size else np.zeros(1)
    whole = holders / whole_sizes.sum()
    in_common = np.zeros(whole_sizes.size, dtype=bool)
    in_common[group[(count == whole_sizes[group]) & (holders < whole_sizes.sum())[rank]]] = True
    distance = _distances(
        group, rank, count / whole_sizes[group], whole, whole_sizes.size, lambda difference: np.abs(difference).max(axis=1)
    )
    return ClassDisclosure(
        whole_sizes.size,
        int(whole_sizes.sum()),
        int(whole_sizes[in_common].sum()),
        1 if in_common.any() else sets.least_distinct,
        1.0 if in_common.any() else sets.least_entropy,
        float(distance.max()),
        float(distance @ whole_sizes / whole_sizes.sum()),
    )


def _equal(difference: NDArray) -> NDArray:
    return np.abs(difference).sum(axis=1) / 2


def _ordered(difference: NDArray) -> NDArray:
    steps = difference.shape[1] - 1
    return np.abs(np.cumsum(difference, axis=1)[:, :-1]).sum(axis=1) / max(steps, 1)


def _distances(
    group: NDArray, rank: NDArray, share: NDArray, whole: NDArray, classes: int, distance: Callable[[NDArray], NDArray]
) -> NDArray:
    """Return (classes,) distance of each class's distribution from the overall one, computed in blocks of classes."""
    order = np.argsort(group, kind="stable")
    group, rank, share = group[order], rank[order], share[order]
    found = np.empty(classes)
    step = max(1, CELLS_AT_ONCE // whole.size)
    for start in range(0, classes, step):
        stop = min(start + step, classes)
        own = slice(*np.searchsorted(group, [start, stop]))
        table = np.zeros((stop - start, whole.size))
        table[group[own] - start, rank[own]] = share[own]
        found[start:stop] = distance(table - whole)
    return found

"""Attribute disclosure: what a member's class tells of him without telling which record is his.

El Emam et al. 2012 leave it out ("Identity Versus Attribute Disclosure"; methods#attribute-disclosure). A class of 20 who all
have one condition hides whose record is whose, and nothing else. Measured on the released rows, for the classes of members who
are alike in what an adversary knows, of one sensitive attribute at a time:

=============  ====================================================================================================
homogeneity    Members in classes in which all have one value. Of an attribute that a member has several values of,
               such as his condition groups: in classes in which all have one of them in common. That all lack a value
               counts as no disclosure.
l-diversity    Different values in a class, or exp of the entropy of their distribution; the least over classes
               (Machanavajjhala et al. 2007). Of several values: different sets of values, and 1 where all have one of
               them in common: whoever else is in the class, the member has that value.
t-closeness    Distance between the distribution in a class and that in the whole release, the earth mover's; the
               greatest over classes (Li et al. 2007). With equal distances half the sum of absolute differences; of
               ordered values the sum of absolute differences of cumulated shares, over the number of steps. Of several
               values: of having one of them and not having it, the greatest over values.
=============  ====================================================================================================

A value that every released member has is no disclosure by a class: it is told by the release as a whole, and of everybody
alike, so that no class of it is homogeneous. An attribute of which all have the same, such as one that was generalized to
"any", has no l, because no class could be more diverse than it is.

A missing value is a value of its own, and of ordered ones the least. A small class is far from the whole by chance
alone: with 20 members shares of a half go astray by .11.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deid_assets.store.tables import quoted

CELLS_AT_ONCE = 4_000_000
"""Cells of the table of classes and values that are in memory at once."""


@dataclass(frozen=True)
class AttributeDisclosure:
    """What the classes of a release tell of one sensitive attribute.

    Attributes
    ----------
    classes, members
        Classes of members who are alike, and the members in them.
    homogeneous_members
        Members in classes in which all have one value that not everybody in the release has.
    least_distinct, least_entropy
        l of distinct and of entropy l-diversity, the least over classes; None when nobody is released, or when everybody
        who is has the same.
    greatest_distance, mean_distance
        t of t-closeness, in [0, 1]: the greatest over classes, and the mean over members; None when nobody is released.
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
        """Share of members in homogeneous classes; None when nobody is released."""
        return self.homogeneous_members / self.members if self.members else None

    @property
    def tells_nothing(self) -> bool:
        """Whether all released members have the same, so that no class tells more than the release."""
        return self.members > 0 and self.least_distinct is None


def value_counts(members: str, class_columns: Sequence[str], value: str) -> str:
    """SELECT how many members of each class have each value of an attribute that a member has one value of.

    Parameters
    ----------
    members
        What to write after FROM: one row per member.
    class_columns
        Columns by which members are alike; none: all are.
    value
        Column of the attribute.

    Returns
    -------
    str
        SELECT of class (BIGINT, from 0) | value | members.
    """
    return f"""
        SELECT _class AS class, {quoted(value)} AS value, count(*)::BIGINT AS members
        FROM ({_numbered(members, class_columns)}) GROUP BY ALL ORDER BY ALL"""


def held_counts(members: str, key: str, class_columns: Sequence[str], held: str, value: str) -> str:
    """SELECT how many members of each class hold each value of an attribute that a member may hold several of.

    Parameters
    ----------
    members, class_columns
        As for `value_counts`.
    key
        Column that tells members apart, in `members` and `held`.
    held
        What to write after FROM: rows of key and value, each as often as it likes; missing values are not held.
    """
    return f"""
        SELECT _class AS class, {quoted(value)} AS value, count(DISTINCT {quoted(key)})::BIGINT AS members
        FROM ({_numbered(members, class_columns)}) AS m
        JOIN (SELECT {quoted(key)}, {quoted(value)} FROM {held} WHERE {quoted(value)} IS NOT NULL) AS h
        USING ({quoted(key)}) GROUP BY ALL ORDER BY ALL"""


def sets_of_values(members: str, key: str, class_columns: Sequence[str], held: str, value: str) -> str:
    """SELECT the counts of `value_counts`, for the set of values that a member holds as one value; it may be empty."""
    names = "".join(f", m.{quoted(name)}" for name in class_columns)
    joined = f"""(
        SELECT m.{quoted(key)}{names}, coalesce(h.held, '') AS held_set FROM {members} AS m
        LEFT JOIN (
            SELECT {quoted(key)}, string_agg(DISTINCT {quoted(value)}, chr(31) ORDER BY {quoted(value)}) AS held
            FROM {held} WHERE {quoted(value)} IS NOT NULL GROUP BY {quoted(key)}) AS h USING ({quoted(key)}))"""
    return value_counts(joined, class_columns, "held_set")


def _numbered(members: str, class_columns: Sequence[str]) -> str:
    names = ", ".join(quoted(name) for name in class_columns)
    number = f"dense_rank() OVER (ORDER BY {names}) - 1" if names else "0"
    # A column of the release may be called class; none begins with an underscore.
    return f"SELECT ({number})::BIGINT AS _class, * FROM {members}"


def leading_number(value: str) -> str:
    """SQL of the number that a label begins with, such as 15 of '15+' and 1 of '1-2'; NULL where it has none."""
    return f"try_cast(regexp_extract({quoted(value)}, '-?[0-9]+([.][0-9]+)?') AS DOUBLE)"


def single_valued(classes: ArrayLike, ranks: ArrayLike, members: ArrayLike, ordered: bool = False) -> AttributeDisclosure:
    """Judge an attribute that every member has one value of.

    Parameters
    ----------
    classes, ranks, members
        (pairs,) whole numbers: class from 0 on, value from 0 on (of ordered values its place in the order), and the
        members of the class who have it; every pair that occurs once.
    ordered
        Whether the distance between values is that of their places.

    Examples
    --------
    Two classes, one of which is homogeneous:

    >>> single_valued([0, 0, 1], [0, 1, 1], [5, 5, 10])  # doctest: +NORMALIZE_WHITESPACE
    AttributeDisclosure(classes=2, members=20, homogeneous_members=10, least_distinct=1, least_entropy=1.0,
        greatest_distance=0.25, mean_distance=0.25)
    """
    group, rank, count = (np.asarray(column, dtype=np.int64) for column in (classes, ranks, members))
    if not group.size:
        return AttributeDisclosure(0, 0, 0, None, None, None, None)
    sizes = np.bincount(group, weights=count)
    share = count / sizes[group]
    distinct = np.bincount(group)
    entropy = -np.bincount(group, weights=share * np.log(share))
    whole = np.bincount(rank, weights=count) / count.sum()
    varies = np.count_nonzero(whole) > 1
    distance = _distances(group, rank, share, whole, sizes.size, _ordered if ordered else _equal)
    return AttributeDisclosure(
        sizes.size,
        int(sizes.sum()),
        int(sizes[distinct == 1].sum()) if varies else 0,
        int(distinct.min()) if varies else None,
        float(np.exp(np.maximum(entropy, 0.0)).min()) if varies else None,
        float(distance.max()),
        float(distance @ sizes / sizes.sum()),
    )


def several_valued(
    sizes: ArrayLike, classes: ArrayLike, ranks: ArrayLike, members: ArrayLike, sets: AttributeDisclosure
) -> AttributeDisclosure:
    """Judge an attribute that a member may hold several values of.

    Parameters
    ----------
    sizes
        (classes,) members of each class.
    classes, ranks, members
        (pairs,) class, value and the members of the class who hold it.
    sets
        `single_valued` of the sets of values, whose l is taken where no class has a value in common.

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
    distance = _distances(group, rank, count / whole_sizes[group], whole, whole_sizes.size, _furthest)
    return AttributeDisclosure(
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


def _furthest(difference: NDArray) -> NDArray:
    return np.abs(difference).max(axis=1)


def _distances(
    group: NDArray, rank: NDArray, share: NDArray, whole: NDArray, classes: int, distance: Callable[[NDArray], NDArray]
) -> NDArray:
    """(classes,) distance of each class's shares from those of the whole, some classes at a time."""
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

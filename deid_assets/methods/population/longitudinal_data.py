"""Data of the longitudinal methods: members, their histories of claim values, and the generalization of both.

Everything is encoded: a value is a small integer, a hierarchy is one array per level. The population is every member
of the delivery (methods#population: risk is 1/F in the population); the adversary's targets are the released members.

Level 1 (one value per member) and level 2 (one value per claim) are the terms of El Emam et al. 2012. A missing level-1 value
is a category with its own code; a missing level-2 value is not knowledge and is left out (methods#hierarchies).
"""

import copy
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

import numpy as np

from deid_assets.errors import how_many

Level = TypeVar("Level", bound=int | None, covariant=True)


@dataclass(frozen=True, eq=False)
class Domain:
    """A quasi-identifier's values and their generalization.

    Parameters
    ----------
    levels
        `levels[l][base_code]` is the code of that value at level l; level 0 is the identity. All levels have the length of
        the base domain. The codes of a level are 0, 1, .. without gaps, and codes that are equal at one level are equal at
        every higher level: the hierarchy is nested (methods#hierarchies).

    Raises
    ------
    ValueError
        If level 0 is not the identity, a level has another length or gaps, or the levels are not nested.

    Examples
    --------
    >>> decades = Domain((np.arange(4), np.array([0, 0, 1, 1]), np.zeros(4, int)))
    >>> decades.height, decades.sizes
    (2, (4, 2, 1))
    """

    levels: tuple[np.ndarray, ...]
    sizes: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        levels = tuple(np.ascontiguousarray(level, dtype=np.int32) for level in self.levels)
        if not levels or not np.array_equal(levels[0], np.arange(len(levels[0]))):
            raise ValueError("level 0 of a domain must map every code to itself")
        sizes: list[int] = []
        for number, level in enumerate(levels):
            if len(level) != len(levels[0]):
                raise ValueError(f"level {number} maps {how_many(len(level), 'value')}, level 0 has {len(levels[0])}")
            present = np.unique(level)
            if len(present) and not np.array_equal(present, np.arange(len(present))):
                raise ValueError(f"the codes of level {number} must be 0, 1, .. without gaps")
            if number and len(np.unique(np.stack([levels[number - 1], level]), axis=1).T) != sizes[-1]:
                raise ValueError(f"level {number} separates values that level {number - 1} joins: levels must nest")
            sizes.append(len(present))
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "sizes", tuple(sizes))

    @property
    def height(self) -> int:
        """Number of the highest level."""
        return len(self.levels) - 1


@dataclass(frozen=True, eq=False)
class Histories:
    """The non-missing values of one claim-level quasi-identifier for each of M members.

    Parameters
    ----------
    offsets
        (M + 1,) int64: member i has `codes[offsets[i]:offsets[i + 1]]`, in no particular order.
    codes
        Base codes, any integer type; small types save memory.

    Examples
    --------
    >>> Histories.of([[0, 0, 1], [], [2]]).counts.tolist()
    [3, 0, 1]
    """

    offsets: np.ndarray
    codes: np.ndarray

    def __post_init__(self) -> None:
        offsets = np.ascontiguousarray(self.offsets, dtype=np.int64)
        codes = np.ascontiguousarray(self.codes)
        if codes.dtype.kind not in "iu":
            raise ValueError("codes must be integers")
        if offsets.ndim != 1 or len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != len(codes):
            raise ValueError("offsets must run from 0 to the number of codes")
        if np.any(np.diff(offsets) < 0):
            raise ValueError("offsets must not decrease")
        object.__setattr__(self, "offsets", offsets)
        object.__setattr__(self, "codes", codes)

    @classmethod
    def of(cls, values: Sequence[Sequence[int]]) -> "Histories":
        """Create histories from one sequence of codes per member; for tests and examples."""
        offsets = np.concatenate([[0], np.cumsum([len(row) for row in values], dtype=np.int64)])
        return cls(offsets, np.array([code for row in values for code in row], dtype=np.int32))

    @classmethod
    def one_after_another(cls, parts: Sequence["Histories"]) -> "Histories":
        """Join the histories of some members and of others, in this order.

        Examples
        --------
        >>> Histories.one_after_another([Histories.of([[0, 1], []]), Histories.of([[2]])]).counts.tolist()
        [2, 0, 1]
        """
        counts = np.concatenate([np.zeros(1, dtype=np.int64), *(part.counts for part in parts)])
        return cls(np.cumsum(counts), np.concatenate([part.codes for part in parts] or [np.zeros(0, dtype=np.int16)]))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def counts(self) -> np.ndarray:
        """(M,) int64: number of values of each member."""
        return np.diff(self.offsets)

    def counts_of(self, members: np.ndarray) -> np.ndarray:
        """Return `counts` for some members only, without a pass over all."""
        return self.offsets[members + 1] - self.offsets[members]

    def slots(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return where the values of some members are.

        Returns
        -------
        positions, owners
            Indices into `codes`, and for each the index into `members` of its owner; in the order of `members`.
        """
        counts = self.counts_of(members)
        owners = np.repeat(np.arange(len(members)), counts)
        starts = self.offsets[members] - np.concatenate([[0], np.cumsum(counts)[:-1]])
        return np.arange(len(owners)) + np.repeat(starts, counts), owners

    def in_order(self) -> "Histories":
        """Return the same values, ascending within each member.

        Examples
        --------
        >>> Histories.of([[2, 0, 1], [1, 0]]).in_order().codes.tolist()
        [0, 1, 2, 0, 1]
        """
        falls = np.zeros(len(self.codes) + 1, dtype=bool)
        falls[1:-1] = self.codes[1:] < self.codes[:-1]
        falls[self.offsets] = False
        if not falls.any():
            return self
        base = np.int64(self.codes.max()) + 1
        keys = np.repeat(np.arange(len(self)) * base, self.counts)
        keys += self.codes
        keys.sort()
        keys %= base
        return Histories(self.offsets, keys.astype(self.codes.dtype))

    def take(self, members: np.ndarray) -> "Histories":
        """Return the histories of some members, in that order."""
        positions, _ = self.slots(members)
        offsets = np.concatenate([[0], np.cumsum(self.counts_of(members), dtype=np.int64)])
        return Histories(offsets, self.codes[positions])


@dataclass(frozen=True)
class Dimension:
    """One axis of the lattice: quasi-identifiers that are generalized together.

    Parameters
    ----------
    demographics, histories
        Level-1 and level-2 quasi-identifiers on this axis, as positions in the data.
    levels
        Number of levels, the same for all of them.
    """

    name: str
    demographics: tuple[int, ...]
    histories: tuple[int, ...]
    levels: int


@dataclass(frozen=True)
class Generalization(Generic[Level]):
    """The level of every quasi-identifier; None removes it from the adversary's knowledge."""

    demographics: tuple[Level, ...]
    histories: tuple[Level, ...]


@dataclass(frozen=True)
class Knows:
    """How much of the values sampled of a target an adversary knows (methods#knowing-less); by default all of them.

    Parameters
    ----------
    scenarios
        Sets of histories, as positions in the data. Each is an adversary who knows the sampled values of these histories only,
        and a draw is at high risk if any of them finds too small a class. Empty: one adversary, who knows those of every
        history.
    total
        At most so many sampled values of a draw are known, chosen at random among all of them; None: every one.

    Examples
    --------
    Without the second of three histories, the third moves up, and a scenario of the second alone is none:

    >>> Knows(((0, 1), (1,), (2,))).of([0, 2])
    Knows(scenarios=((0,), (1,)), total=None)
    """

    scenarios: tuple[tuple[int, ...], ...] = ()
    total: int | None = None

    def of(self, histories: Sequence[int]) -> "Knows":
        """Return the same of some histories, in their order; their positions are new."""
        place = {history: number for number, history in enumerate(histories)}
        left = (tuple(place[history] for history in scenario if history in place) for scenario in self.scenarios)
        return Knows(tuple(scenario for scenario in left if scenario), self.total)

    def each(self, histories: int) -> tuple[tuple[int, ...], ...]:
        """Return what each adversary knows of so many histories."""
        return self.scenarios or (tuple(range(histories)),)


EVERYTHING = Knows()


def as_codes(numbers: np.ndarray) -> np.ndarray:
    """Return codes as int16, or as int32 where one does not fit.

    Examples
    --------
    >>> [as_codes(np.array([largest])).dtype.name for largest in (32_767, 40_000)]
    ['int16', 'int32']
    """
    return numbers.astype(np.int16 if numbers.max(initial=0) <= np.iinfo(np.int16).max else np.int32)


@dataclass(frozen=True, eq=False)
class LongitudinalData:
    """The delivered population and the released members in it.

    Parameters
    ----------
    demographics
        (N, d) int: base codes of the level-1 quasi-identifiers of all N delivered members.
    demographic_domains, history_domains
        One `Domain` for each of the d level-1 and H level-2 quasi-identifiers.
    held
        H `Histories` of all N members: the values in D', after the long tail is truncated. What the adversary can match.
    targets
        (n,) int: the released members as distinct rows of the population.
    known
        H `Histories` of the n targets: the values in D, without truncation. What the adversary may know. They are sorted
        here, so that draws do not depend on the order in which a database returned the claims.
    power
        H arrays (n,) int: p_ih of methods#adversary-power; min(p_ih, N_ih) values are sampled.
    streams
        Names of the last histories, each of which is sampled with random numbers of its own, so that it changes no draw of the
        others. Those before share the numbers of a stream, one after another.
    knows
        How much of what is sampled the adversary knows.

    Raises
    ------
    ValueError
        If shapes disagree, a code is outside its domain, or a target has a value that its untruncated history lacks.
    """

    demographics: np.ndarray
    demographic_domains: tuple[Domain, ...]
    held: tuple[Histories, ...]
    history_domains: tuple[Domain, ...]
    targets: np.ndarray
    known: tuple[Histories, ...]
    power: tuple[np.ndarray, ...]
    streams: tuple[str, ...] = ()
    knows: Knows = EVERYTHING

    def __post_init__(self) -> None:
        for name in ("demographics", "targets"):
            object.__setattr__(self, name, np.ascontiguousarray(getattr(self, name)))
        for name in ("demographic_domains", "held", "history_domains"):
            object.__setattr__(self, name, tuple(getattr(self, name)))
        object.__setattr__(self, "known", tuple(histories.in_order() for histories in self.known))
        object.__setattr__(self, "power", tuple(np.ascontiguousarray(power) for power in self.power))
        _check_shapes(self)
        _check_codes(self)

    @property
    def members(self) -> int:
        """Size N of the population."""
        return len(self.demographics)

    @property
    def most_known(self) -> int:
        """Largest number of values of one history in any draw; at least 1."""
        most = [int(np.minimum(p, k.counts).max(initial=0)) for p, k in zip(self.power, self.known, strict=True)]
        return max([1, *most])

    def keeping(self, keep: np.ndarray) -> "LongitudinalData":
        """Return the same population with some of the targets.

        Suppressed members leave the release, not the population (methods#population).

        Parameters
        ----------
        keep
            (n,) bool over the targets.
        """
        if keep.shape != self.targets.shape:
            raise ValueError(f"which targets to keep is said for {len(keep)}, there are {len(self.targets)}")
        chosen = np.flatnonzero(keep)
        return self._with(
            targets=self.targets[chosen],
            known=tuple(histories.take(chosen) for histories in self.known),
            power=tuple(power[chosen] for power in self.power),
        )

    def with_power(self, power: Sequence[np.ndarray]) -> "LongitudinalData":
        """Return the same data with another adversary power, H arrays (n,) int."""
        changed = self._with(power=tuple(np.ascontiguousarray(values) for values in power))
        _check_shapes(changed)
        return changed

    def known_as(self, knows: Knows) -> "LongitudinalData":
        """Return the same data to an adversary who knows more or less of what is sampled."""
        return self._with(knows=knows)

    def released_only(self) -> "LongitudinalData":
        """Return the data with the released members as the population: what an adversary with only the release can match."""
        if np.array_equal(self.targets, np.arange(self.members)):
            return self
        return self._with(
            demographics=self.demographics[self.targets],
            held=tuple(histories.take(self.targets) for histories in self.held),
            targets=np.arange(len(self.targets)),
        )

    def among(self, members: np.ndarray) -> "LongitudinalData":
        """Return the data with some members as the population, and those of them who are released.

        Parameters
        ----------
        members
            (N,) bool over the population.
        """
        kept = self.keeping(members[self.targets])
        rows = np.flatnonzero(members)
        return kept._with(
            demographics=kept.demographics[rows],
            held=tuple(histories.take(rows) for histories in kept.held),
            targets=np.searchsorted(rows, kept.targets),
        )

    def _with(
        self, **changes: np.ndarray | tuple[Histories, ...] | tuple[Domain, ...] | tuple[np.ndarray, ...] | Knows
    ) -> "LongitudinalData":
        """Return a changed copy without checking values again, which would take another pass over millions of claims."""
        changed = copy.copy(self)
        for name, value in changes.items():
            object.__setattr__(changed, name, value)
        return changed


def truncated_targets(data: LongitudinalData, history: int) -> np.ndarray:
    """Return (n,) bool: the targets for whom D' has fewer values of this history than D.

    D' is a part of D. For all other targets, the knowledge is in their own D' at every node.
    """
    return data.held[history].counts_of(data.targets) != data.known[history].counts


def without_coarser_levels(data: LongitudinalData, dimensions: Sequence[Dimension]) -> LongitudinalData:
    """Return the data with hierarchies that end at the last level of their dimension."""
    demographics, histories = list(data.demographic_domains), list(data.history_domains)
    for dimension in dimensions:
        for domains, places in ((demographics, dimension.demographics), (histories, dimension.histories)):
            for place in places:
                domains[place] = Domain(domains[place].levels[: dimension.levels])
    return replace(data, demographic_domains=tuple(demographics), history_domains=tuple(histories))


def generalization_at(data: LongitudinalData, dimensions: Sequence[Dimension], node: Sequence[int]) -> Generalization[int]:
    """Return the levels of all quasi-identifiers at a node; those in no dimension stay at level 0.

    Raises
    ------
    ValueError
        If the node does not fit the dimensions, or the dimensions do not fit the data.
    """
    demographics = [0] * len(data.demographic_domains)
    histories = [0] * len(data.history_domains)
    for dimension, level in zip(dimensions, node, strict=True):
        if not 0 <= level < dimension.levels:
            raise ValueError(f"dimension {dimension.name} has levels 0 to {dimension.levels - 1}, not {level}")
        for chosen, domains, quasi_identifiers in (
            (demographics, data.demographic_domains, dimension.demographics),
            (histories, data.history_domains, dimension.histories),
        ):
            for quasi_identifier in quasi_identifiers:
                if domains[quasi_identifier].height != dimension.levels - 1:
                    raise ValueError(f"dimension {dimension.name}: its quasi-identifiers must all have its levels")
                chosen[quasi_identifier] = int(level)
    return Generalization(tuple(demographics), tuple(histories))


def top_node(dimensions: Sequence[Dimension]) -> tuple[int, ...]:
    """Return the coarsest node."""
    return tuple(dimension.levels - 1 for dimension in dimensions)


def _check_shapes(data: LongitudinalData) -> None:
    if data.demographics.ndim != 2 or data.demographics.shape[1] != len(data.demographic_domains):
        raise ValueError("demographics must have one column for each of their domains")
    histories = len(data.history_domains)
    if not len(data.held) == len(data.known) == len(data.power) == histories:
        raise ValueError("held, known and power must have one entry for each domain of a history")
    targets = len(data.targets)
    for h in range(histories):
        if len(data.held[h]) != data.members:
            held = len(data.held[h])
            raise ValueError(f"held histories {h} are of {held} members, the population has {data.members}")
        if len(data.known[h]) != targets or data.power[h].shape != (targets,):
            raise ValueError(f"known histories and power {h} must be of the {targets} targets")
        if np.any(data.power[h] < 0):
            raise ValueError(f"power {h} must not be negative")
    if targets and (data.targets.min() < 0 or data.targets.max() >= data.members):
        raise ValueError("targets must be rows of the population")
    if len(np.unique(data.targets)) != targets:
        raise ValueError("a target must not appear twice")


def _check_codes(data: LongitudinalData) -> None:
    for column, domain in enumerate(data.demographic_domains):
        _check_range(data.demographics[:, column], domain, f"demographics {column}")
    for h, domain in enumerate(data.history_domains):
        _check_range(data.held[h].codes, domain, f"held histories {h}")
        _check_range(data.known[h].codes, domain, f"known histories {h}")
        lacking = held_but_not_known(data.held[h], data.targets, data.known[h], domain)
        if lacking:
            raise ValueError(
                f"histories {h}: {how_many(lacking, 'target has', 'targets have')} values that the untruncated history lacks"
            )


def _check_range(codes: np.ndarray, domain: Domain, what: str) -> None:
    if len(codes) and (codes.min() < 0 or codes.max() >= len(domain.levels[0])):
        raise ValueError(f"{what}: a code is outside its domain")


CELLS_AT_ONCE = 1 << 21
"""Cells of a dense array of members and values that are counted at a time."""


def held_but_not_known(held: Histories, members: np.ndarray, known: Histories, domain: Domain) -> int:
    """Count members with a value more often in D' than in D, a sign that D was not read; in chunks of bounded memory.

    Parameters
    ----------
    held
        Histories in D'.
    members
        (n,) int: rows of `held`.
    known
        Histories in D of the same n members.
    domain
        Domain of the values.
    """
    chunk = max(1, CELLS_AT_ONCE // max(1, domain.sizes[0]))
    lacking = 0
    for first in range(0, len(members), chunk):
        rows = np.arange(first, min(first + chunk, len(members)))
        of_held = member_value_counts(held, members[rows], domain, 0)
        lacking += int(np.any(of_held > member_value_counts(known, rows, domain, 0), axis=0).sum())
    return lacking


def member_value_counts(histories: Histories, members: np.ndarray, domain: Domain, level: int) -> np.ndarray:
    """Return (values at the level, members) int: how often each member has each value.

    The array is dense; callers choose how many members to process at a time.
    """
    positions, owners = histories.slots(members)
    values = domain.levels[level][histories.codes[positions]]
    counts = np.bincount(values * np.int64(len(members)) + owners, minlength=domain.sizes[level] * len(members))
    return counts.reshape(domain.sizes[level], len(members))

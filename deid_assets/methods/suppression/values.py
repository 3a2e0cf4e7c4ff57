"""Data in which some values of released members are not told (methods#suppressed-values).

A suppressed value and a value that was not delivered look alike in a release: both are one further value of the column, at
every level of its hierarchy. It never equals another value. An adversary who knows a suppressed value sees that it is not told
and looks for members of whom a value is not told; nobody is exempt. An adversary who reads a blank as a possible match, or as
no information at all, finds no smaller class.
"""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from deid_assets.methods.population.longitudinal_data import Domain, Histories, LongitudinalData


@dataclass(frozen=True, eq=False)
class SuppressedValues:
    """Values that a release does not show: every occurrence of a value among the claims of a member.

    Parameters
    ----------
    targets, histories, codes
        (T,) int64 each: the target, the history and the base code. Repeated entries are dropped, and the rest is sorted.

    Examples
    --------
    >>> two = SuppressedValues(np.array([1, 1, 0]), np.array([0, 0, 0]), np.array([4, 4, 2]))
    >>> two.targets.tolist(), two.codes.tolist()
    ([0, 1], [2, 4])
    """

    targets: np.ndarray
    histories: np.ndarray
    codes: np.ndarray

    def __post_init__(self) -> None:
        rows = np.stack([np.asarray(column, dtype=np.int64) for column in (self.targets, self.histories, self.codes)], axis=1)
        for name, column in zip(("targets", "histories", "codes"), np.unique(rows, axis=0).T, strict=True):
            object.__setattr__(self, name, np.ascontiguousarray(column))

    @classmethod
    def none(cls) -> "SuppressedValues":
        """Return no values at all."""
        return cls(*(np.zeros(0, np.int64),) * 3)

    def __len__(self) -> int:
        return len(self.targets)

    def and_(self, others: "SuppressedValues") -> "SuppressedValues":
        """Return these and the others."""
        columns = ("targets", "histories", "codes")
        return SuppressedValues(*(np.concatenate([getattr(self, name), getattr(others, name)]) for name in columns))

    def of_history(self, history: int, histories: Histories, owners: np.ndarray, values: int) -> np.ndarray:
        """Return (values of all members,) bool: which values of one history are suppressed.

        Parameters
        ----------
        histories
            Of any members.
        owners
            (M,) int: the target that each member is, or -1.
        values
            Number of base codes.
        """
        own = self.histories == history
        keys = self.targets[own] * values + self.codes[own]
        owner = np.repeat(owners, histories.counts)
        return (owner >= 0) & np.isin(owner * np.int64(values) + histories.codes, keys)


def with_values_not_told(
    data: LongitudinalData, suppressed: SuppressedValues, missing: np.ndarray, only: Collection[int] | None = None
) -> LongitudinalData:
    """Return the data of a release that does not show some values.

    Parameters
    ----------
    data
        The data without suppressed values.
    suppressed
        Values of targets.
    missing
        (H, N) int: how many claims of each member lack a value of each history in D'.
    only
        The histories of which values may be not told; None: all. Others stay as they are.

    Raises
    ------
    ValueError
        If the data already have values that are not told, or shapes disagree.

    Examples
    --------
    The second value of the first member is suppressed; the second member has a claim without a value:

    >>> domain = Domain((np.arange(2),))
    >>> values = Histories.of([[0, 1], [0]])
    >>> data = LongitudinalData(
    ...     np.zeros((2, 0), int), (), (values,), (domain,), np.arange(2), (values,), (np.ones(2, int),))
    >>> one = SuppressedValues(np.array([0]), np.array([0]), np.array([1]))
    >>> shown = with_values_not_told(data, one, np.array([[0, 1]]))
    >>> shown.held[0].codes.tolist(), shown.known[0].codes.tolist(), shown.history_domains[0].not_told
    ([0, 2, 0, 2], [0, 2, 0], 2)
    """
    if missing.shape != (len(data.held), data.members):
        raise ValueError("missing values must be counted for each history and member")
    rank = np.full(data.members, -1, np.int64)
    rank[data.targets] = np.arange(len(data.targets))
    held, domains, known = [], [], []
    for history, domain in enumerate(data.history_domains):
        if domain.not_told is not None:
            raise ValueError(f"histories {history} already have values that are not told")
        if only is not None and history not in only:
            held.append(data.held[history])
            domains.append(domain)
            known.append(data.known[history])
            continue
        values = domain.sizes[0]
        domains.append(with_not_told(domain))
        told = _replaced(data.held[history], suppressed.of_history(history, data.held[history], rank, values), values)
        held.append(_with_missing(told, missing[history], values))
        everyone = np.arange(len(data.targets))
        own = data.known[history]
        known.append(_replaced(own, suppressed.of_history(history, own, everyone, values), values))
    return data.with_changed_histories(held, domains, known)


def with_not_told(domain: Domain) -> Domain:
    """Return the domain with one further value, which is its own class at every level."""
    levels = tuple(np.append(level, size).astype(np.int32) for level, size in zip(domain.levels, domain.sizes, strict=True))
    return Domain(levels, not_told=len(domain.levels[0]))


def _replaced(histories: Histories, gone: np.ndarray, code: int) -> Histories:
    return Histories(histories.offsets, np.where(gone, code, histories.codes).astype(_kind(code)))


def _with_missing(histories: Histories, missing: np.ndarray, code: int) -> Histories:
    """Add the code to each member as often as a value is missing."""
    offsets = np.concatenate([[0], np.cumsum(histories.counts + missing, dtype=np.int64)])
    codes = np.full(int(offsets[-1]), code, _kind(code))
    shift = np.repeat(offsets[:-1] - histories.offsets[:-1], histories.counts)
    codes[np.arange(len(histories.codes)) + shift] = histories.codes
    return Histories(offsets, codes)


def _kind(code: int) -> type[np.int16] | type[np.int32]:
    # Millions of claims are stored with these codes.
    return np.int16 if code <= np.iinfo(np.int16).max else np.int32


def kept_without_values(held: Histories, domain: Domain, lost: np.ndarray) -> np.ndarray:
    """Return the share of a history's information that is left at every level once some values are suppressed.

    A value that is shown keeps log2(all / values of its class) bits, and a suppressed one keeps none. Values that were not
    delivered had none.

    Parameters
    ----------
    held
        Values of the released members in D', with those that are not told.
    domain
        With a value that is not told.
    lost
        (base values,) int: how many values of each kind are suppressed.

    Returns
    -------
    np.ndarray
        (levels,) float between 0 and 1.

    Examples
    --------
    Of four values, two and two alike, one is suppressed:

    >>> domain = with_not_told(Domain((np.arange(2), np.zeros(2, int))))
    >>> kept_without_values(Histories.of([[0, 0, 1, 2, 2]]), domain, np.array([0, 1, 0])).tolist()
    [0.75, 0.0]
    """
    told = np.bincount(held.codes, minlength=domain.sizes[0]).astype(np.float64)
    told[domain.not_told] = 0.0
    every = told + lost
    whole = every.sum()
    if whole == 0:
        return np.ones(len(domain.levels))

    def bits(of_class: np.ndarray, counts: np.ndarray) -> float:
        return float(np.sum(counts * np.log2(whole / np.maximum(of_class, 1.0))))

    most = bits(every, every)
    kept = [bits(np.bincount(level, every)[level], told) for level in domain.levels]
    return np.clip(np.array(kept) / most, 0.0, 1.0) if most > 0 else np.ones(len(kept))

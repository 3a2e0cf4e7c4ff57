"""Recognizing a provider by patterns of care, or by patients shared with other providers (methods#provider-graph).

El Emam et al. 2012 blank a provider's identifier if fewer than 20 providers show a pattern (place, specialty, procedure group,
condition group), because "patterns of treatment" could reveal the hospital, and with it the patients. That judges one pattern
at a time. An identifier that is kept joins all claims of its provider, so an adversary may know several of its patterns:

* **patterns**: the adversary knows p of the patterns that the release shows for a provider, or all of them. They search the
  register (here, all claims of the delivery) for providers who show every one. Their number F is the class size; the attack
  succeeds with probability 1 / F. Patterns are known as a set, without frequencies.
* **shared patients**: members and providers form a bipartite graph. The adversary knows, for the release, roughly how many
  patients a provider has, with how many providers they share a patient, and how many patients the largest of these have.
  Providers with the same three values form a class (Hay et al. 2008, structural queries). Numbers are binned by powers of
  two, because nobody knows them more precisely.

Providers are persons: their shares and counts are protected like those of members.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from deid_assets.store.tables import Table, quoted

TOP_PARTNERS = 3
"""Number of partners whose numbers of patients the adversary knows."""
CANDIDATES_AT_ONCE, WORDS_AT_ONCE = 1 << 18, 1 << 16
"""Block sizes that fit in the second-level cache."""
CANDIDATE_IN_WORDS = 16
"""Number of bit-set words that can be joined in the time needed to test one provider."""


def numbered_patterns(register: str, pattern: Sequence[str]) -> str:
    """SELECT the distinct patterns of a register, numbered from 0; missing values count as values.

    Parameters
    ----------
    register
        SQL to put after FROM: one row per claim.
    """
    columns = ", ".join(quoted(name) for name in pattern)
    return (
        f"SELECT {columns}, row_number() OVER (ORDER BY {columns}) - 1 AS number "
        f"FROM (SELECT DISTINCT {columns} FROM {register})"
    )


def shown_patterns(
    claims: str, identifier: str, patterns: Table, pattern: Sequence[str], names: Sequence[str] | None = None
) -> str:
    """SELECT provider (BIGINT, from 0) and pattern number for each distinct pair of provider and pattern.

    Claims with a pattern that is not in the register have the number -1: the two tables do not belong together.

    Parameters
    ----------
    claims
        SQL to put after FROM.
    identifier
        Column that identifies providers; claims without one are ignored.
    names
        The pattern's columns in `claims`; the same as in `patterns` if not given.
    """
    same = " AND ".join(
        f"c.{quoted(name)} IS NOT DISTINCT FROM p.{quoted(column)}"
        for name, column in zip(names or pattern, pattern, strict=True)
    )
    columns = ", ".join(quoted(name) for name in (names or pattern))
    return f"""
        SELECT (dense_rank() OVER (ORDER BY id) - 1)::BIGINT AS provider, number FROM (
            SELECT DISTINCT c.id, coalesce(p.number, -1)::BIGINT AS number
            FROM (SELECT DISTINCT {quoted(identifier)} AS id, {columns} FROM {claims}
                  WHERE {quoted(identifier)} IS NOT NULL) AS c
            LEFT JOIN {patterns.sql} AS p ON {same})
        ORDER BY ALL"""


@dataclass(frozen=True)
class Recognition:
    """How well providers can be recognized.

    Attributes
    ----------
    providers
        Number of providers in the release, by identifier.
    small_share
        Share of providers in classes that are too small; with draws, mean over draws. None if no identifier is shown.
    success
        Expected probability of a correct match, the mean of 1 / class size; None if no identifier is shown.
    """

    providers: int
    small_share: float | None
    success: float | None


def recognition(classes: ArrayLike, providers: int, enough: int) -> Recognition:
    """Summarize the class sizes of providers.

    Parameters
    ----------
    classes
        (draws,) number of providers who match what is known, including the right one; equally many draws per provider.
    enough
        Smallest class size that is not too small.

    Examples
    --------
    >>> recognition([1, 20, 25, 50], providers=4, enough=20)
    Recognition(providers=4, small_share=0.25, success=0.2775)
    """
    size = np.asarray(classes, dtype=float)
    if not size.size:
        return Recognition(0, None, None)
    if size.min() < 1:
        raise ValueError("a provider must match what is known about them; the register lacks one whom the release shows")
    return Recognition(providers, float((size < enough).mean()), float((1 / size).mean()))


class PatternRegister:
    """Which providers of a register show which patterns.

    Parameters
    ----------
    providers, patterns
        (pairs,) provider and pattern number, as `shown_patterns` selects them from the register: each pair once.
    count
        Number of patterns.
    """

    def __init__(self, providers: ArrayLike, patterns: ArrayLike, count: int):
        provider, pattern = np.asarray(providers, dtype=np.int64), np.asarray(patterns, dtype=np.int64)
        if pattern.size and (pattern.min() < 0 or pattern.max() >= count):
            raise ValueError("the register shows a pattern without a number")
        size = int(provider.max(initial=-1)) + 1
        # One bit per pair, and the providers of each pattern in one run.
        self._bits = np.zeros((count, (size + 63) // 64), dtype=np.uint64)
        np.bitwise_or.at(self._bits, (pattern, provider >> 6), np.uint64(1) << (provider & 63).astype(np.uint64))
        self._support = np.bincount(pattern, minlength=count)
        self._begin = np.cumsum(self._support) - self._support
        self._providers = provider[np.argsort(pattern, kind="stable")]

    def class_sizes(self, starts: NDArray[np.int64], patterns: NDArray[np.int64]) -> NDArray[np.int64]:
        """Count the providers who show all patterns of each draw.

        If one pattern is rare, its providers are tested for the others; otherwise bit-sets are intersected.

        Parameters
        ----------
        starts
            (draws + 1,) where the patterns of each draw begin; each draw has at least one.
        patterns
            (starts[-1],) pattern numbers.
        """
        begin, length = starts[:-1], np.diff(starts)
        patterns = patterns[np.lexsort((self._support[patterns], np.repeat(np.arange(length.size), length)))]
        fewest = self._support[patterns[begin]]
        found = fewest.copy()
        several = length > 1
        rare = several & (fewest * CANDIDATE_IN_WORDS < length * self._bits.shape[1])
        for draws, count, weight, at_once in (
            (np.flatnonzero(rare), self._by_candidates, fewest, CANDIDATES_AT_ONCE),
            (np.flatnonzero(several & ~rare), self._by_bits, np.full(length.size, self._bits.shape[1]), WORDS_AT_ONCE),
        ):
            # Draws with most patterns first, so that the draws still active at a step are a prefix.
            draws = draws[np.argsort(-length[draws], kind="stable")]
            pieces = np.cumsum(weight[draws]) // at_once
            for piece in np.split(draws, np.flatnonzero(np.diff(pieces)) + 1):
                found[piece] = count(begin[piece], length[piece], patterns)
        return found

    def _by_candidates(self, begin: NDArray, length: NDArray, patterns: NDArray) -> NDArray[np.int64]:
        """Count for a few draws, with patterns ordered by rarity: test the providers who show the rarest pattern."""
        rarest = patterns[begin]
        candidates = self._support[rarest]
        draw = np.repeat(np.arange(length.size), candidates)
        place = np.arange(draw.size) - np.repeat(np.cumsum(candidates) - candidates, candidates)
        provider = self._providers[np.repeat(self._begin[rarest], candidates) + place]
        found = np.zeros(length.size, dtype=np.int64)
        for step in range(1, int(length.max(initial=0)) + 1):
            asked = int(np.searchsorted(draw, np.count_nonzero(length > step)))
            found += np.bincount(draw[asked:], minlength=length.size)
            draw, provider = draw[:asked], provider[:asked]
            words = self._bits[patterns[begin[draw] + step], provider >> 6]
            shows = (words >> (provider & 63).astype(np.uint64) & np.uint64(1)).astype(bool)
            draw, provider = draw[shows], provider[shows]
        return found

    def _by_bits(self, begin: NDArray, length: NDArray, patterns: NDArray) -> NDArray[np.int64]:
        """Count for a few draws: intersect the bit-sets of their patterns."""
        joined = self._bits[patterns[begin]]
        buffer = np.empty_like(joined)
        for step in range(1, int(length.max(initial=0))):
            asked = int(np.count_nonzero(length > step))
            np.take(self._bits, patterns[begin[:asked] + step], axis=0, out=buffer[:asked], mode="clip")
            np.bitwise_and(joined[:asked], buffer[:asked], out=joined[:asked])
        return np.bitwise_count(joined).sum(axis=1, dtype=np.int64)


def recognized_by_patterns(
    register: PatternRegister,
    providers: ArrayLike,
    patterns: ArrayLike,
    known: int | None,
    draws: int,
    generator: np.random.Generator,
    enough: int,
) -> Recognition:
    """Simulate an adversary who knows patterns of a provider and searches the register for the provider.

    Parameters
    ----------
    register
        All providers.
    providers, patterns
        (pairs,) of the released rows, as `shown_patterns` selects them: ordered by provider.
    known
        Number p of known patterns, or all patterns of a provider who shows fewer; None: all that are shown.
    draws
        Minimum number of draws, spread evenly over providers; one per provider if all patterns are known.
    generator
        Chooses the known patterns.
    enough
        Smallest class size that is not too small.

    Raises
    ------
    ValueError
        If the release shows a pattern that is not in the register, or if `known` is below 1.
    """
    provider, pattern = np.asarray(providers, dtype=np.int64), np.asarray(patterns, dtype=np.int64)
    if known is not None and known < 1:
        raise ValueError(f"the adversary knows {known} patterns; it must be at least 1")
    if pattern.size and pattern.min() < 0:
        raise ValueError("the release shows a pattern that no provider of the register shows")
    shown = np.bincount(provider)
    begin = np.concatenate([[0], np.cumsum(shown)])
    sizes = []
    for _ in range(1 if known is None or not shown.size else -(-draws // shown.size)):
        if known is None:
            sizes.append(register.class_sizes(begin, pattern) if shown.size else np.empty(0))
            continue
        order = np.lexsort((generator.random(provider.size), provider))
        place = np.arange(provider.size) - np.repeat(begin[:-1], shown)
        kept = order[place < known]
        starts = np.concatenate([[0], np.cumsum(np.minimum(shown, known))])
        sizes.append(register.class_sizes(starts, pattern[kept]))
    return recognition(np.concatenate(sizes), shown.size, enough)


def graph_classes(claims: str, member: str, identifier: str, top: int = TOP_PARTNERS) -> str:
    """SELECT the class sizes of providers in the graph of members and providers.

    Parameters
    ----------
    claims
        SQL to put after FROM.
    member, identifier
        Columns that identify members and providers; claims without identifier are ignored.
    top
        Number of partners, the largest, whose numbers of patients are known.

    Returns
    -------
    str
        SELECT of class_size BIGINT (providers in the class) | providers BIGINT (providers in classes of that size). Two
        providers are in one class if these numbers are in the same bin 1, 2-3, 4-7, ...: their patients, their partners
        (providers who share a patient with them), and the patients of each of their largest partners.
    """
    if top < 0:
        raise ValueError("the number of partners known cannot be negative")
    bins = "floor(log2({}))::INTEGER"
    return f"""
        WITH shown AS MATERIALIZED (
            SELECT DISTINCT {quoted(member)} AS member, {quoted(identifier)} AS id FROM {claims}
            WHERE {quoted(identifier)} IS NOT NULL),
        patients AS (SELECT id, count(*) AS n FROM shown GROUP BY id),
        shared AS (
            SELECT DISTINCT a.id, b.id AS partner FROM shown AS a JOIN shown AS b ON a.member = b.member AND a.id <> b.id),
        partners AS (
            SELECT s.id, count(*) AS n, list_sort(list({bins.format("p.n")}), 'DESC')[1:{int(top)}] AS largest
            FROM shared AS s JOIN patients AS p ON p.id = s.partner GROUP BY s.id),
        classes AS (
            SELECT {bins.format("p.n")} AS a, {bins.format("q.n")} AS b, q.largest, count(*) AS class_size
            FROM patients AS p LEFT JOIN partners AS q USING (id) GROUP BY 1, 2, 3)
        SELECT class_size, sum(class_size)::BIGINT AS providers FROM classes GROUP BY class_size ORDER BY class_size"""


def recognized_by_graph(class_sizes: ArrayLike, providers: ArrayLike, enough: int) -> Recognition:
    """Summarize the result of `graph_classes`.

    Examples
    --------
    >>> recognized_by_graph([1, 32], [32, 32], enough=20)
    Recognition(providers=64, small_share=0.5, success=0.515625)
    """
    number = np.asarray(providers, dtype=np.int64)
    return recognition(np.repeat(np.asarray(class_sizes, dtype=np.int64), number), int(number.sum()), enough)

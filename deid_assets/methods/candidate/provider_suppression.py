"""Blank provider, vendor and PCP identifiers if few others show the same pattern of care.

The rule is that of El Emam et al. 2012 (methods#provider-patterns).

The only provider of a specialty in a place of service who performs a procedure on patients with a diagnosis can be recognized,
and with the provider the patients' hospital. The pattern is (place, specialty, procedure group, condition group) as released.
If fewer than 20 distinct providers show it, the identifier is blanked on the claims with that pattern. The claim stays. Vendors
and PCPs are treated in the same way, separately.

* "Fewer than 20 in the HPN system" is a statement about the system's providers. They are therefore counted in a reference
  table, all eligible claims of the delivery; identifiers are blanked in another, the claims to be released.
* alpha for providers is not the members' sampling fraction: a provider is included if any of their patients is. Counted in
  the delivery, f is F (alpha = 1). If the delivery is itself an extract of a register, the policy names an estimator and
  an alpha (population_class_size.py), which determine the smallest sufficient count.
* Counts are made once, before any suppression. Fewer identifiers afterwards only hide more.
* A missing value in a pattern counts as a value of its own. A missing identifier is not an identifier.
"""

from collections.abc import Sequence
from typing import Literal

from deid_assets.methods.statistics.population_class_size import minimum_sample_class_size
from deid_assets.reference.known_columns import GROUPED, PROVIDER_PSEUDONYMS
from deid_assets.store.tables import Table, quoted

PATTERN = tuple(GROUPED.values())
IDENTIFIERS = tuple(PROVIDER_PSEUDONYMS)

ProviderEstimator = Literal["counted", "large_sample", "truncated_poisson", "truncated_binomial", "test"]


def providers_needed(providers_at_least: int = 20, estimator: ProviderEstimator = "counted", alpha: float = 1.0) -> int:
    """Return the number of distinct identifiers that must show a pattern in the reference table for it to be kept.

    Examples
    --------
    >>> providers_needed(20)
    20
    >>> providers_needed(20, "large_sample", alpha=0.2), providers_needed(20, "truncated_poisson", alpha=0.2)
    (4, 5)
    """
    if estimator == "counted":
        if alpha != 1:
            raise ValueError(f"counted providers are all providers: alpha is 1, not {alpha}; or name an estimator")
        return int(providers_at_least)
    return minimum_sample_class_size(alpha, estimator, providers_at_least)


def pattern_counts(reference: Table, pattern: Sequence[str] = PATTERN, identifiers: Sequence[str] = IDENTIFIERS) -> str:
    """SELECT the pattern columns and, for each identifier, n_<identifier>: the number of distinct ones with the pattern.

    A pattern without any identifier is not included.
    """
    columns = ", ".join(quoted(name) for name in pattern)
    # One DISTINCT per identifier: count(DISTINCT ..) of several columns takes twice the memory, and DuckDB then expects
    # so many patterns that it builds its hash table from the claims instead.
    distinct = " UNION ALL ".join(
        f"(SELECT DISTINCT {columns}, '{name}' AS identifier, {quoted(name)}::VARCHAR FROM {reference.sql}"
        f" WHERE {quoted(name)} IS NOT NULL)"
        for name in identifiers
    )
    counts = ", ".join(f"count(*) FILTER (identifier = '{name}') AS {quoted(f'n_{name}')}" for name in identifiers)
    return f"SELECT {columns}, {counts} FROM ({distinct}) GROUP BY {columns}"


def suppress_identifiers(released: Table, counts: Table, needed: int, pattern: Sequence[str] = PATTERN) -> str:
    """SELECT the released claims; an identifier is NULL if its pattern has fewer than `needed` identifiers.

    Parameters
    ----------
    released
        Claims to be released; all columns are selected, in their order. No claim is dropped.
    counts
        The rows of `pattern_counts`. They are those of the claims in which the system's providers are
        counted, with the pattern at the same generalization; usually all eligible claims of the delivery. Identifiers of a
        pattern that is not among them are blanked.
    needed
        Smallest count that keeps an identifier; see `providers_needed`.
    pattern
        Column names in both.

    Raises
    ------
    StoreError
        If a name is not an identifier.
    ValueError
        If `needed` is below 1.
    """
    kept = ", ".join(
        f"CASE WHEN p.{quoted(f'n_{name}')} >= {_checked(needed)} THEN c.{quoted(name)} END AS {quoted(name)}"
        for name in IDENTIFIERS
    )
    same = " AND ".join(f"c.{quoted(name)} IS NOT DISTINCT FROM p.{quoted(name)}" for name in pattern)
    return f"SELECT c.* REPLACE ({kept}) FROM {released.sql} c LEFT JOIN {counts.sql} p ON {same}"


def blanked_shares(claims: Table, left: str) -> dict[str, float]:
    """Return for each identifier the share of its occurrences on the claims that is blanked; 0 if there are none.

    Parameters
    ----------
    left
        A SELECT of the same claims after suppression.
    """
    counts = ", ".join(f"count({quoted(name)}) AS {quoted(name)}" for name in IDENTIFIERS)
    before, after = (claims.query(f"SELECT {counts} FROM {source}").iloc[0] for source in (claims.sql, f"({left})"))
    return {name: float(1 - after[name] / before[name]) if before[name] else 0.0 for name in IDENTIFIERS}


def _checked(needed: int) -> int:
    if needed < 1:
        raise ValueError(f"the number of providers needed is {needed}; it must be at least 1")
    return int(needed)

"""A policy's hierarchies applied to the values of a delivery: the value domains of its quasi-identifiers."""

from collections.abc import Iterable

import pandas as pd

from deid_assets.methods.population.encoding import distinct_values, value_domain
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.store.tables import Table


def value_domains_of(policy: Policy, members: Table, profiles: Table, claims: Table) -> pd.DataFrame:
    """Number the values of members and claims, with their label and class at every level.

    Parameters
    ----------
    members
        All delivered members, whose days in hospital determine the top code.
    profiles, claims
        Member-level and claim-level quasi-identifiers.
    """
    days = top_code(members, list(YEARS.values()), policy.top_coding.percentile)
    of_members = policy.member_columns
    return pd.concat(
        [
            _domain(
                policy.hierarchy_of(qi.column),
                qi.column,
                qi.column,
                distinct_values(profiles if qi.column in of_members else claims, qi.column),
                qi.column in of_members,
                days.code if days and qi.column in YEARS.values() else None,
            )
            for qi in policy.quasi_identifiers.all
        ],
        ignore_index=True,
    )


def record_domains_of(policy: FlatPolicy, records: Table, population: Table | None) -> pd.DataFrame:
    """Number the values of the records, and of the population if there is one."""
    tables = [records] if population is None else [records, population]
    return pd.concat(
        [
            _domain(
                policy.hierarchy(qi.hierarchy),
                qi.column,
                qi.release_as,
                sorted({value for table in tables for value in distinct_values(table, qi.release_as)}),
                with_missing=True,
            )
            for qi in policy.quasi_identifiers
        ],
        ignore_index=True,
    )


def _domain(
    hierarchy: Hierarchy, delivered_as: str, name: str, values: Iterable, with_missing: bool, top_code: int | None = None
) -> pd.DataFrame:
    """The rows of one quasi-identifier; an error about a value that the hierarchy lacks names the delivered column."""
    values = list(values)
    hierarchy.check(values, delivered_as)
    levels = range(hierarchy.levels)
    labels = [hierarchy.labels(values, level) for level in levels]
    missing = [hierarchy.missing_label(level) for level in levels]
    return value_domain(name, values, labels, hierarchy.codes(values), with_missing, top_code, missing)

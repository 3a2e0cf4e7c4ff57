"""Members and claims of the prepared delivery and of the release, in the same columns and with the same labels."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pandas as pd

from deid_assets.assessments.kernel_input import member_columns
from deid_assets.assessments.released_rows import profiles_query
from deid_assets.methods.candidate.released_tables import generalized_members, passed_on
from deid_assets.methods.population.value_domains import label_joins
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.hierarchies.specs import IntervalsSpec
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, quoted, write_table

PROVIDERS = ("ProviderID", "Vendor", "PCP")
"""Pseudonyms of providers in the release."""
CONSTANT = "SupLOS"
"""A released column that is the same everywhere."""


@dataclass(frozen=True)
class Compared:
    """What a release is compared with, and the release.

    Attributes
    ----------
    members_before, members_after
        `member`, and every member-level quasi-identifier at its released level, under its column name: all delivered
        members, and the released ones.
    claims_before, claims_after
        `member`, `year` and the released columns under their released names: all eligible claims of all delivered members
        before the long tail is cut, and the released claims, these with the pseudonyms of providers.
    member_columns, claim_columns
        The columns of both.
    """

    members_before: Table
    members_after: Table
    claims_before: Table
    claims_after: Table
    member_columns: tuple[str, ...]
    claim_columns: tuple[str, ...]


def compared_tables(policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table]) -> Compared:
    """Write them to the scratch schema.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    tables
        Profiles, grouped and eligible claims, domains and the release's tables, by their assets.
    """
    profiles, grouped, domains = tables["member_profiles"], tables["grouped_claims"], tables["value_domains"]
    file, columns = profiles.file, member_columns(policy)
    names = policy.claim_names
    labels, joins = label_joins(domains, {own: levels[own] for own in names}, grouped.columns(), "c", missing_is_value=False)
    shown = dict(zip(names.values(), labels, strict=True)) | passed_on(
        top_code(tables["eligible_claims"], ["pay_delay"], policy.top_coding.percentile), policy.attribute_names
    )
    del shown[CONSTANT]
    selects = ", ".join(f"({sql})::VARCHAR AS {quoted(name)}" for name, sql in shown.items())
    of_members = {column: levels[column] for column in columns}
    own = ", ".join(quoted(column) for column in columns)
    contents = {
        "members_before": f"SELECT member_id AS member, {own} FROM ({generalized_members(profiles, domains, of_members)})",
        "claims_before": f"SELECT c.member_id AS member, c.year, {selects} FROM {grouped.sql} AS c {joins}",
    }
    made = {name: _written(file, name, sql) for name, sql in contents.items()}
    return Compared(**made, **_released(policy, tables, file, tuple(shown)), member_columns=columns, claim_columns=tuple(shown))


def with_another_release(policy: Policy, compared: Compared, tables: Mapping[str, Table]) -> Compared:
    """The same delivery, with the members and claims of another release in place of those of the first.

    What came before stays as it is, with the labels of the first release.

    Parameters
    ----------
    tables
        The tables of the other release, by their assets.
    """
    made = _released(policy, tables, compared.members_before.file, compared.claim_columns)
    return replace(compared, members_after=made["members_after"], claims_after=made["claims_after"])


def _released(policy: Policy, tables: Mapping[str, Table], file: Path, claim_columns: Sequence[str]) -> dict[str, Table]:
    """The members and claims of a release."""
    own = ", ".join(quoted(column) for column in member_columns(policy))
    released = ", ".join(f"{quoted(name)}::VARCHAR AS {quoted(name)}" for name in claim_columns)
    identifiers = ", ".join(quoted(name) for name in PROVIDERS)
    contents = {
        "members_after": f'SELECT "MemberID" AS member, {own} FROM '
        f"({profiles_query(policy, tables['release_members'].sql, tables['release_days_in_hospital'].sql)})",
        "claims_after": f'SELECT "MemberID" AS member, substr("Year", 2)::INTEGER AS year, {released}, {identifiers}'
        f" FROM {tables['release_claims'].sql}",
    }
    return {name: _written(file, name, sql) for name, sql in contents.items()}


def _written(file: Path, name: str, sql: str) -> Table:
    made = Table(file, "scratch", f"compared_{name}")
    write_table(made, sql)
    return made


def value_counts(before: Table, after: Table, column: str) -> pd.DataFrame:
    """The values of a column with their numbers before and after: value ('' is blank), before, after; ordered by value."""
    value = f"coalesce({quoted(column)}::VARCHAR, '')"
    return before.query(
        f"SELECT value, sum(before)::DOUBLE AS before, sum(after)::DOUBLE AS after FROM ("
        f"SELECT {value} AS value, count(*) AS before, 0 AS after FROM {before.sql} GROUP BY ALL UNION ALL"
        f" SELECT {value}, 0, count(*) FROM {after.sql} GROUP BY ALL) GROUP BY value ORDER BY value"
    )


def claims_per_member(compared: Compared) -> tuple[np.ndarray, np.ndarray]:
    """How many members have 1, 2, ... claims, before and after; members without claims do not count."""
    found = []
    for claims in (compared.claims_before, compared.claims_after):
        numbers = claims.arrays(f"SELECT count(*) AS n FROM {claims.sql} GROUP BY member")["n"]
        found.append(np.bincount(numbers.astype(np.int64)))
    size = max(len(counts) for counts in found)
    before, after = (np.pad(counts, (0, size - len(counts))) for counts in found)
    return before, after


def has_order(policy: Policy, column: str) -> bool:
    """Whether the values of a quasi-identifier are numbers."""
    return isinstance(policy.hierarchies[policy.quasi_identifier(column).hierarchy], IntervalsSpec)


def codes_of(compared: Compared) -> tuple[tuple[str, ...], list[list[np.ndarray]], list[int]]:
    """The claims with their member's columns as numbers.

    Returns
    -------
    names, codes, sizes
        The k columns; for before and after, (n,) int32 for each column; and how many values each has.
    """
    columns = [("m", column) for column in compared.member_columns] + [("c", column) for column in compared.claim_columns]
    sides = ((compared.members_before, compared.claims_before), (compared.members_after, compared.claims_after))
    domains, sizes = [], []
    for place, (side, column) in enumerate(columns):
        both = " UNION ".join(
            f"SELECT coalesce({quoted(column)}, '') AS value FROM {(members if side == 'm' else claims).sql}"
            for members, claims in sides
        )
        table = Table(compared.claims_before.file, "scratch", f"compared_values_{place}")
        sizes.append(
            write_table(table, f"SELECT value, (row_number() OVER (ORDER BY value) - 1)::INTEGER AS code FROM ({both})")
        )
        domains.append(table)
    found = []
    for members, claims in sides:
        joins = " ".join(
            f"JOIN {table.sql} AS v{place} ON v{place}.value = coalesce({side}.{quoted(column)}, '')"
            for place, ((side, column), table) in enumerate(zip(columns, domains, strict=True))
        )
        arrays = claims.arrays(
            f"SELECT {', '.join(f'v{place}.code AS v{place}' for place in range(len(columns)))}"
            f" FROM {claims.sql} AS c JOIN {members.sql} AS m USING (member) {joins}"
        )
        found.append([np.asarray(arrays[f"v{place}"]) for place in range(len(columns))])
    return tuple(column for _, column in columns), found, sizes

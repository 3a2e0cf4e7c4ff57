"""What a release shows of every delivered member, kept for later releases (methods#meet)."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import numpy as np
import pandas as pd

from deid_assets.assessments.kernel_input import claim_columns, member_columns
from deid_assets.methods.releases.kept_rows import MemberTables, kept_rows
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, write_table

KEPT_FROM = (
    "member_profiles", "suppressed_members", "grouped_claims", "truncated_claims", "eligible_claims", "value_domains",
)  # fmt: skip
"""The tables that say what a release shows of its members."""


class Tags(Protocol):
    """Returns the keyed tag of each member."""

    def __call__(self, member_ids: Sequence[str]) -> np.ndarray:
        """(n,) uint64, in the order given."""


def released_tags(tables: Mapping[str, Table], tags: Tags) -> np.ndarray:
    """(n,) uint64, ascending: tags of the members about to be released.

    Parameters
    ----------
    tables
        Tables of the store, by the names of their assets.
    """
    profiles, suppressed = tables["member_profiles"], tables["suppressed_members"]
    found = profiles.query(
        f"SELECT member_id FROM {profiles.sql} WHERE released AND member_id NOT IN (SELECT member_id FROM {suppressed.sql})"
    )
    return np.unique(tags(found["member_id"].tolist()).astype(np.uint64))


def write_kept_rows(policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table], tags: Tags) -> Table:
    """Write the kept rows of the release about to be made into the scratch schema of its store.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    tables
        Tables of the store, by the names of their assets.
    """
    kept = Table(tables["member_profiles"].file, "scratch", "kept_rows")
    write_table(kept, kept_rows_query(policy, levels, tables, tags))
    return kept


def kept_rows_query(
    policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table], tags: Tags, in_order: bool = False
) -> str:
    """SELECT the same rows, in the order of a file if asked for; writes the members' tags into the scratch schema."""
    of = MemberTables(*(tables[name] for name in KEPT_FROM))
    ids = of.profiles.query(f"SELECT member_id FROM {of.profiles.sql} ORDER BY member_id")["member_id"]
    tagged = Table(of.profiles.file, "scratch", "member_tags")
    write_table(tagged, pd.DataFrame({"member_id": ids.astype("str"), "tag": tags(ids.tolist()).astype(np.uint64)}))
    members, claims = ({column: levels[column] for column in own} for own in (member_columns(policy), claim_columns(policy)))
    names = {column: policy.kept_name(column) for column in (*members, *claims)}
    return kept_rows(of, tagged, members, claims, not policy.counts_population, in_order, names)

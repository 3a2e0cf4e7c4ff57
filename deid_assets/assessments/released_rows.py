"""The rows about to be released, and the people of the delivery whom they are about."""

from collections.abc import Mapping

import numpy as np

from deid_assets.assessments.kernel_input import member_columns
from deid_assets.methods.candidate.released_tables import generalized_members
from deid_assets.methods.disclosure.demographic_classes import demographic_class_sizes
from deid_assets.methods.population.released_population import released_profiles
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table, write_table, write_view


def original_members(crosswalk: Table, released: Table) -> str:
    """SELECT the member_id of released members."""
    return (
        f"SELECT original_id AS member_id FROM {crosswalk.sql} WHERE kind = 'member'"
        f' AND pseudonym IN (SELECT "MemberID" FROM {released.sql})'
    )


def kept_targets(profiles: Table, suppressed: Table) -> np.ndarray:
    """(n,) bool: sampled members who are not suppressed, ordered by member_number."""
    kept = profiles.arrays(
        f"SELECT member_id NOT IN (SELECT member_id FROM {suppressed.sql}) AS kept FROM {profiles.sql}"
        " WHERE released ORDER BY member_number"
    )["kept"]
    return np.asarray(kept, dtype=bool)


def profiles_query(policy: Policy, members: str, days: str) -> str:
    """SELECT the member-level quasi-identifiers of released rows; `members` and `days` are texts after FROM."""
    return released_profiles(members, days, policy.member_names, member_columns(policy))


def released_date_columns(policy: Policy) -> dict[str, str]:
    """Date columns that are released unchanged from `dated_claims`, and their names in the release."""
    if policy.dates is None:
        return {}
    return {"service_date" if policy.dates.format == "dates" else "service_day": policy.dates.release_as}


def demographic_sizes(policy: Policy, levels: Mapping[str, int], tables: Mapping[str, Table]) -> dict[str, np.ndarray]:
    """Every demographic class: `population_size` in the delivery and `released_size` in the candidate's rows.

    Parameters
    ----------
    levels
        Level of every quasi-identifier in the release.
    tables
        Profiles, domains and the release's tables about members, by name.
    """
    columns, profiles, domains = member_columns(policy), tables["member_profiles"], tables["value_domains"]
    released_members, released_days = tables["release_members"], tables["release_days_in_hospital"]
    of_members = {column: levels[column] for column in columns}
    population = write_view(
        Table(profiles.file, "scratch", "delivered_classes"), generalized_members(profiles, domains, of_members)
    )
    released = Table(profiles.file, "scratch", "released_classes")
    write_table(released, profiles_query(policy, released_members.sql, released_days.sql))
    return population.arrays(demographic_class_sizes(population, released, columns))

"""The tables that a release publishes, by the names of their files."""

from deid_assets.policy.kinds import AnyPolicy
from deid_assets.reference.known_columns import YEARS
from deid_assets.release.counts.published import FILES as COUNTS
from deid_assets.store.tables import events_file

MEMBERS = "Members"
RECORDS, PEOPLE = "Records", "People"
"""The one table of a flat policy, and that of a cohort's."""


def days_file(year: str) -> str:
    """The name of the table of the days in hospital of a year, such as "Y2"."""
    return f"DaysInHospital_{year}"


def published_tables(policy: AnyPolicy) -> tuple[str, ...]:
    """Names of the tables that every release under a policy has.

    Examples
    --------
    >>> from deid_assets.policy.loading import policy_by_name
    >>> published_tables(policy_by_name("heritage"))
    ('Members', 'Claims', 'DaysInHospital_Y2', 'DaysInHospital_Y3', 'Attrition', 'Characteristics', 'Distributions')
    """
    counts = tuple(name for name in COUNTS if name != "Totals" or policy.counts.has_totals)
    counts = counts if policy.counts.protection != "none" else ()
    if not policy.has_events:
        return ({"flat": RECORDS, "cohort": PEOPLE}[policy.kind], *counts)
    days = (days_file(year) for year, column in YEARS.items() if policy.publishes(column))
    return (MEMBERS, *map(events_file, policy.event_tables), *days, *counts)

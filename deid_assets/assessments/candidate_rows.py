"""The rows of a release under a policy: a SELECT from the restricted store for each of its tables.

The candidate's assets materialize them; the gate compares the staged files with them.
"""

import numpy as np

from deid_assets.assessments.kernel_input import Candidate, released_date_columns
from deid_assets.methods.candidate import released_tables
from deid_assets.methods.candidate.provider_suppression import pattern_counts, providers_needed, suppress_identifiers
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import BESIDE_DAYS, YEARS
from deid_assets.store.tables import Table

PATTERNS = "patterns_of_care"
"""The asset of how many identifiers show each pattern of care. The gate does not read it: it counts in the claims."""


class ReleasedRows(Candidate):
    """The one step that recodes: what the tables of the restricted store are as released rows."""

    def rows(self) -> dict[str, str]:
        """SELECT every table of the release, by its asset."""
        return {
            "release_members": self.members(),
            "release_days_in_hospital": self.days_in_hospital(),
            "release_claims": self.claims(),
        }

    def members(self) -> str:
        """SELECT the members table of the release."""
        names = self.policy.member_names
        return released_tables.members_query(self.recoding, {column: self.levels[column] for column in names}, names)

    def days_in_hospital(self) -> str:
        """SELECT the days-in-hospital table of the release."""
        years = {year: column for year, column in YEARS.items() if self.policy.publishes(column)}
        beside = {column: name for column, name in BESIDE_DAYS.items() if self.policy.publishes(column)}
        own = {column: self.levels[column] for column in (*years.values(), *beside)}
        return released_tables.days_query(self.recoding, own, years, beside)

    def claims(self, with_claim_id: bool = False) -> str:
        """SELECT the claims table of the release.

        Parameters
        ----------
        with_claim_id
            Whether to select claim_id, which is never released: with it, rows can be compared with what was delivered.
        """
        policy, names = self.policy, self.policy.claim_names
        published = released_tables.PublishedClaims(
            names,
            self.top_coded_delays,
            policy.numbers,
            released_date_columns(policy),
            policy.attribute_names,
            with_table=policy.has_other_events,
        )
        identified = identified_claims(policy, self.tables["held"], self.tables[PATTERNS])
        rows = released_tables.claims_query(self.recoding, identified, self.claim_levels, published, with_claim_id)
        if policy.dates is None:
            return rows
        connected = {
            one.release_as: ("PayDelay", None)
            if one.offset == "pay_delay"
            else (names[one.offset], days_of_labels(policy, one.offset, self.levels[one.offset]))
            for one in policy.connected_dates
        }
        return released_tables.with_connected_dates(rows, policy.dates.release_as, connected)


def counted_patterns(policy: Policy, known: Table) -> str:
    """SELECT the rows of `PATTERNS`: providers are counted in the claims before the long tail is cut."""
    return pattern_counts(known, policy.pattern_of_care)


def identified_claims(policy: Policy, held: Table, patterns: Table) -> str:
    """SELECT the claims to be released, without the identifiers of providers whose pattern of care few others show.

    Parameters
    ----------
    held
        Claims after the long tail is cut.
    patterns
        The rows of `PATTERNS`.
    """
    needed = providers_needed(policy.provider_suppression.providers_at_least, policy.provider_suppression.estimator)
    return suppress_identifiers(held, patterns, needed, policy.pattern_of_care)


def days_of_labels(policy: Policy, column: str, level: int) -> dict[str, tuple[int, int]]:
    """Fewest and most days of each label of a level; labels without an end are not among them.

    A stay that ends on its first day counts as one day, as the length of stay does.
    """
    # A label that holds the last day of all years has no end.
    hierarchy, days = policy.hierarchy_of(column), np.arange(policy.years_of_claims * 366 + 1)
    days = days[hierarchy.rule.covers(days)]
    found: dict[str, tuple[int, int]] = {}
    for day, label in zip(days.tolist(), hierarchy.labels(days.tolist(), level).tolist(), strict=True):
        found[label] = found.get(label, (day, day))[0], day
    # A list of days may end before what its last label means.
    return {label: (max(low, min(high, 1)), high) for label, (low, high) in found.items() if high < days.max(initial=0)}

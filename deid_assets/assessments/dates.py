"""What a policy says about dates, carried out on the tables of its store, and refusals of dates that were not redrawn."""

import numpy as np

from deid_assets.assessments.evidence import Refusal
from deid_assets.methods.dates import dated_claims as dated
from deid_assets.methods.dates import errors
from deid_assets.methods.dates.intervals import Events, Redrawing
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table


def date_columns(policy: Policy, eligible: Table) -> dated.DateColumns:
    """Properties of the columns derived from dates under this policy and delivery."""
    dates = policy.dates_section
    first_year, _ = dated.delivered_years(eligible)
    return dated.DateColumns(
        dates.narrowest, dates.anchor, dates.format != "dates", dates.derived, first_year, "service_order" in dates.columns
    )


def redrawing(policy: Policy, eligible: Table) -> Redrawing:
    """How dates are redrawn under this policy: within the calendar years of the delivery."""
    first, last = dated.delivered_years(eligible)
    begin, end = (int(np.datetime64(text, "D").astype(np.int64)) for text in (f"{first:04}-01-01", f"{last:04}-12-31"))
    return Redrawing(policy.dates_section.anchor, (begin, end), policy.dates_section.study_end)


def widths_of(policy: Policy, members: Table, events: Events) -> np.ndarray:
    """(m,) days in a bin for each member with events."""
    dates = policy.dates_section
    if dates.narrower is None:
        return np.full(len(events.firsts), dates.width)
    sizes = np.asarray(members.arrays(dated.class_sizes_of(members))["class_size"])[events.member[events.firsts]]
    width: np.ndarray = np.where(sizes >= dates.narrower.class_size_at_least, dates.narrower.width, dates.width)
    return width


def released_dates(policy: Policy, members: Table, dated_table: Table, eligible: Table, kept: str) -> errors.ReleasedDates:
    """Read delivered and released days side by side.

    Parameters
    ----------
    members, dated_table, eligible
        Delivered members, claims with released dates, and with delivered ones.
    kept
        A SELECT of the member_id of the released members.
    """
    found = members.arrays(dated.delivered_and_released(members, dated_table, eligible, kept))
    member, day, moved = (np.ma.getdata(found[name]) for name in ("member", "day", "moved"))
    events = Events(member, day, np.ones(len(member), dtype=bool))
    width = np.repeat(widths_of(policy, members, events), np.diff(np.append(events.firsts, len(events))))
    return errors.ReleasedDates(events, moved, width)


def date_refusals(released: errors.ReleasedDates) -> list[Refusal]:
    """Refuse dates that were not redrawn: first services on their delivered day, or delivered intervals."""
    days = _refusal("dates_as_delivered", "released dates", errors.first_services_as_delivered(released), "share of members")
    intervals = _refusal(
        "intervals_as_delivered", "intervals between released dates", errors.intervals_as_delivered(released), "share of claims"
    )
    return days + intervals


def _refusal(rule: str, what: str, found: errors.AsDelivered, unit: str) -> list[Refusal]:
    if found.same <= found.at_most:
        return []
    text = f"release_claims: more {what} equal the delivered ones than redrawing explains"
    return [Refusal(rule, "release_claims", found.same / found.of, found.at_most / found.of, text, unit)]

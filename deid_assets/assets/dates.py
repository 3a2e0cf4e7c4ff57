"""Redrawn dates of the released claims, only if a policy releases dates (methods#dates).

The method is that of El Emam & Arbuckle 2013, ch. 5.
"""

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assets.stage_asset import markdown_table, prefix_of, stage_asset
from deid_assets.errors import DeliveryError
from deid_assets.figures.date_figure import date_error_figure
from deid_assets.figures.figures import markdown_image
from deid_assets.methods.dates import dated_claims as dated
from deid_assets.methods.dates.alternatives import (
    order_violations,
    randomize_independently,
    shift_sequences,
    unique_sequences,
)
from deid_assets.methods.dates.errors import released_errors
from deid_assets.methods.dates.intervals import Events, Redrawing, interval_bins, redraw
from deid_assets.policy.models import Policy
from deid_assets.resources import Policies, Workplace
from deid_assets.store.tables import Table, write_table

INDEPENDENT, SHIFTED, GENERALIZED = "randomized independently", "shifted as a whole", "generalized intervals"
SHIFTED_AT_MOST = 15
"""Days by which El Emam & Arbuckle 2013 randomize and shift dates, in either direction."""


@stage_asset(
    policy_sections=["dates"],
    kinds=("duckdb", "numpy"),
    derived_columns={
        column: ["eligible_claims.service_date"] for column in ("service_day", "service_interval", "service_period")
    },
)
def dated_claims(
    context: dg.AssetExecutionContext,
    members: Table,
    eligible_claims: Table,
    truncated_claims: Table,
    released_sample: Table,
    policies: Policies,
    workplace: Workplace,
) -> str:
    """Claims after the long tail is cut, with redrawn dates and with the columns derived from them computed again."""
    policy = policies.of(context, Policy)
    columns = date_columns(policy, eligible_claims)
    recompute = policy.dates_section.derived == "recompute"
    delivered = (members, truncated_claims, eligible_claims, recompute)
    found = members.arrays(dated.events(*delivered))
    events = Events(*(np.ma.getdata(found[name]) for name in ("member", "day", "service")))
    if not len(events):
        raise DeliveryError("no claim has a service date, so no dates can be released; remove the section dates")
    key = date_keys(workplace, prefix_of(context), context.partition_key)
    width = widths_of(policy, members, events)
    days = redraw(events, width, _redrawing(policy, columns, eligible_claims), key[0])
    drawn = Table(members.file, "scratch", "redrawn_days")
    write_table(drawn, pd.DataFrame({"member": events.member, "day": events.day, "moved": days.day}))
    of_sample = _in_sample(members, released_sample, events)
    sampled = events.take(of_sample)
    moved = days.day[of_sample]
    services = sampled.take(sampled.service)
    as_days = policy.dates_section.format != "dates"
    errors, _ = released_errors(services.member, services.day, moved[sampled.service], as_days)
    compared = compared_ways(sampled, moved, np.repeat(width, np.diff(np.append(events.firsts, len(events))))[of_sample], key)
    misplaced = {name: int(count[0]) for name, count in members.arrays(dated.misplaced(*delivered)).items()}
    context.add_output_metadata(
        {
            "births_after_the_first_service": misplaced["births"],
            "deaths_before_the_last_service": misplaced["deaths"],
            "forced_into_the_window_share": days.forced / max(len(events.firsts), 1),
            "ways_to_change_dates": markdown_table(compared),
            "date_errors": dg.MetadataValue.md(
                markdown_image(
                    date_error_figure(np.abs(errors)),
                    f"days between delivered and released {'days since the first service' if as_days else 'dates of service'}",
                )
            ),
        }
    )
    return dated.dated_claims(members, truncated_claims, eligible_claims, drawn, columns)


@stage_asset(policy_sections=["dates"])
def known_claims(
    context: dg.AssetExecutionContext,
    eligible_claims: Table,
    grouped_claims: Table,
    dated_claims: Table,
    policies: Policies,
) -> str:
    """All eligible claims, with what an adversary may know of their dates: for released claims, what the release says."""
    columns = date_columns(policies.of(context, Policy), eligible_claims)
    return dated.known_claims(grouped_claims, eligible_claims, dated_claims, columns)


PURPOSES = ("dates", "dates randomized independently", "dates shifted")


def date_keys(workplace: Workplace, policy: str, delivery: str) -> list[bytes]:
    """The keys of the date draws: those for the released dates, and those of the two methods compared with them."""
    return [workplace.secret().derive(text, policy, delivery)[:16] for text in PURPOSES]


def date_columns(policy: Policy, eligible: Table) -> dated.DateColumns:
    """Properties of the columns derived from dates under this policy and delivery."""
    dates = policy.dates_section
    first_year, _ = _years(eligible)
    return dated.DateColumns(dates.narrowest, dates.anchor, dates.format != "dates", dates.derived, first_year)


def _years(eligible: Table) -> tuple[int, int]:
    """The calendar years of the delivery, first and last; (0, 0) without any date."""
    found = eligible.arrays(
        "SELECT coalesce(min(date_part('year', service_date) - year + 1), 0)::BIGINT AS first_year,"
        f" coalesce(max(date_part('year', service_date)), 0)::BIGINT AS last_year FROM {eligible.sql}"
    )
    return int(found["first_year"][0]), int(found["last_year"][0])


def _redrawing(policy: Policy, columns: dated.DateColumns, eligible: Table) -> Redrawing:
    first, last = columns.first_year, _years(eligible)[1]
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


def _in_sample(members: Table, sample: Table, events: Events) -> np.ndarray:
    """(e,) bool: events of members who were drawn for the release."""
    drawn = members.arrays(
        f"SELECT member_id IN (SELECT member_id FROM {sample.sql}) AS drawn FROM {members.sql} ORDER BY member_id"
    )["drawn"]
    of_events: np.ndarray = np.asarray(drawn, dtype=bool)[events.member]
    return of_events


def compared_ways(events: Events, moved: np.ndarray, width: np.ndarray, key: list[bytes]) -> pd.DataFrame:
    """Compare the methods to change dates on the members drawn for the release."""
    intervals = np.diff(events.day, prepend=0)
    intervals[events.firsts] = 0
    independent = randomize_independently(events.day, SHIFTED_AT_MOST, key[1])
    shifted = shift_sequences(events, SHIFTED_AT_MOST, key[2])
    bins = interval_bins(intervals, width)[0]
    rows = [
        (INDEPENDENT, order_violations(events, independent), None),
        (SHIFTED, order_violations(events, shifted), unique_sequences(events, intervals)),
        (GENERALIZED, order_violations(events, moved), unique_sequences(events, bins)),
    ]
    return pd.DataFrame(rows, columns=["method", "order_violated_share", "unique_intervals_share"])

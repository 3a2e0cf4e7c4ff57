"""Redrawn dates of the released claims, only if a policy releases dates (methods#dates).

The method is that of El Emam & Arbuckle 2013, ch. 5.
"""

from functools import partial

import numpy as np
import pandas as pd

from deid_assets.assessments.dates import date_columns, redrawing, widths_of
from deid_assets.assets.step import Step, image, markdown_table, stage_asset
from deid_assets.errors import DeliveryError, how_many
from deid_assets.figures.figures import date_error_figure
from deid_assets.methods.dates import dated_claims as dated
from deid_assets.methods.dates.errors import released_errors
from deid_assets.methods.dates.intervals import Events, compared_ways, redraw
from deid_assets.policy.models import Policy
from deid_assets.release.keys import date_keys
from deid_assets.store.parts import ByPerson
from deid_assets.store.tables import Table, scratch_table


@stage_asset(
    policy_sections=["dates"],
    kinds=("duckdb", "numpy"),
    derived_columns={
        column: ["eligible_claims.service_date"]
        for column in ("service_day", "service_interval", "service_period", "service_order")
    },
)
def dated_claims(
    step: Step[Policy], members: Table, eligible_claims: Table, truncated_claims: Table, released_sample: Table
) -> ByPerson:
    """Claims after the long tail is cut, with redrawn dates and with the columns derived from them computed again."""
    policy = step.policy
    if others := dated.dated_in_other_years(eligible_claims):
        raise DeliveryError(
            f"{how_many(others, 'claim has', 'claims have')} a date of service in another calendar year than others of their "
            "year, and released years follow from dates: state source.years, and map no year, so that it is that of the date"
        )
    columns = date_columns(policy, eligible_claims)
    recompute = policy.dates_section.derived == "recompute"
    delivered = (members, truncated_claims, eligible_claims, recompute)
    found = members.arrays(dated.events(*delivered))
    events = Events(*(np.ma.getdata(found[name]) for name in ("member", "day", "service")))
    if not len(events):
        raise DeliveryError("no claim has a service date, so no dates can be released; remove the section dates")
    key, *compared_with = date_keys(step.secret, *step.names)
    width = widths_of(policy, members, events)
    days = redraw(events, width, redrawing(policy, eligible_claims), key)
    moves = pd.DataFrame({"member": events.member, "day": events.day, "moved": days.day})
    drawn = scratch_table(members, "redrawn_days", moves)
    of_sample = dated.in_sample(members, released_sample)[events.member]
    sampled = events.take(of_sample)
    moved = days.day[of_sample]
    services = sampled.take(sampled.service)
    as_days = policy.dates_section.format != "dates"
    errors, _ = released_errors(services.member, services.day, moved[sampled.service], as_days)
    widths = np.repeat(width, np.diff(np.append(events.firsts, len(events))))[of_sample]
    compared = compared_ways(sampled, moved, widths, compared_with)
    misplaced = {name: int(count[0]) for name, count in members.arrays(dated.misplaced(*delivered)).items()}
    step.tell(
        {
            "births_after_the_first_service": misplaced["births"],
            "deaths_before_the_last_service": misplaced["deaths"],
            "forced_into_the_window_share": days.forced / max(len(events.firsts), 1),
            "ways_to_change_dates": markdown_table(compared),
            "date_errors": image(
                date_error_figure(np.abs(errors)),
                f"days between delivered and released {'days since the first service' if as_days else 'dates of service'}",
            ),
        }
    )
    return step.by_person(
        lambda claims, dates: dated.dated_claims_query(members, claims, dates, drawn, columns),
        truncated_claims,
        eligible_claims,
    )


@stage_asset(policy_sections=["dates"])
def known_claims(step: Step[Policy], eligible_claims: Table, grouped_claims: Table, dated_claims: Table) -> ByPerson:
    """All eligible claims, with what an adversary may know of their dates: for released claims, what the release says."""
    columns = date_columns(step.policy, eligible_claims)
    known = partial(dated.known_claims_query, columns=columns)
    return step.by_person(known, grouped_claims, eligible_claims, dated_claims)

"""Additions for released dates: the file for analysts, the notes of the report, and a refusal if nothing was redrawn."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from deid_assets.assessments.evidence import Refusal
from deid_assets.assets.dates import GENERALIZED, INDEPENDENT, SHIFTED, compared_ways, date_keys, widths_of
from deid_assets.assets.public_cells import shapes_of_measurements
from deid_assets.methods.counts.protected_counts import CountNoise
from deid_assets.methods.dates import dated_claims as dated
from deid_assets.methods.dates.errors import SMALLEST, date_errors, released_errors
from deid_assets.methods.dates.intervals import Events, drawn_on_average, interval_bins
from deid_assets.policy.models import Policy
from deid_assets.resources import Workplace
from deid_assets.store.tables import Table

_LIKELIEST = 1 / 28
"""Highest probability that a released first service day is the delivered one: an anchor's period has at least 28 days."""

_AT_LOWER_EDGES = (1, 8, 15)
_WEEK = 7
"""The example of growing intervals in El Emam & Arbuckle 2013, and its width (methods#dates)."""


@dataclass(frozen=True, eq=False)
class ReleasedDates:
    """The services of the released members, as delivered and as released.

    Attributes
    ----------
    events
        Unique days of service as delivered.
    moved
        (e,) the days released.
    width
        (e,) days in a bin of the member's intervals.
    """

    events: Events
    moved: np.ndarray
    width: np.ndarray


def released_dates(policy: Policy, members: Table, dated_table: Table, eligible: Table, kept: str) -> ReleasedDates:
    """Read delivered and released days side by side.

    Parameters
    ----------
    members, dated_table, eligible
        Delivered members, claims with released dates, and with delivered ones.
    kept
        A SELECT of the member_id of the released members.
    """
    found = members.arrays(
        f"""SELECT n.member, date_diff('day', DATE '1970-01-01', e.service_date)::BIGINT AS day,
                   min(date_diff('day', DATE '1970-01-01', r.service_date))::BIGINT AS moved
            FROM {dated_table.sql} r JOIN {eligible.sql} e USING (claim_id)
            JOIN {dated.numbers_of(members)} n ON n.member_id = r.member_id
            WHERE e.service_date IS NOT NULL AND r.member_id IN ({kept}) GROUP BY ALL ORDER BY ALL"""
    )
    member, day, moved = (np.ma.getdata(found[name]) for name in ("member", "day", "moved"))
    events = Events(member, day, np.ones(len(member), dtype=bool))
    width = np.repeat(widths_of(policy, members, events), np.diff(np.append(events.firsts, len(events))))
    return ReleasedDates(events, moved, width)


def date_refusals(released: ReleasedDates) -> list[Refusal]:
    """Refuse dates that were not redrawn: first services on their delivered day, or delivered intervals.

    The draw itself is not repeated here, so that an error in it cannot hide itself.
    """
    firsts = released.events.firsts
    same = int(np.count_nonzero(released.moved[firsts] == released.events.day[firsts]))
    at_most = len(firsts) * _LIKELIEST + 5 * np.sqrt(len(firsts) * _LIKELIEST) + 1
    found = []
    if same > at_most:
        text = "release_claims: more released dates equal the delivered ones than redrawing explains"
        shares = same / len(firsts), at_most / len(firsts)
        found.append(Refusal("dates_as_delivered", "release_claims", *shares, text, "share of members"))
    return found + _interval_refusals(released)


def _interval_refusals(released: ReleasedDates) -> list[Refusal]:
    """Detect shifted sequences: shifting moves every date but keeps, and so discloses, every interval (methods#dates).

    See El Emam & Arbuckle 2013. An interval is drawn as delivered with a probability of one over the days of its bin.
    Sequences squeezed into the delivery's years are not such draws, so half of the intervals that should differ may be
    as delivered.
    """
    follows = np.ones(len(released.events), dtype=bool)
    follows[released.events.firsts] = False
    delivered, moved = (np.diff(days, prepend=0)[follows] for days in (released.events.day, released.moved))
    lowest, highest = interval_bins(delivered, released.width[follows])
    of_choice = highest > lowest  # 0 and 1 stay as they are, and so does what is alone in its bin
    n = int(np.count_nonzero(of_choice))
    same = int(np.count_nonzero((delivered == moved)[of_choice]))
    expected = float((1 / (highest - lowest + 1))[of_choice].sum())
    at_most = expected + (n - expected) / 2 + 5 * np.sqrt(n)
    if same <= at_most:
        return []
    text = "release_claims: more intervals between released dates equal the delivered ones than redrawing explains"
    return [Refusal("intervals_as_delivered", "release_claims", same / n, at_most / n, text, "share of claims")]


def told_of_dates(policy: Policy, released: ReleasedDates, workplace: Workplace, delivery: str) -> dict[str, Any]:
    """Information about a release's dates: how they were made, what is preserved, and how far off they are.

    It also states what the two methods that are not recommended would have done.
    """
    dates = policy.dates_section
    events = released.events
    as_days = dates.format != "dates"
    errors = date_errors(
        *released_errors(events.member, events.day, released.moved, as_days), _noisy(policy, workplace, delivery)
    )
    compared = compared_ways(events, released.moved, released.width, date_keys(workplace, policy.name, delivery))
    ways = compared.set_index("method")
    several = np.count_nonzero(np.diff(np.append(events.firsts, len(events))) > 1)
    with_stays = dates.derived == "recompute"
    exact = ["services of one day stay on one day", *(["distance of a payment to its service"] if with_stays else [])]
    if dates.study_end == "redraw":
        exact.append(f"order of a member's services{' and discharges' if with_stays else ''}")
        exact.append("intervals of 1 day between them, so that days of one stay remain together")
    with_season = dates.format == "dates" and dates.anchor in ("month", "quarter")
    told = {
        "column": dates.release_as,
        "format": dates.format,
        "anchor": {
            "event": "birth, where it is known, else first service",
            "generalized_to": dates.anchor,
            "drawn": "uniformly",
        },
        "interval_bins": {
            "widest_days": dates.width,
            "first_bin": [2, dates.width],
            "drawn": "uniformly, independently",
            "local_recoding": dates.narrower is not None,
        },
        "leaving_the_years": dates.study_end,
        "derived_columns": dates.derived,
        "bias": {
            "where": "intervals that lie at the lower edges of their bins grow",
            "example": _grown(np.array(_AT_LOWER_EDGES), _WEEK),
            "here": _grown(dates.width * np.arange(len(_AT_LOWER_EDGES)) + 1, dates.width),
        },
        "preserved_exactly": exact,
        "preserved_approximately": ["interval between services", *(["season"] if with_season else [])],
        "not_preserved": [
            "weekday",
            *([] if with_season else ["season"]),
            "distance in days from one member's dates to another's",
        ],
        "where_clipped": None
        if dates.study_end == "redraw"
        else "order is kept, but different days of a member may have become the first or the last day of the years delivered",
        # With few members, shares reveal individuals.
        "not_recommended": {
            INDEPENDENT: {"order_violated_share": round(float(ways.loc[INDEPENDENT, "order_violated_share"]), 2)},
            SHIFTED: {"unique_intervals_share": round(float(ways.loc[SHIFTED, "unique_intervals_share"]), 2)},
            GENERALIZED: {"unique_intervals_share": round(float(ways.loc[GENERALIZED, "unique_intervals_share"]), 2)},
        }
        if several >= 100 * SMALLEST
        else None,
        "errors": {
            "of": "days since the first service, of all services after it" if as_days else "dates",
            "p95_days": errors.p95_days,
            "largest_days": errors.largest_days,
            "note": f"p95_days is rounded up to weeks; fewer than 11 members have a {'day' if as_days else 'date'} further "
            "off than largest_days, which is rounded up to 30 days; null where fewer than 11 members stand behind a number, "
            "by a noisy count where the files do not tell it",
        },
    }
    return told


def _noisy(policy: Policy, workplace: Workplace, delivery: str) -> Callable[[int], int]:
    """Protect the count of the released members whose dates are furthest off; the same rows give the same count."""
    received = workplace.delivery(delivery)
    noise = CountNoise(workplace.secret().derive("protected counts"), received.digest())
    of_rows = shapes_of_measurements(policy, received, {})["class_sizes"]
    return partial(noise.protect, {"cell": "dates/members beyond the percentile", "shape": of_rows})


def _grown(intervals: np.ndarray, width: int) -> dict[str, object]:
    """The average of some intervals after the draw, and the days from the first to the last event before and after."""
    drawn = drawn_on_average(intervals, width)
    return {
        "width": width,
        "intervals": intervals.tolist(),
        "drawn_on_average": drawn.tolist(),
        "days": int(intervals.sum()),
        "days_on_average": float(drawn.sum()),
    }


def notes_of(told: dict[str, Any]) -> tuple[str, ...]:
    """The same information for readers of the report."""
    anchor, bins, errors = told["anchor"]["generalized_to"].replace("_", " "), told["interval_bins"], told["errors"]
    found = [
        f"{told['column']}: the first event of a member is a random day of its {anchor}, and intervals between events are "
        f"redrawn from bins of at most {bins['widest_days']} days. Exactly preserved: "
        f"{'; '.join(told['preserved_exactly'])}. Approximately preserved: {', '.join(told['preserved_approximately'])}. Not "
        f"preserved: {', '.join(told['not_preserved'])}.",
    ]
    found.append(_bias_of(told["bias"]))
    of, one = ("dates", "date") if told["format"] == "dates" else ("days since a member's first service", "day")
    if errors["p95_days"] is not None:
        found.append(f"95 % of the {of} are at most {errors['p95_days']} days from the delivered ones.")
    if errors["largest_days"] is not None:
        found.append(f"Fewer than {SMALLEST} members have a {one} more than {errors['largest_days']} days off.")
    other = told["not_recommended"]
    if other is not None:
        found += [
            "Dates were not randomized independently of one another: of adjacent services of a member, "
            f"{_per_cent(other[INDEPENDENT]['order_violated_share'])} would have changed their order or fallen on the same "
            "day.",
            "A member's sequence was not shifted as a whole either, because a shift keeps every interval: "
            f"{_per_cent(other[SHIFTED]['unique_intervals_share'])} of the released members with several services have a "
            "sequence of intervals that no other member has. An adversary who knows whole sequences of bins in order, which "
            f"is beyond the modeled adversary, finds {_per_cent(other[GENERALIZED]['unique_intervals_share'])} of them alone "
            "in the release.",
        ]
    found.append("The machine-readable form is data/dates.json.")
    return tuple(found)


def _bias_of(bias: dict[str, Any]) -> str:
    """One sentence on how sequences grow, with the numbers of El Emam & Arbuckle 2013 and of the release."""

    def example(of: dict[str, Any]) -> str:
        return (
            f"at a width of {of['width']} days intervals of {_listed(of['intervals'])} days ({of['days']} in all) are drawn as "
            f"{_listed(of['drawn_on_average'])} on average ({of['days_on_average']:g})"
        )

    told = [example(bias["example"])]
    if bias["here"]["width"] != bias["example"]["width"]:
        told.append(f"here, {example(bias['here'])}")
    return f"Sequences whose intervals lie at the lower edges of their bins grow: {'; '.join(told)}."


def _listed(numbers: list[float]) -> str:
    return f"{', '.join(f'{number:g}' for number in numbers[:-1])} and {numbers[-1]:g}"


def _per_cent(share: float) -> str:
    return f"{100 * share:.0f} %"

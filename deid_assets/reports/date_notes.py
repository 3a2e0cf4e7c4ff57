"""What a release says about its dates, for readers of the report."""

from typing import Any

from deid_assets.errors import how_many
from deid_assets.methods.dates.errors import SMALLEST
from deid_assets.methods.dates.intervals import GENERALIZED, INDEPENDENT, SHIFTED


def notes_of(told: dict[str, Any]) -> tuple[str, ...]:
    """Sentences on the dates of a release, from `described_dates`."""
    anchor, bins, errors = told["anchor"]["generalized_to"].replace("_", " "), told["interval_bins"], told["errors"]
    found = [
        f"{told['column']}: the first event of a member is a random day of its {anchor}, and intervals between events are "
        f"redrawn from bins of at most {how_many(bins['widest_days'], 'day')}. Exactly preserved: "
        f"{'; '.join(told['preserved_exactly'])}. Approximately preserved: {', '.join(told['preserved_approximately'])}. Not "
        f"preserved: {', '.join(told['not_preserved'])}.",
    ]
    found.append(_bias_of(told["bias"]))
    of, one = ("dates", "date") if told["format"] == "dates" else ("days since a member's first service", "day")
    if errors["p95_days"] is not None:
        found.append(f"95 % of the {of} are at most {how_many(errors['p95_days'], 'day')} from the delivered ones.")
    if errors["largest_days"] is not None:
        found.append(f"Fewer than {SMALLEST} members have a {one} more than {how_many(errors['largest_days'], 'day')} off.")
    other = told["not_recommended"]
    if other is not None:
        found += [
            "Dates were not randomized independently of one another: of adjacent services of a member, "
            f"{_per_cent(other[INDEPENDENT]['order_violated_share'])} would have changed their order or fallen on the same "
            "day.",
            "A member's sequence was not shifted as a whole either, because a shift keeps every interval: "
            f"{_per_cent(other[SHIFTED]['unique_intervals_share'])} of the released members with several services have a "
            "sequence of intervals that no other member has. An adversary who knows whole sequences of bins in order, which no "
            f"gate assumes, finds {_per_cent(other[GENERALIZED]['unique_intervals_share'])} of them alone in the release.",
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

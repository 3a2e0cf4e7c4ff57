"""What the Heritage Health Prize published of attacks 2 and 3, to be held beside ours (S0 results, Table 6).

The two columns are not measured alike. S0 matched with the voters of the counties and with the discharges of
California, and used the closed form, which is biased low (methods.md 6). Here the file is the one that the policy
names, else the delivery itself, which is smaller than any such register, and whom the file lacks counts as found."""

import json
from collections.abc import Mapping

from deid_assets.reports.rendering import percent
from deid_assets.reports.report import ComparisonRow

ATTACK_2 = 0.000005
"""S0: expected share of records re-identified with the voter list."""

PERIODS = ("year_1", "year_2", "year_3", "all_years")
TABLE_6 = (
    (0.001612, 0.001478, 0.001515, 0.005141),
    (0.007105, 0.005684, 0.005965, 0.009735),
    (0.013334, 0.010156, 0.010928, 0.013579),
    (0.017272, 0.012702, 0.013797, 0.015991),
)
"""S0 Table 6: share of records matched with the State Inpatient Database in years 1, 2, 3 and all years. Each row
compared four of age, length of stay, sex, number of visits, condition group and procedure group; which is lost [NF]."""


def population_comparison(public_edition: bytes) -> tuple[ComparisonRow, ...]:
    """Hold attacks 2 and 3 of a release beside the Heritage Health Prize's.

    Parameters
    ----------
    public_edition
        The public edition of the manifest: nothing else is told.

    Returns
    -------
    tuple of ComparisonRow
        Attack 2, then Table 6 period by period: the range over choices of four columns, and all columns, which S0 did
        not publish.
    """
    manifest = json.loads(public_edition)
    measured = {found["name"]: found["value"] for item in manifest["evidence"] for found in item["measurements"]}
    voters = _shown(measured, "voter_list_match")
    rows = [ComparisonRow("Matched with a voter list (attack 2)", percent(ATTACK_2), voters)]
    for place, period in enumerate(PERIODS):
        published = sorted(row[place] for row in TABLE_6)
        name = f"inpatient_match_{period}"
        here = [_shown(measured, f"{name}_{end}_of_four") for end in ("least", "most")]
        words = period.replace("_", " ")
        rows.append(
            ComparisonRow(
                f"Inpatients matched by four columns (attack 3), {words}",
                f"{percent(published[0])} to {percent(published[-1])}",
                here[0] if here[0] == here[1] else " to ".join(here),
            )
        )
        rows.append(ComparisonRow(f"The same by all columns, {words}", "not published", _shown(measured, name)))
    return tuple(rows)


def _shown(measured: Mapping[str, object], name: str) -> str:
    value = measured.get(name)
    return percent(float(value)) if isinstance(value, int | float) else "not measured"

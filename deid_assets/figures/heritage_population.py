"""What the Heritage Health Prize published of attacks 2 and 3, to be held beside ours.

See El Emam et al. 2012, Results and Table 6. The two columns are not measured alike. The article matches with the voters of the
counties and with the discharges of California, and uses the closed form, which is biased low (methods#marketer-risk). Its
shares are of all records; here they are of members with inpatient visits, and both are shown. Here the file is the one that the
policy names, else the delivery itself, which is smaller than any such register, and whom the file lacks counts as found.
"""

import json

from deid_assets.figures.rendering import percent
from deid_assets.figures.tables import ComparisonRow

ATTACK_2 = 0.000005
"""El Emam et al. 2012: expected share of records re-identified with the voter list."""

PERIODS = ("year_1", "year_2", "year_3", "all_years")
TABLE_6 = (
    (0.001612, 0.001478, 0.001515, 0.005141),
    (0.007105, 0.005684, 0.005965, 0.009735),
    (0.013334, 0.010156, 0.010928, 0.013579),
    (0.017272, 0.012702, 0.013797, 0.015991),
)
"""Table 6 of El Emam et al. 2012: share of all records that were matched, in years 1, 2, 3 and all years.

All records are meant, not only those of inpatients; they were matched with the State Inpatient Database. Each row compared four
of age, length of stay, sex, number of visits, condition group and procedure group; which is lost in extraction.
"""


def population_comparison(public_edition: bytes) -> tuple[ComparisonRow, ...]:
    """Hold attacks 2 and 3 of a release beside the Heritage Health Prize's.

    Parameters
    ----------
    public_edition
        The public edition of the manifest; nothing else is used.

    Returns
    -------
    tuple of ComparisonRow
        Attack 2, then Table 6 period by period: the range over choices of four columns, as a share of all released members, as
        the article counts, and of those with inpatient visits, as the product's measurements do; and by all columns, which the
        article does not publish.
    """
    manifest = json.loads(public_edition)
    measured = {found["name"]: found["value"] for item in manifest["evidence"] for found in item["measurements"]}
    released = next((step["rows_out"] for step in reversed(manifest["attrition"]) if step["unit"] == "members"), None)
    rows = [ComparisonRow("Matched with a voter list (attack 2)", percent(ATTACK_2), _shown(measured.get("voter_list_match")))]
    for place, period in enumerate(PERIODS):
        published = sorted(row[place] for row in TABLE_6)
        name, words = f"inpatient_match_{period}", period.replace("_", " ")
        ends = [measured.get(f"{name}_{end}_of_four") for end in ("least", "most")]
        inpatients = measured.get(f"inpatients_{period}")
        of_all = inpatients / released if isinstance(inpatients, int | float) and released else None
        rows += [
            ComparisonRow(
                f"Matched by four inpatient columns (attack 3, Table 6), {words}: of all members",
                f"{percent(published[0])} to {percent(published[-1])}",
                _range([_times(end, of_all) for end in ends]),
            ),
            ComparisonRow(f"The same of members with inpatient visits, {words}", "not published", _range(ends)),
            ComparisonRow(
                f"By all columns, {words}: of all members", "not published", _shown(_times(measured.get(name), of_all))
            ),
            ComparisonRow(f"The same, of members with inpatient visits, {words}", "not published", _shown(measured.get(name))),
        ]
    return tuple(rows)


def _times(share: object, of_all: float | None) -> float | None:
    """A share of the inpatients as a share of all members."""
    return share * of_all if isinstance(share, int | float) and of_all is not None else None


def _range(ends: list[object]) -> str:
    least, most = map(_shown, ends)
    return least if least == most else f"{least} to {most}"


def _shown(value: object) -> str:
    return percent(float(value), 2) if isinstance(value, int | float) else "not measured"

"""What the Heritage Health Prize published about its own release, to be held beside ours (El Emam et al. 2012).

The two columns are not measured alike: the article estimates F from the release (truncated Poisson) and does not publish
alpha; counted in the population the same generalizations carry more risk (methods#population).

Of attacks 2 and 3, see Results and Table 6. The article matches with the voters of the counties and with the discharges of
California, and uses the closed form, which is biased low (methods#marketer-risk). Its shares are of all records; here they
are of members with inpatient visits, and both are shown. Here the file is the one that the policy names, else the delivery
itself, which is smaller than any such register, and whom the file lacks counts as found.
"""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from deid_assets.figures.rendering import ComparisonRow, percent, shown, shown_bound, words

GENERALIZATIONS: Mapping[str, str] = MappingProxyType(
    {
        "AgeAtFirstClaim": "10 years, 80+",
        "Sex": "no change",
        "DaysInHospital_Y2": "days to 2 weeks, over 2 weeks",
        "DaysInHospital_Y3": "days to 2 weeks, over 2 weeks",
        "Specialty": "grouped",
        "PlaceSvc": "grouped",
        "ProcedureGroup": "grouped",
        "LengthOfStay": "days to 6, then (1-2], (2-4], (4-8], (8-12], (12-26], 26+ weeks",
        "DSFS": "4 weeks",
        "PrimaryConditionGroup": "grouped",
    }
)
"""Table 5 of El Emam et al. 2012, by the column names of the release."""
_GROUPED = "{0} → grouped {0}"
HIERARCHIES: Mapping[str, str] = MappingProxyType(
    {
        "AgeAtFirstClaim": "years → 5 years, 80+ → 10 years, 80+ → 20 years, 80+",
        "Sex": "no change",
        "DaysInHospital_Y2": "days → days to 2 weeks, over 2 weeks → days to 1 week, 1-2 weeks, over 2 weeks",
        "DaysInHospital_Y3": "days → days to 2 weeks, over 2 weeks → days to 1 week, 1-2 weeks, over 2 weeks",
        "Specialty": _GROUPED.format("specialty"),
        "PlaceSvc": _GROUPED.format("place of service"),
        "ProcedureGroup": _GROUPED.format("CPT code"),
        "LengthOfStay": "days → days to 6, then weeks → days to 6, then (1-2], (2-4], (4-8], (8-12], (12-26], 26+ weeks → "
        "under 1 week, (1-2], (2-4], (4-8], (8-12], (12-26], 26+ weeks → under 4 weeks, (4-8], (8-12], (12-26], 26+ weeks",
        "DSFS": "days → weeks → 2 weeks → months",
        "PrimaryConditionGroup": "diagnosis code → primary condition group",
    }
)
"""Table 4 of El Emam et al. 2012, by the column names of the release; finest first."""
MAX_SUP = 0.008
ATTACK_1 = 0.0084
"""El Emam et al. 2012, simulated attack 1 at power 5: the literal procedure, unconditional."""
EXPECTED_AT_MOST = 0.058
"""El Emam et al. 2012: .008 + .992 * .05, the most that can be expected to be re-identified."""
SAFE_HARBOR_EXPOSURE = 0.0004
"""El Emam et al. 2012: .04 % of the population are unique under Safe Harbor and found for certain; .8 % at .05 are the same."""
TABLE_7: Mapping[str, Mapping[int, float]] = MappingProxyType(
    {
        "original": {5: 0.0084, 10: 0.0094, 15: 0.0117},
        "one_claim_jointly": {5: 0.0367, 10: 0.0372, 15: 0.0387},
        "one_pair_ordered": {5: 0.0096, 10: 0.0100, 15: 0.0120},
    }
)
"""Table 7 of El Emam et al. 2012: attack 1 by assumption and power, the literal procedure, unconditional."""


def heritage_comparison(
    attack_1: float | None, max_high_risk_share: float, expected_at_most: float
) -> tuple[ComparisonRow, ...]:
    """Hold a release's thresholds and attack 1 beside the Heritage Health Prize's.

    Parameters
    ----------
    attack_1
        Measured success of simulated attack 1, unconditional; None if not measured.
    max_high_risk_share
        Share of members that may be at high risk.
    expected_at_most
        `neighbor_attack.expected_reidentified_share` of this policy.

    Examples
    --------
    >>> rows = heritage_comparison(.003, .008, .0576)
    >>> rows[1].heritage, rows[1].here
    ('0.84 %', '0.3 %')
    """
    return (
        ComparisonRow("Members at high risk, at most (MaxSup)", percent(MAX_SUP), percent(max_high_risk_share)),
        ComparisonRow(
            "Re-identified by simulated neighbors (attack 1)",
            percent(ATTACK_1),
            "not measured" if attack_1 is None else percent(attack_1),
        ),
        ComparisonRow("Expected to be re-identified, at most", percent(EXPECTED_AT_MOST, 2), percent(expected_at_most, 2)),
    )


def exposure_comparison(public_edition: bytes) -> tuple[ComparisonRow, ...]:
    """Hold what the measured share at high risk comes to beside the article's numbers and Safe Harbor's.

    Parameters
    ----------
    public_edition
        The public edition of the manifest; nothing else is used.
    """
    manifest = json.loads(public_edition)
    measured = {found["name"]: found for item in manifest["evidence"] for found in item["measurements"]}
    rows = (
        ("Expected to be re-identified, from the measured share at high risk", EXPECTED_AT_MOST, "expected_reidentified"),
        ("Exposure: share at high risk times its probability, and that of Safe Harbor", SAFE_HARBOR_EXPOSURE, "risk_exposure"),
        ("MaxSup with the exposure of Safe Harbor", MAX_SUP, "max_sup_like_safe_harbor"),
    )
    return tuple(ComparisonRow(what, percent(published), _told(measured.get(name))) for what, published, name in rows)


def _told(found: Mapping[str, Any] | None) -> str:
    if found is None or not isinstance(found["value"], int | float):
        return "not measured"
    value = shown(found["value"], found["unit"])
    return value if found["bound"] is None else f"{value} (up to {shown_bound(found['bound'], found['unit'])})"


def table_7_comparison(
    measured: Iterable[tuple[str, int, float | None]], own_power: int | None = None
) -> tuple[ComparisonRow, ...]:
    """Hold attack 1 under other assumptions beside Table 7 of El Emam et al. 2012.

    Parameters
    ----------
    measured
        (assumption, power, unconditional success); cells that the article does not have are left out.
    own_power
        The adversary's power by the policy: of that power the cell of the unchanged attack is left out, because it is the
        gate's attack 1, simulated a second time, and stands above.

    Examples
    --------
    >>> table_7_comparison([("one_pair_ordered", 10, 0.0059)])[0].what
    'Attack 1, one pair ordered, power 10 (Table 7)'
    """
    return tuple(
        ComparisonRow(
            f"Attack 1, {words(assumption)}, power {power} (Table 7)",
            percent(TABLE_7[assumption][power]),
            "not measured" if success is None else percent(success),
        )
        for assumption, power, success in measured
        if power in TABLE_7.get(assumption, {}) and (assumption, power) != ("original", own_power)
    )


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

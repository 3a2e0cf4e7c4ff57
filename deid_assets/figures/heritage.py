"""What the Heritage Health Prize published about its own release, to be held beside ours (El Emam et al. 2012).

The two columns are not measured alike: the article estimates F from the release (truncated Poisson) and does not publish alpha;
counted in the population the same generalizations carry more risk (methods#population).
"""

import json
from collections.abc import Iterable, Mapping
from types import MappingProxyType
from typing import Any

from deid_assets.figures.numbers import shown, shown_bound
from deid_assets.figures.rendering import percent, words
from deid_assets.figures.tables import ComparisonRow

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

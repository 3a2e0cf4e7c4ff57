"""Whether the rules of the policy can apply to the delivery: checked before the draw, and again by the gate."""

import pandas as pd

from deid_assets.assessments.rule_needs import needs_frame, needs_in
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.assets.step import Step
from deid_assets.errors import RefusedError
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

SECTIONS = ["diagnosis_codes", "removal", "dates"]
"""Sections whose rules are judged before the draw; the gate judges the needs of all sections."""


@stage_asset(policy_sections=SECTIONS)
def rule_needs(
    step: Step[Policy],
    members: Table,
    claims: Table,
    delivered_codes: Table,
    removed_members: Table,
) -> pd.DataFrame:
    """What each rule of the policy needs from the delivery, and what it has; an unmet need refuses the delivery."""
    judged = [
        one
        for one in needs_in(step.policy, members, claims, delivered_codes, removed_members)
        if one.need.rule.split(".")[0] in SECTIONS
    ]
    unmet = [one for one in judged if not one.met]
    if unmet:
        reasons = f"{len(unmet)} reason{'s' * (len(unmet) != 1)}"
        texts = "; ".join(one.text for one in unmet)
        raise RefusedError(f"refused: rules of the policy cannot apply to this delivery, for {reasons}: {texts}")
    return needs_frame(judged)

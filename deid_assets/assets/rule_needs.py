"""Whether the rules of the policy can apply to the delivery: checked before the draw, and again by the gate."""

import dagster as dg
import pandas as pd

from deid_assets.assessments.evidence import Refusal
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.methods.preparation.rule_figures import rule_figures
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.needs import JudgedNeed, judged_needs
from deid_assets.reference.code_book import RARE_VISIBLE_REASON
from deid_assets.resources import Policies
from deid_assets.store.tables import Table

COLUMNS = ["rule", "figure", "count", "of", "at_least", "met"]


SECTIONS = ["removal", "dates"]
"""Sections whose rules are judged before the draw; the gate judges the needs of all sections."""


@stage_asset(policy_sections=SECTIONS)
def rule_needs(
    context: dg.AssetExecutionContext,
    members: Table,
    claims: Table,
    delivered_codes: Table,
    removed_members: Table,
    policies: Policies,
) -> pd.DataFrame:
    """What each rule of the policy needs from the delivery, and what it has; an unmet need refuses the delivery."""
    judged = [
        one
        for one in needs_in(policies.of(context, Policy), members, claims, delivered_codes, removed_members)
        if one.need.rule.split(".")[0] in SECTIONS
    ]
    unmet = [one for one in judged if not one.met]
    if unmet:
        reasons = f"{len(unmet)} reason{'s' * (len(unmet) != 1)}"
        raise dg.Failure(
            f"refused: rules of the policy cannot apply to this delivery, for {reasons}: "
            + "; ".join(one.text for one in unmet),
            metadata={"refused": True},
            allow_retries=False,
        )
    rows = [
        (one.need.rule, one.need.figure, one.figure.count, one.figure.of, float(one.need.at_least), one.met) for one in judged
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype(
        {"rule": "str", "figure": "str", "count": "int64", "of": "int64", "at_least": "float64", "met": "bool"}
    )


def needs_in(policy: Policy, members: Table, claims: Table, delivered_codes: Table, removed: Table) -> tuple[JudgedNeed, ...]:
    """Measure the delivery and compare it with every need of the policy."""
    population = None if policy.counts_population else policy.risk.population_size
    return judged_needs(policy, rule_figures(members, claims, delivered_codes, removed, RARE_VISIBLE_REASON, population))


def need_refusals(policy: Policy, members: Table, claims: Table, delivered_codes: Table, removed: Table) -> list[Refusal]:
    """The unmet needs, as counted by the gate itself."""
    return [
        Refusal("rule_cannot_apply", f"{one.need.rule}: {one.need.figure}", one.figure.share, one.need.at_least, one.text,
                "share of members")
        for one in needs_in(policy, members, claims, delivered_codes, removed)
        if not one.met
    ]  # fmt: skip

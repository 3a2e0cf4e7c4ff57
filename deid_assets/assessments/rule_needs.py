"""What the rules of a policy need from a delivery, and what it has."""

from collections.abc import Iterable

import pandas as pd

from deid_assets.assessments.evidence import Refusal
from deid_assets.methods.preparation.rule_figures import SearchedTables, rule_figures
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.needs import JudgedNeed, judged_needs
from deid_assets.reference.groups import RARE_VISIBLE_REASON

COLUMNS = ["rule", "figure", "count", "of", "at_least", "met"]


def needs_in(policy: Policy, searched: SearchedTables) -> tuple[JudgedNeed, ...]:
    """Measure the delivery and compare it with every need of the policy."""
    population = None if policy.counts_population else policy.risk.population_size
    return judged_needs(policy, rule_figures(searched, RARE_VISIBLE_REASON, population, policy.listed_columns_of_events))


def need_refusals(policy: Policy, searched: SearchedTables) -> list[Refusal]:
    """The unmet needs, as counted by the gate itself."""
    return [
        Refusal("rule_cannot_apply", f"{one.need.rule}: {one.need.figure}", one.figure.share, one.need.at_least, one.text,
                "share of members")
        for one in needs_in(policy, searched)
        if not one.met
    ]  # fmt: skip


def needs_frame(judged: Iterable[JudgedNeed]) -> pd.DataFrame:
    """One row per need: what it asks of which rule, what was counted, and whether it is met."""
    rows = [
        (one.need.rule, one.need.figure, one.figure.count, one.figure.of, float(one.need.at_least), one.met) for one in judged
    ]
    return pd.DataFrame(rows, columns=COLUMNS).astype(
        {"rule": "str", "figure": "str", "count": "int64", "of": "int64", "at_least": "float64", "met": "bool"}
    )

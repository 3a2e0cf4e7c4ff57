"""Adversary: how diverse each member's values are, and how many of them an adversary knows (methods#adversary-power)."""

from functools import partial

import pandas as pd

from deid_assets.assets.step import Step, stage_asset
from deid_assets.methods.adversary.adversary_power import (
    correlation_of,
    diversity_by_member,
    power_by_quasi_identifier,
    value_diversity_query,
    values_of_members,
)
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS
from deid_assets.store.parts import ByPerson
from deid_assets.store.tables import Table


def _measured(policy: Policy) -> tuple[str, ...]:
    """Year, the six columns of Table 5, what an adversary may know about released dates, and what the policy declares.

    The table is in Multimedia Appendix 1 to El Emam et al. 2012.
    """
    return ("year", *CLAIM_COLUMNS, *(policy.dates.columns if policy.dates else ()), *sorted(policy.columns.of_events))


@stage_asset(policy_sections=["dates", "columns"], version="2")
def value_diversity(step: Step[Policy], known: Table, released_sample: Table) -> ByPerson:
    """Simpson diversity of each released member's values, before the long tail is cut; year is added to the six."""
    diversity = partial(value_diversity_query, quasi_identifiers=_measured(step.policy))
    return step.by_person(diversity, known, released_sample)


@stage_asset(policy_sections=["dates", "columns"])
def diversity_correlation(step: Step[Policy], value_diversity: Table) -> pd.DataFrame:
    """Correlation of the diversities between quasi-identifiers: Table 5 of Multimedia Appendix 1 (El Emam et al. 2012)."""
    names = _measured(step.policy)
    wide = value_diversity.query(diversity_by_member(value_diversity, names))
    return correlation_of(wide[list(names)]).reset_index(names="quasi_identifier")


@stage_asset(policy_sections=["adversary"], version="2", derived_columns={"power": ["value_diversity.differing_pairs"]})
def adversary_power(step: Step[Policy], value_diversity: Table, member_profiles: Table) -> pd.DataFrame:
    """The adversary power p_ih: how many values of each quasi-identifier an adversary knows about each released member."""
    adversary = step.policy.adversary
    numbers = {column: step.policy.numbers_of_events(column) for column in _measured(step.policy)}
    rows = value_diversity.query(values_of_members(value_diversity, member_profiles, numbers))
    found = power_by_quasi_identifier(rows, adversary.power, adversary.rounding)
    step.tell({"mean_power": float(found["power"].mean()) if len(found) else 0.0})
    return found

"""Accounting: what became of every delivered row and value."""

import pandas as pd

from deid_assets.assessments.candidate_rows import PATTERNS
from deid_assets.assessments.compared_tables import analyst_questions_of, compared_tables
from deid_assets.assessments.kernel_input import CANDIDATE, Candidate
from deid_assets.assessments.why_ledger import INPUTS, why_ledger_of
from deid_assets.assets.step import Step, StepLog, stage_asset
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table


@stage_asset(
    policy_sections=[
        "removal", "quasi_identifiers", "hierarchies", "dimensions", "top_coding", "provider_suppression", "dates",
    ],
    version="3",
    kinds=("duckdb", "numpy"),
    inputs=(*INPUTS.values(), PATTERNS, "value_domains", "chosen_generalization"),
)  # fmt: skip
def why_ledger(step: Step[Policy], **tables: Table) -> pd.DataFrame:
    """Every row and value that was delivered and is not in the release, with the one step that left it out, and why.

    Restricted: its counts are exact.
    """
    return why_ledger_of(Candidate.of(step.policy, tables), StepLog(step.context, "accounts"))


@stage_asset(
    policy_sections=["quasi_identifiers", "hierarchies", "dimensions", "top_coding"],
    inputs=(
        "member_profiles", "eligible_claims", "known", "value_domains", "chosen_generalization", *CANDIDATE,
    ),
)  # fmt: skip
def analyst_questions(step: Step[Policy], **tables: Table) -> pd.DataFrame:
    """Rates that analysts ask for, by age, sex and condition group, answered from the delivery and from the release.

    Restricted: its counts are exact.
    """
    candidate = Candidate.of(step.policy, tables)
    return analyst_questions_of(candidate, compared_tables(candidate))

"""Contracts of the accounting stage: every delivered row and value, and the step that left it out."""

from deid_assets.methods.utility.ledger import REASONS, STEP_ORDER, UNACCOUNTED
from deid_assets.schemas.contract import Role, contract, count, measure, number, one_of, text, within

_STEPS = [step for step in REASONS if step != UNACCOUNTED]
"""A row or value that no rule explains breaks the contract."""


CONTRACTS = {
    "why_ledger": contract(
        {
            "source_table": text("delivered table", one_of(["members", "claims"], "members or claims")),
            "source_column": text("delivered column; empty for the rows of the table"),
            "released_as": text("its name in the release; empty if it is withheld, and for rows"),
            STEP_ORDER: number("order of the steps"),
            "step": text("the step", one_of(_STEPS, "a step with a rule")),
            "reason": text("why the step leaves out or changes something"),
            "lost": count("rows or values that end at this step", "rows or values"),
            "changed": count("values that this step is the first to change", "rows or values"),
            "filled": count("blanks that join a class of values", "rows or values"),
            "remaining": count("rows or values after the step", "rows or values"),
            "bits": measure("entropy of the values after the step", within(0, None), nullable=True, unit="bits a value"),
        },
        unique=["source_table", "source_column", "step"],
    ),
    "analyst_questions": contract(
        {
            "question": text("the question"),
            "group": text("whom it is about: labels as released", role=Role.QUASI_IDENTIFIER),
            "delivered": count("delivered members with the property", "rows or values"),
            "of_delivered": count("delivered members of the group", "rows or values"),
            "released": count("released members with the property", "rows or values"),
            "of_released": count("released members of the group", "rows or values"),
            "standard_errors": measure(
                "difference of the two rates; blank where the group is too small",
                nullable=True,
                unit="standard errors of sampling",
            ),
        },
        unique=["question", "group"],
    ),
}

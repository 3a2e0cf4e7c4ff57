"""Contracts of the accounting stage: every delivered row and value, and the step that left it out."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column

from deid_assets.methods.utility.ledger import REASONS, STEP_ORDER, UNACCOUNTED
from deid_assets.schemas.contract import Role, column, contract

_STEPS = [step for step in REASONS if step != UNACCOUNTED]
"""A row or value that no rule explains breaks the contract."""


def _number(what: str) -> Column:
    return column(dt.int64, Role.MEASUREMENT, what, Check.ge(0, error="at least 0"), unit="rows or values")


WHY_LEDGER = contract(
    {
        "source_table": column(
            dt.string, Role.OTHER, "delivered table", Check.isin(["members", "claims"], error="members or claims")
        ),
        "source_column": column(dt.string, Role.OTHER, "delivered column; empty for the rows of the table"),
        "released_as": column(dt.string, Role.OTHER, "its name in the release; empty if it is withheld, and for rows"),
        STEP_ORDER: column(dt.int64, Role.OTHER, "order of the steps", Check.ge(0, error="at least 0")),
        "step": column(dt.string, Role.OTHER, "the step", Check.isin(_STEPS, error="a step with a rule")),
        "reason": column(dt.string, Role.OTHER, "why the step leaves out or changes something"),
        "lost": _number("rows or values that end at this step"),
        "changed": _number("values that this step is the first to change"),
        "filled": _number("blanks that join a class of values"),
        "remaining": _number("rows or values after the step"),
        "bits": column(
            dt.float64,
            Role.MEASUREMENT,
            "entropy of the values after the step",
            Check.ge(0, error="at least 0"),
            nullable=True,
            unit="bits a value",
        ),
    },
    unique=["source_table", "source_column", "step"],
)

ANALYST_QUESTIONS = contract(
    {
        "question": column(dt.string, Role.OTHER, "the question"),
        "group": column(dt.string, Role.QUASI_IDENTIFIER, "whom it is about: labels as released"),
        "delivered": _number("delivered members with the property"),
        "of_delivered": _number("delivered members of the group"),
        "released": _number("released members with the property"),
        "of_released": _number("released members of the group"),
        "standard_errors": column(
            dt.float64,
            Role.MEASUREMENT,
            "difference of the two rates; blank where the group is too small",
            nullable=True,
            unit="standard errors of sampling",
        ),
    },
    unique=["question", "group"],
)

CONTRACTS = {"why_ledger": WHY_LEDGER, "analyst_questions": ANALYST_QUESTIONS}

"""Contracts of the intake stage: a delivery in canonical form, and the rows that row-level rules quarantined."""

from typing import get_args

import ibis.expr.datatypes as dt
from pandera.ibis import Check

from deid_assets.reference import known_columns
from deid_assets.reference.codes import ICD10CM_PREFIX
from deid_assets.schemas.contract import (
    YEAR_NUMBER,
    Role,
    column,
    contract,
    days,
    identifier,
    number,
    one_of,
    quasi_identifier,
    text,
    within,
)

_CODE = rf"((V[0-9]{{2}}|E[0-9]{{3}}|[0-9]{{3}})[0-9]{{0,2}}|{ICD10CM_PREFIX}[A-Z][0-9][0-9A-Z]{{1,5}})"
_DIAGNOSIS = Check.str_matches(f"^{_CODE}$", error="dotless code of ICD-9-CM, or of ICD-10-CM with its system")
_DIAGNOSES = Check.str_matches(
    f"^{_CODE}( {_CODE})*$", error="dotless codes of ICD-9-CM, or of ICD-10-CM with their system, separated by blanks"
)


MEMBER_ID = identifier("the insurer's identifier of the member")


CLAIMS = contract(
    {
        "claim_id": identifier("the insurer's identifier of the claim"),
        "member_id": MEMBER_ID,
        "provider_id": identifier("provider who gave care", nullable=True),
        "vendor_id": identifier("vendor who billed", nullable=True),
        "pcp_id": identifier("the member's primary care provider", nullable=True),
        "year": number("claim year", YEAR_NUMBER, dt.int32),
        "service_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of service", nullable=True),
        **{
            known.delivered_as: quasi_identifier(
                f"{known.codes} code" if known.codes else known.meaning, known.limits, unit=known.unit
            )
            for known in known_columns.CLAIMS.values()
            if known.delivered_as is not None
        },
        "pay_delay": days(Role.OTHER, "from service to payment"),
        "diagnosis_1": text("first-listed diagnosis", _DIAGNOSIS, Role.QUASI_IDENTIFIER, nullable=True),
        **{
            f"diagnosis_{place}": text(f"{which} diagnosis", _DIAGNOSIS, Role.SENSITIVE_ATTRIBUTE, nullable=True)
            for place, which in ((2, "second"), (3, "third"), (4, "fourth"))
        },
        "further_diagnoses": text(
            "diagnoses after the fourth and that of admission, separated by blanks",
            _DIAGNOSES,
            Role.SENSITIVE_ATTRIBUTE,
            nullable=True,
        ),
        **{
            name: number(f"codes of the kind {kind} that cannot be read, and are blank", dtype=dt.int32, unit="codes")
            for kind, name in known_columns.UNREADABLE.items()
        },
    },
    unique=["claim_id"],
)

CODES_OF_DECLARED = {
    known_columns.DECLARED_CODES: text(
        "codes of declared columns, each behind its kind, separated by semicolons", role=Role.SENSITIVE_ATTRIBUTE, nullable=True
    ),
    known_columns.UNREADABLE_DECLARED: number(
        "codes of declared columns that cannot be read, and are blank", dtype=dt.int32, unit="codes"
    ),
}
"""Columns of the claims where a policy declares columns of codes."""


CONTRACTS = {
    "members": contract(
        {
            "member_id": MEMBER_ID,
            **{
                known.delivered_as: quasi_identifier(known.meaning, known.limits, known.values, known.unit)
                for known in known_columns.MEMBERS.values()
                if known.delivered_as is not None
            },
            "birth_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of birth", nullable=True),
            "death_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of death", nullable=True),
        },
        unique=["member_id"],
    ),
    "claims": CLAIMS,
    # A line lost inside an unclosed quote has neither number nor text, and there may be several, so there is no key.
    "quarantined_rows": contract(
        {
            "source_table": text("the table for which the row was meant", one_of(["members", "claims"], "members or claims")),
            "source_file": text("the file that contains it"),
            "source_row": number(
                "its line in a CSV file, else its row; blank where a line was lost", within(1, None), nullable=True
            ),
            "rule": text("the first rule that it breaks"),
            "source_column": text("the column judged; empty where a whole line is at fault"),
            "raw_row": identifier("the row as JSON, or the line as it was", nullable=True),
        }
    ),
    "delivered_codes": contract(
        {
            "source_column": text("column of codes of the claims"),
            "kind": text("kind of code", one_of(get_args(known_columns.ListedKind), "a kind of code")),
            "written": number("codes on the claims kept, as delivered", unit="codes"),
            "unreadable": number("codes that the product does not know; they are blank in the claims", unit="codes"),
            "other_system": number("diagnoses in the form of the coding system that the policy does not say", unit="codes"),
        },
        unique=["source_column"],
    ),
}

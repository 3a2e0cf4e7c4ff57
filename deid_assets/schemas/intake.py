"""Contracts of the intake stage: a delivery in canonical form, and the rows that row-level rules quarantined."""

from typing import get_args

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column

from deid_assets.reference import known_columns
from deid_assets.reference.code_systems import ICD10CM_PREFIX
from deid_assets.schemas.contract import YEAR_NUMBER, Role, column, contract, days, quasi_identifier

_CODE = rf"((V[0-9]{{2}}|E[0-9]{{3}}|[0-9]{{3}})[0-9]{{0,2}}|{ICD10CM_PREFIX}[A-Z][0-9][0-9A-Z]{{1,5}})"
_DIAGNOSIS = Check.str_matches(f"^{_CODE}$", error="dotless code of ICD-9-CM, or of ICD-10-CM with its system")
_DIAGNOSES = Check.str_matches(
    f"^{_CODE}( {_CODE})*$", error="dotless codes of ICD-9-CM, or of ICD-10-CM with their system, separated by blanks"
)


MEMBERS = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
        **{
            known.delivered_as: quasi_identifier(known.meaning, known.limits, known.values, known.unit)
            for known in known_columns.MEMBERS.values()
            if known.delivered_as is not None
        },
        "birth_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of birth", nullable=True),
        "death_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of death", nullable=True),
    },
    unique=["member_id"],
)

CLAIMS = contract(
    {
        "claim_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the claim"),
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
        "provider_id": column(dt.string, Role.DIRECT_IDENTIFIER, "provider who gave care", nullable=True),
        "vendor_id": column(dt.string, Role.DIRECT_IDENTIFIER, "vendor who billed", nullable=True),
        "pcp_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the member's primary care provider", nullable=True),
        "year": column(dt.int32, Role.OTHER, "claim year", YEAR_NUMBER),
        "service_date": column(dt.date, Role.DIRECT_IDENTIFIER, "date of service", nullable=True),
        **{
            known.delivered_as: quasi_identifier(
                f"{known.codes} code" if known.codes else known.meaning, known.limits, unit=known.unit
            )
            for known in known_columns.CLAIMS.values()
            if known.delivered_as is not None
        },
        "pay_delay": days(Role.OTHER, "from service to payment"),
        "diagnosis_1": column(dt.string, Role.QUASI_IDENTIFIER, "first-listed diagnosis", _DIAGNOSIS, nullable=True),
        "diagnosis_2": column(dt.string, Role.SENSITIVE_ATTRIBUTE, "second diagnosis", _DIAGNOSIS, nullable=True),
        "diagnosis_3": column(dt.string, Role.SENSITIVE_ATTRIBUTE, "third diagnosis", _DIAGNOSIS, nullable=True),
        "diagnosis_4": column(dt.string, Role.SENSITIVE_ATTRIBUTE, "fourth diagnosis", _DIAGNOSIS, nullable=True),
        "further_diagnoses": column(
            dt.string,
            Role.SENSITIVE_ATTRIBUTE,
            "diagnoses after the fourth and that of admission, separated by blanks",
            _DIAGNOSES,
            nullable=True,
        ),
        **{
            name: column(
                dt.int32,
                Role.OTHER,
                f"codes of the kind {kind} that cannot be read, and are blank",
                Check.ge(0, error="at least 0"),
                unit="codes",
            )
            for kind, name in known_columns.UNREADABLE.items()
        },
    },
    unique=["claim_id"],
)

CODES_OF_DECLARED = {
    known_columns.DECLARED_CODES: column(
        dt.string,
        Role.SENSITIVE_ATTRIBUTE,
        "codes of declared columns, each behind its kind, separated by semicolons",
        nullable=True,
    ),
    known_columns.UNREADABLE_DECLARED: column(
        dt.int32,
        Role.OTHER,
        "codes of declared columns that cannot be read, and are blank",
        Check.ge(0, error="at least 0"),
        unit="codes",
    ),
}
"""Columns of the claims where a policy declares columns of codes."""

# A line lost inside an unclosed quote has neither number nor text, and there may be several, so there is no key.
QUARANTINED_ROWS = contract(
    {
        "source_table": column(
            dt.string,
            Role.OTHER,
            "the table for which the row was meant",
            Check.isin(["members", "claims"], error="members or claims"),
        ),
        "source_file": column(dt.string, Role.OTHER, "the file that contains it"),
        "source_row": column(
            dt.int64,
            Role.OTHER,
            "its line in a CSV file, else its row; blank where a line was lost",
            Check.ge(1, error="at least 1"),
            nullable=True,
        ),
        "rule": column(dt.string, Role.OTHER, "the first rule that it breaks"),
        "source_column": column(dt.string, Role.OTHER, "the column judged; empty where a whole line is at fault"),
        "raw_row": column(dt.string, Role.DIRECT_IDENTIFIER, "the row as JSON, or the line as it was", nullable=True),
    }
)


def _codes(what: str) -> Column:
    return column(dt.int64, Role.OTHER, what, Check.ge(0, error="at least 0"), unit="codes")


DELIVERED_CODES = contract(
    {
        "source_column": column(dt.string, Role.OTHER, "column of codes of the claims"),
        "kind": column(
            dt.string,
            Role.OTHER,
            "kind of code",
            Check.isin(list(get_args(known_columns.ListedKind)), error="a kind of code"),
        ),
        "written": _codes("codes on the claims kept, as delivered"),
        "unreadable": _codes("codes that the product does not know; they are blank in the claims"),
        "other_system": _codes("diagnoses in the form of the coding system that the policy does not say"),
    },
    unique=["source_column"],
)

CONTRACTS = {
    "members": MEMBERS,
    "claims": CLAIMS,
    "quarantined_rows": QUARANTINED_ROWS,
    "delivered_codes": DELIVERED_CODES,
}

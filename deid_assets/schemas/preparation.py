"""Contracts of the preparation stage: grouped values, what was cut, and who may be released."""

import ibis.expr.datatypes as dt
from pandera.ibis import Check

from deid_assets.reference.charlson import CHARLSON_BANDS
from deid_assets.reference.tables import read_table
from deid_assets.schemas.contract import Role, column, contract

def _groups(table: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(row["group"] for row in read_table(table)))


CONDITION_GROUPS = _groups("condition_groups.csv")
PROCEDURE_GROUPS = _groups("procedure_groups.csv")
PLACE_GROUPS = _groups("places.csv")
SPECIALTY_GROUPS = _groups("specialties.csv")

REMOVED_MEMBERS = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a member who may not be released"),
        "reason": column(dt.string, Role.SENSITIVE_ATTRIBUTE, "why: the rule that removed the member"),
        "sensitive": column(dt.boolean, Role.SENSITIVE_ATTRIBUTE, "whether absence would disclose a condition"),
    },
    unique=["member_id", "reason"],
)

RELEASED_SAMPLE = contract(
    {"member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a member drawn for the release")}, unique=["member_id"]
)


def _in(values: tuple[str, ...], what: str) -> Check:
    return Check.isin(list(values), error=f"one of the {len(values)} {what}")


def _grouped_claims() -> dict:
    return {
        "claim_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the claim"),
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
        "provider_id": column(dt.string, Role.DIRECT_IDENTIFIER, "who gave care", nullable=True),
        "vendor_id": column(dt.string, Role.DIRECT_IDENTIFIER, "who billed", nullable=True),
        "pcp_id": column(dt.string, Role.DIRECT_IDENTIFIER, "primary care provider", nullable=True),
        "year": column(dt.int32, Role.OTHER, "claim year", Check.in_range(1, 3, error="1 to 3")),
        "specialty": column(
            dt.string,
            Role.QUASI_IDENTIFIER,
            "specialty group",
            _in(SPECIALTY_GROUPS, "specialty groups"),
            nullable=True,
        ),
        "place": column(
            dt.string, Role.QUASI_IDENTIFIER, "place of service group", _in(PLACE_GROUPS, "place groups"), nullable=True
        ),
        "procedure_group": column(
            dt.string, Role.QUASI_IDENTIFIER, "CPT group", _in(PROCEDURE_GROUPS, "CPT groups"), nullable=True
        ),
        "condition_group": column(
            dt.string,
            Role.QUASI_IDENTIFIER,
            "primary condition group",
            _in(CONDITION_GROUPS, "condition groups"),
            nullable=True,
        ),
        "charlson": column(
            dt.string, Role.SENSITIVE_ATTRIBUTE, "Charlson index in bands", _in(CHARLSON_BANDS, "Charlson bands")
        ),
        "length_of_stay": column(
            dt.int32,
            Role.QUASI_IDENTIFIER,
            "length of stay",
            Check.ge(1, error="at least 1"),
            nullable=True,
            unit="days",
        ),
        "pay_delay": column(
            dt.int32,
            Role.OTHER,
            "from service to payment, top-coded",
            Check.ge(0, error="at least 0"),
            nullable=True,
            unit="days",
        ),
        "days_since_first_claim": column(
            dt.int32,
            Role.QUASI_IDENTIFIER,
            "since the member's first claim of the year",
            Check.in_range(0, 366, error="0 to 366"),
            nullable=True,
            unit="days",
        ),
    }


MEMBER_PROFILES = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
        "member_number": column(dt.int64, Role.OTHER, "position of the member in the order of identifiers, from 0"),
        "age": column(dt.int32, Role.QUASI_IDENTIFIER, "age at first claim", nullable=True, unit="completed years"),
        "sex": column(dt.string, Role.QUASI_IDENTIFIER, "sex", Check.isin(["F", "M"], error="F or M"), nullable=True),
        "days_in_hospital_y2": column(
            dt.int32, Role.QUASI_IDENTIFIER, "in year 2, top-coded", nullable=True, unit="days"
        ),
        "days_in_hospital_y3": column(
            dt.int32, Role.QUASI_IDENTIFIER, "in year 3, top-coded", nullable=True, unit="days"
        ),
        "claims_truncated": column(
            dt.int32, Role.QUASI_IDENTIFIER, "1 if any claim was cut", Check.isin([0, 1], error="0 or 1")
        ),
        "claims": column(dt.int64, Role.OTHER, "claims before the long tail is cut", Check.ge(0, error="at least 0")),
        "released": column(dt.boolean, Role.OTHER, "whether the member is in the random sample"),
    },
    unique=["member_id"],
)

CONTRACTS = {
    "removed_members": REMOVED_MEMBERS,
    "released_sample": RELEASED_SAMPLE,
    "grouped_claims": contract(_grouped_claims(), unique=["claim_id"]),
    "truncated_claims": contract(_grouped_claims(), unique=["claim_id"]),
    "member_profiles": MEMBER_PROFILES,
}

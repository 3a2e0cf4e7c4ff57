"""Contracts of the preparation stage: codes and their groups, eligible members, pseudonyms, and what was cut."""

from collections.abc import Iterable
from itertools import chain

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column, DataFrameSchema

from deid_assets.methods.preparation.exclusion_tables import TABLES
from deid_assets.policy.models import Policy
from deid_assets.reference.charlson import CHARLSON_BANDS
from deid_assets.reference.groups import GROUP_NAMES, KINDS, RARE_VISIBLE_REASON
from deid_assets.reference.known_columns import CLAIMS, MEMBERS, KnownColumn
from deid_assets.reference.tables import read_table
from deid_assets.schemas import intake
from deid_assets.schemas.contract import (
    YEAR_NUMBER,
    Role,
    column,
    contract,
    count,
    days,
    flag,
    identifier,
    measure,
    number,
    one_of,
    pseudonym,
    quasi_identifier,
    share,
    text,
    within,
)


def _in(values: Iterable[str], what: str) -> Check:
    listed = sorted(set(values))
    return one_of(listed, f"one of the {len(listed)} {what}")


def _percentage(of_whom: str) -> Column:
    what = f"of {of_whom}: per cent; claims where the table is a median; the distance where it is one"
    return measure(what, within(0, None), nullable=True)


_CHARLSON = read_table("charlson_conditions.csv")


def _prepared(known: KnownColumn) -> Column:
    """A known column as prepared: groups instead of codes, and whole numbers from the smallest that is left."""
    limits = known.limits if known.limits is None else (known.prepared_from or known.limits[0], known.limits[1])
    return quasi_identifier(known.meaning, limits, GROUP_NAMES[known.codes] if known.codes else known.values, known.unit)


def grouped_claims_columns() -> dict[str, Column]:
    """The columns of grouped claims."""
    return {
        **{name: intake.CLAIMS.columns[name] for name in ("claim_id", "member_id", "provider_id", "vendor_id")},
        "pcp_id": identifier("primary care provider", nullable=True),
        "year": intake.CLAIMS.columns["year"],
        **{name: _prepared(known) for name, known in CLAIMS.items()},
        "charlson": text(
            "Charlson index in bands; blank where a diagnosis cannot be read",
            _in(CHARLSON_BANDS, "Charlson bands"),
            Role.SENSITIVE_ATTRIBUTE,
            nullable=True,
        ),
        "pay_delay": days(Role.OTHER, "from service to payment, top-coded"),
    }


_INTERVAL = Check.str_matches(r"^([0-9]+|[0-9]+-[0-9]+)$", error="days, or first and last day of a bin")
_ORDER = Check.str_matches(r"^([0-9]+|[0-9]+-[0-9]+) then ([0-9]+|[0-9]+-[0-9]+)$", error="two bins, the earlier one first")
_PERIOD = Check.str_matches(r"^[0-9]{4}(-[0-9]{2}|-Q[1-4]|-H[12])?$", error="a month, quarter, half year or year")


def date_contracts(policy: Policy) -> dict[str, DataFrameSchema]:
    """The contracts that are changed or added under a policy with dates; empty otherwise."""
    if policy.dates is None:
        return {}
    columns = grouped_claims_columns() | {
        # If days are released instead of dates, a claim without a date has no year either.
        "year": number("year of the released date", YEAR_NUMBER, dt.int32, nullable=True),
        "service_date": column(dt.date, Role.QUASI_IDENTIFIER, "date of service, redrawn", nullable=True),
        "service_day": days(Role.QUASI_IDENTIFIER, "days since the member's first service, redrawn"),
        "service_interval": text(
            "bin of the days since the previous service", _INTERVAL, Role.QUASI_IDENTIFIER, nullable=True, unit="days"
        ),
        "service_period": text("period of the service", _PERIOD, Role.QUASI_IDENTIFIER, nullable=True),
    }
    if "service_order" in policy.dates.columns:
        columns["service_order"] = text(
            "bins of the two intervals before the service, the earlier one first",
            _ORDER,
            Role.QUASI_IDENTIFIER,
            nullable=True,
            unit="days",
        )
    # Rows of `truncated_claims` and of `grouped_claims`; the latter's contract checks the key.
    return {"dated_claims": contract(columns), "known_claims": contract(columns)}


CONTRACTS = {
    "code_book": contract(
        {
            "kind": text("kind of code", _in(KINDS, "kinds of code")),
            "code": text("a code in the delivery", role=Role.QUASI_IDENTIFIER),
            "group_name": text(
                "the group that replaces it; blank if there is none",
                _in(chain(*GROUP_NAMES.values()), "groups"),
                Role.QUASI_IDENTIFIER,
                nullable=True,
            ),
            "is_procedure": flag("whether it stands for a medical procedure"),
            "removal_reason": text(
                "why it removes a member; blank if it does not",
                _in((*(row["reason"] for row in read_table("sensitive_codes.csv")), RARE_VISIBLE_REASON), "reasons"),
                Role.SENSITIVE_ATTRIBUTE,
                nullable=True,
            ),
        },
        unique=["kind", "code"],
    ),
    "comorbidity_codes": contract(
        {
            "code": text("a diagnosis code that the delivery holds", role=Role.QUASI_IDENTIFIER),
            "condition": text(
                "a Charlson condition that it stands for",
                _in((row["condition"] for row in _CHARLSON), "Charlson conditions"),
                Role.SENSITIVE_ATTRIBUTE,
            ),
            "family": text(
                "conditions of one family count once, the severest",
                _in((row["family"] for row in _CHARLSON), "families of Charlson conditions"),
                Role.SENSITIVE_ATTRIBUTE,
            ),
            "weight": column(
                dt.int64,
                Role.MEASUREMENT,
                "what the condition adds to the index",
                one_of(sorted({int(row["weight"]) for row in _CHARLSON}), "a Charlson weight"),
                unit="index points",
            ),
        },
        unique=["code", "condition"],
    ),
    "pseudonym_crosswalk": contract(
        {
            "kind": text("kind of identifier", _in(("member", "provider", "vendor", "pcp"), "kinds of identifier")),
            "original_id": identifier("the insurer's identifier"),
            "pseudonym": pseudonym("the pseudonym that the release shows instead"),
        },
        # In both directions: two pseudonyms for one identifier would multiply rows; one for two would merge two people.
        unique=[["kind", "original_id"], ["kind", "pseudonym"]],
    ),
    "removed_members": contract(
        {
            "member_id": identifier("a member who must not be released"),
            "reason": text("the rule that removed the member", role=Role.SENSITIVE_ATTRIBUTE),
            "sensitive": column(dt.boolean, Role.SENSITIVE_ATTRIBUTE, "whether absence would disclose a condition"),
        },
        unique=["member_id", "reason"],
    ),
    # The columns of the canonical claims. Here, in `claim_support_scores` and in `truncated_claims`, `claim_id` is a key by
    # construction and is not grouped again: for 42 million claims that takes 13 seconds of processor time and 2.3 GB each.
    # These rows are those of `claims` joined on the keys of `members` and `code_book`. All three keys are checked, and a
    # duplicate claim would still be found in `grouped_claims`.
    "eligible_claims": contract(dict(intake.CLAIMS.columns)),
    "eligible_members": contract({"member_id": identifier("a member who may be released")}, unique=["member_id"]),
    "rule_needs": contract(
        {
            "rule": text("key of the rule in the policy"),
            "figure": text("what was measured"),
            "count": count("how many have it"),
            "of": count("out of how many"),
            "at_least": column(dt.float64, Role.OTHER, "the share that the rule needs", unit="share"),
            "met": flag("whether the delivery has it"),
        },
        unique=["rule", "figure"],
    ),
    "exclusion_comparison": contract(
        {
            "table": text("what is compared", _in(TABLES, "comparisons")),
            "value": text("class of values, or what the distance is of"),
            "excluded": _percentage("removed members"),
            "remaining": _percentage("remaining members"),
            "low": share("lower bound of the distance", "", nullable=True),
            "high": share("upper bound of the distance", "", nullable=True),
            "p_value": share("of equal distributions, by a bootstrap over members", "", nullable=True),
        },
        unique=["table", "value"],
    ),
    "released_sample": contract({"member_id": identifier("a member drawn for the release")}, unique=["member_id"]),
    "grouped_claims": contract(grouped_claims_columns(), unique=["claim_id"]),
    "claim_support_scores": contract(  # a row for each row of `grouped_claims`, joined on values that are grouped
        {
            "claim_id": identifier("the insurer's identifier of the claim"),
            "score": share(
                "support: 1 - (other members with its rarest value) / members, cut from the highest; balanced: cut from the "
                "lowest",
                "share of members",
            ),
        }
    ),
    "truncated_claims": contract(grouped_claims_columns()),  # `grouped_claims` without those that were cut
    "member_profiles": contract(
        {
            "member_id": intake.MEMBER_ID,
            "member_number": number("position of the member in the order of identifiers, from 0"),
            **{name: _prepared(known) for name, known in MEMBERS.items()},
            "claims_truncated": column(
                dt.int32,
                Role.QUASI_IDENTIFIER,
                "1 if any claim was cut; blank where the member was enrolled in neither year",
                one_of([0, 1], "0 or 1"),
                nullable=True,
            ),
            "claims": number("claims before the long tail is cut", unit="claims"),
            "released": flag("whether the member is in the random sample"),
        },
        unique=["member_id"],
    ),
}

"""Contracts of the preparation stage: codes and their groups, eligible members, pseudonyms, and what was cut."""

from collections.abc import Iterable
from itertools import chain

import ibis.expr.datatypes as dt
from pandera.ibis import Check, Column

from deid_assets.methods.preparation.exclusion_tables import TABLES
from deid_assets.methods.preparation.pseudonyms import DIGITS
from deid_assets.reference.charlson import CHARLSON_BANDS
from deid_assets.reference.code_book import GROUP_NAMES, KINDS, RARE_VISIBLE_REASON
from deid_assets.reference.known_columns import CLAIMS, MEMBERS, KnownColumn
from deid_assets.reference.tables import read_table
from deid_assets.schemas import intake
from deid_assets.schemas.contract import YEAR_NUMBER, Role, column, contract, days, quasi_identifier


def _in(values: Iterable[str], what: str) -> Check:
    listed = sorted(set(values))
    return Check.isin(listed, error=f"one of the {len(listed)} {what}")


def _percentage(of_whom: str) -> Column:
    return column(
        dt.float64,
        Role.MEASUREMENT,
        f"of {of_whom}: per cent; claims where the table is a median; the distance where it is one",
        Check.ge(0, error="at least 0"),
        nullable=True,
    )


def _share(what: str) -> Column:
    return column(dt.float64, Role.MEASUREMENT, what, Check.in_range(0, 1, error="0 to 1"), nullable=True)


CODE_BOOK = contract(
    {
        "kind": column(
            dt.string,
            Role.OTHER,
            "kind of code",
            _in(KINDS, "kinds of code"),
        ),
        "code": column(dt.string, Role.QUASI_IDENTIFIER, "a code in the delivery"),
        "group_name": column(
            dt.string,
            Role.QUASI_IDENTIFIER,
            "the group that replaces it; blank if there is none",
            _in(chain(*GROUP_NAMES.values()), "groups"),
            nullable=True,
        ),
        "is_procedure": column(dt.boolean, Role.OTHER, "whether it stands for a medical procedure"),
        "removal_reason": column(
            dt.string,
            Role.SENSITIVE_ATTRIBUTE,
            "why it removes a member; blank if it does not",
            _in((*(row["reason"] for row in read_table("sensitive_codes.csv")), RARE_VISIBLE_REASON), "reasons"),
            nullable=True,
        ),
    },
    unique=["kind", "code"],
)

_CHARLSON = read_table("charlson_conditions.csv")

COMORBIDITY_CODES = contract(
    {
        "code": column(dt.string, Role.QUASI_IDENTIFIER, "a diagnosis code that the delivery holds"),
        "condition": column(
            dt.string,
            Role.SENSITIVE_ATTRIBUTE,
            "a Charlson condition that it stands for",
            _in((row["condition"] for row in _CHARLSON), "Charlson conditions"),
        ),
        "family": column(
            dt.string,
            Role.SENSITIVE_ATTRIBUTE,
            "conditions of one family count once, the severest",
            _in((row["family"] for row in _CHARLSON), "families of Charlson conditions"),
        ),
        "weight": column(
            dt.int64,
            Role.MEASUREMENT,
            "what the condition adds to the index",
            Check.isin(sorted({int(row["weight"]) for row in _CHARLSON}), error="a Charlson weight"),
            unit="index points",
        ),
    },
    unique=["code", "condition"],
)

PSEUDONYM_CROSSWALK = contract(
    {
        "kind": column(
            dt.string, Role.OTHER, "kind of identifier", _in(("member", "provider", "vendor", "pcp"), "kinds of identifier")
        ),
        "original_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier"),
        "pseudonym": column(
            dt.int64,
            Role.PSEUDONYM,
            "the pseudonym that the release shows instead",
            Check.in_range(10 ** (DIGITS - 1), 10**DIGITS - 1, error=f"a pseudonym of {DIGITS} digits"),
        ),
    },
    # In both directions: two pseudonyms for one identifier would multiply rows; one for two would merge two people.
    unique=[["kind", "original_id"], ["kind", "pseudonym"]],
)

REMOVED_MEMBERS = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a member who must not be released"),
        "reason": column(dt.string, Role.SENSITIVE_ATTRIBUTE, "the rule that removed the member"),
        "sensitive": column(dt.boolean, Role.SENSITIVE_ATTRIBUTE, "whether absence would disclose a condition"),
    },
    unique=["member_id", "reason"],
)

RELEASED_SAMPLE = contract(
    {"member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a member drawn for the release")}, unique=["member_id"]
)

# The columns of the canonical claims. Here, in `claim_support_scores` and in `truncated_claims`, `claim_id` is a key by
# construction and is not grouped again: for 42 million claims that takes 13 seconds of processor time and 2.3 GB each.
# These rows are those of `claims` joined on the keys of `members` and `code_book`. All three keys are checked, and a
# duplicate claim would still be found in `grouped_claims`.
ELIGIBLE_CLAIMS = contract(dict(intake.CLAIMS.columns))

ELIGIBLE_MEMBERS = contract(
    {"member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "a member who may be released")}, unique=["member_id"]
)

RULE_NEEDS = contract(
    {
        "rule": column(dt.string, Role.OTHER, "key of the rule in the policy"),
        "figure": column(dt.string, Role.OTHER, "what was measured"),
        "count": column(dt.int64, Role.MEASUREMENT, "how many have it", Check.ge(0, error="at least 0")),
        "of": column(dt.int64, Role.MEASUREMENT, "out of how many", Check.ge(0, error="at least 0")),
        "at_least": column(dt.float64, Role.OTHER, "the share that the rule needs", unit="share"),
        "met": column(dt.boolean, Role.OTHER, "whether the delivery has it"),
    },
    unique=["rule", "figure"],
)

EXCLUSION_COMPARISON = contract(
    {
        "table": column(
            dt.string,
            Role.OTHER,
            "what is compared",
            _in(TABLES, "comparisons"),
        ),
        "value": column(dt.string, Role.OTHER, "class of values, or what the distance is of"),
        "excluded": _percentage("removed members"),
        "remaining": _percentage("remaining members"),
        "low": _share("lower bound of the distance"),
        "high": _share("upper bound of the distance"),
        "p_value": _share("of equal distributions, by a bootstrap over members"),
    },
    unique=["table", "value"],
)

CLAIM_SUPPORT_SCORES = contract(  # a row for each row of `grouped_claims`, joined on values that are grouped
    {
        "claim_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the claim"),
        "score": column(
            dt.float64,
            Role.MEASUREMENT,
            "support: 1 - (other members with its rarest value) / members, cut from the highest; balanced: cut from the lowest",
            Check.in_range(0, 1, error="0 to 1"),
            unit="share of members",
        ),
    }
)


def _prepared(known: KnownColumn) -> Column:
    """A known column as prepared: groups instead of codes, and whole numbers from the smallest that is left."""
    limits = known.limits if known.limits is None else (known.prepared_from or known.limits[0], known.limits[1])
    return quasi_identifier(known.meaning, limits, GROUP_NAMES[known.codes] if known.codes else known.values, known.unit)


def grouped_claims_columns() -> dict[str, Column]:
    """The columns of grouped claims."""
    return {
        "claim_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the claim"),
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
        "provider_id": column(dt.string, Role.DIRECT_IDENTIFIER, "provider who gave care", nullable=True),
        "vendor_id": column(dt.string, Role.DIRECT_IDENTIFIER, "vendor who billed", nullable=True),
        "pcp_id": column(dt.string, Role.DIRECT_IDENTIFIER, "primary care provider", nullable=True),
        "year": column(dt.int32, Role.OTHER, "claim year", YEAR_NUMBER),
        **{name: _prepared(known) for name, known in CLAIMS.items()},
        "charlson": column(
            dt.string,
            Role.SENSITIVE_ATTRIBUTE,
            "Charlson index in bands; blank where a diagnosis cannot be read",
            _in(CHARLSON_BANDS, "Charlson bands"),
            nullable=True,
        ),
        "pay_delay": days(Role.OTHER, "from service to payment, top-coded"),
    }


MEMBER_PROFILES = contract(
    {
        "member_id": column(dt.string, Role.DIRECT_IDENTIFIER, "the insurer's identifier of the member"),
        "member_number": column(
            dt.int64,
            Role.OTHER,
            "position of the member in the order of identifiers, from 0",
            Check.ge(0, error="at least 0"),
        ),
        **{name: _prepared(known) for name, known in MEMBERS.items()},
        "claims_truncated": column(
            dt.int32,
            Role.QUASI_IDENTIFIER,
            "1 if any claim was cut; blank where the member was enrolled in neither year",
            Check.isin([0, 1], error="0 or 1"),
            nullable=True,
        ),
        "claims": column(
            dt.int64,
            Role.OTHER,
            "claims before the long tail is cut",
            Check.ge(0, error="at least 0"),
            unit="claims",
        ),
        "released": column(dt.boolean, Role.OTHER, "whether the member is in the random sample"),
    },
    unique=["member_id"],
)

CONTRACTS = {
    "code_book": CODE_BOOK,
    "comorbidity_codes": COMORBIDITY_CODES,
    "pseudonym_crosswalk": PSEUDONYM_CROSSWALK,
    "removed_members": REMOVED_MEMBERS,
    "eligible_claims": ELIGIBLE_CLAIMS,
    "eligible_members": ELIGIBLE_MEMBERS,
    "rule_needs": RULE_NEEDS,
    "exclusion_comparison": EXCLUSION_COMPARISON,
    "released_sample": RELEASED_SAMPLE,
    "grouped_claims": contract(grouped_claims_columns(), unique=["claim_id"]),
    "claim_support_scores": CLAIM_SUPPORT_SCORES,
    "truncated_claims": contract(grouped_claims_columns()),  # `grouped_claims` without those that were cut
    "member_profiles": MEMBER_PROFILES,
}

"""Candidate: exactly the rows that would be published, generalized, with providers suppressed and pseudonyms."""

from deid_assets.assessments.candidate_rows import PATTERNS, ReleasedRows, identified_claims
from deid_assets.assessments.kernel_input import released_date_columns
from deid_assets.assets.step import Step, stage_asset
from deid_assets.methods.candidate.provider_suppression import blanked_shares
from deid_assets.policy.models import Policy
from deid_assets.reference.known_columns import YEARS
from deid_assets.store.tables import Table


def release_lineage(policy: Policy) -> dict[str, dict[str, list[str]]]:
    """Source of the release's columns, by asset; their released names are those in the policy."""
    member = {"MemberID": ["pseudonym_crosswalk.pseudonym", "member_profiles.member_id"]}
    columns = policy.quasi_identifiers
    return {
        "release_members": member | {name: [f"member_profiles.{column}"] for column, name in policy.member_names.items()},
        "release_days_in_hospital": member
        | {
            "DaysInHospital": [f"member_profiles.{column}" for column in YEARS.values()],
            "ClaimsTruncated": ["member_profiles.claims_truncated"],
        },
        "release_claims": member
        | {
            "ProviderID": ["pseudonym_crosswalk.pseudonym", "held.provider_id"],
            "Vendor": ["pseudonym_crosswalk.pseudonym", "held.vendor_id"],
            "PCP": ["pseudonym_crosswalk.pseudonym", "held.pcp_id"],
            "Year": ["held.year"],
            "PayDelay": ["held.pay_delay"],
            "CharlsonIndex": ["held.charlson"],
            "SupLOS": ["held.length_of_stay"],
        }
        | {qi.release_as: [f"held.{qi.column}"] for qi in columns.claims}
        | {name: [f"held.{column}"] for column, name in released_date_columns(policy).items()}
        | {one.release_as: [f"held.{one.offset}"] for one in policy.connected_dates}
        | {name: [f"held.{column}"] for name, column in policy.attribute_names.items()},
    }


_RECODED = ("member_profiles", "pseudonym_crosswalk", "value_domains", "chosen_generalization", "suppressed_members")


@stage_asset(policy_sections=["quasi_identifiers"], inputs=_RECODED)
def release_members(step: Step[Policy], **tables: Table) -> str:
    """Members as they would be published: MemberID and demographics at the chosen generalization."""
    return ReleasedRows.of(step.policy, tables).members()


@stage_asset(policy_sections=["quasi_identifiers"], inputs=_RECODED)
def release_days_in_hospital(step: Step[Policy], **tables: Table) -> str:
    """Days in hospital as they would be published, one row per member and year of enrollment."""
    return ReleasedRows.of(step.policy, tables).days_in_hospital()


@stage_asset(
    policy_sections=["quasi_identifiers", "attributes", "provider_suppression", "top_coding", "dates"],
    inputs=("eligible_claims", PATTERNS, "held", *_RECODED),
)
def release_claims(step: Step[Policy], **tables: Table) -> str:
    """Claims as they would be published: generalized, with provider, vendor and PCP blanked where few share a pattern."""
    held = tables["held"]
    shares = blanked_shares(held, identified_claims(step.policy, held, tables[PATTERNS]))
    step.tell({f"{identifier}_blanked_share": share for identifier, share in shares.items()})
    return ReleasedRows.of(step.policy, tables).claims()

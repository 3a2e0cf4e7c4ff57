"""Map codes to the groups that are released (El Emam et al. 2012, Multimedia Appendix 1, sections 7 to 10; methods#codes)."""

from collections.abc import Sequence

from deid_assets.methods.preparation.eligibility import codes_of_claims
from deid_assets.store.tables import Query, Table, is_of, number_of, quoted


def grouped_claims_query(
    claims: Table, code_book: Table, charlson_bands: str | None, pay_delay_top_code: int | None, declared: Sequence[str] = ()
) -> Query:
    """SELECT claims with codes replaced by groups, with Charlson band, and with pay delay top-coded.

    The condition group is that of the first-listed diagnosis. A stay of 0 days, with admission and discharge on the same
    day, counts as 1 day.

    Parameters
    ----------
    claims
        Eligible claims in canonical form.
    code_book
        Distinct codes with their `group_name`.
    charlson_bands
        A SELECT of claim_id, charlson for claims with a Charlson condition; all other claims are in band '0', and blank where
        a diagnosis cannot be read. None where claims have no diagnoses: blank everywhere.
    pay_delay_top_code
        Days; larger values are set to it. None changes nothing.
    declared
        Columns that the policy declares; they stay as they are.
    """
    others = "".join(f", claims.{quoted(column)}" for column in declared)
    indexed = is_of(claims, alias="claims.") if charlson_bands else "false"
    no_bands = f"SELECT claim_id, NULL::VARCHAR AS charlson FROM {claims.sql} WHERE false"
    sql = f"""
        WITH book AS (SELECT kind, code, group_name FROM {code_book.sql}),
             charlson AS ({charlson_bands or no_bands})
        SELECT
            claims.claim_id, claims.member_id, claims.provider_id, claims.vendor_id, claims.pcp_id, claims.year,
            specialty.group_name AS specialty,
            place.group_name AS place,
            procedure.group_name AS procedure_group,
            diagnosis.group_name AS condition_group,
            CASE WHEN claims.unreadable_diagnoses = 0 AND {indexed} THEN coalesce(charlson.charlson, '0') END AS charlson,
            CASE WHEN claims.length_of_stay = 0 THEN 1 ELSE claims.length_of_stay END AS length_of_stay,
            CASE WHEN claims.pay_delay > ? THEN ? ELSE claims.pay_delay END::INTEGER AS pay_delay,
            claims.days_since_first_claim{others}
        FROM {claims.sql} AS claims
        LEFT JOIN book AS specialty ON specialty.kind = 'specialty' AND specialty.code = claims.specialty
        LEFT JOIN book AS place ON place.kind = 'place' AND place.code = claims.place
        LEFT JOIN book AS procedure ON procedure.kind = 'procedure' AND procedure.code = claims.cpt
        LEFT JOIN book AS diagnosis ON diagnosis.kind = 'diagnosis' AND diagnosis.code = claims.diagnosis_1
        LEFT JOIN charlson ON charlson.claim_id = claims.claim_id
    """
    return Query(sql, (pay_delay_top_code, pay_delay_top_code))


def member_profiles_query(
    members: Table,
    sample: str,
    claims: Table,
    truncated_flags: str,
    days_in_hospital_top_code: int | None,
    declared: Sequence[str] = (),
    other_events: Sequence[str] = (),
) -> Query:
    """SELECT the member-level quasi-identifiers of the whole delivered population.

    Whether claims were truncated is published with the days in hospital. Nothing is published about a member who was
    enrolled in neither year, so the value is missing here too.

    Parameters
    ----------
    members
        Canonical members.
    sample
        A SELECT of the member_id of members to be released.
    claims
        Grouped claims before the long tail is truncated: what an adversary may know about.
    truncated_flags
        A SELECT of member_id, claims_truncated for members with truncated claims.
    days_in_hospital_top_code
        Days; larger values are set to it. None changes nothing.
    declared
        Columns that the policy declares; they stay as they are.
    other_events
        Tables of events beside the claims, whose rows are counted, too.
    """
    others = "".join(f" members.{quoted(column)}," for column in declared)
    named = {"claims": "claims", **{number_of(table): table for table in other_events}}
    counts = ", ".join(f"count_if({is_of(claims, table)}) AS {name}" for name, table in named.items())
    numbers = ", ".join(f"coalesce(event_counts.{name}, 0)::BIGINT AS {name}" for name in named)
    sql = f"""
        WITH event_counts AS (SELECT member_id, {counts} FROM {claims.sql} GROUP BY member_id),
             truncated AS ({truncated_flags})
        SELECT
            members.member_id,
            row_number() OVER (ORDER BY members.member_id) - 1 AS member_number,
            members.age, members.sex,
            CASE WHEN members.days_in_hospital_y2 > $1 THEN $1 ELSE members.days_in_hospital_y2 END::INTEGER
                AS days_in_hospital_y2,
            CASE WHEN members.days_in_hospital_y3 > $1 THEN $1 ELSE members.days_in_hospital_y3 END::INTEGER
                AS days_in_hospital_y3,
            CASE WHEN members.days_in_hospital_y2 IS NULL AND members.days_in_hospital_y3 IS NULL THEN NULL
                 ELSE coalesce(truncated.claims_truncated, 0) END::INTEGER AS claims_truncated,{others}
            {numbers},
            members.member_id IN ({sample}) AS released
        FROM {members.sql} AS members
        LEFT JOIN event_counts USING (member_id)
        LEFT JOIN truncated USING (member_id)
        ORDER BY members.member_id
    """
    return Query(sql, (days_in_hospital_top_code,))


def charlson_codes(claims: Table, comorbidity_codes: Table, without_first: bool) -> str:
    """Return SQL to put after FROM: claim_id and code of every diagnosis with a Charlson condition.

    Parameters
    ----------
    comorbidity_codes
        The codes with a condition.
    without_first
        Whether a claim's first-listed diagnosis does not count.
    """
    first = " AND listed > 1" if without_first else ""
    return (
        f"(SELECT claim_id, code FROM ({codes_of_claims(claims)}) WHERE kind = 'diagnosis'{first}"
        f" AND code IN (SELECT code FROM {comorbidity_codes.sql}))"
    )

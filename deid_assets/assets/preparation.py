"""Preparation: pseudonyms, removal, the random sample, groups, top codes, and the long tail.

These are sections 1 to 3 of Multimedia Appendix 1 to El Emam et al. 2012.
"""

from collections.abc import Callable, Sequence
from functools import partial

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments.candidate_rows import counted_patterns
from deid_assets.assessments.dates import date_columns
from deid_assets.assessments.long_tail import first_cut_of, members_left, methods_compared, units_kept
from deid_assets.assessments.membership_changes import Leavers
from deid_assets.assessments.number_of_claims import safe_bins
from deid_assets.assessments.rule_needs import needs_frame, needs_in
from deid_assets.assets.step import Step, image, markdown_table, stage_asset
from deid_assets.assets.taking_in import require_known_opt_outs
from deid_assets.errors import RefusedError, how_many
from deid_assets.figures.figures import claims_per_member_figure, truncation_figure
from deid_assets.methods.dates.dated_claims import delivered_dates
from deid_assets.methods.long_tail import truncation
from deid_assets.methods.long_tail.bins import ClaimNumberBins
from deid_assets.methods.long_tail.number_tables import members_by_claims, units_that_lose_claims
from deid_assets.methods.preparation import eligibility
from deid_assets.methods.preparation.exclusion_comparison import exclusion_tables
from deid_assets.methods.preparation.grouping import charlson_codes, grouped_claims_query, member_profiles_query
from deid_assets.methods.preparation.pseudonyms import distinct_identifiers, pseudonyms
from deid_assets.methods.preparation.rule_figures import SearchedTables
from deid_assets.methods.preparation.sampling import members_left_out, released_sample_query, sample_size
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.models import Policy, smallest_at_least
from deid_assets.policy.sections.longitudinal import CLAIM_COLUMNS, LongTail
from deid_assets.reference.charlson import charlson_bands_query, charlson_conditions
from deid_assets.reference.groups import code_book_of
from deid_assets.reference.known_columns import BESIDE_DAYS, CODE_COLUMNS, DIAGNOSES, GROUPED, YEARS
from deid_assets.release.keys import pseudonym_key, sample_key
from deid_assets.resources import Workplace
from deid_assets.store.parts import ByPerson, scratch_by_person
from deid_assets.store.tables import Query, Table, is_of, number_of, rows_of, scratch_table, write_view


@stage_asset(policy_sections=["removal"], derived_columns={"code": ["claims.diagnosis_1", "claims.cpt"]})
def code_book(step: Step[Policy], claims: Table) -> pd.DataFrame:
    """Every distinct code of the delivery: its group, whether it is a medical procedure, and whether it removes a member."""
    removal = step.policy.removal
    codes = claims.query(eligibility.distinct_codes(claims))
    return code_book_of(codes, removal.code_list, removal.rare_visible_diseases, removal.sets)


@stage_asset(policy_sections=["grouping"])
def comorbidity_codes(step: Step[Policy], code_book: Table) -> pd.DataFrame:
    """The Charlson conditions of every distinct diagnosis code."""
    codes = code_book.query(eligibility.diagnosis_codes(code_book))
    return charlson_conditions(codes["code"].tolist(), step.policy.grouping.charlson)


@stage_asset(
    policy_sections=["releases"],
    derived_columns={"original_id": ["members.member_id", "claims.provider_id", "claims.vendor_id"]},
)
def pseudonym_crosswalk(step: Step[Policy], members: Table, claims: Table) -> pd.DataFrame:
    """Irreversible keyed pseudonyms of members, providers, vendors and PCPs; restricted and never released."""
    secret, stable = step.secret, step.policy.releases.pseudonyms == "stable"
    frames = []
    for kind, table, column in (
        ("member", members, "member_id"),
        ("provider", claims, "provider_id"),
        ("vendor", claims, "vendor_id"),
        ("pcp", claims, "pcp_id"),
    ):
        found = table.query(distinct_identifiers(table, column))
        key = pseudonym_key(secret, *step.names, kind, stable)
        frames.append(pseudonyms(kind, found["id"].tolist(), key))
    return pd.concat(frames, ignore_index=True)


def _of_identifiers(members: Table, listed: Sequence[str]) -> tuple[str, ...]:
    """Those of some identifiers that delivered members have."""
    found = members.query(f"SELECT member_id FROM {members.sql} WHERE member_id IN (SELECT unnest(?::VARCHAR[]))", [listed])
    return tuple(found["member_id"])


@stage_asset(
    policy_sections=["removal", "opt_outs", "rotation"],
    version="4",
    derived_columns={"reason": ["code_book.removal_reason"]},
)
def removed_members(step: Step[Policy], members: Table, claims: Table, quarantined_rows: Table, code_book: Table) -> Query:
    """Members who must not be released, with every reason.

    Reasons are a sensitive code, a code that cannot be read, a claim in quarantine, and an opt-out.
    With rotation, members whom an earlier release removed for what their claims disclosed stay removed.
    """
    policy = step.policy
    opt_outs = policy.opt_outs
    problems = opt_outs.people.problems(partial(eligibility.opt_out_match, members))
    people = _of_identifiers(members, [*opt_outs.all_members, *opt_outs.withdrawn])
    require_known_opt_outs(step, eligibility.LeftOut(people, problems))
    before = _of_tags(members, step.workplace.removed_before(policy), step.workplace)
    kinds = policy.removal.listed_kinds
    return eligibility.removed_members_query(
        members,
        claims,
        quarantined_rows,
        code_book,
        opt_outs.all_members,
        kinds,
        opt_outs.withdrawn,
        before,
        bool(policy.listed_columns),
    )


def _of_tags(members: Table, tags: np.ndarray, workplace: Workplace) -> list[str]:
    """Identifiers of the delivered members with these tags."""
    if not len(tags):
        return []
    ids = members.query(f"SELECT member_id FROM {members.sql} ORDER BY member_id")["member_id"]
    return ids[np.isin(workplace.tags_in_order(ids.tolist()), tags)].tolist()


@stage_asset(policy_sections=["removal"])
def eligible_claims(step: Step[Policy], members: Table, claims: Table, code_book: Table) -> ByPerson:
    """Claims of all delivered members that pass the claim-level rules. The population is counted in them."""
    removal = step.policy.removal
    newborn = eligibility.newborn_rule(removal.newborn_days, claims)

    def eligible(members: Table, claims: Table) -> str:
        return eligibility.eligible_claims_query(members, claims, code_book, newborn, removal.non_procedure_claims)

    return step.by_person(eligible, members, claims)


@stage_asset()
def eligible_members(step: Step[AnyPolicy], members: Table, removed_members: Table, eligible_claims: Table) -> ByPerson:
    """Members who may be released: not removed, and with at least one eligible claim."""
    return step.by_person(eligibility.eligible_members_query, members, removed_members, eligible_claims)


@stage_asset()
def exclusion_comparison(step: Step[AnyPolicy], members: Table, claims: Table, removed_members: Table) -> pd.DataFrame:
    """Removed members compared with remaining ones: Tables 1 to 4 of Multimedia Appendix 1, claims per member, and distances.

    The Kolmogorov-Smirnov distances come with a bootstrap over members, because claims of one member are not independent.
    """
    key = step.secret.derive("exclusion comparison", *step.names)
    return exclusion_tables(members, rows_of(claims), removed_members, seed=int.from_bytes(key[:8], "big"))


@stage_asset(policy_sections=["sample", "rotation", "releases"], version="4")
def released_sample(step: Step[Policy], members: Table, eligible_members: Table, rule_needs: Table) -> Query:
    """The random sample of eligible members that is released. Nobody is drawn if a rule cannot apply.

    It is keyed by member, unless the policy says otherwise: deliveries and policies then share as many members as
    possible. How many are drawn, and who is left out, is random for each policy and delivery. With rotation, nobody is
    drawn who left for good, earlier or with this delivery; others take their places. Nor is anybody whom the policy leaves
    out because an earlier release has them.
    """
    policy = step.policy
    sample = policy.sample
    delivery, secret = step.delivery, step.secret
    asked = delivery.parameters.get("release") or sample.members
    # Keyed by content: a delivery under another key would otherwise give a second look at the same members.
    size_of = (step.names[0], delivery.digest(), str(asked or sample.fraction))
    staying = _without_leavers(eligible_members, step.workplace.leavers(policy, step.key), step.workplace)
    delivered, eligible = members.count(), staying.count()
    size = sample_size(delivered, eligible, asked, sample.fraction, secret.derive("sample size", *size_of))
    if size < 1:
        raise dg.Failure(
            f"refused: no member can be released: of {delivered:,} delivered members {eligible:,} are eligible (not removed, "
            "with at least one eligible claim, and have not left for good), and the policy's sample of them is empty; see "
            "removed_members",
            metadata={"refused": False},
            allow_retries=False,
        )
    return released_sample_query(
        staying,
        size,
        sample_key(secret, sample.keyed_by, *step.names),
        members_left_out(size, eligible, secret.derive("number left out of the sample", *size_of)),
        secret.derive("left out of the sample", *size_of),
    )


def _without_leavers(eligible: Table, leavers: Leavers, workplace: Workplace) -> Table:
    """The eligible members who may still be released; the table itself if nobody has left."""
    if not len(leavers.left) + len(leavers.leaving):
        return eligible
    ids = eligible.query(f"SELECT member_id FROM {eligible.sql} ORDER BY member_id")
    staying = ids[~leavers.contain(workplace.tags_in_order(ids["member_id"].tolist()))]
    return scratch_table(eligible, "staying_members", staying)


@stage_asset(
    policy_sections=["grouping", "top_coding", "columns"],
    derived_columns={
        **{group: [f"eligible_claims.{one}"] for kind, group in GROUPED.items() if (one := CODE_COLUMNS[kind][0]) != group},
        "charlson": [f"eligible_claims.{column}" for column in (*DIAGNOSES, "further_diagnoses")],
    },
)
def grouped_claims(step: Step[Policy], eligible_claims: Table, code_book: Table, comorbidity_codes: Table) -> ByPerson:
    """Claims with codes replaced by the released groups, and with top-coded payment delay."""
    policy = step.policy
    delay = top_code(eligible_claims, ["pay_delay"], policy.top_coding.percentile)

    def grouped(claims: Table) -> Query:
        with_condition = charlson_codes(claims, comorbidity_codes, policy.grouping.charlson_diagnoses != "all")
        bands = charlson_bands_query(with_condition, comorbidity_codes.sql) if policy.reads_diagnoses else None
        return grouped_claims_query(claims, code_book, bands, delay.code if delay else None, policy.event_columns)

    return step.by_person(grouped, eligible_claims)


@stage_asset(
    policy_sections=["long_tail", "quasi_identifiers", "dates"],
    version="2",
    derived_columns={
        "score": [
            *(f"grouped_claims.{column}" for column in CLAIM_COLUMNS),
            "eligible_claims.service_date",
        ]
    },
)
def claim_support_scores(step: Step[Policy], grouped_claims: Table, eligible_claims: Table) -> str:
    """How rare the released values of each claim are among members: the rarest value, or mean and variability of all.

    Released values are those of the policy's claim-level quasi-identifiers, dates included, because only published
    values make a claim stand out.
    """
    policy = step.policy
    claims = grouped_claims
    if policy.dates is not None:
        dated = delivered_dates(grouped_claims, eligible_claims, date_columns(policy, eligible_claims))
        claims = scratch_table(grouped_claims, "scored_claims", dated)
    scores = truncation.claim_balanced_scores if policy.long_tail.score == "balanced" else truncation.claim_support_scores_query
    return " UNION ALL ".join(
        f"({scores(rows_of(claims, table), policy.claim_columns_of(table))})" for table in policy.event_tables
    )


@stage_asset(
    policy_sections=[
        "long_tail", "number_of_claims", "quasi_identifiers", "dimensions", "hierarchies", "top_coding", "risk", "demographics",
    ],
    version="2",
)  # fmt: skip
def truncated_claims(step: Step[Policy], members: Table, grouped_claims: Table, claim_support_scores: Table) -> ByPerson:
    """Claims after the long tail is cut, and after numbers of events that too few members share are reduced."""
    cuts = []
    for number, table in enumerate(step.policy.event_tables):
        claims = rows_of(grouped_claims, table)
        cut = cut_of_long_tail(step, claims, claim_support_scores, f"{table}_" if number else "")
        cuts.append(scratch_by_person(f"{table}_cut_of_long_tail", step.by_person(cut, claims)))
    if step.policy.number_of_claims is not None:
        cuts += _cut_for_bins(step, members, grouped_claims, claim_support_scores, cuts)
    return step.by_person(lambda claims: truncation.without(claims, cuts), grouped_claims)


def _cut_for_bins(
    step: Step[Policy], members: Table, grouped_claims: Table, scores: Table, cuts: Sequence[Table]
) -> list[Table]:
    """The claim_id of what is cut for each number that the policy lists, beside what the long tail has lost."""
    policy, section, secret = step.policy, step.policy.number_of_claims_section, step.secret
    left = write_view(Table(grouped_claims.file, "scratch", "claims_left"), truncation.without(grouped_claims, cuts))
    bins = safe_bins(policy, members, grouped_claims, left, secret.derive("number of claims", *step.names)[:16])
    step.tell(
        {
            "number_of_claims_width": section.width,
            "number_of_claims_classes": bins.classes,
            "claims_cut_for_their_number_share": bins.cut_share,
        }
    )
    order = truncation.CutOrder(section.per, secret.derive("truncation ties", *step.names), first_cut_of(policy.long_tail))
    found = []
    for one, kept in bins.kept.items():
        plan = scratch_table(grouped_claims, f"{number_of(one)}_kept_in_bins", kept)
        # No row counts in two numbers, so that no cut depends on another one.
        cut = partial(truncation.cut_to_kept, scores=scores, kept=plan, order=order, counted=is_of(left, one))
        found.append(scratch_by_person(f"{number_of(one)}_cut_for_bins", step.by_person(cut, left)))
    return found


@stage_asset(
    policy_sections=["top_coding", "long_tail", "number_of_claims", "columns"],
    derived_columns={column: ["truncated_claims.claim_id"] for column in BESIDE_DAYS},
)
def member_profiles(
    step: Step[Policy], members: Table, released_sample: Table, grouped_claims: Table, truncated_claims: Table
) -> Query:
    """Member-level quasi-identifiers of the whole delivered population, with top-coded days in hospital."""
    policy = step.policy
    days = top_code(members, list(YEARS.values()), policy.top_coding.percentile)
    truncated = truncation.claims_truncated(members, rows_of(grouped_claims), rows_of(truncated_claims))
    sample = members_left(policy.long_tail, policy.number_of_claims, released_sample, rows_of(truncated_claims))
    code = days.code if days else None
    return member_profiles_query(
        members, sample, grouped_claims, truncated, code, sorted(policy.columns.members), policy.event_tables[1:]
    )


@stage_asset(policy_sections=["quasi_identifiers", "columns"])
def patterns_of_care(step: Step[Policy], known: Table) -> str:
    """How many providers, vendors and PCPs of the delivery show each pattern of care: where few do, they are blanked."""
    return counted_patterns(step.policy, known)


def cut_of_long_tail(step: Step[Policy], claims: Table, scores: Table, told: str = "") -> Callable[[Table], Query]:
    """How the long tail of claims, or of rows of another table of events, is cut; the metadata compares the three methods.

    Parameters
    ----------
    told
        Beginning of the names of the metadata.

    Returns
    -------
    Callable
        Given the claims of some members, SELECTs the claim_id of those of them that are cut.

    Raises
    ------
    DeliveryError
        If there are no claims, or fewer members with claims than a bin must contain.
    """
    tail, key = step.policy.long_tail, step.secret.derive("truncation ties", *step.names)
    order = truncation.CutOrder(tail.unit, key, first_cut_of(tail))
    if tail.percentile is not None:
        cap = truncation.claims_cap(claims, tail.percentile, tail.unit)
        before, after = truncation.claims_histogram(claims), truncation.claims_histogram(claims, (cap, tail.unit))
        step.tell(_described(tail, before, after, cap, told))
        return partial(truncation.cut_to_cap, scores=scores, cap=cap, order=order)
    seed = step.secret.derive("truncation to bins", *step.names)[:16]
    units = truncation.claims_of_units(claims, tail.unit)
    counts = np.asarray(units["claims"], dtype=np.int64)
    kept, bins = units_kept(tail, units, counts, seed)
    step.tell(_compared(tail, methods_compared(tail, claims, units, kept, bins, seed), bins, told))
    step.tell(_described(tail, members_by_claims(units, counts), members_by_claims(units, kept), None, told))
    plan = scratch_table(claims, f"{told}claims_kept", units_that_lose_claims(units, counts, kept))
    return partial(truncation.cut_to_kept, scores=scores, kept=plan, order=order)


def _compared(tail: LongTail, compared: pd.DataFrame, bins: ClaimNumberBins, told: str) -> dict[str, object]:
    """The three methods in a table and a figure."""
    needed = smallest_at_least(1 / tail.risk)
    figure = image(truncation_figure(compared, needed), "claims removed and smallest bin of each way to cut the long tail")
    return {
        f"{told}width_of_bins": bins.width,
        f"{told}members_in_a_bin_at_least": needed,
        f"{told}ways_to_cut": markdown_table(compared),
        f"{told}ways_to_cut_figure": figure,
    }


def _described(tail: LongTail, before: np.ndarray, after: np.ndarray, cap: int | None, told: str) -> dict[str, object]:
    figure = claims_per_member_figure(before, after, cap if tail.unit == "member" else None)
    text = "members by number of claims, before and after the long tail is cut"
    found: dict[str, object] = {f"{told}unit": tail.unit, f"{told}claims_per_member": image(figure, text)}
    return found if cap is None else {f"{told}claims_kept_at_most": cap} | found


SECTIONS = ["diagnosis_codes", "removal", "dates"]
"""Sections whose rules are judged before the draw; the gate judges the needs of all sections."""


@stage_asset(policy_sections=SECTIONS)
def rule_needs(
    step: Step[Policy], members: Table, claims: Table, delivered_codes: Table, removed_members: Table, code_book: Table
) -> pd.DataFrame:
    """What each rule of the policy needs from the delivery, and what it has; an unmet need refuses the delivery."""
    judged = [
        one
        for one in needs_in(step.policy, SearchedTables(members, claims, delivered_codes, removed_members, code_book))
        if one.need.rule.split(".")[0] in SECTIONS
    ]
    unmet = [one for one in judged if not one.met]
    if unmet:
        texts = "; ".join(one.text for one in unmet)
        raise RefusedError(
            f"refused: rules of the policy cannot apply to this delivery, for {how_many(len(unmet), 'reason')}: {texts}"
        )
    return needs_frame(judged)

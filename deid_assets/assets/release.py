"""Release: the gate, and atomic publication. A refusal leaves nothing published, and says with numbers why."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import dagster as dg
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.cumulative_attacks import cumulative_refusals, naming_releases
from deid_assets.assessments.detail import detail_measurements, detail_refusals
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.membership_changes import change_refusals, changes_measured, changes_since
from deid_assets.assets.assessment import (
    demographics_of,
    kept_targets,
    original_members,
    profiles_query,
)
from deid_assets.assets.candidate import YEARS, ClaimTables, claims_query, days_query, members_query
from deid_assets.assets.certificates import certificate_refusals, longitudinal_certificate
from deid_assets.assets.claim_numbers import NumberedClaims
from deid_assets.assets.date_release import date_refusals, notes_of, released_dates, told_of_dates
from deid_assets.assets.described import described_tables
from deid_assets.assets.earlier_releases import present_members, removed_for_claims
from deid_assets.assets.encoded import PopulationTables, kept_at_node, kept_by_level, sampling_fraction
from deid_assets.assets.generalization import adversary_of, chosen_levels, chosen_node, node_computation
from deid_assets.assets.long_tail_cut import bin_refusals
from deid_assets.assets.passed_on_columns import passed_on_leaks
from deid_assets.assets.preparation import pseudonym_key
from deid_assets.assets.public_cells import drawn, shape, shapes_of_measurements
from deid_assets.assets.publishing import common_refusals, publish, read_evidence, refusal, releases_of
from deid_assets.assets.random_streams import gate_stream_key
from deid_assets.assets.release_report import report_of
from deid_assets.assets.rule_needs import need_refusals
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.assets.tries import DeliveryTries, delivery_tries, note_if_refused
from deid_assets.cluster.executors import search_executor
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure.absence import absence_numbers
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.validation import check_vacuous
from deid_assets.release.cumulative import comparable_rolls, removal_digest, removal_list_refusals
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import dictionary
from deid_assets.release.manifest.editions import AttritionStep
from deid_assets.release.publication.publish import Staging
from deid_assets.release.registry.tries import Tried
from deid_assets.reports.rare_labels import rare_labels
from deid_assets.resources import Policies, Workplace
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import METHOD_VERSIONS
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, connect, drop_schema, write_table

FILES = {"release_members": "Members", "release_claims": "Claims"}


_SECTIONS = [
    "recipients", "risk", "neighbor_attack", "attack_sensitivity", "voter_list_attack", "inpatient_attack", "demographics",
    "removal", "long_tail", "number_of_claims", "dates", "population_estimates", "attribute_disclosure", "membership",
    "provider_graph", "reviewed_attributes", "detail_at_least",
]  # fmt: skip


@stage_asset(policy_sections=_SECTIONS, kinds=("duckdb", "parquet", "csv"))
def release(
    context: dg.AssetExecutionContext,
    members: Table,
    claims: Table,
    delivered_codes: Table,
    removed_members: Table,
    eligible_members: Table,
    eligible_claims: Table,
    released_sample: Table,
    grouped_claims: Table,
    truncated_claims: Table,
    member_profiles: Table,
    pseudonym_crosswalk: Table,
    adversary_power: Table,
    value_domains: Table,
    generalization_lattice: Table,
    passed_over_nodes: Table,
    chosen_generalization: Table,
    suppressed_members: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    longitudinal_risk: Table,
    neighbor_attack: Table,
    attack_sensitivity: Table,
    demographic_risk: Table,
    voter_list_attack: Table,
    inpatient_attack: Table,
    population_estimates: Table,
    attribute_disclosure: Table,
    membership_disclosure: Table,
    provider_graph_attack: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """The published release: staged, measured again, judged, and renamed into place. Or a refusal with its reasons."""
    policy = policies.of(context, Policy)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    candidate = {
        "release_members": release_members,
        "release_claims": release_claims,
        "release_days_in_hospital": release_days_in_hospital,
    }
    releases = releases_of(workplace)
    with releases.stage(policy.name) as staging:
        try:
            staged = _stage(policy, staging, candidate, member_profiles)
            kept = original_members(pseudonym_crosswalk, staged.members)
            told, not_drawn = None, []
            if policy.dates is not None:
                services = released_dates(policy, members, truncated_claims, eligible_claims, kept)
                told, not_drawn = told_of_dates(policy, services, workplace, context.partition_key), date_refusals(services)
                staging.write_json("data/dates.json", told)
            released_before = partial(workplace.released_before, member_profiles, kept)
            tries = delivery_tries(context, policy, workplace, member_profiles, value_domains)
            tried = tries.at(chosen_levels(policy, chosen_generalization))
            before = released_before()
            against_earlier = _against_earlier(
                context, policy, workplace, tables, staged, chosen_generalization, pseudonym_crosswalk, removed_members
            )
            earlier = against_earlier()
            refusals, gate_evidence, evidence = _judge(
                context, policy, workplace, tries, tried, tables, staged, before, earlier.measured,
                chosen_generalization, suppressed_members, pseudonym_crosswalk, eligible_members, removed_members,
                released_sample, eligible_claims,
                (
                    longitudinal_risk, neighbor_attack, attack_sensitivity, demographic_risk, voter_list_attack,
                    inpatient_attack, population_estimates, attribute_disclosure, membership_disclosure,
                    provider_graph_attack,
                ),
            )  # fmt: skip
            refusals += earlier.refusals
            refusals += need_refusals(policy, members, claims, delivered_codes, removed_members)
            proof = longitudinal_certificate(policy, generalization_lattice, chosen_generalization, passed_over_nodes)
            refusals += [*certificate_refusals(proof), *not_drawn, *staging.refusals()]
            if refusals:
                others = workplace.releases_before(member_profiles, kept) if before else ()
                raise refusal(naming_releases(refusals, others), tries.advice(tried))
            delivery, levels = workplace.delivery(context.partition_key), chosen_levels(policy, chosen_generalization)
            described = described_tables(policy, levels, staged, _staged_days(policy, member_profiles))
            staging.write_json(DICTIONARY, dictionary(described))
            rare = rare_labels(described)
            attrition = _attrition(
                policy,
                delivery,
                members,
                removed_members,
                eligible_members,
                member_profiles,
                claims,
                eligible_claims,
                truncated_claims,
                candidate,
            )
            every = (*evidence, gate_evidence)
            return publish(
                context, policy, workplace, releases, staging, every, attrition,
                workplace.member_tags(member_profiles, kept).tobytes(),
                proof, False,
                shapes_of_measurements(policy, delivery, levels),
                lambda public: report_of(
                    policy, public, generalization_lattice, chosen_generalization, proof, notes_of(told) if told else (), rare
                ),
                lambda: released_before() == before and against_earlier() == earlier and tries.is_still(tried),
                roll=earlier.roll, removal_digest=earlier.removal_digest, tried=tried,
            )  # fmt: skip
        finally:
            drop_schema(member_profiles.file, SCHEMA)
            drop_schema(member_profiles.file, "scratch")


@dataclass(frozen=True)
class _Earlier:
    """What the earlier releases say of the one about to be made, and what later ones will know of it."""

    measured: tuple[Measurement, ...]
    refusals: list[Refusal]
    roll: bytes
    removal_digest: str


def _against_earlier(
    context, policy: Policy, workplace: Workplace, tables: PopulationTables, staged: judgement.Staged, chosen: Table,
    crosswalk: Table, removed: Table,
) -> Callable[[], _Earlier]:  # fmt: skip
    """Hold the staged rows against the earlier releases there are whenever it is asked."""
    present = present_members(
        policy, chosen_levels(policy, chosen), tables.profiles, tables.domains, removed_for_claims(removed),
        original_members(crosswalk, staged.members), workplace.tags_in_order,
    )  # fmt: skip
    roll, released = present.roll.to_bytes(), staged.members.count()
    list_now = removal_digest(removed.query(removed_for_claims(removed))["member_id"].tolist())
    delivery = workplace.delivery(context.partition_key).digest()

    def held() -> _Earlier:
        earlier = workplace.releases_made()
        changes = changes_since(comparable_rolls(earlier, workplace.secret().commitment()), present, policy.safe_class_size)
        refusals = [*change_refusals(policy, changes), *removal_list_refusals(earlier, delivery, list_now)]
        return _Earlier(changes_measured(policy, changes, released), refusals, roll, list_now)

    return held


def _stage(policy: Policy, staging: Staging, candidate: Mapping[str, Table], profiles: Table) -> judgement.Staged:
    """Write the files, and read them back into the scratch schema."""
    years = [year for year, column in YEARS.items() if policy.publishes(column)]
    read = {}
    file = profiles.file
    with connect(file) as connection:
        for asset, name in FILES.items():
            staging.write_table(connection, name, candidate[asset], order_by=("MemberID",))
        days = candidate["release_days_in_hospital"]
        for year in years:
            staging.write_table(
                connection,
                f"DaysInHospital_{year}",
                f'SELECT * EXCLUDE ("Year") FROM {days.sql} WHERE "Year" = \'{year}\'',
                order_by=("MemberID",),
            )
    for asset, name in FILES.items():
        read[asset] = Table(file, SCHEMA, f"staged_{asset}")
        staging.read_into(name, read[asset])
    days_table = Table(file, SCHEMA, "staged_release_days_in_hospital")
    for year, table in _staged_days(policy, profiles).items():
        staging.read_into(f"DaysInHospital_{year}", table)
    none = [f"SELECT * FROM {days.sql} WHERE false"]
    parts = [f"SELECT '{year}' AS \"Year\", * FROM {SCHEMA}.staged_days_{year}" for year in years]
    write_table(days_table, " UNION ALL ".join(none + parts))
    return judgement.Staged(read["release_members"], read["release_claims"], days_table)


def _staged_days(policy: Policy, profiles: Table) -> dict[str, Table]:
    """Where the staged days in hospital of each released year are read back."""
    return {
        year: Table(profiles.file, SCHEMA, f"staged_days_{year}") for year, column in YEARS.items() if policy.publishes(column)
    }


def _judge(
    context, policy: Policy, workplace: Workplace, tries: DeliveryTries, tried: Tried, tables: PopulationTables,
    staged: judgement.Staged, before: int, changes: Sequence[Measurement], chosen: Table, suppressed: Table,
    crosswalk: Table, eligible: Table, removed: Table, sample: Table, eligible_claims: Table, assessments: tuple[Table, ...],
) -> tuple[list[Refusal], Evidence, tuple[Evidence, ...]]:  # fmt: skip
    """Everything that can refuse; nothing stops at the first reason, so that a person sees all of them.

    `tried`: which try this is; `before`: members of the population who are in earlier releases and not in this one;
    `changes`: what members tell who are in one of two releases only.
    """
    levels, node = chosen_levels(policy, chosen), chosen_node(policy, chosen)
    commitment = workplace.secret().commitment()
    digest = tables_digest(staged.by_name())
    evidence, refusals = read_evidence(assessments)
    refusals += tries.refusals(tried)
    refusals += judgement.contract_refusals(policy, staged)
    staged_profiles = Table(tables.profiles.file, SCHEMA, "staged_profiles")
    write_table(staged_profiles, profiles_query(policy, staged.members.sql, staged.days_in_hospital.sql))
    refusals += judgement.consistency_refusals(
        policy, staged, staged_profiles, levels, tables.profiles, tables.held, tables.domains, crosswalk, suppressed
    )
    common = (policy, levels, tables.profiles, suppressed, crosswalk, tables.domains)
    expected = {
        "release_members": members_query(*common),
        "release_days_in_hospital": days_query(*common),
        "release_claims": claims_query(*common, ClaimTables(eligible_claims, tables.known, tables.held)),
    }
    refusals += judgement.identity_refusals(staged, expected)
    refusals += bin_refusals(policy.long_tail, tables.known, tables.held)
    refusals += judgement.membership_refusals(policy, staged, crosswalk, sample, removed)
    refusals += judgement.opt_out_refusals(policy, tables.profiles)
    secret = workplace.secret()
    refusals += judgement.pseudonym_refusals(crosswalk, partial(pseudonym_key, secret, policy.name, context.partition_key))
    refusals += judgement.provider_refusals(policy, staged, levels, tables.known, tables.domains)
    refusals += judgement.evidence_refusals(policy, context.partition_key, evidence, digest, METHOD_VERSIONS, tried.number)
    refusals += common_refusals(context, policy, workplace, tables.profiles.file, evidence, ("members", "claims"))

    keep = kept_targets(tables.profiles, suppressed)
    # What was released before makes absence and membership tell more; the classes of this release stand alone.
    cumulative = sampling_fraction(policy, int(keep.sum()) + before, tables.profiles.count())
    refusals += cumulative_refusals(policy, evidence, cumulative)
    for released in {int(keep.sum()) + before, int(keep.sum())}:
        try:
            check_vacuous(policy, sampling_fraction(policy, released, tables.profiles.count()))
        except PolicyError as error:
            refusals.append(Refusal("vacuous_policy", policy.name, None, None, str(error)))

    risk = demographics_of(
        policy, tables.profiles, tables.domains, levels, staged.members.sql, staged.days_in_hospital.sql,
        NumberedClaims(tables.held, staged.claims),
    )  # fmt: skip
    alone = risk.demographics
    refusals += judgement.demographic_refusals(alone, staged.members.count())
    absence = absence_numbers(eligible, removed, alone.released + before)
    measured = [*measure.demographic_measurements(policy, alone, *absence), *changes]
    measured += measure.number_of_claims_measurements(policy, risk.with_number_of_claims)

    computation = node_computation(policy, tables, node).keeping(keep)
    adversary = adversary_of(policy, tables.profiles).of(keep)
    # What is changed after a refusal, but for the delivery or the sample, is judged on the draws of the try that it is.
    key = gate_stream_key(context, workplace, tables.profiles, tried.number)
    with search_executor() as executor:
        measured += judgement.risk_measurements(policy, computation, node, adversary, key, commitment, executor, tried.number)
    note_if_refused(workplace, tried, measured)
    disagreements, cross = judgement.cross_check_refusals(
        policy, computation, node, adversary, levels, staged, staged_profiles, tables.profiles, tables.held, tables.domains,
        crosswalk, suppressed, key, commitment,
    )  # fmt: skip
    refusals += disagreements
    refusals += judgement.measurement_refusals("gate", measured)
    by_level = kept_by_level(policy, computation.data)
    detail = detail_measurements(kept_at_node(policy, by_level, node), policy.detail_at_least, staged.members.count())
    refusals += detail_refusals(detail)
    delays = top_code(eligible_claims, ["pay_delay"], policy.top_coding.percentile)
    leaks, leaking = passed_on_leaks(policy, staged.claims, tables, suppressed, levels, delays)
    refusals += leaking
    gate_evidence = Evidence(
        "gate", context.partition_key, policy.hash, digest, "5", (*measured, *detail, *leaks, cross), tried.number
    )
    return refusals, gate_evidence, evidence


def _attrition(
    policy: Policy, delivery: Delivery, members: Table, removed: Table, eligible: Table, profiles: Table, claims: Table,
    eligible_claims: Table, truncated: Table, candidate: Mapping[str, Table],
) -> tuple[AttritionStep, ...]:  # fmt: skip
    """Rows in and out of every stage, of members and of claims; exact, for the restricted edition."""
    opted_out = removed.query(
        f"SELECT count(DISTINCT member_id) FILTER (reason = 'opted out') AS opted, "
        f"count(DISTINCT member_id) AS all_removed FROM {removed.sql}"
    ).iloc[0]
    sampled = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    of_sample = f"SELECT count(*) AS n FROM {{}} WHERE member_id IN (SELECT member_id FROM {profiles.sql} WHERE released)"
    eligible_sampled = int(profiles.query(of_sample.format(eligible_claims.sql))["n"].iloc[0])
    truncated_sampled = int(profiles.query(of_sample.format(truncated.sql))["n"].iloc[0])
    delivered = members.count()
    remaining = ("source", "opt_outs", "removal")
    steps = (
        ("delivered_members", delivered, "", shape(policy, "source")),
        ("members_after_opt_outs", delivered - int(opted_out["opted"]), "opted out", shape(policy, "source", "opt_outs")),
        (
            "members_not_removed", delivered - int(opted_out["all_removed"]),
            "sensitive codes, rare and visible diseases, claims in quarantine", shape(policy, *remaining),
        ),
        ("eligible_members", eligible.count(), "no eligible claim", shape(policy, *remaining)),
        (
            "sampled_members", sampled, "random sample",
            # How many are drawn is random for each policy and delivery: the same noise would tell the difference exactly.
            shape(policy, *remaining, "sample", **drawn(policy, delivery)),
        ),
        (
            "released_members", candidate["release_members"].count(),
            "suppressed because flagged, or standing out beside an earlier release", "",
        ),
    )  # fmt: skip
    of_claims = (
        ("delivered_claims", claims.count(), ""),
        ("eligible_claims", eligible_claims.count(), "claims of newborns and codes that are no procedure"),
        ("sampled_claims", eligible_sampled, "random sample of members"),
        ("truncated_claims", truncated_sampled, "long tail"),
        ("released_claims", candidate["release_claims"].count(), "suppressed members"),
    )
    return (
        *_steps("members", steps, "data/Members.csv"),
        *_steps("claims", [(*step, "") for step in of_claims], "data/Claims.csv"),
    )


def _steps(unit: str, steps: Sequence[tuple[str, int, str, str]], file: str) -> Iterator[AttritionStep]:
    """(stage, rows out, reason, shape) as steps, each from the one before; the rows of the last are those of a file."""
    stages = [stage for stage, *_ in steps]
    for place, (stage, count, reason, of) in enumerate(steps):
        source = stages[place - 1] if place else None
        yield AttritionStep(stage, unit, count, source, reason, file if stage == stages[-1] else "", of)

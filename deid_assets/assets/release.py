"""Release: the gate, and atomic publication. A refusal leaves nothing published, and gives its reasons with numbers."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import dagster as dg
import pandas as pd

from deid_assets.assessments import measure
from deid_assets.assessments.chosen_generalization import chosen_levels, chosen_node
from deid_assets.assessments.cumulative_attacks import cumulative_refusals, naming_releases
from deid_assets.assessments.dates import date_refusals, released_dates
from deid_assets.assessments.detail import detail_measurements, detail_refusals
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.kernel_input import (
    PopulationTables,
    adversary_of,
    kept_at_node,
    kept_by_level,
    node_computation,
    sampling_fraction,
)
from deid_assets.assessments.long_tail import bin_refusals
from deid_assets.assessments.membership_changes import change_refusals, changes_measured, changes_since
from deid_assets.assessments.passed_on_columns import passed_on_leaks
from deid_assets.assessments.rule_needs import need_refusals
from deid_assets.assets.assessment import (
    demographics_of,
    kept_targets,
    original_members,
    profiles_query,
)
from deid_assets.assets.claim_numbers import NumberedClaims
from deid_assets.assets.date_release import told_of_dates
from deid_assets.assets.public_cells import drawn, shape, shapes_of_measurements
from deid_assets.assets.publishing import Passed, common_refusals, publish, read_evidence, refusal, releases_of
from deid_assets.assets.random_streams import gate_stream_key
from deid_assets.assets.release_report import report_of
from deid_assets.assets.stage_asset import stage_asset
from deid_assets.assets.tries import delivery_tries, note_if_refused
from deid_assets.cluster.executors import search_executor
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure.absence import absence_numbers, removed_for_claims
from deid_assets.methods.population.released_population import YEARS
from deid_assets.methods.preparation.top_coding import top_code
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.validation import check_vacuous
from deid_assets.release.candidate_rows import ClaimTables, claims_query, days_query, members_query
from deid_assets.release.cumulative import comparable_rolls, removal_digest, removal_list_refusals
from deid_assets.release.derived_keys import pseudonym_key
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.manifest.described_tables import described_tables
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import dictionary
from deid_assets.release.manifest.optimality import certificate_refusals, longitudinal_certificate
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.release.present_members import present_members
from deid_assets.release.publication.publish import Staging
from deid_assets.release.registry.delivery_tries import DeliveryTries
from deid_assets.release.registry.tries import Tried
from deid_assets.reports.date_notes import notes_of
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
    made = _Made(
        members=members,
        claims=claims,
        delivered_codes=delivered_codes,
        removed_members=removed_members,
        eligible_members=eligible_members,
        eligible_claims=eligible_claims,
        released_sample=released_sample,
        crosswalk=pseudonym_crosswalk,
        population=PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power),
        lattice=generalization_lattice,
        passed_over=passed_over_nodes,
        chosen=chosen_generalization,
        suppressed=suppressed_members,
        candidate={
            "release_members": release_members,
            "release_claims": release_claims,
            "release_days_in_hospital": release_days_in_hospital,
        },
        assessments=(
            longitudinal_risk,
            neighbor_attack,
            attack_sensitivity,
            demographic_risk,
            voter_list_attack,
            inpatient_attack,
            population_estimates,
            attribute_disclosure,
            membership_disclosure,
            provider_graph_attack,
        ),
    )
    releases, profiles = releases_of(workplace), member_profiles
    with releases.stage(policy.name) as staging:
        try:
            staged = _stage(policy, staging, made.candidate, profiles)
            kept = original_members(made.crosswalk, staged.members)
            told, not_drawn = None, []
            if policy.dates is not None:
                services = released_dates(policy, members, truncated_claims, eligible_claims, kept)
                told, not_drawn = told_of_dates(policy, services, workplace, context.partition_key), date_refusals(services)
                staging.write_json("data/dates.json", told)
            standing = _Standing.of(context, policy, workplace, made, staged, kept)
            refusals, evidence = _judge(context, policy, workplace, made, staged, standing)
            refusals += standing.earlier.refusals
            refusals += need_refusals(policy, members, claims, delivered_codes, removed_members)
            proof = longitudinal_certificate(policy, made.lattice, made.chosen, made.passed_over)
            refusals += [*certificate_refusals(proof), *not_drawn, *staging.refusals()]
            if refusals:
                others = workplace.releases_before(profiles, kept) if standing.before else ()
                raise refusal(naming_releases(refusals, others), standing.tries.advice(standing.tried))
            delivery, levels = workplace.delivery(context.partition_key), chosen_levels(policy, made.chosen)
            described = described_tables(policy, levels, staged, _staged_days(policy, profiles))
            staging.write_json(DICTIONARY, dictionary(described))
            rare = rare_labels(described)
            passed = Passed(
                evidence,
                _attrition(policy, delivery, made),
                proof,
                counts_people=False,
                shapes=shapes_of_measurements(policy, delivery, levels),
                report=lambda public: report_of(
                    policy, public, made.lattice, made.chosen, proof, notes_of(told) if told else (), rare
                ),
                still_so=standing.is_still,
                member_tags=workplace.member_tags(profiles, kept).tobytes(),
                roll=standing.earlier.roll,
                removal_digest=standing.earlier.removal_digest,
                tried=standing.tried,
            )
            return publish(context, policy, workplace, releases, staging, passed)
        finally:
            drop_schema(profiles.file, SCHEMA)
            drop_schema(profiles.file, "scratch")


@dataclass(frozen=True)
class _Made:
    """The tables of the restricted store from which a release is made and judged."""

    members: Table
    claims: Table
    delivered_codes: Table
    removed_members: Table
    eligible_members: Table
    eligible_claims: Table
    released_sample: Table
    crosswalk: Table
    population: PopulationTables
    lattice: Table
    passed_over: Table
    chosen: Table
    suppressed: Table
    candidate: Mapping[str, Table]
    assessments: tuple[Table, ...]


@dataclass(frozen=True)
class _Earlier:
    """What earlier releases mean for this one, and what later releases will know of it."""

    measured: tuple[Measurement, ...]
    refusals: list[Refusal]
    roll: bytes
    removal_digest: str


@dataclass(frozen=True)
class _Standing:
    """Where a release stands among the others: earlier releases of its members, and earlier tries.

    Attributes
    ----------
    before
        Members of the population who are in earlier releases and not in this one.
    earlier
        What members disclose who are in one of two releases only.
    tries, tried
        The tries of this delivery and sample, and which of them this release is.
    """

    before: int
    earlier: _Earlier
    tries: DeliveryTries
    tried: Tried
    _before_now: Callable[[], int]
    _earlier_now: Callable[[], _Earlier]

    @classmethod
    def of(
        cls,
        context: dg.AssetExecutionContext,
        policy: Policy,
        workplace: Workplace,
        made: _Made,
        staged: judgement.Staged,
        kept: str,
    ) -> "_Standing":
        """Ask the registry; `kept` is a SELECT of the members about to be released, as the delivery identifies them."""
        profiles = made.population.profiles
        before = partial(workplace.released_before, profiles, kept)
        earlier = _against_earlier(context, policy, workplace, made, staged)
        tries = delivery_tries(context, policy, workplace, profiles, made.population.domains)
        return cls(before(), earlier(), tries, tries.at(chosen_levels(policy, made.chosen)), before, earlier)

    def is_still(self) -> bool:
        """Whether nothing was released or refused meanwhile that changes it."""
        return self._before_now() == self.before and self._earlier_now() == self.earlier and self.tries.is_still(self.tried)


def _against_earlier(
    context: dg.AssetExecutionContext, policy: Policy, workplace: Workplace, made: _Made, staged: judgement.Staged
) -> Callable[[], _Earlier]:
    """Compare the staged rows with the earlier releases that exist when the result is called."""
    population = made.population
    present = present_members(
        policy,
        chosen_levels(policy, made.chosen),
        population.profiles,
        population.domains,
        removed_for_claims(made.removed_members),
        original_members(made.crosswalk, staged.members),
        workplace.tags_in_order,
    )
    roll, released = present.roll.to_bytes(), staged.members.count()
    removed = made.removed_members.query(removed_for_claims(made.removed_members))
    list_now = removal_digest(removed["member_id"].tolist())
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
    """The staged days in hospital of each released year, as read back."""
    return {
        year: Table(profiles.file, SCHEMA, f"staged_days_{year}") for year, column in YEARS.items() if policy.publishes(column)
    }


def _judge(
    context: dg.AssetExecutionContext,
    policy: Policy,
    workplace: Workplace,
    made: _Made,
    staged: judgement.Staged,
    standing: _Standing,
) -> tuple[list[Refusal], tuple[Evidence, ...]]:
    """Everything that can refuse, and the evidence with that of the gate last.

    Nothing stops at the first reason, so that a person sees all of them.
    """
    tables, before, tried = made.population, standing.before, standing.tried
    levels, node = chosen_levels(policy, made.chosen), chosen_node(policy, made.chosen)
    commitment = workplace.secret().commitment()
    digest = tables_digest(staged.by_name())
    evidence, refusals = read_evidence(made.assessments)
    refusals += standing.tries.refusals(tried)
    refusals += judgement.contract_refusals(policy, staged)
    staged_profiles = Table(tables.profiles.file, SCHEMA, "staged_profiles")
    write_table(staged_profiles, profiles_query(policy, staged.members.sql, staged.days_in_hospital.sql))
    refusals += judgement.consistency_refusals(
        policy, staged, staged_profiles, levels, tables.profiles, tables.held, tables.domains, made.crosswalk, made.suppressed
    )
    common = (policy, levels, tables.profiles, made.suppressed, made.crosswalk, tables.domains)
    expected = {
        "release_members": members_query(*common),
        "release_days_in_hospital": days_query(*common),
        "release_claims": claims_query(*common, ClaimTables(made.eligible_claims, tables.known, tables.held)),
    }
    refusals += judgement.identity_refusals(staged, expected)
    refusals += bin_refusals(policy.long_tail, tables.known, tables.held)
    refusals += judgement.membership_refusals(policy, staged, made.crosswalk, made.released_sample, made.removed_members)
    refusals += judgement.opt_out_refusals(policy, tables.profiles)
    secret = workplace.secret()
    refusals += judgement.pseudonym_refusals(made.crosswalk, partial(pseudonym_key, secret, policy.name, context.partition_key))
    refusals += judgement.provider_refusals(policy, staged, levels, tables.known, tables.domains)
    refusals += judgement.evidence_refusals(policy, context.partition_key, evidence, digest, METHOD_VERSIONS, tried.number)
    refusals += common_refusals(context, policy, workplace, tables.profiles.file, evidence, ("members", "claims"))

    keep = kept_targets(tables.profiles, made.suppressed)
    # Earlier releases increase what absence and membership disclose; the classes of this release stand alone.
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
    absence = absence_numbers(made.eligible_members, made.removed_members, alone.released + before)
    measured = [*measure.demographic_measurements(policy, alone, *absence), *standing.earlier.measured]
    measured += measure.number_of_claims_measurements(policy, risk.with_number_of_claims)

    computation = node_computation(policy, tables, node).keeping(keep)
    adversary = adversary_of(policy, tables.profiles).of(keep)
    # Changes after a refusal, except of the delivery or the sample, are judged on the draws of the current try.
    key = gate_stream_key(context, workplace, tables.profiles, tried.number)
    with search_executor() as executor:
        measured += judgement.risk_measurements(policy, computation, node, adversary, key, commitment, executor, tried.number)
    note_if_refused(workplace, tried, measured)
    disagreements, cross = judgement.cross_check_refusals(
        policy, computation, node, adversary, levels, staged, staged_profiles, tables.profiles, tables.held, tables.domains,
        made.crosswalk, made.suppressed, key, commitment,
    )  # fmt: skip
    refusals += disagreements
    refusals += judgement.measurement_refusals("gate", measured)
    by_level = kept_by_level(policy, computation.data)
    detail = detail_measurements(kept_at_node(policy, by_level, node), policy.detail_at_least, staged.members.count())
    refusals += detail_refusals(detail)
    delays = top_code(made.eligible_claims, ["pay_delay"], policy.top_coding.percentile)
    leaks, leaking = passed_on_leaks(policy, staged.claims, tables, made.suppressed, levels, delays)
    refusals += leaking
    gate_evidence = Evidence(
        "gate", context.partition_key, policy.hash, digest, "5", (*measured, *detail, *leaks, cross), tried.number
    )
    return refusals, (*evidence, gate_evidence)


def _attrition(policy: Policy, delivery: Delivery, made: _Made) -> tuple[AttritionStep, ...]:
    """Rows in and out of every stage, of members and of claims; exact, for the restricted edition."""
    profiles = made.population.profiles
    opted_out = made.removed_members.query(
        f"SELECT count(DISTINCT member_id) FILTER (reason = 'opted out') AS opted, "
        f"count(DISTINCT member_id) AS all_removed FROM {made.removed_members.sql}"
    ).iloc[0]
    sampled = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    of_sample = f"SELECT count(*) AS n FROM {{}} WHERE member_id IN (SELECT member_id FROM {profiles.sql} WHERE released)"
    eligible_sampled = int(profiles.query(of_sample.format(made.eligible_claims.sql))["n"].iloc[0])
    truncated_sampled = int(profiles.query(of_sample.format(made.population.held.sql))["n"].iloc[0])
    delivered = made.members.count()
    remaining = ("source", "opt_outs", "removal")
    steps = (
        ("delivered_members", delivered, "", shape(policy, "source")),
        ("members_after_opt_outs", delivered - int(opted_out["opted"]), "opted out", shape(policy, "source", "opt_outs")),
        (
            "members_not_removed", delivered - int(opted_out["all_removed"]),
            "sensitive codes, rare and visible diseases, claims in quarantine", shape(policy, *remaining),
        ),
        ("eligible_members", made.eligible_members.count(), "no eligible claim", shape(policy, *remaining)),
        (
            "sampled_members", sampled, "random sample",
            # The number drawn is random for each policy and delivery: the same noise would reveal the exact difference.
            shape(policy, *remaining, "sample", **drawn(policy, delivery)),
        ),
        (
            "released_members", made.candidate["release_members"].count(),
            "suppressed because flagged, or standing out beside an earlier release", "",
        ),
    )  # fmt: skip
    of_claims = (
        ("delivered_claims", made.claims.count(), ""),
        ("eligible_claims", made.eligible_claims.count(), "claims of newborns and codes that are no procedure"),
        ("sampled_claims", eligible_sampled, "random sample of members"),
        ("truncated_claims", truncated_sampled, "long tail"),
        ("released_claims", made.candidate["release_claims"].count(), "suppressed members"),
    )
    return (
        *_steps("members", steps, "data/Members.csv"),
        *_steps("claims", [(*step, "") for step in of_claims], "data/Claims.csv"),
    )


def _steps(unit: str, steps: Sequence[tuple[str, int, str, str]], file: str) -> Iterator[AttritionStep]:
    """(stage, rows out, reason, shape) as steps, each from the previous one; the last step's rows are those of a file."""
    stages = [stage for stage, *_ in steps]
    for place, (stage, count, reason, of) in enumerate(steps):
        source = stages[place - 1] if place else None
        yield AttritionStep(stage, unit, count, source, reason, file if stage == stages[-1] else "", of)

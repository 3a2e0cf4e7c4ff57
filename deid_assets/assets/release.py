"""Release: the gate, and atomic publication. A refusal leaves nothing published, and gives its reasons with numbers."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial

from deid_assets.assessments.absence import absence_measurements, absent_members
from deid_assets.assessments.attribute_leaks import passed_on_leaks
from deid_assets.assessments.candidate_rows import PATTERNS, ReleasedRows, counted_patterns
from deid_assets.assessments.column_costs import costs_of_release
from deid_assets.assessments.cross_release_risk import cross_release_refusals, earlier_of, kept_rows_of, why_not_compared
from deid_assets.assessments.dates import date_refusals, released_dates
from deid_assets.assessments.delivered_values import kept_by_level
from deid_assets.assessments.demographic_risk import demographic_measurements, demographics_of, measurements_with_claims
from deid_assets.assessments.detail import detail_measurements, detail_refusals
from deid_assets.assessments.direct_identifiers import declared_quasi_identifiers, judge_quasi_identifiers
from deid_assets.assessments.earlier_releases import EverReleased
from deid_assets.assessments.evidence import Evidence, Measurement, Refusal
from deid_assets.assessments.kernel_input import (
    CODED,
    PopulationTables,
    adversary_of,
    chosen_node,
    kept_at_node,
    kept_targets,
    level_names_of_dimensions,
    node_computation,
    sampling_fraction,
    values_by_codes,
)
from deid_assets.assessments.long_tail import bin_refusals
from deid_assets.assessments.longitudinal_risk import Judged
from deid_assets.assessments.membership_changes import (
    change_refusals,
    changes_measured,
    changes_since,
    newly_sensitive,
    present_members,
    rotation_measurements,
    rotation_refusals,
)
from deid_assets.assessments.neighbor_attack import cumulative_refusals, naming_releases
from deid_assets.assessments.registry import LONGITUDINAL
from deid_assets.assessments.rule_needs import need_refusals
from deid_assets.assets import publishing
from deid_assets.assets.counts import ReleasedCounts, told_of_dates
from deid_assets.assets.published_tables import Made
from deid_assets.assets.random_streams import delivery_tries, gate_stream_key, note_if_refused, stream_key
from deid_assets.assets.release_report import report_of
from deid_assets.assets.step import Step, StepLog, shapes_of, stage_asset
from deid_assets.cluster.executors import search_executor
from deid_assets.errors import PolicyError
from deid_assets.methods.disclosure.absence import absence_numbers, removed_for_claims
from deid_assets.methods.preparation.rule_figures import SearchedTables
from deid_assets.policy.models import Policy
from deid_assets.policy.rules.validation import check_vacuous
from deid_assets.release.cumulative import comparable_rolls, leavers, releases_before, removal_digest, removal_list_refusals
from deid_assets.release.gate import judgement
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.kept_file import parquet_of_sorted
from deid_assets.release.keys import pseudonym_key
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.manifest.dictionary import described_tables, dictionary
from deid_assets.release.manifest.editions import Kept
from deid_assets.release.manifest.optimality import (
    certificate_refusals,
    longitudinal_certificate,
)
from deid_assets.release.recurring_rows import recurring_refusals
from deid_assets.release.registry.delivery_tries import DeliveryTries
from deid_assets.release.registry.tries import Tried
from deid_assets.release.staged_files import stage, staged_days, staged_events
from deid_assets.reports.date_notes import notes_of
from deid_assets.reports.retained import rare_labels
from deid_assets.schemas.candidate import release_contracts
from deid_assets.stages import before_release, stages_of_kind
from deid_assets.store.digests import tables_digest
from deid_assets.store.tables import Table, rows_of, write_table

_STAGES = stages_of_kind("longitudinal")
_SECTIONS = sorted(
    {"recipients", "long_tail", "reviewed_attributes", "detail_at_least", "publish_however_coarse", "counts"}
    | {section for assessment in LONGITUDINAL for section in assessment.policy_sections}
)


_INPUTS = (
    "members", "claims", "delivered_codes", "code_book", "removed_members", "eligible_members", "eligible_claims",
    "released_sample", "known", "held", "member_profiles", "pseudonym_crosswalk", "adversary_power", "value_domains",
    CODED, "generalization_lattice", "passed_over_nodes", "compared_nodes", "chosen_generalization", "suppressed_members",
    *_STAGES["candidate"], "published_counts", *_STAGES["assessment"],
)  # fmt: skip


@stage_asset(policy_sections=_SECTIONS, kinds=("duckdb", "parquet", "csv"), inputs=_INPUTS, stages=before_release(_STAGES))
def release(step: Step[Policy], **tables: Table) -> Made | None:
    """The published release: staged, measured again, judged, and renamed into place. Or a refusal with its reasons."""
    policy, made = step.policy, _Made(tables)
    profiles = tables["member_profiles"]
    part = partial(StepLog(step.context, "parts", 0.0), total=5)
    with publishing.staged_release(step, profiles.file) as (releases, staging):
        part(0, text="writing the files, and reading them back")
        staged = stage(policy, staging, made.candidate, profiles)
        candidate = made.read_back(policy, staged)
        kept = candidate.originals
        told, not_drawn = None, []
        counts = ReleasedCounts.of(step, tables)
        if policy.dates is not None:
            services = released_dates(policy, made["members"], made["held"], made["eligible_claims"], kept)
            told, not_drawn = told_of_dates(step, services, counts.plan), date_refusals(services)
            staging.write_json("data/dates.json", told)
        part(1, text="comparing with earlier releases")
        standing = _Standing.of(step, made, staged, candidate)
        staged_counts, other_counts = counts.staged(staging, made["published_counts"])
        of_counts = counts.measured()
        part(2, text="judging what was read back")
        refusals, evidence, judged = _judge(step, made, staged, candidate, standing, of_counts)
        refusals += other_counts
        refusals += standing.earlier.refusals
        searched = ("members", "claims", "delivered_codes", "removed_members", "code_book")
        refusals += need_refusals(policy, SearchedTables(*(made[name] for name in searched)))
        part(3, text="the certificate")
        proof = longitudinal_certificate(
            policy,
            made["generalization_lattice"],
            made["chosen_generalization"],
            made["passed_over_nodes"],
            made["compared_nodes"],
        )
        refusals += [*certificate_refusals(proof), *not_drawn, *staging.refusals()]
        if refusals:
            publishing.repeat_if_overtaken(step, refusals)
            others = step.workplace.releases_before(profiles, kept) if standing.before else ()
            raise publishing.refusal(naming_releases(refusals, others), standing.tries.advice(standing.tried))
        part(4, text="describing and publishing")
        delivery, levels = step.delivery, candidate.levels
        described = described_tables(policy, levels, staged, staged_events(policy, profiles), staged_days(policy, profiles))
        staging.write_json(DICTIONARY, dictionary(described | counts.described(staged_counts)))
        rare = rare_labels(described)
        costs = costs_of_release(policy, judged, made["value_domains"], stream_key(step, "column costs"))
        del judged  # its bit-sets are large, and publishing does not need them
        passed = publishing.Passed(
            evidence,
            counts,
            proof,
            counts_people=False,
            shapes=shapes_of(policy, delivery, levels),
            report=lambda public: report_of(
                policy,
                public,
                made["generalization_lattice"],
                made["chosen_generalization"],
                proof,
                costs,
                notes_of(told) if told else (),
                rare,
            ),
            still_so=lambda: standing.is_still() and counts.measured() == of_counts,
            kept=Kept(
                step.workplace.member_tags(profiles, kept).tobytes(),
                standing.earlier.roll,
                standing.earlier.removal_digest,
                standing.tried,
                parquet_of_sorted(kept_rows_of(candidate, step.workplace.tags_in_order)),
                level_names_of_dimensions(policy, made["chosen_generalization"]),
                standing.earlier.not_compared,
            ),
        )
        return publishing.publish(step, releases, staging, passed)


@dataclass(frozen=True)
class _Made:
    """The tables of the restricted store from which a release is made and judged, by the names of their assets."""

    tables: Mapping[str, Table]

    def __getitem__(self, name: str) -> Table:
        return self.tables[name]

    @property
    def population(self) -> PopulationTables:
        """The tables on which risk is measured."""
        return PopulationTables.of(self.tables)

    @property
    def candidate(self) -> dict[str, Table]:
        """The rows that would be published."""
        return {name: self.tables[name] for name in _STAGES["candidate"]}

    def read_back(self, policy: Policy, staged: judgement.Staged) -> ReleasedRows:
        """The release: its own rows are those staged and read back, and its patterns of care are counted again."""
        known = self.tables["known"]
        patterns = Table(known.file, SCHEMA, PATTERNS)
        write_table(patterns, counted_patterns(policy, known))
        return ReleasedRows.of(policy, {**self.tables, **staged.by_name(), PATTERNS: patterns})

    @property
    def assessments(self) -> tuple[Table, ...]:
        """The evidence."""
        return tuple(self.tables[name] for name in _STAGES["assessment"])


@dataclass(frozen=True)
class _Earlier:
    """What earlier releases mean for this one, and what later releases will know of it."""

    measured: tuple[Measurement, ...]
    refusals: list[Refusal]
    roll: bytes
    removal_digest: str
    not_compared: Mapping[str, str]


@dataclass(frozen=True)
class _Standing:
    """Where a release stands among the others: earlier releases of its members, and earlier tries.

    Attributes
    ----------
    before
        Members of the population who are in earlier releases and not in this one.
    ever
        Members of all earlier releases.
    earlier
        What members disclose who are in one of two releases only.
    tries, tried
        The tries of this delivery and sample, and which of them this release is.
    """

    before: int
    ever: EverReleased
    earlier: _Earlier
    tries: DeliveryTries
    tried: Tried
    _before_now: Callable[[], int]
    _earlier_now: Callable[[], _Earlier]

    @classmethod
    def of(
        cls,
        step: Step[Policy],
        made: _Made,
        staged: judgement.Staged,
        candidate: ReleasedRows,
    ) -> "_Standing":
        """Ask the registry about the members about to be released."""
        profiles = made.population.profiles
        before = partial(step.workplace.released_before, profiles, candidate.originals)
        earlier = _against_earlier(step, made, staged, candidate)
        tries = delivery_tries(step, profiles, made.population.domains)
        tried = tries.at(candidate.levels)
        return cls(before(), step.workplace.ever_released(), earlier(), tries, tried, before, earlier)

    def is_still(self) -> bool:
        """Whether nothing was released or refused meanwhile that changes it."""
        return self._before_now() == self.before and self._earlier_now() == self.earlier and self.tries.is_still(self.tried)


def _against_earlier(
    step: Step[Policy], made: _Made, staged: judgement.Staged, candidate: ReleasedRows
) -> Callable[[], _Earlier]:
    """Compare the staged rows with the earlier releases that exist when the result is called."""
    policy = step.policy
    removed_now = removed_for_claims(made["removed_members"])
    present = present_members(candidate, removed_now, candidate.originals, step.workplace.tags_in_order)
    roll, released = present.roll.to_bytes(), staged.members.count()
    removed = made["removed_members"].query(removed_now)
    list_now = removal_digest(removed["member_id"].tolist())
    delivery, commitment = step.delivery.digest(), step.secret.commitment()
    linking, _ = publishing.read_evidence((made["cross_release_risk"],))

    def held() -> _Earlier:
        earlier = step.workplace.releases_made()
        changes = changes_since(comparable_rolls(earlier, commitment), present, policy.safe_class_size)
        gone = leavers(policy, earlier, step.secret, delivery)
        newly, returned = newly_sensitive(policy, gone, present.roll), bool(gone.contain(present.released_tags).any())
        refusals = [*change_refusals(policy, changes), *rotation_refusals(policy, newly, returned)]
        refusals += removal_list_refusals(earlier, delivery, list_now)
        before, same = releases_before(earlier, commitment, delivery), publishing.made_of_the_same_inputs(step, delivery)
        refusals += cross_release_refusals(policy, linking, before, present.released_tags, same)
        sorted_out = earlier_of(policy, before, present.released_tags)
        refusals += recurring_refusals(policy.releases, staged.claims, step.home.releases, sorted_out.of_others, None)
        apart = why_not_compared(policy, sorted_out)
        measured = (*changes_measured(policy, changes, released), *rotation_measurements(policy, newly))
        return _Earlier(measured, refusals, roll, list_now, apart)

    return held


def _judge(
    step: Step[Policy],
    made: _Made,
    staged: judgement.Staged,
    candidate: ReleasedRows,
    standing: _Standing,
    of_counts: tuple[Measurement, ...],
) -> tuple[list[Refusal], tuple[Evidence, ...], Judged]:
    """Everything that can refuse, the evidence with that of the gate last, and what its draws judged.

    Nothing stops at the first reason, so that a person sees all of them.
    """
    policy = step.policy
    tables, before, tried = made.population, standing.before, standing.tried
    levels, node = candidate.levels, chosen_node(policy, made["chosen_generalization"])
    commitment = step.secret.commitment()
    digest = tables_digest(staged.by_name())
    evidence, refusals = publishing.read_evidence(made.assessments)
    refusals += standing.tries.refusals(tried)
    refusals += judgement.contract_refusals(staged.by_name(), release_contracts(policy))
    staged_profiles = Table(tables.profiles.file, SCHEMA, "staged_profiles")
    write_table(staged_profiles, candidate.shown_profiles)
    judged = judgement.StagedClaims(
        policy, levels, staged, staged_profiles, tables, made["pseudonym_crosswalk"], made["suppressed_members"]
    )
    refusals += judgement.consistency_refusals(judged)
    refusals += judgement.identity_refusals(staged.by_name(), candidate.rows())
    for table in policy.event_tables:
        refusals += bin_refusals(policy.long_tail, rows_of(tables.known, table), rows_of(tables.held, table))
    refusals += judgement.membership_refusals(
        policy, staged, made["pseudonym_crosswalk"], made["released_sample"], made["removed_members"]
    )
    refusals += judgement.opt_out_refusals(policy, tables.profiles)
    secret = step.secret
    refusals += judgement.pseudonym_refusals(
        made["pseudonym_crosswalk"],
        partial(pseudonym_key, secret, policy.name, step.key, stable_members=policy.releases.pseudonyms == "stable"),
    )
    refusals += judgement.provider_refusals(policy, staged, levels, tables.known, tables.domains)
    refusals += judgement.evidence_refusals(policy, step.key, evidence, digest, tried.number)
    refusals += publishing.common_refusals(step, evidence)

    keep = kept_targets(tables.profiles, made["suppressed_members"])
    # Earlier releases increase what absence and membership disclose; the classes of this release stand alone.
    cumulative = sampling_fraction(policy, int(keep.sum()) + before, tables.profiles.count())
    refusals += cumulative_refusals(policy, evidence, cumulative)
    for released in {int(keep.sum()) + before, int(keep.sum())}:
        try:
            check_vacuous(policy, sampling_fraction(policy, released, tables.profiles.count()))
        except PolicyError as error:
            refusals.append(Refusal("vacuous_policy", policy.name, None, None, str(error)))

    risk = demographics_of(candidate)
    alone = risk.demographics
    refusals += judgement.demographic_refusals(alone, staged.members.count())
    absence = absence_numbers(made["eligible_members"], made["removed_members"], alone.released + before)
    absent = absent_members(candidate, standing.ever, step.workplace.tags_in_order)
    measured = [*demographic_measurements(policy, alone, *absence), *absence_measurements(policy, absent.by_class)]
    measured += standing.earlier.measured
    measured += measurements_with_claims(policy, risk)

    # Before the bit-sets are made: both take much memory.
    leaks, leaking = passed_on_leaks(candidate, candidate.top_coded_delays)
    declared = declared_quasi_identifiers(
        policy, {"members": staged.members, "claims": staged.claims}, {"members": tables.profiles, "claims": tables.known}
    )
    overruled, identifying = judge_quasi_identifiers(declared, policy.safe_class_size, policy.reviewed_attributes)
    refusals += identifying
    whole = node_computation(policy, tables, node)
    refusals += judgement.code_refusals(whole.data, values_by_codes(policy, tables.profiles, made[CODED]))
    computation = whole.keeping(keep)
    adversary = adversary_of(policy, tables.profiles).of(keep)
    # Changes after a refusal, except of the delivery or the sample, are judged on the draws of the current try.
    key = gate_stream_key(step, tables.profiles, tried.number)
    draws = judgement.Draws(Judged(computation, node, adversary), key, commitment)
    with search_executor() as executor:
        measuring = replace(draws, judged=replace(draws.judged, computation=computation.on(executor)))
        measured += judgement.risk_measurements(policy, measuring, tried.number)
    measured += of_counts
    note_if_refused(step.workplace, tried, measured)
    disagreements, cross = judgement.cross_check_refusals(judged, draws)
    refusals += disagreements
    refusals += judgement.measurement_refusals("gate", measured)
    by_level = kept_by_level(policy, computation.data, made.tables, made["suppressed_members"])
    kept = kept_at_node(policy, by_level, node)
    detail = detail_measurements(kept, policy.detail_at_least, staged.members.count(), policy.publish_however_coarse)
    refusals += detail_refusals(detail)
    refusals += leaking
    gate_evidence = Evidence(
        "gate", step.key, policy.hash, digest, "6", (*measured, *detail, *leaks, *overruled, cross), tried.number
    )
    return refusals, (*evidence, gate_evidence), draws.judged

"""Release: the gate, and atomic publication. A refusal leaves nothing published, and says with numbers why."""

import datetime
import json
from collections.abc import Mapping
from functools import partial

import dagster as dg
import duckdb
import pandas as pd

import deid_assets
from deid_assets.assets.assessment import (
    METHOD_VERSIONS,
    absence_numbers,
    demographics_of,
    kept_targets,
    original_members,
    profiles_query,
)
from deid_assets.assets.candidate import YEARS, ClaimTables, claims_query, days_query, members_query
from deid_assets.assets.encoded import PopulationTables, sampling_fraction
from deid_assets.assets.generalization import adversary_of, chosen_levels, chosen_node, node_computation, stream_key
from deid_assets.assets.release_report import report_of
from deid_assets.assets.intake import delivery_version
from deid_assets.assets.preparation import pseudonym_key
from deid_assets.assets.stage_asset import MADE_FROM, markdown_table, stage_asset
from deid_assets.checks.contracts import contract_check_name
from deid_assets.checks.risk import RISK_CHECKS
from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.executors import search_executor
from deid_assets.policy.models import Policy
from deid_assets.policy.validation import check_vacuous
from deid_assets.release import gate, measure
from deid_assets.release.cross_check import SCHEMA
from deid_assets.release.digests import combined_digest, rows_digest
from deid_assets.release.event_log import data_versions, edited_evidence, edited_tables, stale_inputs, witness
from deid_assets.release.evidence import PLAIN_UNITS, Evidence, Refusal, from_frame
from deid_assets.release.manifest import AttritionStep, Manifest, Place, PolicyText, editions, keyed_counts, package_versions
from deid_assets.release.keys import Secret
from deid_assets.release.publication import Releases, Staging
from deid_assets.release.registry import Entry
from deid_assets.resources import Policies, Workplace, content_key, made_under
from deid_assets.sources.delivery import Delivery
from deid_assets.stages import STAGE_OF, STAGES
from deid_assets.store import Table, connect, drop_schema, fingerprint, write_table

FILES = {"release_members": "Members", "release_claims": "Claims"}


def releases_of(workplace: Workplace) -> Releases:
    """The folder of releases, and what is needed to add one."""
    home = workplace.home
    return Releases(home.releases, workplace.signing_key(), workplace.restricted_manifests)


@stage_asset(policy_sections=["recipients", "risk", "neighbor_attack", "demographics", "removal"], kinds=("duckdb", "parquet", "csv"))
def release(
    context: dg.AssetExecutionContext,
    members: Table,
    claims: Table,
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
    chosen_generalization: Table,
    suppressed_members: Table,
    release_members: Table,
    release_claims: Table,
    release_days_in_hospital: Table,
    longitudinal_risk: Table,
    neighbor_attack: Table,
    demographic_risk: Table,
    policies: Policies,
    workplace: Workplace,
) -> pd.DataFrame:
    """The published release: staged, measured again, judged, and renamed into place; or a refusal that says why."""
    policy = policies.of(context)
    tables = PopulationTables(member_profiles, grouped_claims, truncated_claims, value_domains, adversary_power)
    candidate = {
        "release_members": release_members,
        "release_claims": release_claims,
        "release_days_in_hospital": release_days_in_hospital,
    }
    delivery = workplace.delivery(context.partition_key)
    releases = releases_of(workplace)
    with releases.stage(policy.name) as staging:
        try:
            staged = _stage(policy, staging, candidate, member_profiles)
            refusals, gate_evidence, evidence = _judge(
                context, policy, workplace, tables, candidate, staged, chosen_generalization, suppressed_members,
                pseudonym_crosswalk, eligible_members, removed_members, released_sample, eligible_claims,
                (longitudinal_risk, neighbor_attack, demographic_risk),
            )  # fmt: skip
            if refusals:
                raise _refusal(refusals)
            attrition = _attrition(
                members, removed_members, eligible_members, member_profiles, claims, eligible_claims, truncated_claims, candidate
            )
            secret = workplace.secret()
            # Keyed: a data version is a digest of its inputs', on which a guess of who opted out could be tried.
            lineage = {
                name: secret.keyed_digest("lineage", name, version)
                for name, version in data_versions(
                    context.instance, _upstream(policy.name), context.partition_key
                ).items()
            }
            digest = delivery.digest()
            released = original_members(pseudonym_crosswalk, staged.members)
            tags = workplace.member_tags(member_profiles, released).tobytes()
            inputs = inputs_digest(policy, secret, delivery, digest)
            created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")

            def describe(place: Place):
                manifest = Manifest(
                    place=place,
                    policy=policy_text(policy),
                    recipient_class=policy.recipients.recipient_class,
                    terms_of_use=policy.recipients.terms_of_use,
                    delivery_digest=digest,
                    code_version=deid_assets.__version__,
                    packages=package_versions(),
                    lineage=lineage,
                    evidence=(*evidence, gate_evidence),
                    attrition=attrition,
                    secret_commitment=secret.commitment(),
                    salt=secret.derive("manifest salt", policy.name, context.partition_key, str(place.number)),
                    member_tags=tags,
                )
                return editions(manifest, keyed_counts(secret, digest))

            draft = describe(
                Place(
                    policy.name, staging.number, releases.registry.head, releases.key.public.raw.hex(),
                    context.partition_key, inputs, created, staging.files,
                )  # fmt: skip
            )
            report = report_of(
                policy, draft.public, generalization_lattice, chosen_generalization, (*evidence, gate_evidence)
            )
            staging.write_file("report.html", report)
            earlier = releases.registry.already_released(policy.name, inputs)
            if earlier is not None:
                return _unchanged(context, releases, earlier, staging)
            published = staging.publish(describe, context.partition_key, inputs, created)
        finally:
            drop_schema(member_profiles.file, SCHEMA)
            drop_schema(member_profiles.file, "scratch")
    context.add_output_metadata(
        {
            "release": dg.MetadataValue.path(str(published.folder)),
            "report": dg.MetadataValue.path(str(published.folder / "report.html")),
            "number": published.entry.number,
            "registry_head": published.entry.hash,
            "gates": markdown_table(_gates_table((*evidence, gate_evidence))),
        }
    )
    return _files_frame(staging)


def inputs_digest(policy: Policy, secret: Secret, delivery: Delivery, delivery_digest: str) -> str:
    """The keyed digest of everything that decides what a release is: policy, delivery, its parameters, code."""
    return secret.keyed_digest(
        "inputs", policy.hash, delivery_digest, delivery.key, json.dumps(dict(delivery.parameters), sort_keys=True),
        deid_assets.__version__, json.dumps(METHOD_VERSIONS, sort_keys=True),
    )  # fmt: skip


def _unchanged(
    context: dg.AssetExecutionContext, releases: Releases, earlier: Entry, staging: Staging
) -> pd.DataFrame:
    """The same inputs were released before and passed again: nothing is published, and the release stands."""
    folder = releases.path(earlier.policy, earlier.number)
    context.log.info(f"unchanged: the same delivery and policy were released before, as {folder}")
    context.add_output_metadata(
        {
            "release": dg.MetadataValue.path(str(folder)),
            "number": earlier.number,
            "registry_head": releases.registry.head,
            "unchanged": True,
        }
    )
    return _files_frame(staging)


def _files_frame(staging: Staging) -> pd.DataFrame:
    return pd.DataFrame(
        [(file.path, file.sha256, file.size, file.rows) for file in staging.files],
        columns=["path", "sha256", "bytes", "rows"],
    ).astype({"rows": "Int64"})


def policy_text(policy: Policy) -> PolicyText:
    """The policy as a manifest shows it: whole, and without those who opted out."""
    return PolicyText(
        policy.name,
        policy.hash,
        json.dumps(policy.content(), sort_keys=True, indent=1),
        json.dumps(policy.public_content(), sort_keys=True, indent=1),
    )


def _stage(policy: Policy, staging: Staging, candidate: Mapping[str, Table], profiles: Table) -> gate.Staged:
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
                f"SELECT * EXCLUDE (\"Year\") FROM {days.sql} WHERE \"Year\" = '{year}'",
                order_by=("MemberID",),
            )
    for asset, name in FILES.items():
        read[asset] = Table(file, SCHEMA, f"staged_{asset}")
        write_table(read[asset], staging.reader(f"data/{name}.csv"))
    days_table = Table(file, SCHEMA, "staged_release_days_in_hospital")
    for year in years:
        write_table(Table(file, SCHEMA, f"staged_days_{year}"), staging.reader(f"data/DaysInHospital_{year}.csv"))
    none = [f"SELECT * FROM {days.sql} WHERE false"]
    parts = [f"SELECT '{year}' AS \"Year\", * FROM {SCHEMA}.staged_days_{year}" for year in years]
    write_table(days_table, " UNION ALL ".join(none + parts))
    return gate.Staged(read["release_members"], read["release_claims"], days_table)


def _judge(
    context, policy: Policy, workplace: Workplace, tables: PopulationTables, candidate: Mapping[str, Table],
    staged: gate.Staged, chosen: Table, suppressed: Table, crosswalk: Table, eligible: Table, removed: Table,
    sample: Table, eligible_claims: Table, assessments: tuple[Table, ...],
) -> tuple[list[Refusal], Evidence, tuple[Evidence, ...]]:  # fmt: skip
    """Everything that can refuse; nothing stops at the first reason, so that a person sees all of them."""
    levels, node = chosen_levels(policy, chosen), chosen_node(policy, chosen)
    commitment = workplace.secret().commitment()
    with connect(tables.profiles.file) as connection:
        digest = combined_digest({name: rows_digest(connection, table) for name, table in staged.by_name().items()})
    evidence, refusals = _read_evidence(assessments)
    refusals += edited_evidence(context.instance, policy.name, evidence, context.partition_key)
    refusals += gate.contract_refusals(policy, staged)
    staged_profiles = Table(tables.profiles.file, SCHEMA, "staged_profiles")
    write_table(staged_profiles, profiles_query(policy, staged.members.sql, staged.days_in_hospital.sql))
    refusals += gate.consistency_refusals(
        policy, staged, staged_profiles, levels, tables.profiles, tables.held, tables.domains, crosswalk, suppressed
    )
    builders = {
        "release_members": members_query,
        "release_days_in_hospital": days_query,
    }
    common = (policy, levels, tables.profiles, suppressed, crosswalk, tables.domains)
    expected = {name: build(*common) for name, build in builders.items()}
    expected["release_claims"] = claims_query(*common, ClaimTables(eligible_claims, tables.known, tables.held))
    refusals += gate.identity_refusals(staged, expected)
    refusals += gate.membership_refusals(policy, staged, crosswalk, sample, removed)
    secret = workplace.secret()
    refusals += gate.pseudonym_refusals(crosswalk, partial(pseudonym_key, secret, policy.name, context.partition_key))
    refusals += gate.provider_refusals(policy, staged, levels, tables.known, tables.domains)
    refusals += gate.evidence_refusals(policy, context.partition_key, evidence, digest, METHOD_VERSIONS)
    refusals += witness(context.instance, _gating_checks(policy.name), context.partition_key)
    must_be_made_under = {
        dg.AssetKey([policy.name, name]): made_under(policy, secret, *MADE_FROM[name])
        for key in _upstream(policy.name)
        for name in key.path[-1:]
    }
    refusals += stale_inputs(context.instance, must_be_made_under, context.partition_key)
    contents = {key: _content(_table_of(tables, key), secret) for key in must_be_made_under}
    refusals += edited_tables(context.instance, contents, context.partition_key)
    refusals += _delivery_refusals(context, policy, workplace)

    keep = kept_targets(tables.profiles, suppressed)
    before = workplace.released_before(tables.profiles, original_members(crosswalk, staged.members))
    # What was released before makes absence and membership tell more; the classes of this release stand alone.
    for released in {int(keep.sum()) + before, int(keep.sum())}:
        try:
            check_vacuous(policy, sampling_fraction(policy, released, tables.profiles.count()))
        except PolicyError as error:
            refusals.append(Refusal("vacuous_policy", policy.name, None, None, str(error)))

    risk = demographics_of(
        policy, tables.profiles, tables.domains, levels, staged.members.sql, staged.days_in_hospital.sql
    )
    refusals += gate.demographic_refusals(policy, risk, staged.members.count())
    absence = absence_numbers(eligible, removed, risk.released + before)
    measured = list(measure.demographic_measurements(policy, risk, *absence))

    computation = node_computation(policy, tables).keeping(keep)
    adversary = adversary_of(policy, tables.profiles).of(keep)
    # Rows or a policy that were changed after a refusal are judged on other draws.
    key = stream_key(context, workplace, f"gate {policy.hash} {digest}")
    with search_executor() as executor:
        measured += gate.risk_measurements(policy, computation, node, adversary, key, commitment, executor)
    disagreements, cross = gate.cross_check_refusals(
        policy, computation, node, adversary, levels, staged, staged_profiles, tables.profiles, tables.held, tables.domains,
        crosswalk, key, commitment,
    )  # fmt: skip
    refusals += disagreements
    refusals += gate.measurement_refusals("gate", measured)
    gate_evidence = Evidence("gate", context.partition_key, policy.hash, digest, "1", (*measured, cross))
    return refusals, gate_evidence, evidence


def _read_evidence(assessments: tuple[Table, ...]) -> tuple[tuple[Evidence, ...], list[Refusal]]:
    """The stored evidence; a table that is gone or that cannot be read is a refusal, and the judge misses its evidence."""
    found: list[Evidence] = []
    refusals = []
    for table in assessments:
        try:
            found += from_frame(table.frame())
        except (ReleaseError, duckdb.Error):
            text = f"{table.name}: the stored evidence cannot be read; materialize it again"
            refusals.append(Refusal("unreadable_evidence", table.name, None, None, text))
    return tuple(found), refusals


def _table_of(tables: PopulationTables, key: dg.AssetKey) -> Table:
    """The table of an asset in the store of this release."""
    name = key.path[-1]
    return Table(tables.profiles.file, STAGE_OF[name], name)


def _content(table: Table, secret: Secret) -> str | None:
    """The fingerprint of a table; None where it is gone."""
    try:
        return fingerprint(table, content_key(secret))
    except duckdb.Error:
        return None


def _delivery_refusals(context: dg.AssetExecutionContext, policy: Policy, workplace: Workplace) -> list[Refusal]:
    """Refuse when the delivery's files are not those that were taken in: the manifest would name what nobody judged."""
    digest = workplace.delivery(context.partition_key).digest()
    versions = data_versions(
        context.instance, [dg.AssetKey([policy.name, name]) for name in ("members", "claims")], context.partition_key
    )
    if set(versions.values()) == {delivery_version(digest)}:
        return []
    text = "the delivery's files changed after they were taken in; materialize members and claims again"
    return [Refusal("changed_delivery", "delivery", None, None, text)]


def _gating_checks(policy: str) -> list[dg.AssetCheckKey]:
    """Every blocking check of the assets before the release."""
    contracts = [dg.AssetCheckKey(key, contract_check_name(key.path[-1])) for key in _upstream(policy)]
    risk = [dg.AssetCheckKey(dg.AssetKey([policy, check.asset]), check.name) for check in RISK_CHECKS]
    return contracts + risk


def _upstream(policy: str) -> list[dg.AssetKey]:
    """Every asset before the release."""
    return [dg.AssetKey([policy, name]) for stage, names in STAGES.items() if stage != "release" for name in names]


def _refusal(refusals: list[Refusal]) -> dg.Failure:
    """The refusal with its numbers: how many reasons, which rules, measured values and thresholds that count nobody."""
    shown = [
        f"{refusal.text}"
        + (
            f" ({refusal.measured:.6g} against {refusal.threshold:.6g})"
            if _may_be_shown(refusal)
            else ""
        )
        for refusal in refusals
    ]
    return dg.Failure(
        f"refused by the gate for {len(refusals)} reason{'s' * (len(refusals) != 1)}: " + "; ".join(shown),
        metadata={
            "refused": True,
            "reasons": dg.MetadataValue.md("\n".join(f"* {text}" for text in shown)),
            **{
                f"{refusal.rule}: {refusal.name}": float(refusal.measured)
                for refusal in refusals
                if _may_be_shown(refusal)
            },
        },
        allow_retries=False,
    )


def _may_be_shown(refusal: Refusal) -> bool:
    """Whether the numbers count nobody: shares of draws and probabilities may be logged, exact counts may not."""
    return refusal.measured is not None and refusal.threshold is not None and refusal.unit in PLAIN_UNITS


def _attrition(
    members: Table, removed: Table, eligible: Table, profiles: Table, claims: Table, eligible_claims: Table,
    truncated: Table, candidate: Mapping[str, Table],
) -> tuple[AttritionStep, ...]:  # fmt: skip
    """Rows in and out of every stage, of members and of claims; exact, for the restricted edition."""
    opted_out = removed.query(
        f"SELECT count(DISTINCT member_id) FILTER (reason = 'opted out') AS opted, "
        f"count(DISTINCT member_id) AS all_removed FROM {removed.sql}"
    ).iloc[0]
    sampled = int(profiles.query(f"SELECT count(*) AS n FROM {profiles.sql} WHERE released")["n"].iloc[0])
    of_sample = (
        f"SELECT count(*) AS n FROM {{}} WHERE member_id IN (SELECT member_id FROM {profiles.sql} WHERE released)"
    )
    eligible_sampled = int(profiles.query(of_sample.format(eligible_claims.sql))["n"].iloc[0])
    truncated_sampled = int(profiles.query(of_sample.format(truncated.sql))["n"].iloc[0])
    delivered = members.count()
    return (
        AttritionStep("delivered_members", "members", delivered),
        AttritionStep(
            "members_after_opt_outs", "members", delivered - int(opted_out["opted"]), "delivered_members", "opted out"
        ),
        AttritionStep(
            "members_not_removed",
            "members",
            delivered - int(opted_out["all_removed"]),
            "members_after_opt_outs",
            "sensitive codes, rare and visible diseases, claims in quarantine",
        ),
        AttritionStep("eligible_members", "members", eligible.count(), "members_not_removed", "no eligible claim"),
        AttritionStep("sampled_members", "members", sampled, "eligible_members", "random sample"),
        AttritionStep(
            "released_members", "members", candidate["release_members"].count(), "sampled_members", "suppressed as flagged"
        ),
        AttritionStep("delivered_claims", "claims", claims.count()),
        AttritionStep(
            "eligible_claims", "claims", eligible_claims.count(), "delivered_claims", "newborns and codes that are no procedure"
        ),
        AttritionStep("sampled_claims", "claims", eligible_sampled, "eligible_claims", "random sample of members"),
        AttritionStep("truncated_claims", "claims", truncated_sampled, "sampled_claims", "long tail"),
        AttritionStep(
            "released_claims", "claims", candidate["release_claims"].count(), "truncated_claims", "suppressed members"
        ),
    )


def _gates_table(evidence: tuple[Evidence, ...]) -> pd.DataFrame:
    return pd.DataFrame(
        [
            (item.asset, m.name, m.value, m.bound, m.threshold, m.passed)
            for item in evidence
            for m in item.measurements
            if m.gating
        ],
        columns=["asset", "gate", "measured", "bound", "threshold", "passed"],
    )

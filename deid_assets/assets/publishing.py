"""The common part of every gate, on event log and store, and the publication of releases.

The gate of each kind of release adds its own measurements on the staged files.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import duckdb
import pandas as pd

import deid_assets
from deid_assets import dagster_internals as internals
from deid_assets import resources
from deid_assets.assessments.evidence import RELEASED_MEANWHILE, Evidence, Refusal, exposure_of, from_frame
from deid_assets.assessments.registry import METHOD_VERSIONS, gates_of, vacuity_refusals
from deid_assets.assets.counts import ReleasedCounts
from deid_assets.assets.published_tables import Made, PublishedTables
from deid_assets.assets.step import Step, made_from, markdown_table
from deid_assets.assets.waiting_release import tell_waiting, terms_of, waiting_already
from deid_assets.assets.whole_stage import stages_before, upstream
from deid_assets.checks.of_assets import contract_check_name
from deid_assets.errors import CountsError, DeidError, PolicyError, RefusedError, ReleaseError, how_many
from deid_assets.home_identity import public_name
from deid_assets.methods.counts.budget import Budget
from deid_assets.methods.lattice.certificate import OptimalityCertificate
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.release import event_log
from deid_assets.release.adversaries import acceptance_refusals
from deid_assets.release.counts.statement import CountStatement
from deid_assets.release.cumulative import last_generalization
from deid_assets.release.gate.cross_check import SCHEMA
from deid_assets.release.home_rules import require_allowed
from deid_assets.release.journal.chain import JOURNAL_HEAD
from deid_assets.release.keyring import require_secret_of_releases
from deid_assets.release.keys import Secret
from deid_assets.release.lineage.columns import derived_columns
from deid_assets.release.lineage.openlineage import SENT, TOLD, endpoint_is_set, problem_of_telling, write_event
from deid_assets.release.lineage.published import published_release
from deid_assets.release.manifest.certificate import FILE as CERTIFICATE
from deid_assets.release.manifest.certificate import certificate_editions
from deid_assets.release.manifest.editions import Editions, Kept, Manifest, ShownPolicy, Slot, editions, package_versions
from deid_assets.release.publication.copies import copy_published
from deid_assets.release.publication.publish import Releases, Staging
from deid_assets.release.publication.waiting import REGISTRY
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Entry, Registry
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of, require_charges
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.report import delivery_version
from deid_assets.stages import RELEASE, stages_of
from deid_assets.store.tables import Table, drop_schema
from deid_assets.version import BASE

REQUESTED_BY = frozenset(
    {
        internals.BACKFILL_ID_TAG,
        internals.SENSOR_NAME_TAG,
        internals.SCHEDULE_NAME_TAG,
        internals.AUTOMATION_CONDITION_TAG,
        resources.REQUESTED_TAG,
    }
)
"""Tags of runs that Dagster's daemon started."""

REPEATED_AT_MOST = 8
"""How often such a run is repeated because of other releases that came meanwhile."""


def releases_of(workplace: resources.Workplace) -> Releases:
    """The folder of releases, and what is needed to add one."""
    return Releases(workplace.home, workplace.signing_key())


def last_levels(workplace: resources.Workplace, policy: AnyPolicy) -> Mapping[str, str] | None:
    """The level of each dimension in the policy's last release that was not withdrawn, by name; None if it has none yet."""
    withdrawn = releases_of(workplace).registry.chain().withdrawn
    return last_generalization(workplace.releases_made(), policy.name, withdrawn)


def common_refusals(step: Step[AnyPolicy], evidence: tuple[Evidence, ...]) -> list[Refusal]:
    """Reasons to refuse any release, with its evidence as stored: failed checks, and anything that is not as it was made."""
    policy, log = step.policy, event_log.Current(step.instance, step.key)
    keys = upstream(policy, step.own)
    fingerprints = [(key, resources.content_of(step.table(key.path[-1]), step.secret)) for key in keys]
    found = vacuity_refusals(policy, evidence)
    found += event_log.not_as_stated(log, event_log.EVIDENCE, [(step.sibling(item.asset), item.digest()) for item in evidence])
    found += event_log.witness(log, gating_checks(policy, step.own), step.context.run.run_id)
    found += _stale_inputs(step, log)
    found += event_log.stale_stages(log, stages_before(policy, step.own))
    found += event_log.not_as_stated(log, event_log.TABLE, fingerprints)
    found += _policy_refusals(step, log)
    found += acceptance_refusals(step.home, policy, evidence)
    return found + _delivery_refusals(step, log)


def _stale_inputs(step: Step[AnyPolicy], log: event_log.Current) -> list[Refusal]:
    policy, secret = step.policy, step.secret
    keys = upstream(policy, step.own)
    must_be_made_under = {key: resources.made_under(policy, secret, *made_from(policy, key.path[-1])) for key in keys}
    return event_log.stale_inputs(log, must_be_made_under)


@contextmanager
def staged_release(step: Step[AnyPolicy], store: Path) -> Iterator[tuple[Releases, Staging]]:
    """Stage a release; what it is judged on beside the tables of a store does not stay there, whatever comes of it."""
    releases = releases_of(step.workplace)
    with releases.stage(step.policy.name) as staging, _telling_changed_policies(step):
        try:
            yield releases, staging
        finally:
            drop_schema(store, SCHEMA)
            drop_schema(store, "scratch")


@contextmanager
def _telling_changed_policies(step: Step[AnyPolicy]) -> Iterator[None]:
    """Say that the policy was changed since the tables were made, instead of the error that their columns or levels give.

    Raises
    ------
    ReleaseError
        In place of an error that nobody foresaw, if a table was made under another policy.
    """
    try:
        yield
    except (DeidError, dg.Failure):
        raise
    except Exception:
        found = _stale_inputs(step, event_log.Current(step.instance, step.key))
        stale = [one.name for one in found if one.rule == "stale_policy"]
        if not stale:
            raise
        raise ReleaseError(
            f"{', '.join(stale)}: made under another policy, or an earlier text of it, with other columns or levels than the "
            "policy has now; run the whole job again"
        ) from None


@dataclass(frozen=True)
class Passed:
    """What passed the gate, and what is said of it when it is published.

    Attributes
    ----------
    evidence
        Evidence of the assessments, with that of the gate last.
    counts
        The counts, with the noisy cells so far: those of their tables, and of what is drawn before the manifest is made.
    proof, counts_people
        Why the chosen node is optimal, and whether the measurements of its nodes count people.
    shapes
        The parts of the policy that affect each measurement, `public_cells.shapes_of_measurements`.
    report
        Renders the report as HTML from the public edition of the manifest.
    still_so
        Called under the lock, while nobody else can publish: whether earlier releases are still those that the gate
        counted.
    kept
        What later releases are compared with.
    """

    evidence: tuple[Evidence, ...]
    counts: ReleasedCounts
    proof: OptimalityCertificate
    counts_people: bool
    shapes: Mapping[str, str]
    report: Callable[[bytes], bytes]
    still_so: Callable[[], bool]
    kept: Kept


def publish(step: Step[AnyPolicy], releases: Releases, staging: Staging, passed: Passed) -> Made | None:
    """Describe, sign and publish what passed the gate; an earlier release of the same inputs stands instead.

    Returns
    -------
    tuple of dagster.Output or None
        The released files (path, sha256, bytes, rows), and every published table. None if the policy requires a person's
        approval: the release waits.
    """
    policy = step.policy
    secret, delivery = step.secret, step.delivery
    require_secret_of_releases(step.home, secret)
    event_log.require_journal(step.instance, releases.journal.file.read())
    tables = PublishedTables.of(step, staging)
    # Keyed: a data version is a digest of its inputs, against which a guess of who opted out could be tested.
    own = step.own
    versions = event_log.data_versions(
        event_log.Current(step.instance, step.key), [*upstream(policy, own), *stages_before(policy, own)]
    )
    lineage = {name: secret.keyed_digest("lineage", name, version) for name, version in versions.items()}
    digest = delivery.digest()
    if delivery_version(digest) not in versions.values():
        raise ReleaseError("the delivery's files changed while the release was made; take them in again")
    inputs = inputs_digest(policy, secret, delivery, digest)
    created = clock.now(releases.registry.chain().last_time)

    people = next(step.count for step in reversed(passed.counts.steps) if step.unit in ("members", "records"))
    certificate = certificate_editions(
        passed.proof,
        policy.name,
        staging.number,
        people,
        passed.counts_people,
        secret.derive("certificate salt", policy.name, step.key, str(staging.number)),
    )
    staging.write_file(CERTIFICATE, certificate.public)

    def manifest_at(slot: Slot, budget: Budget) -> Manifest:
        return Manifest(
            slot=slot,
            policy=policy_text(policy),
            recipient_class=policy.recipients.recipient_class,
            terms_of_use=policy.recipients.terms_of_use,
            delivery_key=delivery.key,
            delivery_digest=digest,
            code_version=deid_assets.__version__,
            packages=package_versions(),
            lineage=lineage,
            evidence=passed.evidence,
            attrition=passed.counts.steps,
            secret_commitment=secret.commitment(),
            salt=secret.derive("manifest salt", policy.name, step.key, str(slot.number)),
            kept=passed.kept,
            exact_certificate=certificate.exact,
            shapes=passed.shapes,
            counts=CountStatement(
                policy.counts, budget, passed.counts.stated, policy.records_per_person, policy.persons_checked
            ),
        )

    # In place of the delivery's key, which may derive from file names, and these from names of people.
    at_draft = staging.slot(secret.keyed_digest("delivery key", delivery.key)[:16], inputs, created)
    # What all numbers cost is known and judged before the first of them is drawn.
    told = [made.spent for made in step.workplace.releases_made()]
    chain = releases.registry.chain()  # read after the releases, whose charges precede them
    before = budget_of(chain, policy.counts)
    require_charges(before, told)
    editions(manifest_at(at_draft, before), passed.counts.plan.note)
    noise = NoisyPublication(policy.counts, passed.counts.plan.cells, passed.counts.sums)
    try:
        budget = noise.budget_after(chain)
    except CountsError as error:
        raise RefusedError(f"refused by the budget of noise: {error}") from None

    def describe(slot: Slot) -> Editions:
        require_allowed(step.home, policy)  # and again under the lock
        if not _is_still(policy, step.workplace):
            raise ReleaseError(f"policy {policy.name}: {_POLICY_CHANGED}")
        if not passed.still_so():
            repeat_if_requested(step)
            raise ReleaseError(
                "in the meantime, members of this population were released, another try of this delivery was refused, or a "
                "run began on the delivery of an earlier release, so the judgement of the gate no longer applies; run again"
            )
        if noise.budget_after(releases.registry.chain()).spent != budget.spent:
            repeat_if_requested(step)
            raise ReleaseError("in the meantime, another release was charged to the budget of noise; run again")
        return editions(manifest_at(slot, budget), passed.counts.plan.protect)

    draft = describe(at_draft)
    staging.write_file("report.html", passed.report(draft.public))
    earlier = releases.registry.already_released(policy.name, inputs)
    if earlier is not None:
        withdrawn = releases.registry.chain().withdrawal_of(earlier.policy, earlier.number)
        if withdrawn is not None:
            raise RefusedError(
                f"refused: the same delivery was released under this policy before, as {earlier.policy}/{earlier.number:04d}, "
                f"and that release was withdrawn ({withdrawn.reason}); change the policy, or release another delivery"
            )
        _tag_released(step)
        return _unchanged(step, releases, earlier, staging, tables)
    report = step.home.refused_report(policy.name, step.key)
    if policy.approval is not None:
        waiting = waiting_already(releases, policy, inputs)
        if waiting is None:
            subject = None if passed.kept.tried is None else passed.kept.tried.subject
            terms = terms_of(step, policy.approval, subject, noise, tables)
            waiting = staging.wait(describe, at_draft, terms, noise)
            tell_witnesses(releases)
        report.unlink(missing_ok=True)
        tell_waiting(step, releases, waiting)
        return None
    published = staging.publish(describe, at_draft, noise)
    report.unlink(missing_ok=True)
    _tag_released(step)
    metadata: dict[str, Any] = {
        "release": dg.MetadataValue.path(str(published.folder)),
        "report": dg.MetadataValue.path(str(published.folder / "report.html")),
        "number": published.entry.number,
        "registry_head": published.entry.hash,
        JOURNAL_HEAD: releases.journal.head,
        "gates": markdown_table(_gates_table(passed.evidence)),
        **copy_published(step.home, releases.key.public),
        **releases.journal.tell_witnesses(),
        **_tell_lineage(step, published.folder),
    }
    return dg.Output(_files_frame(staging), RELEASE, metadata=metadata), *tables.outputs(published.folder)


def tell_witnesses(releases: Releases) -> None:
    """Write the head of the home's journal to its witnesses, and warn where that failed; whoever started the run."""
    for said in releases.journal.tell_witnesses().values():
        dg.get_dagster_logger().warning(said)


def _tell_lineage(step: Step[AnyPolicy], release: Path) -> dict[str, str]:
    """Send the lineage of what was just published, if an endpoint is set; return what to say of it.

    Here, so that it is sent once for each release, whoever started the run.
    """
    policy = step.policy
    if not endpoint_is_set():
        return {}

    def tell() -> None:
        own = step.own
        lineage = event_log.current_lineage(step.instance, own, upstream(policy, own), step.key)
        published = published_release(step.home, release)
        columns = derived_columns(lineage, published.dictionary(), policy.public_content())
        write_event(step.home, published, columns, step.context.run.run_id, public_name(step.home))

    problem = problem_of_telling(f"{policy.name}/{release.name}", tell)
    if problem is None:
        step.context.log.info(SENT)
    else:
        step.context.log.warning(problem)
    return {TOLD: problem or SENT}


def _tag_released(step: Step[AnyPolicy]) -> None:
    """Say so in the list of runs; the daemon tags only runs that failed."""
    step.instance.add_run_tags(step.context.run.run_id, {resources.OUTCOME_TAG: resources.RELEASED})


def inputs_digest(policy: AnyPolicy, secret: Secret, delivery: Delivery, delivery_digest: str) -> str:
    """The keyed digest of all inputs of a release: policy, delivery, its parameters, code."""
    return secret.keyed_digest(
        "inputs", policy.hash, delivery_digest, delivery.key, json.dumps(dict(delivery.parameters), sort_keys=True),
        BASE, json.dumps(dict(METHOD_VERSIONS), sort_keys=True),
    )  # fmt: skip


def made_of_the_same_inputs(step: Step[AnyPolicy], delivery_digest: str) -> str | None:
    """The release, as policy/number, that was made of the same inputs; None if there is none."""
    inputs = inputs_digest(step.policy, step.secret, step.delivery, delivery_digest)
    again = Registry(step.home.releases / REGISTRY).already_released(step.policy.name, inputs)
    return None if again is None else f"{again.policy}/{again.number:04d}"


def _unchanged(step: Step[AnyPolicy], releases: Releases, earlier: Entry, staging: Staging, tables: PublishedTables) -> Made:
    """The same inputs were released before and passed again: nothing is published, and the earlier release stands."""
    folder = releases.path(earlier.policy, earlier.number)
    step.context.log.info(f"unchanged: this delivery was released under this policy before, as {folder}")
    metadata: dict[str, Any] = {
        "release": dg.MetadataValue.path(str(folder)),
        "number": earlier.number,
        "registry_head": releases.registry.head,
        JOURNAL_HEAD: releases.journal.head,
        "unchanged": True,
    }
    return dg.Output(_files_frame(staging), RELEASE, metadata=metadata), *tables.outputs(folder)


def _files_frame(staging: Staging) -> pd.DataFrame:
    return pd.DataFrame(
        [(file.path, file.sha256, file.size, file.rows) for file in staging.files],
        columns=["path", "sha256", "bytes", "rows"],
    ).astype({"rows": "Int64"})


def policy_text(policy: AnyPolicy) -> ShownPolicy:
    """The policy as shown in a manifest: in full, and in its public form."""
    return ShownPolicy(
        policy.name,
        policy.hash,
        json.dumps(policy.content(), sort_keys=True, indent=1),
        json.dumps(policy.public_content(), sort_keys=True, indent=1),
    )


def read_evidence(assessments: Iterable[Table]) -> tuple[tuple[Evidence, ...], list[Refusal]]:
    """Read the stored evidence; a missing or unreadable table is a refusal, and the judge reports its evidence as missing."""
    found: list[Evidence] = []
    refusals = []
    for table in assessments:
        try:
            found += from_frame(table.frame())
        except (ReleaseError, duckdb.Error):
            text = f"{table.name}: the stored evidence cannot be read; materialize it again"
            refusals.append(Refusal("unreadable_evidence", table.name, None, None, text))
    return tuple(found), refusals


def _policy_refusals(step: Step[AnyPolicy], log: event_log.Current) -> list[Refusal]:
    """Refuse if the judging policy differs, byte by byte, from the measuring one, or if its files have changed."""
    policy = step.policy
    found = [
        Refusal(
            "changed_policy_file", policy.name, None, None,
            f"policy {policy.name}: the file {file} is not the one that was read with the policy: it was changed or is gone; "
            "run the whole job again",
        )
        for file in policy.changed_files()
    ]  # fmt: skip
    reading = resources.policy_reading(policy, step.secret)
    measured = [(step.sibling(name), reading) for name in stages_of(policy)["assessment"]]
    found += event_log.not_as_stated(log, event_log.POLICY_TEXT, measured)
    if not _is_still(policy, step.workplace):
        found.append(Refusal("changed_policy", policy.name, None, None, f"policy {policy.name}: {_POLICY_CHANGED}"))
    return found


_POLICY_CHANGED = "its text, or a file that it names, changed while the release was judged; run again"


def _is_still(policy: AnyPolicy, workplace: resources.Workplace) -> bool:
    """Whether the policy is still as it was read, byte by byte."""
    try:
        return workplace.named(policy.name).reading == policy.reading
    except PolicyError:
        return False


def _delivery_refusals(step: Step[AnyPolicy], log: event_log.Current) -> list[Refusal]:
    """Refuse if the delivery's files have changed since intake: the manifest would name data that was never judged."""
    taken_in = [step.sibling(name) for name in stages_of(step.policy)["intake"]]
    versions = event_log.data_versions(log, taken_in)
    if set(versions.values()) == {delivery_version(step.delivery.digest())}:
        return []
    text = "the delivery's files changed after they were taken in; take them in again"
    return [Refusal("changed_delivery", "delivery", None, None, text)]


def gating_checks(policy: AnyPolicy, release: dg.AssetKey) -> list[dg.AssetCheckKey]:
    """Every blocking check of the tables before a release."""
    contracts = [dg.AssetCheckKey(key, contract_check_name(key.path[-1])) for key in upstream(policy, release)]
    risk = [dg.AssetCheckKey(resources.sibling(release, asset), gate.check) for asset, gate in gates_of(policy)]
    return contracts + risk


REQUIREMENTS = "requirements"
"""Metadata of a refusal: every rule that was not kept, with numbers that count nobody."""


def repeat_if_requested(step: Step[AnyPolicy]) -> None:
    """Mark the run as one to be made again, if a backfill, a sensor or a schedule requested it.

    Of releases made side by side, each is judged beside those that exist, and the first one published counts for the others.
    """
    known = step.context.run.tags
    requested = internals.PARTITION_NAME_TAG in known and not REQUESTED_BY.isdisjoint(known)
    if requested and int(known.get(resources.REPETITION_TAG, "0")) < REPEATED_AT_MOST:
        step.instance.add_run_tags(
            step.context.run.run_id, resources.overtaken(step.context.run, resources.policy_name(step.own))
        )


def repeat_if_overtaken(step: Step[AnyPolicy], refusals: list[Refusal]) -> None:
    """The same, if nothing is wrong but that the release was judged without another one that came meanwhile."""
    if any(one.rule == RELEASED_MEANWHILE for one in refusals) and not any(one.is_judgement for one in refusals):
        repeat_if_requested(step)


def refusal(refusals: list[Refusal], next_try: str = "") -> dg.Failure:
    """The refusal with its numbers: how many reasons, which rules, and values and thresholds that count nobody.

    `next_try` says what comes next if chance may be the reason. Its metadata `refused` says whether privacy is a
    reason, or whether something merely prevented the judgement.
    """
    judged = any(refusal.is_judgement for refusal in refusals)
    shown = [
        f"{refusal.text}" + (f" ({refusal.measured:.6g} against {refusal.threshold:.6g})" if _may_be_shown(refusal) else "")
        for refusal in refusals
    ]
    numbered = [f"({place}) {text.rstrip('.')}." for place, text in enumerate(shown, start=1)]
    return dg.Failure(
        f"{'refused by the gate' if judged else 'the gate could not judge this release'} for "
        f"{how_many(len(refusals), 'reason')}: "
        + " ".join(shown if len(shown) == 1 else numbered)
        + (f" ({next_try})" if next_try else ""),
        metadata={
            "refused": judged,
            "reasons": dg.MetadataValue.md("\n".join(f"* {text}" for text in shown)),
            REQUIREMENTS: dg.MetadataValue.json([_requirement(refusal) for refusal in refusals]),
            **{
                f"{refusal.rule}: {refusal.name}": float(refusal.measured)
                for refusal in refusals
                if refusal.measured is not None and _may_be_shown(refusal)
            },
        },
        allow_retries=False,
    )


def _requirement(refusal: Refusal) -> dict[str, str | float | None]:
    name, shown = f"{refusal.rule}: {refusal.name}", _may_be_shown(refusal)
    numbers = (refusal.measured, refusal.threshold) if shown else (None, None)
    return {"name": name, "measured": numbers[0], "threshold": numbers[1], "text": refusal.text}


def _may_be_shown(refusal: Refusal) -> bool:
    """Whether the numbers count nobody: shares of draws and probabilities may be logged, exact counts may not."""
    return refusal.measured is not None and refusal.threshold is not None and not exposure_of(refusal.unit).counts_people


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

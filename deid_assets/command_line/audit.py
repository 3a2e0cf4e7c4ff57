"""What `deid audit` does: read a release, the registry and the event log, compare them, and write what was found.

And what `deid lineage` does: describe a release as an OpenLineage event, write it, and send it if an endpoint is set.
"""

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from rich.console import Console
from rich.markup import escape

from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
from deid_assets.checks.of_assets import contract_check_name
from deid_assets.command_line.deciding import missing_in
from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.home_identity import public_name
from deid_assets.policy.files import RECORD
from deid_assets.policy.loading import load_policy
from deid_assets.release import event_log
from deid_assets.release.journal.chain import Remembered, unknown_to
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import secret_of, signing_key_of
from deid_assets.release.keys import PublicKey
from deid_assets.release.known_people import unmatched_on
from deid_assets.release.lineage import audit as lineage_audit
from deid_assets.release.lineage.columns import DerivedColumn, derived_columns
from deid_assets.release.lineage.graph import Evaluated, Lineage, RecordedRelease, RecordedRun
from deid_assets.release.lineage.openlineage import SENT, endpoint_is_set, problem_of_telling, write_event
from deid_assets.release.lineage.published import PublishedRelease, published_release
from deid_assets.release.manifest.dictionary import FILE as DICTIONARY
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.release.registry.chain import Entry, read_chain
from deid_assets.reports.audit_report import render_audit
from deid_assets.sources.report import delivery_version
from deid_assets.stages import STAGE_OF
from deid_assets.store import durable
from deid_assets.store.digests import regular_bytes
from deid_assets.store.home import Home


def audited(home: Home, published: PublishedRelease, key: PublicKey | None) -> lineage_audit.Audited:
    """Compare everything that is recorded about a release; nothing but the log of runs is written.

    Parameters
    ----------
    key
        The trusted key; None for that of the home.
    """
    registry = home.releases / "registry.jsonl"
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        recorded = event_log.recorded_releases(instance)
        of_log = _OfLog.read(instance, published, _own(recorded, published))
    exact = home.store / "manifests" / published.policy / f"{published.number:04d}.certificate.json"
    head = recorded[-1].head if recorded else None
    trusted = key or signing_key_of(home).public
    verified = verify_release(published.folder, trusted, registry, head, exact)
    problems = [f"{check.name}: {check.reason}" for check in verified.failures]
    problems += published.problems
    problems += lineage_audit.registry_problems(recorded, [line.hash for line in read_chain(registry).lines])
    journal = HomeJournal(home).file.read()
    problems += missing_in(home) + unknown_to(journal, recorded)
    problems += _of_adopted_policy(home, published.policy, Remembered.of(journal).adopted.get(published.policy))
    problems += of_log.problems(home, published)
    columns, unread = derived_columns_of(published, of_log.lineage)
    return lineage_audit.Audited(
        published,
        verified,
        of_log.lineage,
        of_log.checks,
        of_log.run,
        of_log.runs_before,
        columns,
        tuple(dict.fromkeys([*problems, *unread])),
        _unmatched(home, published),
    )


def _of_adopted_policy(home: Home, name: str, known: str | None) -> list[str]:
    """Report an adopted policy that is not the one that the journal knows; a policy that was not adopted is not asked."""
    folder = home.policies / name
    if not (folder / RECORD).exists():
        return []
    try:
        found = load_policy(folder)
        changed = found.changed_files() or known not in (None, found.hash)
    except PolicyError as error:
        return [str(error)]
    return [
        f"the adopted policy {name} (policies/{name}) is not the one that the home's journal knows: it was changed without "
        "`deid policy adopt`; adopt the right one again"
    ] * bool(changed)


def _unmatched(home: Home, published: PublishedRelease) -> tuple[str, ...]:
    """How many people on the lists that the release applied match nobody now."""
    if published.restricted is None:
        return ()
    applied = json.loads(published.restricted["policy"]["text"]).get("opt_outs", {})
    return unmatched_on(applied.get("members", ()), applied.get("withdrawn", ()), home, secret_of(home))


def lineage_of_release(home: Home, published: PublishedRelease) -> Lineage | None:
    """What a release was made from, according to the event log; None if it has no record of the release."""
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        return _OfLog.read(instance, published, _own(event_log.recorded_releases(instance), published)).lineage


def _own(recorded: Iterable[RecordedRelease], published: PublishedRelease) -> RecordedRelease | None:
    """The materialization that published a release: it recorded the hash of the entry that its manifest determines."""
    entry = Entry.from_manifest(regular_bytes(published.folder / MANIFEST))
    return next((one for one in recorded if one.head == entry.hash and not one.unchanged), None)


@dataclass(frozen=True)
class _OfLog:
    """What the event log has of a release."""

    lineage: Lineage | None
    checks: tuple[Evaluated, ...]
    run: RecordedRun | None
    runs_before: tuple[RecordedRun, ...]
    differing: tuple[str, ...] = ()

    @classmethod
    def read(cls, instance: dg.DagsterInstance, published: PublishedRelease, own: RecordedRelease | None) -> "_OfLog":
        if own is None:
            return cls(None, (), None, ())
        lineage = event_log.recorded_lineage(instance, own.made, published.public.get("lineage", {}))
        run = event_log.recorded_run(instance, own.made.run)
        before = () if run is None else event_log.recorded_runs_before(instance, run)
        approved = bool((published.public.get("approval") or {}).get("by"))
        differing = tuple(event_log.differing_records(instance, lineage, approved))
        return cls(lineage, tuple(event_log.recorded_checks(instance, lineage)), run, before, differing)

    def problems(self, home: Home, published: PublishedRelease) -> list[str]:
        """Where it lacks or contradicts what the manifest says."""
        if self.lineage is None:
            return [
                "the event log has no materialization of this release, so that its lineage, its checks and its run cannot be "
                "confirmed: the log was lost or is another home's, or the manifest or the registry was changed"
            ]
        secret = secret_of(home)
        same = secret.commitment() == published.public["secret_commitment"]

        def keyed(name: str, version: str) -> str:
            return secret.keyed_digest("lineage", name, version)

        found = lineage_audit.lineage_problems(self.lineage, published.public["lineage"], keyed if same else None)
        found += self.differing
        contracts = {name: contract_check_name(name) for name in published.public["lineage"] if name in STAGE_OF}
        found += lineage_audit.contract_problems(self.lineage, self.checks, contracts)
        if self.run is None:
            found.append(f"the event log has no run {self.lineage.release.run}, which made the release")
        if published.restricted is None:
            return found
        delivery = published.restricted["delivery"]
        evidence = lineage_audit.evidence_in(published.restricted)
        found += lineage_audit.delivery_problems(self.lineage, delivery["key"], delivery_version(delivery["digest"]))
        found += lineage_audit.evidence_problems(self.lineage, lineage_audit.evidence_digests(published.restricted))
        return found + lineage_audit.check_problems(self.lineage, self.checks, evidence)


def derived_columns_of(published: PublishedRelease, lineage: Lineage | None) -> tuple[tuple[DerivedColumn, ...], list[str]]:
    """What each published column derives from; and why that cannot be said."""
    if lineage is None or published.without_dictionary:
        return (), []
    try:
        return derived_columns(lineage, published.dictionary(), json.loads(published.public["policy"]["text"])), []
    except (ReleaseError, ValueError, KeyError, TypeError):
        return (), [f"{DICTIONARY} cannot be read, so that it is not known which columns were published"]


def write_audit(home: Home, found: lineage_audit.Audited) -> tuple[Path, Path]:
    """Write the page and the document into the restricted store, for their owner only; returns their paths."""
    folder = durable.owner_only(home.store / "manifests" / found.release.policy)
    document = lineage_audit.audit_document(found)
    page = folder / f"{found.release.number:04d}.audit.html"
    beside = page.with_suffix(".json")
    with durable.locked(home.store / "manifests" / ".audit.lock"):
        durable.replace(page, render_audit(document, found.lineage), 0o600)
        durable.replace(beside, lineage_audit.document_bytes(document), 0o600)
    return page, beside


def write_recorded_event(home: Home, published: PublishedRelease) -> tuple[Path, bool]:
    """Write the event of a release from what the event log has of it, and send it; as `openlineage.write_event`.

    Raises
    ------
    ReleaseError
        If the event log has no record of the release, or the endpoint does not take the event. The file is written in the
        latter case, too.
    """
    lineage = lineage_of_release(home, published)
    if lineage is None:
        raise ReleaseError(
            f"the event log has no materialization of release {published.name}, so that its lineage is not known"
        )
    columns, problems = derived_columns_of(published, lineage)
    if problems:
        raise ReleaseError("; ".join(problems))
    return write_event(home, published, columns, lineage.release.run, public_name(home))


def tell_approved(home: Home, release: Path, console: Console) -> None:
    """Send the lineage of a release that was approved, if an endpoint is set; say so, or why it failed.

    A run sends the lineage of what it publishes itself; what waits for approval is published by no run.
    """
    if not endpoint_is_set():
        return
    name = f"{release.parent.name}/{release.name}"
    problem = problem_of_telling(name, lambda: write_recorded_event(home, published_release(home, release)))
    console.print(escape(problem or SENT), soft_wrap=True)

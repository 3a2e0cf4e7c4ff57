"""`deid run` and `deid reproduce`: execute the job of a policy, as a run of the instance, and say what came of it.

To reproduce a release is to make it again, in a temporary home, and to compare the bytes.
"""

import contextlib
import io
import json
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TextIO

import dagster as dg
from rich.console import Console
from rich.markup import escape

import deid_assets
from deid_assets import dagster_internals, interruption
from deid_assets.assessments.reachable_risk import GO_ON_TAG
from deid_assets.assets.publishing import inputs_digest, releases_of
from deid_assets.assets.step import known_forecast
from deid_assets.assets.waiting_release import waiting_already
from deid_assets.automation.ended_runs import AWAITING, RunSummary, outcome_of, report_refusal, tag_outcome
from deid_assets.automation.in_use import adopt_here, retired_in
from deid_assets.automation.instance import SETTINGS, add_partition, clean_orphans, dagster_instance, prepare_dagster_home
from deid_assets.building import build_definitions
from deid_assets.checks.of_assets import STEP_ENDING
from deid_assets.command_line.deciding import say_witnesses
from deid_assets.command_line.options import Asked
from deid_assets.command_line.progress import Detail, Progress
from deid_assets.command_line.summary import Task, print_summary, summary_json, verdict_sentences
from deid_assets.errors import PUBLISHED, DeidError, DeliveryError, ReleaseError
from deid_assets.forecast import ANNOUNCED, SYNTHETIC_DELIVERY
from deid_assets.policy.kinds import AnyPolicy, require_no_removed_mode, require_runnable
from deid_assets.policy.loading import applying_opt_outs, find_policy
from deid_assets.release import reproduction
from deid_assets.release.event_log import require_journal
from deid_assets.release.home_rules import require_allowed
from deid_assets.release.journal.home_journal import VARIABLE as WITNESS
from deid_assets.release.journal.home_journal import HomeJournal
from deid_assets.release.keyring import require_secret_of_releases, secret_of, signing_key_of
from deid_assets.release.keys import GENERATED, SECRET_FILE, SIGNING_KEY_VARIABLE, Secret, variables_of
from deid_assets.release.lineage.openlineage import TOLD
from deid_assets.release.lineage.openlineage import URL as ENDPOINT
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.manifest.editions import package_versions
from deid_assets.release.publication.copies import VARIABLE as COPIES
from deid_assets.release.publication.verification import MANIFEST, verify_release
from deid_assets.release.publication.waiting import Waiting, release_folders
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Entry, Registry
from deid_assets.resources import POLICY_TAG, STORE_TAG, Workplace, ended_in, job_name
from deid_assets.sources.delivery import Delivery, SyntheticSource
from deid_assets.sources.registration import register_delivery, registered_delivery
from deid_assets.sources.synthetic.delivery import Contents, write_delivery
from deid_assets.stages import STAGE_OF
from deid_assets.store import durable
from deid_assets.store.digests import regular_bytes
from deid_assets.store.home import PUBLISHED as PUBLISHED_ELSEWHERE
from deid_assets.store.home import Home, StoreLock
from deid_assets.store.tables import interrupt_queries

MODULE = "deid_assets.definitions"
LOCATION = "deid_assets"
REPOSITORY = "__repository__"

Work = Callable[[Task, StoreLock], int]
"""What is done with a registered delivery while its store is locked; returns the exit code."""


def run_policy(home: Home, asked: Asked, progress: Progress, work: Work | None = None, go_on: bool = False) -> int:
    """Run a policy on a delivery; return the exit code: 0 published, 2 privacy refusal, 1 anything else.

    The lock of the store is held from before anything is written until the end, so that a second run leaves no trace.

    Parameters
    ----------
    work
        What is done once the delivery is registered and the lock held; by default the policy's whole job. Returns the exit
        code.
    go_on
        Whether to search although no generalization can pass.

    Raises
    ------
    StoreError
        If another run works on the same delivery under the same policy.
    """
    policy, file = find_policy(home, asked.policy)
    require_runnable(policy)
    releases = releases_of(Workplace(root=str(home.root)))
    with releases.deciding():
        require_allowed(home, policy)  # before anything is registered
    delivery = requested_delivery(home, policy, asked)
    lock = StoreLock.of(home, policy.name, delivery.key, dagster_internals.make_new_run_id(), partial(_is_over, home))
    lock.acquire()
    try:
        if file is not None or policy.name in retired_in(home):
            policy = applying_opt_outs(adopt_here(releases, policy, file), home.policies)
        if not asked.named:
            _make_synthetic(home, delivery, progress)
        task = Task(home, policy, register_delivery(home, delivery), progress, go_on)
        return (work or _release_or_unchanged)(task, lock)
    finally:
        lock.release()
        say_witnesses(home)


def _is_over(home: Home, run_id: str) -> bool:
    """Whether a run that left its name in a lock has ended; only then is the instance opened here."""
    if not (home.dagster / SETTINGS).exists():
        return True
    with dagster_instance(home) as instance:
        return ended_in(instance)(run_id)


def _release_or_unchanged(task: Task, lock: StoreLock) -> int:
    """Run the policy's job, unless the same was released before; what a crash left is mended first in any case."""
    started = time.monotonic()
    home, policy, console = task.home, task.policy, task.progress.console
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        clean_orphans(home, instance, lock)
        require_journal(instance, HomeJournal(home).file.read())
        earlier = _released_before(task)
        if earlier is None:
            require_secret_of_releases(home, Workplace(root=str(home.root)).secret())
            clock.now(Registry(home.releases / "registry.jsonl").chain().last_time)  # not after the work is done
            with interruption.watched(interrupt_queries), dagster_internals.capture_interrupts():
                summary = execute(instance, task, lock.run_id)
                if summary.release is None:
                    summary = replace(summary, release=_left_behind(task))
                tag_outcome(instance, lock.run_id, summary)
                interruption.remember_release(summary.release)
                seconds = time.monotonic() - started
                if interruption.received() is None:
                    if task.progress.as_json:
                        _write_json(summary_json(task, summary, seconds))
                    else:
                        print_summary(task, summary, seconds)
                    if report := report_refusal(home, policy, task.delivery.key, summary):
                        console.print(f"[bold]Report of the refusal[/bold] (restricted)  {escape(str(report))}", soft_wrap=True)
            return summary.exit_code if interruption.received() is None else interruption.say()
    if isinstance(earlier, Waiting):
        # The same was staged before, and waits for a person's approval.
        _say_unchanged(task, AWAITING, None, earlier.name)
        return PUBLISHED
    verified = verify_release(earlier, signing_key_of(home).public, home.releases / "registry.jsonl")
    if not verified.ok:
        raise ReleaseError(
            f"this delivery was released under this policy before, but that release no longer verifies:\n{verified.text()}"
        )
    _say_unchanged(task, "unchanged", earlier, None)
    return PUBLISHED


def _say_unchanged(task: Task, outcome: str, release: Path | None, waiting: str | None) -> None:
    """Say that nothing was made, and why; what a person overruled then; and who of the opt-outs is not in the delivery."""
    unmatched, progress = task.unmatched(), task.progress
    only_remarks = progress.detail is Detail.QUIET and not progress.as_json
    verdict = verdict_sentences(task.home, release, waiting, only_remarks)
    if progress.as_json:
        of = {"outcome": outcome, "exit_code": PUBLISHED, "policy": task.policy.name, "delivery": task.delivery.key}
        of |= {"release": None if release is None else str(release)} | ({"waiting": waiting} if waiting else {})
        _write_json(of | {"verdict": list(verdict), "opt_outs": list(unmatched)})
        return
    if release is None:
        why, what = "passed the gate", f"[bold]Awaiting approval[/bold]  {waiting}"
    else:
        why, what = "was released", f"[bold]Published[/bold]  {escape(str(release))}"
    for line in (f"Unchanged: this delivery {why} under this policy before.", *map(escape, verdict), what, *unmatched):
        progress.console.print(line, soft_wrap=True)


def _write_json(document: Mapping[str, object]) -> None:
    sys.stdout.write(f"{json.dumps(document, indent=1, allow_nan=False)}\n")


def _released_before(task: Task) -> Path | Waiting | None:
    """The release of the same policy and delivery, made by the same code; unchanged inputs are not released again.

    It may wait for approval.
    """
    releases, inputs = releases_of(Workplace(root=str(task.home.root))), _inputs_of(task)
    earlier = releases.registry.already_released(task.policy.name, inputs)
    if earlier is None:
        return waiting_already(releases, task.policy, inputs)
    return releases.path(earlier.policy, earlier.number)


def _inputs_of(task: Task) -> str:
    return inputs_digest(task.policy, Workplace(root=str(task.home.root)).secret(), task.delivery, task.delivery.digest())


def _left_behind(task: Task) -> Path | None:
    """The release that a run published before it failed or was stopped, registered or not: it is out all the same."""
    with contextlib.suppress(DeidError):
        inputs = _inputs_of(task)
        for folder in release_folders(task.home.releases):
            if folder.parent.name != task.policy.name:
                continue
            with contextlib.suppress(ReleaseError):
                if Entry.from_manifest(regular_bytes(folder / MANIFEST)).inputs_digest == inputs:
                    return folder
    return None


def requested_delivery(home: Home, policy: AnyPolicy, asked: Asked) -> Delivery:
    """The delivery to run on: the paths given, or a synthetic one, which need not exist yet."""
    if asked.release and not policy.has_events:
        raise DeliveryError(
            f"--release: policy {policy.name} draws no sample, and publishes every record that may be published; leave it out"
        )
    release = {"release": asked.release} if asked.release else {}
    if asked.named:
        resolved = tuple(Path(path).absolute() for path in asked.named)
        for path in resolved:
            if not path.exists():
                raise DeliveryError(f"delivery: missing file or folder {path}")
        return Delivery(asked.key or "_".join(path.stem for path in resolved), policy.source.kind, resolved, release)
    if policy.source.kind != "synthetic":
        raise DeliveryError(
            f"policy {policy.name} reads deliveries of kind {policy.source.kind}; name one with --delivery PATH"
        )
    made = _contents(policy).named
    name = "-".join(["synthetic", *made, str(asked.members), str(asked.seed)])
    default = f"{name}-{asked.release}" if asked.release else name
    parameters = {"members": asked.members, "seed": asked.seed, **made, **release}
    return Delivery(asked.key or default, "synthetic", (home.deliveries / name,), parameters)


def _contents(policy: AnyPolicy) -> Contents:
    """What the generator makes for a policy."""
    if not (policy.has_events and isinstance(policy.source, SyntheticSource)):
        return Contents()
    source = policy.source
    return Contents(
        fills="fills" in source.events,
        results="results" in source.events,
        spans=source.members.unit == "span",
        lines=source.claims.unit == "line",
        amounts=source.amounts,
        further=bool(policy.columns.members or policy.columns.claims),
        icd10cm=policy.diagnosis_codes == "icd10cm",
    )


def _make_synthetic(home: Home, delivery: Delivery, progress: Progress) -> None:
    """Make the files of a synthetic delivery unless they are there; runs under other policies may want the same ones."""
    (folder,) = delivery.paths
    members, seed = delivery.parameters["members"], delivery.parameters["seed"]
    with durable.locked(home.deliveries / f".{folder.name}.lock"):
        if folder.exists():
            return
        making = home.deliveries / f".making-{folder.name}"
        shutil.rmtree(making, ignore_errors=True)  # half made by a process that was killed
        with progress.working(f"Creating a synthetic delivery of {members:,} members", SYNTHETIC_DELIVERY):
            write_delivery(
                durable.owner_only(making),
                members,
                seed,
                Contents.of(delivery.parameters),
                lambda done, of: progress.tell(f"{done:,} of {of:,} members"),
            )
        making.rename(folder)


def execute(instance: dg.DagsterInstance, task: Task, run_id: str, assets: Collection[str] | None = None) -> RunSummary:
    """Execute the policy's job, or some of its assets.

    Signals are Dagster's meanwhile. Where one came, the run ends CANCELED, or as it had ended.
    """
    events: list[dg.DagsterEvent] = []
    canceling = False
    progress, quiet = task.progress, contextlib.redirect_stderr(_WithoutFailedLogs(sys.stderr))
    try:
        with quiet:
            job, run = _new_run(instance, task, run_id, assets)
        with quiet, progress.working(f"Policy {task.policy.name}, delivery {task.delivery.key}"):
            progress.follow(known_forecast(instance, Workplace(root=str(Home.here().root)), run))
            instance.add_event_listener(run.run_id, lambda record: _tell(progress, record))
            for event in dagster_internals.execute_run_iterator(job, run, instance):
                events.append(event)
                _say(progress, event)
                number = interruption.received()
                if number is not None and event.event_type not in _ENDED:
                    if not canceling:
                        instance.report_run_canceling(run)  # else Dagster takes the interruption for a failure
                        canceling = True
                    if not event.is_failure:
                        signal.raise_signal(number)  # again, as a library may have swallowed what was raised
    except (KeyboardInterrupt, dg.DagsterExecutionInterruptedError):
        if interruption.received() is None:
            raise
        canceling = True
    left = instance.get_run_by_id(run_id)
    if canceling and left is not None and left.status not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.CANCELED):
        instance.report_run_canceled(left)
    return outcome_of(events)


_STEP_ENDED = (dg.DagsterEventType.STEP_SUCCESS, dg.DagsterEventType.STEP_FAILURE, dg.DagsterEventType.STEP_SKIPPED)
_ENDED = (dg.DagsterEventType.PIPELINE_SUCCESS, dg.DagsterEventType.PIPELINE_FAILURE, dg.DagsterEventType.PIPELINE_CANCELED)


def _new_run(
    instance: dg.DagsterInstance, task: Task, run_id: str, assets: Collection[str] | None
) -> tuple[dagster_internals.InMemoryJob, dg.DagsterRun]:
    """A run of the job that the UI runs, or of some of its assets.

    It has both origins, so that the UI shows it and can execute it again.
    """
    policy, delivery = task.policy, task.delivery
    add_partition(instance, policy.name, delivery.key)
    name = job_name(policy.name)
    # The same job is among the definitions of the UI, beside those of the other policies in use.
    job = dagster_internals.InMemoryJob(build_definitions([policy.name]).resolve_job_def(name))
    chosen = None if assets is None else frozenset(dg.AssetKey([policy.name, asset]) for asset in assets)
    if chosen is not None:
        job = job.get_subset(asset_selection=chosen)
    target = dagster_internals.LoadableTargetOrigin(
        executable_path=sys.executable, module_name=MODULE, working_directory=str(Path.cwd())
    )
    repository = dagster_internals.ReconstructableRepository.for_module(MODULE, "defs", working_directory=str(Path.cwd()))
    location = dagster_internals.ManagedGrpcPythonEnvCodeLocationOrigin(target, LOCATION)
    origin = dagster_internals.RemoteRepositoryOrigin(location, REPOSITORY)
    run = instance.create_run_for_job(
        job_def=job.get_definition(),
        run_id=run_id,
        asset_selection=chosen,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
        tags={
            "dagster/partition": delivery.key,
            STORE_TAG: f"{policy.name}/{delivery.key}",
            POLICY_TAG: policy.name,
            "deid/policy_hash": policy.public_hash[:16],
            **({GO_ON_TAG: "true"} if task.go_on else {}),
        },
        remote_job_origin=dagster_internals.RemoteJobOrigin(origin, name),
        job_code_origin=repository.get_reconstructable_job(name).get_python_origin(),
    )
    return job, run


class _WithoutFailedLogs(io.TextIOBase):
    """Standard error without what Dagster writes when events cannot be recorded: it quotes them.

    The failure itself is raised, and ends the run with a sentence of our own.
    """

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        if not text.startswith(("Exception while writing logger call", "Exception while storing event batch")):
            self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        self._stream.flush()


def _say(progress: Progress, event: dg.DagsterEvent) -> None:
    """Say of an event what people want to know."""
    if event.event_type == dg.DagsterEventType.STEP_START:
        name = str(event.step_key).split("__")[-1]
        asset = name.removesuffix(STEP_ENDING)
        said = f"checks of {asset}" if asset != name and asset in STAGE_OF else name
        progress.doing(str(event.step_key), said)
    elif event.event_type in _STEP_ENDED:
        progress.did(str(event.step_key))
    elif event.event_type == dg.DagsterEventType.ASSET_MATERIALIZATION:
        made = event.step_materialization_data.materialization
        name = made.asset_key.path[-1]
        if name not in STAGE_OF:  # a whole stage, or a published table: neither is a step of the work
            return
        rows, seconds = made.metadata.get("dagster/row_count"), made.metadata.get("seconds")
        progress.made(
            STAGE_OF[name],
            name,
            rows.value if isinstance(rows, dg.IntMetadataValue) else None,
            seconds.value if isinstance(seconds, dg.FloatMetadataValue) else None,
        )
        for name in ("notice", TOLD):
            if name in made.metadata:
                progress.note(str(made.metadata[name].value))


def _tell(progress: Progress, record: dg.EventLogEntry) -> None:
    if not record.is_dagster_event and record.user_message and not record.user_message.startswith(ANNOUNCED):
        progress.tell(record.user_message)


@dataclass(frozen=True)
class Reproduced:
    """What came of it.

    Attributes
    ----------
    files
        Every data file and the certificate; empty if the run did not get that far.
    versions
        Code and packages that are not those of the release.
    reasons
        Why the run was refused or failed, or what else differs from the release.
    """

    files: tuple[reproduction.ComparedFile, ...]
    versions: tuple[str, ...]
    reasons: tuple[str, ...]

    @property
    def same(self) -> bool:
        """Whether every file has the same bytes."""
        return bool(self.files) and all(file.outcome == "equal" for file in self.files)


def reproduce_release(home: Home, published: PublishedRelease, detail: Detail) -> Reproduced:
    """Make a release again from its delivery, its policy and the secret; nothing of it stays.

    Raises
    ------
    ReleaseError
        If the secret is another, or the restricted edition of the manifest is missing.
    PolicyError
        If its policy asks for a mode that was removed.
    DeliveryError
        If the delivery is not registered any more, or its files changed.
    """
    restricted = published.required()
    require_no_removed_mode(json.loads(restricted["policy"]["text"]), f"policy of release {published.name}")
    secret, delivery = secret_of(home), registered_delivery(home, restricted["delivery"]["key"])
    _require_same_inputs(published, secret, delivery)
    with reproduction.temporary_home(home) as temporary, _environment(home, temporary, secret):
        policy = reproduction.recall(home, published, temporary)
        inputs = inputs_digest(policy, secret, delivery, restricted["delivery"]["digest"])
        register_delivery(temporary, delivery)
        task = Task(temporary, policy, delivery, Progress(Console(file=sys.stderr, highlight=False), detail))
        with (
            dg.DagsterInstance.ephemeral() as instance,
            interruption.watched(interrupt_queries),
            dagster_internals.capture_interrupts(),
        ):
            summary = execute(instance, task, dagster_internals.make_new_run_id())
        made = reproduction.made_again(temporary, summary.release, summary.waiting)
        files = () if made is None else reproduction.compared_files(published, made)
    reasons = (*summary.reasons, *summary.failed_checks)
    if inputs != published.public["inputs_digest"]:
        reasons += ("the policy, the delivery's parameters, the code or the version of a method is not that of the release",)
    return Reproduced(files, reproduction.differing_versions(restricted, deid_assets.__version__, package_versions()), reasons)


def _require_same_inputs(published: PublishedRelease, secret: Secret, delivery: Delivery) -> None:
    if secret.commitment() != published.public["secret_commitment"]:
        raise ReleaseError(f"release {published.name} was made with another secret than that of this home")
    if delivery.digest() != published.required()["delivery"]["digest"]:
        raise DeliveryError(
            f"delivery {delivery.key}: its files are not those from which release {published.name} was made; restore them"
        )


@contextlib.contextmanager
def _environment(home: Home, temporary: Home, secret: Secret) -> Iterator[None]:
    """Let the definitions find the temporary home, and the home's secret where it lies: it is not copied.

    The temporary home signs with a key of its own, its releases stay in it alone, and nobody is told of them.
    """
    changes = {"DEID_HOME": str(temporary.root)}
    if secret.origin == GENERATED:
        changes["DEID_SECRET_FILE"] = str(Path(home.keys / SECRET_FILE).absolute())
    without = (*variables_of(SIGNING_KEY_VARIABLE), PUBLISHED_ELSEWHERE, COPIES, ENDPOINT, WITNESS)
    before = {name: os.environ.get(name) for name in (*changes, *without)}
    _set(dict.fromkeys(without) | changes)
    try:
        yield
    finally:
        _set(before)


def _set(variables: Mapping[str, str | None]) -> None:
    """Set variables of the environment; those that are None are removed."""
    for name, value in variables.items():
        if value is None:
            os.environ.pop(name, None)
        else:
            os.environ[name] = value

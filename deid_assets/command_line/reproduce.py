"""What `deid reproduce` does: make a release again, in a temporary home, and compare the bytes."""

import contextlib
import json
import os
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
from rich.console import Console

import deid_assets
from deid_assets import interruption
from deid_assets.assets.publishing import inputs_digest
from deid_assets.automation.in_use import state_use
from deid_assets.command_line.progress import Detail, Progress
from deid_assets.command_line.run import execute
from deid_assets.command_line.summary import Task
from deid_assets.dagster_internals import capture_interrupts, make_new_run_id
from deid_assets.errors import DeliveryError, ReleaseError
from deid_assets.policy.removed_modes import require_no_removed_mode
from deid_assets.release.journal.witnesses import VARIABLE as WITNESS
from deid_assets.release.keyring import secret_of
from deid_assets.release.keys import GENERATED, SECRET_FILE, SIGNING_KEY_VARIABLE, Secret, variables_of
from deid_assets.release.lineage.openlineage import URL as ENDPOINT
from deid_assets.release.lineage.published import PublishedRelease
from deid_assets.release.manifest.editions import package_versions
from deid_assets.release.publication.copies import VARIABLE as COPIES
from deid_assets.release.reproduction import Compared, compared, differing_versions, made_again, recall, temporary_home
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.registration import register_delivery, registered_delivery
from deid_assets.store.home import PUBLISHED, Home
from deid_assets.store.tables import interrupt_queries


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

    files: tuple[Compared, ...]
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
    with temporary_home(home) as temporary, _environment(home, temporary, secret):
        policy = recall(home, published, temporary)
        state_use(temporary, policy.name, retired=False)  # the definitions hold policies in use only
        inputs = inputs_digest(policy, secret, delivery, restricted["delivery"]["digest"])
        register_delivery(temporary, delivery)
        task = Task(temporary, policy, delivery, Progress(Console(file=sys.stderr, highlight=False), detail))
        with (
            dg.DagsterInstance.ephemeral() as instance,
            interruption.watched(interrupt_queries),
            capture_interrupts(),
        ):
            summary = execute(instance, task, make_new_run_id())
        made = made_again(temporary, summary.release, summary.waiting)
        files = () if made is None else compared(published, made)
    reasons = (*summary.reasons, *summary.failed_checks)
    if inputs != published.public["inputs_digest"]:
        reasons += ("the policy, the delivery's parameters, the code or the version of a method is not that of the release",)
    return Reproduced(files, differing_versions(restricted, deid_assets.__version__, package_versions()), reasons)


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
    without = (*variables_of(SIGNING_KEY_VARIABLE), PUBLISHED, COPIES, ENDPOINT, WITNESS)
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

"""A release that passed the gate and waits for a person's approval: its terms, and what the event log says of it.

Nothing is materialized until it is approved, so that what depends on a release does not take place. An observation of the
release says that it waits.
"""

import dagster as dg

from deid_assets.assets.published_tables import PublishedTables
from deid_assets.assets.step import Step
from deid_assets.dagster_internals import _build_data_version_tags, _get_input_provenance_data, compute_logical_data_version
from deid_assets.errors import AWAITING_MARK, ReleaseError
from deid_assets.policy.kinds import AnyPolicy
from deid_assets.policy.sections.approval import Approval
from deid_assets.release.publication import waiting as waiting_releases
from deid_assets.release.publication.publish import Releases
from deid_assets.release.registry import clock
from deid_assets.release.registry.noise_charges import NoisyPublication
from deid_assets.resources import OUTCOME_TAG, asset_key_of

WAITING = "awaiting_approval"
"""Metadata of an observation: policy and number of the release that waits."""


def waiting_already(releases: Releases, policy: AnyPolicy, inputs: str) -> waiting_releases.Waiting | None:
    """The release of the same inputs that waits and can still be approved; None if there is none."""
    chain = releases.registry.chain()
    now = clock.now(chain.last_time)
    for folder in waiting_releases.waiting_folders(releases.waiting):
        if folder.parent.name != policy.name:
            continue
        try:
            waiting = waiting_releases.read_waiting(folder, releases.key.public)
        except ReleaseError:
            continue  # `deid approvals` says why it cannot be approved; this run stages another
        if waiting.inputs_digest == inputs and not waiting.obstacles(chain, now, policy.reading):
            return waiting
    return None


def terms_of(
    step: Step[AnyPolicy], approval: Approval, subject: str | None, noise: NoisyPublication, tables: PublishedTables
) -> waiting_releases.Terms:
    """The terms under which a release of this run waits.

    Parameters
    ----------
    subject
        `Tried.subject` of its delivery; None if no draws judged it.
    noise
        Its noisy numbers.
    tables
        Its published tables.
    """
    return waiting_releases.Terms(
        by=approval.by,
        within_days=approval.within_days,
        reading=step.policy.reading,
        code=waiting_releases.code_in_use(),
        subject=subject,
        cells=tuple(sorted({cell.definition for cell in noise.cells})),
        delivery_key=step.key,
        event={
            "asset": list(step.own.path),
            "partition": step.key,
            "run": step.context.run.run_id,
            "tags": version_tags(step.context),
            "tables": tables.to_json(),
        },
    )


def version_tags(context: dg.AssetExecutionContext) -> dict[str, str]:
    """The tags of data versions that a materialization by this step would have; recorded when the release is approved."""
    key, step = asset_key_of(context), context.op_execution_context.get_step_execution_context()
    code_version = str(step.job_def.asset_layer.get(key).code_version)
    inputs = _get_input_provenance_data(key, step)
    version = compute_logical_data_version(code_version, {parent: one["data_version"] for parent, one in inputs.items()})
    return _build_data_version_tags(version, code_version, inputs, False)


def tell_waiting(step: Step[AnyPolicy], releases: Releases, waiting: waiting_releases.Waiting) -> None:
    """Show in the catalog and in the list of runs that the release waits, until when, and who may approve it."""
    folder = waiting_releases.waiting_folder(releases.waiting, waiting.policy, waiting.number)
    shown = f"{AWAITING_MARK}awaiting approval"
    step.context.log_event(
        dg.AssetObservation(
            step.own,
            partition=step.key,
            description=f"{shown}: `deid approve {waiting.name} --by NAME` publishes it, `deid reject` records why not",
            metadata={
                WAITING: waiting.name,
                "may_approve": ", ".join(waiting.terms.by),
                "until": waiting.expires,
                "staged_files": dg.MetadataValue.path(str(folder / waiting_releases.FILES)),
                "report": dg.MetadataValue.path(str(folder / waiting_releases.FILES / "report.html")),
            },
        )
    )
    step.instance.add_run_tags(step.context.run.run_id, {OUTCOME_TAG: shown})

"""Assessment: what an adversary could do with exactly the rows that would be published. Each asset is gate evidence.

The assets are made from the registry of assessments. Evidence is bound to content: it contains the digest of the rows
judged, the policy and the version of its method.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import dagster as dg
import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import Assessment, Image, Shown, Try, Work, canaries_measurement
from deid_assets.assessments.earlier_releases import EarlierRelease, EverReleased
from deid_assets.assessments.evidence import Evidence, Measurement, to_frame
from deid_assets.assessments.membership_changes import Leavers
from deid_assets.assessments.registry import LONGITUDINAL, noise_plan
from deid_assets.assets.counts import earlier_noise, earlier_tables
from deid_assets.assets.random_streams import delivery_tries, note_if_refused, stream_key
from deid_assets.assets.step import StageAsset, Step, image, markdown_table, stage_asset
from deid_assets.errors import ReleaseError
from deid_assets.methods.counts.published_tables import EarlierTables
from deid_assets.methods.disclosure.membership_changes import Roll
from deid_assets.policy.kinds import AnyPolicy, Kind
from deid_assets.policy.models import Policy
from deid_assets.release.cumulative import comparable_rolls
from deid_assets.release.manifest.public_numbers import PublicNumbers
from deid_assets.release.registry.tries import Tried
from deid_assets.resources import Workplace
from deid_assets.stages import STAGES
from deid_assets.store.digests import tables_digest_once
from deid_assets.store.tables import Table

_JUDGED = frozenset(name for names in STAGES["candidate"].values() for name in names)
"""The tables about to be released."""


def assessment_asset(assessment: Assessment[Any], kind: Kind) -> StageAsset:
    """Make the asset of an assessment of one kind of policy."""

    @stage_asset(
        name=assessment.name,
        of_kind=kind,
        description=assessment.description,
        policy_sections=assessment.policy_sections,
        version=assessment.version,
        kinds=("duckdb", "numpy"),
        inputs=assessment.inputs,
    )
    def assessed(step: Step[AnyPolicy], **tables: Table) -> pd.DataFrame:
        policy, commitment = step.policy, step.secret.commitment()
        found = assessment.measure(
            Work(
                policy,
                tables,
                commitment,
                partial(stream_key, step),
                _History(step, tables),
                step.context.log.info,
            )
        )
        drawn = None if assessment.draws == "none" else commitment
        measured = (*found.measurements, canaries_measurement(found.canaries, drawn))
        _require_planned(assessment, policy, measured)
        number = _note_try(assessment, step.workplace, found.made_in, measured)
        candidate = {name: table for name, table in tables.items() if name in _JUDGED}
        evidence = Evidence(
            assessment.name,
            step.key,
            policy.hash,
            tables_digest_once(candidate),
            assessment.version,
            measured,
            number,
        )
        step.tell(
            {name: _metadata(fact) for name, fact in found.shown.items()}
            | measured_metadata(measured)
            | {"evidence_digest": evidence.digest()}
        )
        return to_frame([evidence])

    return assessed


def _require_planned(assessment: Assessment[Any], policy: AnyPolicy, measured: Sequence[Measurement]) -> None:
    """Refuse numbers that the public edition would show with noise that was not part of the plan.

    Raises
    ------
    ReleaseError
        If there are any; the message names them.
    """
    unplanned = PublicNumbers.cells(measured) - PublicNumbers.cells(noise_plan(policy))
    if unplanned:
        raise ReleaseError(
            f"{assessment.name}: no noise was planned for {', '.join(sorted(unplanned))}; declare it as the noise of its gate, "
            "or among the noisy numbers of the assessment"
        )


def _note_try(
    assessment: Assessment[Any], workplace: Workplace, made_in: Try | None, measured: Sequence[Measurement]
) -> int | None:
    """Record the try in the registry if draws refuse it, before any measurement is shown; return its number.

    Raises
    ------
    ReleaseError
        If an assessment that draws judge does not say in which try it was made.
    """
    if isinstance(made_in, Tried) != (assessment.draws == "judged"):
        raise ReleaseError(f"{assessment.name}: an assessment has a try exactly if draws judge it")
    if not isinstance(made_in, Tried):
        return None
    note_if_refused(workplace, made_in, measured)
    return made_in.number


@dataclass(frozen=True)
class _History:
    """Earlier releases and tries, as the registry and the restricted manifests know them."""

    step: Step[AnyPolicy]
    tables: Mapping[str, Table]

    def try_at(self, levels: Mapping[str, int]) -> Tried:
        profiles, domains = self.tables["member_profiles"], self.tables["value_domains"]
        return delivery_tries(self._of_members("tries"), profiles, domains).at(levels)

    def released_before(self, population: Table, own: str) -> int:
        return self.step.workplace.released_before(population, own)

    def ever_released(self) -> EverReleased:
        return self.step.workplace.ever_released()

    def releases_before(self, population: Table, own: str) -> tuple[str, ...]:
        return self.step.workplace.releases_before(population, own)

    def rolls(self) -> Iterable[tuple[str, Roll]]:
        return comparable_rolls(self.step.workplace.releases_made(), self.step.secret.commitment())

    def leavers(self) -> Leavers:
        return self.step.workplace.leavers(self._of_members("members who left").policy, self.step.key)

    def _of_members(self, what: str) -> Step[Policy]:
        """The step of a policy that can have something."""
        if not self.step.policy.has_events:
            raise ReleaseError(f"releases of flat tables and of cohorts have no {what}")
        return cast("Step[Policy]", self.step)

    def earlier_releases(self) -> Sequence[EarlierRelease]:
        return self.step.workplace.earlier_of(self.step.key)

    def tags_in_order(self, member_ids: Iterable[str]) -> np.ndarray:
        return self.step.workplace.tags_in_order(member_ids)

    def earlier_tables(self) -> EarlierTables:
        return earlier_tables(self.step.workplace)

    def earlier_noise(self, published: Table) -> Mapping[str, Sequence[float]]:
        return earlier_noise(self.step, published.frame())


def _metadata(fact: Shown) -> dg.MetadataValue | str | float | list[str]:
    """A fact as metadata of an asset; Dagster knows text, numbers and lists."""
    if isinstance(fact, Image):
        return image(fact.image, fact.alt)
    return markdown_table(fact) if isinstance(fact, pd.DataFrame) else fact


def measured_metadata(measured: Sequence[Measurement]) -> dict[str, dg.MetadataValue]:
    """All measurements as a table; each value as a number, and for gates also the bound and the threshold.

    Values that could not be measured, or are not finite, have no number.
    """
    table = pd.DataFrame(
        [(m.name, m.value, m.bound, m.threshold, outcome(m)) for m in measured],
        columns=["measurement", "measured", "bound", "threshold", "outcome"],
    )
    numbers = {}
    for found in measured:
        numbers[found.name] = found.value
        if found.gating:
            numbers |= {f"{found.name} (bound)": found.bound, f"{found.name} (threshold)": found.threshold}
    return {"measurements": markdown_table(table)} | {
        name: dg.MetadataValue.float(float(number))
        for name, number in numbers.items()
        if number is not None and math.isfinite(number)
    }


def outcome(found: Measurement) -> str:
    """The outcome of a measurement; one that is not a gate neither passes nor fails.

    Examples
    --------
    >>> share = Measurement(
    ...     "share", "share of draws", .01, None, None, "at_most", "value", None, "m", "s", 9, None, gating=False
    ... )
    >>> outcome(share)
    'reported'
    """
    if not found.gating:
        return "reported"
    return "passed" if found.passed else "FAILED"


ASSESSMENTS = [assessment_asset(one, "longitudinal") for one in LONGITUDINAL]
"""The assets of a longitudinal policy's assessments."""

"""The report of a cohort's release, rendered from the public edition of the manifest."""

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.reports.demographics_report import LIMITS as OF_DEMOGRAPHICS
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import LIMITS, GeneralizationRow, render_report


def cohort_report(policy: CohortPolicy, public_edition: bytes, notes: tuple[str, ...]) -> bytes:
    """Render the report as one HTML file.

    Parameters
    ----------
    public_edition
        The public edition of the release's manifest, without the report itself.
    notes
        What readers must know of the population's table.
    """
    content = content_from_manifest(
        public_edition,
        f"Release under the policy {policy.name}",
        policy.title,
        stated_levels(policy),
        limits=(*OF_DEMOGRAPHICS[:4], LIMITS[2]),
        notes=tuple(f"Population: {note}." for note in notes),
    )
    return render_report(content)


def stated_levels(policy: CohortPolicy) -> tuple[GeneralizationRow, ...]:
    """Each column of demographics and its level."""
    levels, old = policy.demographic_policy.levels, policy.demographics.old_ages
    if old is not None:
        levels["age"] += f"; from 90 on, the finest of {', '.join(old.levels)} that is no riskier, by {old.by}"
    return tuple(GeneralizationRow(column, levels[name]) for name, column in policy.demographic_columns.items())

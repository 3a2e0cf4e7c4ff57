"""The report of a cohort's release, rendered from the public edition of the manifest."""

from deid_assets.policy.cohort import CohortPolicy
from deid_assets.reports.demographics_report import LIMITS as OF_DEMOGRAPHICS
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import LIMITS, GeneralizationRow, render_report

_EXPECTED = (
    "Expected risks are compared, as the policy states. They take the model of how people are spread over ages that the table "
    "joins for the truth: if it is not, the release can be riskier than Safe Harbor."
)
_DATED = (
    "The policy states that {share} % of the population have such a date, and no table says so. If they are fewer, the release "
    "is riskier; Safe Harbor, which publishes years, is not."
)


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
        limits=caveats_of(policy),
        notes=tuple(f"Population: {note}." for note in notes),
    )
    return render_report(content)


def caveats_of(policy: CohortPolicy) -> tuple[str, ...]:
    """What the numbers of a release do not say, by what its policy compares and states."""
    adversary, bounds, upper_bound, releases = OF_DEMOGRAPHICS[:4]
    risk, date = policy.risk, policy.columns.date
    compared = {"upper_bound": upper_bound, "expected": _EXPECTED}[risk.compared] if risk.no_riskier_than else ""
    dated = "" if date is None else _DATED.format(share=f"{date.dated * 100:.4g}")
    return tuple(limit for limit in (adversary, bounds, compared, dated, releases, LIMITS[2]) if limit)


def stated_levels(policy: CohortPolicy) -> tuple[GeneralizationRow, ...]:
    """Each column of demographics and its level."""
    levels, old = policy.demographic_policy.levels, policy.demographics.old_ages
    if old is not None:
        levels["age"] += f"; from 90 on, the finest of {', '.join(old.levels)} that is no riskier, by {old.by}"
    return tuple(GeneralizationRow(column, levels[name]) for name, column in policy.demographic_columns.items())

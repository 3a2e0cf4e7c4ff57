"""The report of a flat release, rendered from the public edition of the manifest."""

from deid_assets.policy.flat import FlatPolicy
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets.reports.report import FLAT_LIMITS, GeneralizationRow, render_report


def flat_report(policy: FlatPolicy, public_edition: bytes, levels: dict[str, int]) -> bytes:
    """Render the report as one HTML file.

    Parameters
    ----------
    public_edition
        The public edition of the release's manifest, without the report itself.
    levels
        Level of every quasi-identifier.
    """
    # Shares of records at other nodes are exact numbers about people: the lattice stays in the UI.
    named = tuple(
        GeneralizationRow(name, policy.hierarchy_of(name).level_names[level]) for name, level in levels.items()
    )
    content = content_from_manifest(
        public_edition, f"Release under the policy {policy.name}", policy.title, named, limits=FLAT_LIMITS
    )
    return render_report(content)

"""Commands for those who look at a release afterwards: `deid audit`."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from deid_assets.errors import ERROR, ReleaseError
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from deid_assets.release.lineage.published import PublishedRelease


@click.command()
@click.argument("release", type=click.Path(path_type=Path))
@click.option(
    "--key", "key_file", type=click.Path(path_type=Path), help="The publisher's public key (PEM); by default that of this home."
)
def audit(release: Path, key_file: Path | None) -> None:
    """Explain a release, and check that release, registry, manifests and event log agree.

    RELEASE is the folder of a release, or policy/number. An HTML page and a JSON document are written into the restricted
    store, beside the restricted edition of the manifest.

    Exit code 0 only if nothing is missing and nothing contradicts anything else.
    """
    from deid_assets.command_line.audit import audited, write_audit
    from deid_assets.release.keys import PublicKey

    home, published = _published(release)
    found = audited(home, published, PublicKey.read(key_file) if key_file else None)
    page, document = write_audit(home, found)
    for problem in found.problems:
        click.echo(f"problem: {problem}", err=True)
    click.echo(f"release {published.name} is {'NOT ' if found.problems else ''}in order")
    click.echo(f"Audit (restricted)  {page}\n                    {document}")
    if found.problems:
        raise SystemExit(ERROR)


def _published(release: Path) -> tuple[Home, "PublishedRelease"]:
    """Return this home, and a release that it published.

    Raises
    ------
    ReleaseError
        If the home has published nothing, or the release cannot be read.
    """
    from deid_assets.release.keyring import has_released
    from deid_assets.release.lineage.published import published_release, release_folder

    home = Home.here()
    if not has_released(home):
        raise ReleaseError(f"nothing was released in the home {home.root}; set DEID_HOME to the home of the release")
    return home, published_release(home, release_folder(home, release))

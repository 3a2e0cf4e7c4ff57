"""Commands for those who look at a release afterwards: `deid audit`, `deid lineage`, `deid kept` and others."""

from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deid_assets.command_line.completion import releases
from deid_assets.errors import ERROR, ReleaseError
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from deid_assets.release.lineage.published import PublishedRelease

_RELEASE = click.argument("release", type=click.Path(path_type=Path), shell_complete=releases)


@click.command()
@_RELEASE
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
    from deid_assets.release.lineage.audit import NOT_LOOKED_AT

    home, published = _published(release)
    found = audited(home, published, PublicKey.read(key_file) if key_file else None)
    page, document = write_audit(home, found)
    for problem in found.problems:
        click.echo(f"problem: {problem}", err=True)
    click.echo(f"release {published.name} is {'NOT ' if found.problems else ''}in order")
    for note in (*found.opt_outs, NOT_LOOKED_AT):
        click.echo(note)
    if published.without_dictionary:
        click.echo(f"{published.without_dictionary}: what its columns derive from is not told.")
    click.echo(f"Audit (restricted)  {page}\n                    {document}")
    if found.problems:
        raise SystemExit(ERROR)


@click.command()
@_RELEASE
@click.option("--quiet", "-q", is_flag=True, help="Do not show the progress of the run.")
def reproduce(release: Path, quiet: bool) -> None:
    """Make a release again from its delivery, its policy and the secret, and compare the bytes of every data file.

    RELEASE is the folder of a release, or policy/number. Everything happens in a temporary home in the restricted store, which
    is removed. Nothing is published, registered or charged to a budget.

    Exit code 0 only if every file is equal; 1 otherwise; 130 and 143: interrupted.
    """
    from deid_assets import interruption
    from deid_assets.command_line.progress import Detail
    from deid_assets.command_line.reproduce import reproduce_release

    home, published = _published(release)
    found = reproduce_release(home, published, Detail.QUIET if quiet else Detail.NORMAL)
    if interruption.received() is not None:
        raise SystemExit(interruption.say())
    for version in found.versions:
        click.echo(f"other version: {version}")
    for reason in found.reasons:
        click.echo(f"problem: {reason}", err=True)
    for file in found.files:
        click.echo(f"{file.outcome:14}{file.path}")
    equal = sum(file.outcome == "equal" for file in found.files)
    same = "all files are equal" if found.same else f"{equal} of {len(found.files)} files are equal"
    click.echo(f"release {published.name} is {'' if found.same else 'NOT '}reproduced: {same}")
    if not found.same:
        raise SystemExit(ERROR)


@click.command()
@_RELEASE
@click.option(
    "--output", type=click.Path(path_type=Path), default=Path(), help="Folder to write to; by default the current one."
)
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), help="Date of expiry, as 2027-06-30; by default it is left open.")
@click.option(
    "--key", "key_file", type=click.Path(path_type=Path), help="The publisher's public key (PEM); by default that of this home."
)
def determination(release: Path, output: Path, expires: datetime | None, key_file: Path | None) -> None:
    """Draft the expert determination of a release under 45 CFR 164.514(b)(1), as HTML and Markdown.

    RELEASE is the folder of a release, or policy/number. Every number is taken from the public manifest. An expert fills in
    what is left open, and signs.
    """
    from deid_assets.command_line.determination import write_determination
    from deid_assets.release.keys import PublicKey

    home, published = _published(release)
    key = PublicKey.read(key_file) if key_file else None
    until = None if expires is None else expires.date().isoformat()
    page, text = write_determination(home, published, output, until, key)
    click.echo(f"Draft  {page}\n       {text}")


@click.command()
@_RELEASE
def lineage(release: Path) -> None:
    """Write a release as an OpenLineage event, and send it to the endpoint that OPENLINEAGE_URL names, if any.

    RELEASE is the folder of a release, or policy/number. The event lies beside the restricted edition of the manifest; it holds
    nothing that is not public.
    """
    from deid_assets.command_line.lineage import write_recorded_event

    home, published = _published(release)
    file, sent = write_recorded_event(home, published)
    if published.without_dictionary:
        click.echo(f"{published.without_dictionary}: the event names its tables, and no columns.")
    click.echo(f"OpenLineage event  {file}" + ("\nSent to the endpoint." if sent else ""))


@click.command()
@_RELEASE
def kept(release: Path) -> None:
    """Show what a release keeps of every column: its level, the values that occur, and bits before and after.

    RELEASE is the folder of a release, or policy/number. The table holds nothing that is not public.
    """
    from rich.console import Console

    from deid_assets.command_line.kept import print_kept

    _, published = _published(release)
    print_kept(published, Console())


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

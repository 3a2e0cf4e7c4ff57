"""`deid backup` and `deid restore`: a home as one encrypted file."""

import os
from pathlib import Path

import click

import deid_assets
from deid_assets.command_line.deciding import releases_here, say_witnesses
from deid_assets.errors import StoreError
from deid_assets.store.home import Home


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option("--to", "recipient", required=True, help="Public key of age or SSH, or a file that has it.")
def backup(file: Path, recipient: str) -> None:
    """Write everything that this home needs to remain the same home to one encrypted file. Runs may go on meanwhile.

    Deliveries are not in it, nor the tables that were made from them: they are made again. Only the owner of the private key
    can read it; make one with `ssh-keygen -t ed25519` or `age-keygen`, and keep it elsewhere.
    """
    from deid_assets.automation.instance import dagster_instance, is_in_files, prepare_dagster_home
    from deid_assets.release.backup import back_up
    from deid_assets.release.event_log import recorded_releases
    from deid_assets.release.registry import clock

    releases = releases_here()
    home = releases.home
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:

        def is_recorded() -> bool:
            heads = {one.head for one in recorded_releases(instance)}
            return all(entry.hash in heads for entry in releases.registry.chain().entries)

        listing = back_up(releases, file, _text_of(recipient), deid_assets.__version__, clock.now(None), is_recorded)
    say_witnesses(home)
    published = len(releases.registry.chain().entries)
    click.echo(f"{file} has {len(listing.files):,} files and {published:,} releases, in {file.stat().st_size:,} bytes.")
    if not is_in_files(home):
        click.echo("The run history is in PostgreSQL, and not in it: back up that database, too.")
    for folder, what in (("secret", "DEID_SECRET"), ("signing_key.pem", "DEID_SIGNING_KEY")):
        if not (home.keys / folder).exists():
            click.echo(f"The environment gives {what}, which is not in it: keep it elsewhere.")


@click.command()
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--identity", "key_file", required=True, type=click.Path(path_type=Path), help="File of the private key, of age or SSH."
)
@click.option(
    "--without-witness",
    "without",
    metavar="PLACE",
    multiple=True,
    help="Restore although this witness is missing; `deid journal forget PLACE` does without it then. Can be repeated.",
)
def restore(file: Path, key_file: Path, without: tuple[str, ...]) -> None:
    """Put a home back from `deid backup`, in the place of DEID_HOME; a home that lies there is kept beside it.

    Refused if the backup is damaged, or older than the home in its place or than a witness of its journal.
    """
    from deid_assets.release.backup import restore as restore_home
    from deid_assets.release.journal.witnesses import place_of
    from deid_assets.release.registry import clock

    home = Home.here()
    try:
        identity = key_file.read_bytes()
    except OSError as error:
        raise StoreError(f"the private key {key_file} cannot be read: {error.strerror}") from None
    now = clock.now(None)
    kept_as = now[:19].replace(":", "").replace("-", "")
    lost = [place_of(named) for named in without]
    listing, kept = restore_home(file, identity, home, _told_by_event_log(home), kept_as, lost)
    home.create()
    click.echo(f"{home.root} is the home of {listing.created} again, with {len(listing.files):,} files.")
    if kept is not None:
        click.echo(f"The home that lay there is kept as {kept}; its deliveries and restricted stores are there.")
    click.echo("Compare it with `deid journal check`, and each release with `deid audit`.")


def _told_by_event_log(home: Home) -> list[str]:
    """Heads of the journal that the event log of a home names, if there is one."""
    from deid_assets.automation.instance import SETTINGS, dagster_instance
    from deid_assets.release.event_log import recorded_releases

    if not (home.dagster / SETTINGS).exists():
        return []
    with dagster_instance(home) as instance:
        return [one.journal for one in recorded_releases(instance) if one.journal is not None]


def _text_of(recipient: str) -> str:
    if not os.path.isfile(recipient):
        return recipient
    try:
        return Path(recipient).read_text(encoding="utf-8")
    except (OSError, ValueError):
        raise StoreError(f"the public key {recipient} cannot be read") from None

"""Commands about a home: its rules, its backups, its journal, and its format.

`deid rules`; `deid backup` and `deid restore`; `deid journal`, and where its head is kept; `deid home upgrade`.
"""

import os
import sys
from pathlib import Path

import click

from deid_assets.command_line.deciding import incomplete_in, missing_in, releases_here, say_witnesses
from deid_assets.command_line.options import FILE, YES
from deid_assets.errors import ERROR, PolicyError, ReleaseError, StoreError, how_many
from deid_assets.store.home import Home

_BY = click.option("--by", required=True, help="Your name; one of the approvers of the rules in force, if they name any.")


@click.group()
def rules() -> None:
    """Rules of this home, which stand above its policies; the journal knows them, and who changed them."""


@rules.command("show")
def rules_show() -> None:
    """Print the rules in force."""
    from deid_assets.release.home_rules import rules_of
    from deid_assets.release.journal.home_journal import RULES_FILE

    home = Home.here()
    rules_of(home)  # whether they can be used
    file = home.store / RULES_FILE
    click.echo(file.read_text(encoding="utf-8").rstrip() if file.exists() else "This home has no rules.")


@rules.command("set")
@click.argument("file", type=FILE)
@_BY
def rules_set(file: Path, by: str) -> None:
    """Put the rules in a YAML file in force: approvers, recipient_classes, kinds and laxest. A laxer policy is refused."""
    from deid_assets.release.home_rules import change_rules

    try:
        text = file.read_bytes()
    except OSError as error:
        raise PolicyError(f"the rules {file} cannot be read: {error.strerror}") from None
    releases = releases_here()
    change_rules(releases, text, by, f"the file {file}")
    say_witnesses(releases.home)
    click.echo("The rules are in force.")


@rules.command("drop")
@_BY
def rules_drop(by: str) -> None:
    """Do without rules from now on."""
    from deid_assets.release.home_rules import change_rules

    releases = releases_here()
    change_rules(releases, None, by, "")
    say_witnesses(releases.home)
    click.echo("This home has no rules any more.")


@click.command()
@click.argument("file", type=FILE)
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

        listing = back_up(releases, file, _text_of(recipient), clock.now(None), is_recorded)
    say_witnesses(home)
    published = len(releases.registry.chain().entries)
    click.echo(
        f"{file} has {how_many(len(listing.files), 'file')} and {how_many(published, 'release')}, in {file.stat().st_size:,} "
        "bytes."
    )
    if not is_in_files(home):
        click.echo("The run history is in PostgreSQL, and not in it: back up that database, too.")
    for folder, what in (("secret", "DEID_SECRET"), ("signing_key.pem", "DEID_SIGNING_KEY")):
        if not (home.keys / folder).exists():
            click.echo(f"The environment gives {what}, which is not in it: keep it elsewhere.")


@click.command()
@click.argument("file", type=FILE)
@click.option("--identity", "key_file", required=True, type=FILE, help="File of the private key, of age or SSH.")
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
    from deid_assets.release.backup import restore_home
    from deid_assets.release.journal.home_journal import place_of
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
    click.echo(f"{home.root} is the home of {listing.created} again, with {how_many(len(listing.files), 'file')}.")
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


@click.group()
def journal() -> None:
    """The journal of what this home decided: opt-outs, withdrawals, rejections, refused tries, approvals, releases.

    Every command that decides something compares it with the home first. Keep its head where whoever can write to the home
    cannot: a home that was put back as it was before is noticed only there.
    """


@journal.command("head")
@click.option("--to", help="File or URL, such as s3://bucket/journal.head: keep the head there from now on.")
def journal_head(to: str | None) -> None:
    """Print the head of the journal; with --to, also write it there, now and after every decision.

    Nothing is decided while a head that was kept this way is missing, or names lines that the journal lacks.
    """
    from deid_assets.release.journal.chain import Head
    from deid_assets.release.journal.home_journal import outside

    releases = releases_here()
    if to is not None:
        kept_at = outside(releases.home, to)
        with releases.deciding() as found:
            found.add_witness(kept_at, releases.key)
    now = releases.journal.file.read()
    if now.problem or not now.lines:
        raise ReleaseError("; ".join(missing_in(releases.home)) or "nothing was decided here, so that there is no journal yet")
    click.echo(Head.of(now).to_json().decode().strip())


@journal.command("forget")
@click.argument("kept_at", metavar="PLACE")
def journal_forget(kept_at: str) -> None:
    """Do without a head that was kept with `deid journal head --to PLACE`; the journal records that."""
    from deid_assets.release.journal.chain import WITNESSES
    from deid_assets.release.journal.home_journal import place_of

    releases = releases_here()
    with releases.deciding(despite=[WITNESSES]) as found:
        found.forget_witness(place_of(kept_at), releases.key)
    say_witnesses(releases.home)
    click.echo(f"The head of the journal is not kept at {kept_at} any more.")


@journal.command("check")
@click.option("--head", help="File or URL with a head that was kept, besides those that the journal knows.")
def journal_check(head: str | None) -> None:
    """Compare the home with its journal, and the journal with its witnesses. Exit code 0: nothing is missing.

    What is kept of each release is compared with its manifest, file by file.
    """
    home = Home.here()
    found = missing_in(home) or incomplete_in(home)
    if head is not None:
        found += _against(home, head)
    for text in found:
        click.echo(f"error: {text}", err=True)
    if found:
        sys.exit(ERROR)
    if not home.journal.exists():
        raise ReleaseError(
            f"nothing was decided in {home.root}, so that there is no journal to compare; DEID_HOME names the home"
        )
    click.echo("In order: the home has everything that its journal knows.")


def _against(home: Home, place: str) -> list[str]:
    from deid_assets.release.journal.chain import cut
    from deid_assets.release.journal.home_journal import HomeJournal, place_of, read_head

    known = read_head(place_of(place))
    if known is None:
        raise ReleaseError(f"there is no file {place}")
    return [] if HomeJournal(home).file.read().reaches(known.head) else [cut(place)]


@click.group("home")
def home_group() -> None:
    """Bring a home of an earlier version up to date."""


@home_group.command("upgrade")
@YES
def home_upgrade(yes: bool) -> None:
    """Bring a home that an earlier version made to the newest format. A copy of it is kept beside it.

    A home that decided something before there were journals gets one. Who opted out, and what the registry lists, is taken as
    it is now. Refused where anything names the head of a journal: the home had one, and it has to be put back. Releases stay
    as they are: all commands read those of every version.
    """
    from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
    from deid_assets.release.backup import keep_copy
    from deid_assets.release.event_log import recorded_releases
    from deid_assets.release.journal.chain import NEWEST, NO_JOURNAL
    from deid_assets.release.registry import clock

    releases = releases_here()
    before = releases.journal.format
    if before == NEWEST:
        click.echo(f"The home is up to date: it has format {NEWEST}.")
        return
    named: list[str] = []
    if before == NO_JOURNAL:
        prepare_dagster_home(releases.home)
        with dagster_instance(releases.home) as instance:
            named = ["the event log"] if any(one.journal is not None for one in recorded_releases(instance)) else []
        with releases.locked():
            releases.journal.require_none(named)
        found = releases.journal.found()
        click.echo(
            f"The journal begins with {how_many(len(found.chain.lines), 'line')} of the registry, "
            f"{how_many(len(found.opted_out), 'person', 'people')} who opted out, and "
            f"{how_many(len(found.waiting), 'release that waits', 'releases that wait')}. What was lost before is not noticed "
            "any more."
        )
    if not yes:
        click.confirm(f"Bring the home from format {before} to {NEWEST}?", abort=True)
    with releases.locked():
        kept = keep_copy(releases.home, clock.now(None).replace(":", ""))
    if before == NO_JOURNAL:
        releases.begin_journal(named)
        click.echo("The journal has begun: store/journal.jsonl. Keep its head elsewhere with `deid journal head --to FILE`.")
    else:
        with releases.deciding() as journal:
            journal.upgrade(releases.key)
    say_witnesses(releases.home)
    click.echo(f"The home has format {NEWEST}. As it was, with its keys, it is kept in {kept}: remove that when all is well.")


COMMANDS = (rules, backup, restore, journal, home_group)
"""Those of the command line; the others are in a group of them."""

"""`deid journal`: the journal of the home, and where its head is kept. `deid home upgrade` begins one."""

import sys

import click

from deid_assets.command_line.deciding import incomplete_in, missing_in, releases_here, say_witnesses
from deid_assets.errors import ERROR, ReleaseError
from deid_assets.store.home import Home


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
    from deid_assets.release.journal.witnesses import outside

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
    from deid_assets.release.journal.comparison import WITNESSES
    from deid_assets.release.journal.witnesses import place_of

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
    from deid_assets.release.journal.comparison import cut
    from deid_assets.release.journal.home_journal import HomeJournal
    from deid_assets.release.journal.witnesses import place_of, read_head

    known = read_head(place_of(place))
    if known is None:
        raise ReleaseError(f"there is no file {place}")
    return [] if HomeJournal(home).file.read().reaches(known.head) else [cut(place)]


@click.group("home")
def home_group() -> None:
    """Bring a home of an earlier version up to date."""


@home_group.command("upgrade")
@click.option("--yes", is_flag=True, help="Do not ask.")
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
            f"The journal begins with {len(found.chain.lines):,} lines of the registry, {len(found.opted_out):,} people who "
            f"opted out, and {len(found.waiting):,} releases that wait. What was lost before is not noticed any more."
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

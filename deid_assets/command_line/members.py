"""`deid member`: which releases hold a person, and who opted out of future ones. `deid release`: withdraw and copy releases."""

import os
import sys

import click

from deid_assets.command_line.completion import releases
from deid_assets.command_line.deciding import releases_here, say_witnesses
from deid_assets.errors import ReleaseError
from deid_assets.store.home import Home

_ID = click.argument("member_id", metavar="ID")
_REASON = click.option("--reason", required=True, help="Reason, in words; stored in the restricted part of the home.")


def _identifier(given: str) -> str:
    """The identifier, from standard input for '-': command lines are kept in histories, and others can see them."""
    return sys.stdin.readline().strip() if given == "-" else given.strip()


@click.group()
def member() -> None:
    """Find out which releases hold a person, and leave people out of future ones.

    ID is the identifier as deliveries write it, or '-' to read it from standard input. Answers are about a person: they are
    printed, and stored nowhere.
    """


@member.command("where")
@_ID
def member_where(member_id: str) -> None:
    """Print which releases hold a person. Needs the home's secret."""
    from deid_assets.release.cumulative import releases_made
    from deid_assets.release.keyring import secret_of
    from deid_assets.release.registry.chain import Registry
    from deid_assets.release.whereabouts import whereabouts

    home = Home.here()
    registry = Registry(home.releases / "registry.jsonl")
    withdrawn = registry.chain().withdrawn
    found = whereabouts(_identifier(member_id), releases_made(home.store / "manifests", registry), secret_of(home))
    said = {True: "holds this person", False: "does not hold this person", None: "cannot be told"}
    for one in found:
        policy, _, number = one.release.partition("/")
        gone = "  withdrawn" if (policy, int(number)) in withdrawn else ""
        click.echo(f"{one.release}  delivery {one.delivery}  {said[one.released]}{gone}")
    if not found:
        click.echo("Nothing has been published here.")
    if any(one.released is None for one in found):
        click.echo("'Cannot be told': made with another secret, or of records without an identifier.")


@member.command("opt-out")
@_ID
@_REASON
@click.option("--unmatched-ok", is_flag=True, help="Enter it although no delivery of this home has the person.")
def member_opt_out(member_id: str, reason: str, unmatched_ok: bool) -> None:
    """Leave a person out of every future release of this home.

    An identifier that no person of any delivery has would leave nobody out: it is refused, and nothing is written, unless you
    say --unmatched-ok. Where nothing was delivered yet, or nothing that tells whose its records are, it is accepted, and
    compared with the first delivery that does. A policy refuses deliveries while fewer of the list than its
    opt_outs.matched_at_least belong to a person of any delivery.

    Every policy applies it: of claims at its next release, of flat tables and cohorts from the next delivery on. Earlier
    releases stay as they are; `deid release withdraw` withdraws them.
    """
    from deid_assets.command_line.opt_outs import require_known, say_consequences

    home, member_id = Home.here().create(), _identifier(member_id)
    require_known(home, member_id, unmatched_ok)
    _note(home, member_id, reason, listed=True)
    say_consequences(home)


@member.command("opt-in")
@_ID
@_REASON
def member_opt_in(member_id: str, reason: str) -> None:
    """Take a person off the list of `deid member opt-out`, such as one who was misspelled."""
    _note(Home.here().create(), _identifier(member_id), reason, listed=False)


def _note(home: Home, member_id: str, reason: str, listed: bool) -> None:
    from deid_assets.policy.withdrawals import OptOutLine
    from deid_assets.release.opt_outs import enter_opt_out
    from deid_assets.release.registry import clock

    line = OptOutLine(member_id, listed, reason, clock.now(None))
    changed = enter_opt_out(releases_here(home), line)
    say_witnesses(home)
    now = "on" if listed else "not on"
    click.echo(
        f"The person is now {now} the list of opt-outs." if changed else f"The person was {now} the list of opt-outs already."
    )


@click.group()
def release() -> None:
    """Withdraw a release, and copy releases to object storage or another disk."""


@release.command("withdraw")
@click.argument("name", metavar="RELEASE", shell_complete=releases)
@click.option("--reason", required=True, help="Reason, in words; published in the registry, so it must not name anybody.")
def release_withdraw(name: str, reason: str) -> None:
    """Record in the registry, signed, that a release was withdrawn: RELEASE is its policy and number, such as heritage/0001.

    Its files and its entry stay, and `deid verify` fails for it from now on. What was published cannot be made unknown, so it
    still counts as an earlier release.
    """
    from deid_assets.release.publication.copies import copy_published

    policy, _, number = name.partition("/")
    if not number.isdecimal():
        raise ReleaseError("a release is named by its policy and number, such as heritage/0001")
    home = Home.here()
    releases = releases_here(home)
    line = releases.withdraw(policy, int(number), reason)
    click.echo(f"Release {line.policy}/{line.number:04d} is withdrawn. Send recipients the new registry.jsonl.")
    say_witnesses(home)
    for said in copy_published(home, releases.key.public).values():
        click.echo(said)


@release.command("copy")
@click.option("--to", "url", help="Folder of the copies, such as s3://bucket/releases; by default that in DEID_COPY_TO.")
def release_copy(url: str | None) -> None:
    """Copy the releases that are not there yet, and the registry, to a folder that a URL names.

    Only what verifies is copied, each file is read back, and a manifest is written last: a folder without one is no release.
    Then a random sample of the files of all copies is read back and compared with the releases.
    """
    from deid_assets.release.publication.copies import VARIABLE, copy_releases, read_back

    to = url or os.environ.get(VARIABLE)
    if not to:
        raise click.UsageError(f"name the folder with --to or {VARIABLE}")
    home = Home.here().create()
    releases = releases_here(home)
    with releases.deciding():
        pass  # what is withdrawn, for one, is known to be so
    copied = copy_releases(home, releases.key.public, to)
    for one in copied:
        click.echo(f"{one.release}  copied to {one.to}")
    if not copied:
        click.echo("Every release was there already.")
    read, files = read_back(home, to)
    if read:
        click.echo(f"A random sample of {read} of {files} files of all copies was read back: each is as it was published.")

"""Commands about releases: a person decides about one, looks at it afterwards, withdraws or copies it.

`deid approvals`, `deid approve` and `deid reject`; `deid audit`, `deid lineage`, `deid kept` and others; `deid member`: which
releases hold a person, and who opted out of future ones; `deid release`.
"""

import json
import os
import sys
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deid_assets.command_line.deciding import releases_here, say_witnesses, telling_what_is_missing
from deid_assets.command_line.options import AS_JSON, FILE, named_release, releases, waiting_releases
from deid_assets.errors import ERROR, PolicyError, ReleaseError
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

    from deid_assets.automation.approvals import Awaiting
    from deid_assets.policy.kinds import AnyPolicy
    from deid_assets.release.lineage.published import PublishedRelease
    from deid_assets.release.publication.publish import Releases

_WAITING = click.argument("name", metavar="RELEASE", shell_complete=waiting_releases)
_POLICY = click.option("--policy", "policy_file", type=FILE, help="The policy's YAML file, if this home does not know it.")


@click.command()
@_POLICY
@AS_JSON
def approvals(policy_file: Path | None, as_json: bool) -> None:
    """List the releases that passed the gate and wait for a person's approval, with what prevents its approval."""
    from deid_assets.automation.approvals import awaiting

    releases, reading = _at_home(policy_file)
    with telling_what_is_missing(releases.home):
        found = awaiting(releases, reading)
        if as_json:
            click.echo(json.dumps([asdict(one) for one in found], indent=1))
        else:
            click.echo("\n".join(map(_line, found)) or "No release waits for approval.")


def _line(one: "Awaiting") -> str:
    said = f"{one.policy}/{one.number:04d}  "
    if one.staged is not None:
        said += f"delivery {one.delivery}  staged {one.staged}  until {one.expires}  by {', '.join(one.by)}  "
    told = [f"cannot be approved: {text}" for text in one.problems] + list(one.verdict)
    return f"{said}{one.files}" + "".join(f"\n    {text}" for text in told)


@click.command()
@_WAITING
@click.option("--by", required=True, help="Your name, as the policy's section approval lists it; published in the manifest.")
@_POLICY
def approve(name: str, by: str, policy_file: Path | None) -> None:
    """Publish a release that waits for approval: RELEASE is its policy and number, such as heritage/0002.

    Its files must be byte for byte those that passed the gate, and nothing that the judgement depends on may have changed.
    Your name and the time become part of the signed manifest.
    """
    from rich.console import Console

    from deid_assets.automation.approvals import approve_release
    from deid_assets.automation.instance import dagster_instance, prepare_dagster_home
    from deid_assets.command_line.audit import tell_approved
    from deid_assets.release.publication.copies import copy_published
    from deid_assets.release.publication.verification import MANIFEST
    from deid_assets.release.verdict import verdict_in

    policy, number = named_release(name)
    releases, reading = _at_home(policy_file)
    home = Home.here()
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        published = approve_release(instance, releases, policy, number, by, lambda: reading(policy))
    verdict = verdict_in(published.folder / MANIFEST)
    for sentence in () if verdict is None else verdict.sentences:
        click.echo(sentence)
    click.echo(f"Published  {published.folder}")
    say_witnesses(home)
    for said in copy_published(home, releases.key.public).values():
        click.echo(said)
    tell_approved(home, published.folder, Console(highlight=False))


@click.command()
@_WAITING
@click.option("--by", required=True, help="Your name; stored in the restricted part of the home.")
@click.option("--reason", required=True, help="Reason, in words; stored in the restricted part of the home.")
def reject(name: str, by: str, reason: str) -> None:
    """Do not publish a release that waits for approval, and remove its files. What its noisy counts cost stays charged.

    RELEASE is its policy and number, such as heritage/0002. The registry records that it was rejected, and not why.
    """
    from deid_assets.automation.approvals import reject_release
    from deid_assets.automation.instance import dagster_instance, prepare_dagster_home

    policy, number = named_release(name)
    releases, _ = _at_home(None)
    home = Home.here()
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        reject_release(instance, releases, policy, number, by, reason)
    click.echo(f"Release {policy}/{number:04d} is rejected.")
    say_witnesses(home)


def _at_home(policy_file: Path | None) -> "tuple[Releases, Callable[[str], str]]":
    """The releases of this home, and how the bytes of a policy are asked for by its name."""
    from deid_assets.assets.publishing import releases_of
    from deid_assets.resources import Workplace

    home = Home.here().create()
    return releases_of(Workplace(str(home.root))), lambda name: _policy_now(home, policy_file, name).reading


def _policy_now(home: Home, policy_file: Path | None, name: str) -> "AnyPolicy":
    """The policy of this name as it is now, without the members who opted out of all releases of the home.

    Raises
    ------
    PolicyError
        If it does not exist, or the home has another text of it than the file: an old copy of a policy decides nothing.
    """
    from deid_assets.release.home_rules import require_rules

    found = _named_policy(home, policy_file, name)
    require_rules(home, found)
    return found


def _named_policy(home: Home, policy_file: Path | None, name: str) -> "AnyPolicy":
    """The policy of a name, in the home or in a file."""
    from deid_assets.policy.loading import is_in, load_policy
    from deid_assets.resources import Workplace

    own, given = Workplace(str(home.root)), None if policy_file is None else load_policy(policy_file)
    if given is None or given.name != name:
        return own.named(name)
    policy = Workplace(str(home.root), {name: given}).named(name)
    if is_in(home.policies, name) and own.named(name).reading != policy.reading:
        raise PolicyError(
            f"policy {name}: the file given with --policy is not the policy of this name that this home has; leave --policy out"
        )
    return policy


_RELEASE = click.argument("release", type=FILE, shell_complete=releases)


@click.command()
@_RELEASE
@click.option("--key", "key_file", type=FILE, help="The publisher's public key (PEM); by default that of this home.")
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
    from deid_assets.command_line.run import reproduce_release

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
@click.option("--output", type=FILE, default=Path(), help="Folder to write to; by default the current one.")
@click.option("--expires", type=click.DateTime(["%Y-%m-%d"]), help="Date of expiry, as 2027-06-30; by default it is left open.")
@click.option("--key", "key_file", type=FILE, help="The publisher's public key (PEM); by default that of this home.")
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
    from deid_assets.command_line.audit import write_recorded_event

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
    from deid_assets.release.known_people import whereabouts
    from deid_assets.release.registry.chain import Registry

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

    policy, number = named_release(name)
    home = Home.here()
    releases = releases_here(home)
    line = releases.withdraw(policy, number, reason)
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
    from deid_assets.release.publication.copies import VARIABLE, copy_releases, read_copies_back

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
    read, files = read_copies_back(home, to)
    if read:
        click.echo(f"A random sample of {read} of {files} files of all copies was read back: each is as it was published.")


COMMANDS = (approvals, approve, reject, audit, reproduce, determination, lineage, kept, member, release)
"""Those of the command line; the others are in a group of them."""

"""`deid approvals`, `deid approve` and `deid reject`: a person decides about a release that passed the gate."""

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from deid_assets.command_line.completion import waiting_releases
from deid_assets.command_line.deciding import say_witnesses, telling_what_is_missing
from deid_assets.errors import PolicyError, ReleaseError
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from collections.abc import Callable

    from deid_assets.automation.approvals import Awaiting
    from deid_assets.policy.kinds import AnyPolicy
    from deid_assets.release.publication.publish import Releases

_RELEASE = click.argument("name", metavar="RELEASE", shell_complete=waiting_releases)
_POLICY = click.option(
    "--policy", "policy_file", type=click.Path(path_type=Path), help="The policy's YAML file, if this home does not know it."
)


@click.command()
@_POLICY
@click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON document.")
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
@_RELEASE
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
    from deid_assets.command_line.lineage import tell_approved
    from deid_assets.release.publication.copies import copy_published
    from deid_assets.release.publication.verification import MANIFEST
    from deid_assets.release.verdict import verdict_in

    policy, number = _named(name)
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
@_RELEASE
@click.option("--by", required=True, help="Your name; stored in the restricted part of the home.")
@click.option("--reason", required=True, help="Reason, in words; stored in the restricted part of the home.")
def reject(name: str, by: str, reason: str) -> None:
    """Do not publish a release that waits for approval, and remove its files. What its noisy counts cost stays charged.

    RELEASE is its policy and number, such as heritage/0002. The registry records that it was rejected, and not why.
    """
    from deid_assets.automation.approvals import reject_release
    from deid_assets.automation.instance import dagster_instance, prepare_dagster_home

    policy, number = _named(name)
    releases, _ = _at_home(None)
    home = Home.here()
    prepare_dagster_home(home)
    with dagster_instance(home) as instance:
        reject_release(instance, releases, policy, number, by, reason)
    click.echo(f"Release {policy}/{number:04d} is rejected.")
    say_witnesses(home)


def _named(name: str) -> tuple[str, int]:
    policy, _, number = name.partition("/")
    if not number.isdecimal():
        raise ReleaseError("a release is named by its policy and number, such as heritage/0001")
    return policy, int(number)


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
    from deid_assets.resources import Policies

    own, given = Policies(str(home.root)), None if policy_file is None else load_policy(policy_file)
    if given is None or given.name != name:
        return own.named(name)
    policy = Policies(str(home.root), {name: given}).named(name)
    if is_in(home.policies, name) and own.named(name).reading != policy.reading:
        raise PolicyError(
            f"policy {name}: the file given with --policy is not the policy of this name that this home has; leave --policy out"
        )
    return policy

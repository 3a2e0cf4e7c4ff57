"""`deid rules`: what every policy of this home has to keep to."""

from pathlib import Path

import click

from deid_assets.command_line.deciding import releases_here, say_witnesses
from deid_assets.errors import PolicyError
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
@click.argument("file", type=click.Path(path_type=Path))
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

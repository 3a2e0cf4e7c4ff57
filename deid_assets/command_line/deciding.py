"""What every command that decides something does: compare the home with its journal first, and tell the witnesses after."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import click

from deid_assets.errors import ERROR, DeidError
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from deid_assets.release.publication.publish import Releases


def releases_here(home: Home | None = None) -> "Releases":
    """The releases of a home, by default of this process's, with the key that signs."""
    from deid_assets.release.keyring import signing_key_of
    from deid_assets.release.publication.publish import Releases

    home = (home or Home.here()).create()
    return Releases(home, signing_key_of(home))


def absent_history(home: Home) -> str | None:
    """The sentence on a run history that is not where DEID_STORAGE says, or of which nobody says where it is; else None."""
    settings = home.dagster / "dagster.yaml"
    in_database = settings.is_file() and b"postgres_url" in settings.read_bytes()
    # Dagster takes seconds to load, and most commands read no history.
    if in_database == ("DEID_STORAGE" in os.environ):
        return None
    from deid_assets.automation.instance import storage_of

    try:
        storage_of(home)
    except DeidError as error:
        return str(error)
    return None


@contextlib.contextmanager
def telling_of_a_new_home(home: Home, context: click.Context) -> Iterator[None]:
    """Say that a command began a new home beside others: it may be one of them, under another name."""
    was_there = os.path.exists(home.journal)
    try:
        yield
    finally:
        # Those that put a home back, or begin the journal of an earlier version's, say so themselves.
        begun = not was_there and os.path.exists(home.journal) and context.invoked_subcommand not in ("restore", "home")
        if begun and home.beside:
            beside = ", ".join(os.path.relpath(path, home.root.parent) for path in home.beside)
            click.echo(
                f"note: a new home was begun in {home.root}; it knows of nothing that was released or decided elsewhere. "
                f"Beside it or in it are {beside}: if one of these is your home, name it in DEID_HOME, and decide there again "
                "what was decided here",
                err=True,
            )


def missing_in(home: Home) -> list[str]:
    """What the home has lost since its journal was told of it, in sentences; nothing is written."""
    from deid_assets.release.journal.home_journal import HomeJournal

    try:
        return [loss.text for loss in HomeJournal(home).missing()]
    except DeidError as error:
        return [str(error)]


def incomplete_in(home: Home) -> list[str]:
    """What is missing or changed of what is kept of releases and rejections, in sentences."""
    from deid_assets.release.backup import incomplete

    try:
        return list(incomplete(home))
    except DeidError as error:
        return [str(error)]


@contextlib.contextmanager
def telling_what_is_missing(home: Home) -> Iterator[None]:
    """Let a command say what it reads, then say what the home has lost, and end with code 1 if it has."""
    found = missing_in(home)
    yield
    for text in found:
        click.echo(f"error: {text}", err=True)
    if found:
        sys.exit(ERROR)


def say_witnesses(home: Home) -> None:
    """Write the head of the journal to its witnesses, and say where that failed."""
    from deid_assets.release.journal.home_journal import HomeJournal

    for said in HomeJournal(home).tell_witnesses().values():
        click.echo(said, err=True)

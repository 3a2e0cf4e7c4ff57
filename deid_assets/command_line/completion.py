"""What a shell offers for policies, releases and deliveries: names of folders and files, and of a policy's file its first key.

A shell asks at every press of the tabulator, so nothing that takes long to load is imported here.
"""

import contextlib
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import click
from click.shell_completion import CompletionItem

from deid_assets.errors import DeidError
from deid_assets.store.home import Home

_SHIPPED = Path(__file__).parent.parent / "policy" / "shipped"
_NAME_OF_POLICY = re.compile(rb"^policy: *([a-z][a-z0-9_]*) *$", re.MULTILINE)
_WAITING = "manifests/.waiting"

Completion = Callable[[click.Context, click.Parameter, str], list[CompletionItem]]


def _offering(names: Callable[[Home], Iterable[str]]) -> Completion:
    """A completion by names of the home, or by files where none begins like what was typed."""

    def complete(_context: click.Context, _parameter: click.Parameter, typed: str) -> list[CompletionItem]:
        found: list[str] = []
        with contextlib.suppress(DeidError, OSError):  # a home that cannot be read offers nothing
            found = sorted({name for name in names(Home.here()) if name.startswith(typed)})
        return [CompletionItem(name) for name in found] or [CompletionItem(typed, type="file")]

    return complete


def _policies(home: Home) -> Iterable[str]:
    for folder in (_SHIPPED, home.policies):
        for file in sorted(folder.glob("[!.]*.y*ml")):
            named = _NAME_OF_POLICY.search(file.read_bytes())
            if named is not None:
                yield named[1].decode()
    for record in home.policies.glob("[!.]*/adopted.json"):
        yield record.parent.name


def _numbered(folder: Path) -> Iterable[str]:
    return (f"{path.parent.name}/{path.name}" for path in folder.glob("[!.]*/[0-9]*"))


policies = _offering(_policies)
"""The policies that ship, and those of the home."""
releases = _offering(lambda home: _numbered(home.releases))
"""The releases of the home, as policy and number."""
waiting_releases = _offering(lambda home: _numbered(home.store / _WAITING))
"""The releases of the home that wait for approval."""
deliveries = _offering(lambda home: (file.stem for file in home.deliveries.glob("[!.]*.json")))
"""The keys of the deliveries that are registered in the home."""

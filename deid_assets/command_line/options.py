"""Options and values that several commands take, and what a shell offers for them.

A shell asks at every press of the tabulator, so nothing that takes long to load is imported here.
"""

import atexit
import contextlib
import functools
import gc
import json
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from deid_assets.errors import ERROR, DeidError, ReleaseError
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

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


FILE = click.Path(path_type=Path)
AS_JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as a JSON document.")
ABOVE_0 = click.FloatRange(min=0, min_open=True)
YES = click.option("--yes", is_flag=True, help="Do not ask.")


@dataclass(frozen=True)
class Written:
    """Where it is said what came of the work."""

    as_json: bool
    output: Path | None


@dataclass(frozen=True)
class Asked:
    """What is to be run on what.

    Attributes
    ----------
    policy
        Its name, or its YAML file.
    named
        Files, folders or URLs of the delivery; empty for a synthetic one.
    key
        Key of the delivery; None for one that is derived from its name.
    members
        Number of members of a synthetic delivery.
    release
        Number of members to release; None as the policy says.
    seed
        Seed of a synthetic delivery.
    """

    policy: str
    named: tuple[Path | str, ...] = ()
    key: str | None = None
    members: int = 200_000
    release: int | None = None
    seed: int = 1


def named_release(name: str) -> tuple[str, int]:
    """The policy and number of a release that is named like `heritage/0001`."""
    policy, _, number = name.partition("/")
    if not number.isdecimal():
        raise ReleaseError("a release is named by its policy and number, such as heritage/0001")
    return policy, int(number)


def require_new(*folders: Path | None) -> None:
    """Refuse folders that are there already."""
    for folder in folders:
        if folder is not None and folder.exists():
            raise DeidError(f"{folder} exists already: name a new folder")


@contextlib.contextmanager
def loading(module: str) -> Iterator[None]:
    """Look for no garbage while a module is imported for the first time: hundreds of thousands of objects stay."""
    if module in sys.modules:
        yield
        return
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        atexit.register(gc.unfreeze)  # or libraries report what is left as leaks
        gc.enable()


@contextlib.contextmanager
def errors_as_json(wanted: bool, **told: object) -> Iterator[None]:
    """Print an error as a JSON document too, where one was asked for."""
    try:
        yield
    except DeidError as error:
        if wanted:
            click.echo(json.dumps({"outcome": "error", "exit_code": ERROR, **told, "reasons": [str(error)]}, indent=1))
        raise


def gathering(name: str, kind: type["DataclassInstance"]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Decorate a command that gets those of its options that are fields of a value as that value."""

    def decorated(command: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(command)
        def gathered(*given: Any, **options: Any) -> None:
            own = {one.name: options.pop(one.name) for one in fields(kind) if one.name in options}
            command(*given, **options, **{name: kind(**own)})

        return gathered

    return decorated

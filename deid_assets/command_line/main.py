"""The `deid` command: run a policy on a delivery, list releases, open the UI, check or begin a policy, verify a release."""

import contextlib
import json
import os
import shutil
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

import click
from click.shell_completion import CompletionItem

import deid_assets
from deid_assets.command_line.counts import counts
from deid_assets.command_line.deciding import (
    absent_history,
    releases_here,
    say_witnesses,
    telling_of_a_new_home,
    telling_what_is_missing,
)
from deid_assets.command_line.demographics import demographics
from deid_assets.command_line.expert_review import expert_review
from deid_assets.command_line.home import COMMANDS as OF_HOMES
from deid_assets.command_line.options import (
    AS_JSON,
    FILE,
    YES,
    Asked,
    deliveries,
    errors_as_json,
    gathering,
    loading,
    policies,
    releases,
)
from deid_assets.command_line.releases import COMMANDS as OF_RELEASES
from deid_assets.errors import ERROR, DeidError, DeliveryError, PolicyError, ReleaseError, how_many
from deid_assets.store.guard import without_values
from deid_assets.store.home import Home

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    from deid_assets.command_line.run import Work
    from deid_assets.policy.scaffold import Heading

_Listed = TypeVar("_Listed", bound="DataclassInstance")


class Command(click.Group):
    """A group whose commands print what went wrong in one paragraph, without a traceback, and exit with 1.

    A command line that cannot be read exits with 64, the customary code: 2 means a refusal.
    """

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Return the context of a command line; one that cannot be read ends with code 64."""
        with _usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, context: click.Context) -> object:
        """Return what the command returns; what goes wrong is printed, and the process exits."""
        passing = (click.ClickException, click.exceptions.Exit, click.Abort)
        note = None
        try:
            home = Home.here()
            note = absent_history(home)
            with telling_of_a_new_home(home, context), _usage_errors(), without_values("deid", home.store, passing):
                return super().invoke(context)
        except DeidError as error:
            click.echo(f"error: {error}", err=True)
            note = None if note == str(error) else note
            sys.exit(ERROR)
        finally:
            if note is not None:
                click.echo(f"note: {note}", err=True)


@contextlib.contextmanager
def _usage_errors() -> Iterator[None]:
    try:
        yield
    except click.UsageError as error:
        # Declared of the class, and read from the instance.
        error.exit_code = os.EX_USAGE  # type: ignore[misc]
        raise


def _not_empty(_context: click.Context, _option: click.Parameter, value: str) -> str:
    if not value.strip():
        raise click.BadParameter("it is empty")
    return value


def _plain_key(_context: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    from deid_assets.store.home import plain_key

    try:
        return None if value is None else plain_key(value)
    except DeidError as error:
        raise click.BadParameter(str(error)) from None


def _say_version(context: click.Context, _: click.Parameter, wanted: bool) -> None:
    # Asking the repository takes longer than all that most commands load.
    if wanted:
        click.echo(f"deid_assets, version {deid_assets.__version__}")
        context.exit()


@click.group(cls=Command, context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version", is_flag=True, is_eager=True, expose_value=False, callback=_say_version, help="Show the version and exit."
)
def main() -> None:
    """De-identify longitudinal health claims, and prove that a release is safe."""


for _command in (counts, demographics, expert_review, *OF_RELEASES, *OF_HOMES):
    main.add_command(_command)


class _PathOrUrl(click.ParamType[Path | str]):
    """A path, or a URL as it is: as a path it would lose one of its slashes."""

    name = "path or URL"

    def convert(self, value: Path | str, param: click.Parameter | None, ctx: click.Context | None) -> Path | str:
        """Return a URL as text, and anything else as a path."""
        return value if isinstance(value, Path) or "://" in value else Path(value)

    def shell_complete(self, ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        """Let the shell offer files and folders."""
        return [CompletionItem(incomplete, type="file")]


_PATH_OR_URL = _PathOrUrl()


def _fetched(home: Home, named: tuple[Path | str, ...], key: str | None) -> tuple[Path, ...]:
    """The paths of a delivery; what a URL names is fetched into the home."""
    from deid_assets.sources.registration import fetch

    alone = key if len(named) == 1 else None
    return tuple(one if isinstance(one, Path) else fetch(home, one, alone) for one in named)


_KEY = click.option(
    "--key", callback=_plain_key, shell_complete=deliveries, help="Key of the delivery; by default derived from its name."
)
_POLICY = click.option(
    "--policy",
    callback=_not_empty,
    default="heritage_public",
    show_default=True,
    shell_complete=policies,
    help="A policy's name, or a YAML file.",
)
_OPTIONS_OF_A_RUN = (
    click.option(
        "--delivery",
        "named",
        multiple=True,
        type=_PATH_OR_URL,
        help="Folder or file of the delivery, or its URL, such as s3://bucket/in/2012-04; can be repeated.",
    ),
    _KEY,
    click.option(
        "--members",
        type=click.IntRange(min=1),
        default=200_000,
        show_default=True,
        help="Number of members of a synthetic delivery.",
    ),
    click.option(
        "--release",
        type=click.IntRange(min=1),
        help="Number of members to release; by default as the policy says. Not for flat tables and cohorts.",
    ),
    click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Seed of a synthetic delivery."),
)


def _of_a_run(command: Callable[..., None], policy: Callable[..., Any] = _POLICY) -> Callable[..., None]:
    """Add the options that say what is run on what; the command gets them as one value."""
    command = gathering("asked", Asked)(command)
    for option in (*reversed(_OPTIONS_OF_A_RUN), policy):
        command = option(command)
    return command


def _at_home(asked: Asked) -> tuple[Home, Asked]:
    """The home, and what is asked with the files of the delivery instead of their URLs."""
    home = Home.here().create()
    return home, replace(asked, named=_fetched(home, asked.named, asked.key))


def _require_sense(asked: Asked) -> None:
    """Refuse sizes that contradict each other, and options of a synthetic delivery beside one that was received."""
    if not asked.named:
        if (asked.release or 0) > asked.members:
            raise click.UsageError(
                f"--release {asked.release} is more than the {asked.members} members of the delivery (--members)"
            )
        return
    context = click.get_current_context()
    for name in ("members", "seed"):
        if context.get_parameter_source(name) is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name} is for a synthetic delivery, and --delivery names one that exists: leave one out")


def _worked_on(asked: Asked, work: "Work") -> NoReturn:
    """Do less than a run with what is asked, and leave with its exit code."""
    from deid_assets.command_line.progress import progress_of
    from deid_assets.command_line.run import run_policy

    _require_sense(asked)
    sys.exit(run_policy(*_at_home(asked), progress_of(), work=work))


@main.command()
@_of_a_run
@click.option(
    "--json", "as_json", is_flag=True, help="Print the outcome as one JSON document; progress goes to standard error."
)
@click.option(
    "--go-on", is_flag=True, help="Search although no generalization can pass: it finds what carries the risk, and takes long."
)
@click.option("--quiet", "-q", is_flag=True, help="Print only the outcome and its reasons.")
@click.option("--verbose", "-v", is_flag=True, help="Also print details of each step, and every gate on its own line.")
def run(asked: Asked, as_json: bool, go_on: bool, quiet: bool, verbose: bool) -> None:
    """Run the pipeline on a delivery, up to a gated release.

    Exit code 0: published, or staged for the approval that the policy requires; 2: refused, because privacy is not protected
    well enough; 1: error; 64: wrong command line; 130 and 143: interrupted by Ctrl-C or SIGTERM.

    Without --delivery, a synthetic delivery is created.
    """
    if quiet and verbose:
        raise click.UsageError("--quiet and --verbose contradict each other: choose one")
    _require_sense(asked)
    with loading("deid_assets.command_line.run"):
        from deid_assets.command_line.progress import Detail, progress_of
        from deid_assets.command_line.run import run_policy
    detail = Detail.QUIET if quiet else Detail.VERBOSE if verbose else Detail.NORMAL
    with errors_as_json(as_json, release=None), without_values("deid", Home.here().store):
        code = run_policy(*_at_home(asked), progress_of(as_json, detail), go_on=go_on)
    sys.exit(code)


@main.command()
@_of_a_run
def plan(asked: Asked) -> None:
    """Find out what cannot pass before a long run: the lowest risk that any generalization can reach with this delivery.

    Exit code 0: nothing rules a release out for certain, which is no guarantee; 2: a release is ruled out; 1: error;
    64: wrong command line; 130 and 143: interrupted.

    Nothing is published. Without --delivery, a synthetic delivery is created.
    """
    from deid_assets.command_line.plan import plan as plan_release

    _worked_on(asked, plan_release)


@main.command()
@partial(_of_a_run, policy=click.argument("policy", callback=_not_empty, shell_complete=policies))
def cost(asked: Asked) -> None:
    """Find out what each column and table adds to the risk, and what the others could keep without it.

    POLICY is a policy's name, or a YAML file.

    The generalization is chosen as in a run; then each column is left out, or made coarser, and the others are tried finer.

    Exit code 0: the table is printed; 2: no generalization passes; 1: error; 64: wrong command line; 130 and 143: interrupted.

    Nothing is published. Without --delivery, a synthetic delivery is created.
    """
    from deid_assets.command_line.cost import cost as cost_of_columns

    _worked_on(asked, cost_of_columns)


@main.command()
@click.option("--port", type=click.IntRange(1, 65535), default=3000, show_default=True)
@click.option("--host", default="127.0.0.1", show_default=True)
def ui(port: int, host: str) -> None:
    """Open the Dagster UI with everything that was run here, until Ctrl-C or SIGTERM ends it with all that it started."""
    from deid_assets.automation.instance import dagster_instance, prepare_dagster_home, workspace_file
    from deid_assets.command_line.ui import serve

    home = Home.here().create()
    prepare_dagster_home(home)
    with dagster_instance(home):
        pass  # a history that cannot be used, or is that of another home, is said before the UI opens
    os.environ["DAGSTER_HOME"] = str(home.dagster)
    os.environ["DEID_HOME"] = str(home.root)
    click.echo(f"The Dagster UI runs on http://{host}:{port} (stop it with Ctrl-C)")
    dagster = Path(sys.executable).with_name("dagster")
    command = [str(dagster), "dev", "-w", str(workspace_file()), "-h", host, "-p", str(port)]
    sys.exit(serve(command))


@main.group()
def policy() -> None:
    """Check, list and create policies."""


@policy.command("check")
@click.argument("file", type=str, shell_complete=policies)
def policy_check(file: str) -> None:
    """Explain a policy in plain language, or report what is wrong and where."""
    from deid_assets.policy.kinds import require_runnable
    from deid_assets.policy.loading import find_policy
    from deid_assets.reports.plain_words import explain

    found, _ = find_policy(Home.here(), file)
    require_runnable(found)
    click.echo(explain(found))


@policy.command("upgrade")
@click.argument("file", type=FILE)
@YES
def policy_upgrade(file: Path, yes: bool) -> None:
    """Write the file of a policy of an earlier version in today's format. Its text as it was is kept beside it.

    Comments stay, but for those inside an entry of several lines. The policy means what it meant: releases of before and after
    are compared, and repeat their noise. All commands read both formats.
    """
    from deid_assets.policy.form import FORMAT
    from deid_assets.policy.upgrade import upgrade_file

    if not yes:
        click.confirm(f"Write {file} in format {FORMAT}?", abort=True)
    kept = upgrade_file(file)
    click.echo(f"{file} is in format {FORMAT}, and means what it meant. As it was, it is kept in {kept}.")


@policy.command("reference")
def policy_reference() -> None:
    """Print every key of a policy with its type, default and meaning, as Markdown."""
    from deid_assets.policy.reference import reference

    click.echo(reference(), nl=False)


@policy.command("list")
def policy_list() -> None:
    """List the shipped policies and those of this home; a star marks those in use."""
    from deid_assets.automation.in_use import policies_in_use
    from deid_assets.policy.loading import policies_in

    home = Home.here()
    used = policies_in_use(home)
    known = policies_in(home.policies)
    for found in known.values():
        click.echo(f"{'*' if found.name in used else ' '} {found.name:24} {found.title}")
    for name, why in known.unusable.items():
        click.echo(f"! {name:24} cannot be used")
        click.echo(why, err=True)


@policy.command("pool")
@click.argument("name", callback=_not_empty, shell_complete=policies)
@click.option("--delivery", required=True, shell_complete=deliveries, help="Key of a delivery that the policy was run on.")
@click.option("--column", required=True, help="Claim-level quasi-identifier, such as condition_group.")
@click.option(
    "--held-by",
    required=True,
    multiple=True,
    type=click.FloatRange(min=0, max=1, min_open=True, max_open=True),
    help="Values held by a smaller share of the members are pooled. Repeat it for several levels.",
)
def policy_pool(name: str, delivery: str, column: str, held_by: tuple[float, ...]) -> None:
    """Print a hierarchy with levels at which rare values are pooled, to be put into the policy.

    Values are pooled within their class at the next level. The delivery only says which values are rare: the pools become
    part of the policy, and stay the same for later deliveries.
    """
    from deid_assets.command_line.pools import pooled_hierarchy
    from deid_assets.policy.loading import find_policy

    home = Home.here()
    found, _ = find_policy(home, name)
    if not found.has_events:
        raise PolicyError(f"{found.name} has no claims; values are pooled by the members who have them on claims")
    click.echo(pooled_hierarchy(home, found, column, delivery, held_by))


@policy.command("adopt")
@click.argument("name", callback=_not_empty, shell_complete=policies)
@click.option("--deliveries", type=click.Path(path_type=Path, file_okay=False), help="Folder to watch for deliveries.")
@click.option("--complete-when", help="Name of the file that says that a delivery there is complete; default: _SUCCESS.")
@click.option("--schedule", help="Cron expression (UTC): when to release the newest delivery again if anything changed.")
@click.option(
    "--fresh-within", "fresh_days", type=click.IntRange(min=1), metavar="DAYS", help="Days after which a release is overdue."
)
@click.option(
    "--retention",
    "retention_days",
    type=click.IntRange(min=1),
    metavar="DAYS",
    help="Days after which `deid purge` removes stores.",
)
def policy_adopt(name: str, deliveries: Path | None, **use: object) -> None:
    """Take a policy into use: its name, or a YAML file. The Dagster UI shows the policies in use.

    Adopting it again changes only what the options name. Reload the code location in the UI, or start `deid ui` again.
    """
    from deid_assets.automation.in_use import adopt_here
    from deid_assets.policy.kinds import require_runnable
    from deid_assets.policy.loading import find_policy

    home = Home.here().create()
    found, file = find_policy(home, name)
    require_runnable(found)
    if deliveries is not None and not deliveries.is_dir():
        raise DeliveryError(f"the folder {deliveries} does not exist; create it first")
    if deliveries is not None and home.overlaps(deliveries):
        raise DeliveryError(
            f"the folder {deliveries} belongs to the home {home.root} or contains it, where no delivery arrives: name a folder "
            "of its own that senders write to"
        )
    stated = {"deliveries": None if deliveries is None else str(deliveries.absolute())} | use
    changed = {key: value for key, value in stated.items() if value is not None}
    found = adopt_here(releases_here(home), found, file, retired=False, **changed)
    say_witnesses(home)
    click.echo(f"{found.name} is in use.")


@policy.command("retire")
@click.argument("name", callback=_not_empty, shell_complete=policies)
def policy_retire(name: str) -> None:
    """Take a policy out of use: the UI shows it no more, and nothing runs by itself. Its releases and stores stay."""
    from deid_assets.automation.in_use import policies_in_use, retire_here

    home = Home.here().create()
    used = policies_in_use(home)
    if name not in {*used, *used.unusable}:
        raise PolicyError(f"{name} is not in use; `deid policy list` shows which policies are")
    retire_here(releases_here(home), name)
    say_witnesses(home)
    click.echo(f"{name} is retired. `deid policy adopt {name}` takes it into use again.")


@policy.command("new")
@click.argument("name", callback=_not_empty)
@click.option("--title", required=True, callback=_not_empty, help="Title of the policy, in a few words.")
@click.option(
    "--owner",
    "owners",
    multiple=True,
    required=True,
    help="Owner who answers for releases: team:NAME or an e-mail address; can be repeated.",
)
@click.option("--description", help="What the policy is for; by default the title.")
@click.option(
    "--like", default="heritage_public", show_default=True, shell_complete=policies, help="The shipped policy to copy."
)
@click.option(
    "--from",
    "delivery",
    type=FILE,
    help="A delivery, a file or a folder: the policy is proposed from its tables instead of copied.",
)
@click.option("--output", type=FILE, help="File to write; by default NAME.yaml in the current folder.")
@click.pass_context
def policy_new(context: click.Context, /, like: str, delivery: Path | None, output: Path | None, **heading: Any) -> None:
    """Create a policy, with your name, title and owners: proposed from a delivery, or as a copy of a shipped one.

    With --from, it looks at the types, counts and codes of the delivered tables. It shows and writes names of files and
    columns, and no value of a row. Check what is marked CHECK. A copy needs its section `source` adapted to your files. Then
    run `deid policy check` on it.
    """
    from deid_assets.policy.scaffold import Heading, new_policy

    file = output or Path(f"{heading['name']}.yaml")
    if delivery is not None:
        if context.get_parameter_source("like") is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError("--from proposes a policy, and --like copies one: give one of them")
        _propose(delivery, file, Heading(**heading))
        return
    new_policy(file, Heading(**heading), like)
    click.echo(f"{file} was written. Adapt it to your files, then run: deid policy check {file}")


def _propose(delivery: Path, file: Path, heading: "Heading") -> None:
    from deid_assets.policy.proposal.proposal import propose

    store = Home.here().store
    made = propose(delivery, file, heading, store if store.is_dir() else None)
    click.echo("\n".join(made.recognized))
    if made.doubts:
        click.echo("To check:")
    for doubt in made.doubts:
        click.echo(f"  {doubt}")
    click.echo(f"{file} was written. Next: deid policy check {file}, then deid plan --policy {file} --delivery {delivery}")


def _print_listed(found: Sequence[_Listed], as_json: bool, line: Callable[[_Listed], str], nothing: str) -> None:
    """Print what is listed, one line each, or as JSON."""
    if as_json:
        click.echo(json.dumps([asdict(one) for one in found], indent=1))
    else:
        click.echo("\n".join(map(line, found)) or nothing)


@main.command("releases")
@click.option("--paths", is_flag=True, help="Also print the folder of each release.")
@AS_JSON
def releases_list(paths: bool, as_json: bool) -> None:
    """List the releases that were published here, according to the registry."""
    from deid_assets.command_line.listing import ListedRelease, listed_releases

    def text(one: ListedRelease) -> str:
        of = f"delivery {one.delivery}" if one.delivery else "delivery not in this store"
        said = [f"{of}, approved by {one.approved_by}" if one.approved_by is not None else of]
        if one.withdrawn is not None:
            said.append(f"withdrawn: {one.withdrawn}")
        if one.folder is None:
            said.append("its folder is gone: restore it from a backup")
        elif paths:
            said.append(one.folder)
        return "\n".join([f"{one.policy}/{one.number:04d}  {one.time}", *map(_indented, (*said, *one.remarks))])

    home = Home.here()
    with telling_what_is_missing(home):
        _print_listed(listed_releases(home), as_json, text, "Nothing has been published here.")


def _indented(text: str) -> str:
    """A text below a heading, in lines as wide as the terminal; one line where nobody says how wide that is."""
    width = shutil.get_terminal_size((0, 0)).columns
    if not width:
        return f"  {text}"
    lines = textwrap.wrap(text, max(width - 4, 20), break_long_words=False, break_on_hyphens=False)
    return "  " + "\n    ".join(lines)


@main.command("deliveries")
@AS_JSON
def deliveries_list(as_json: bool) -> None:
    """List the deliveries registered here, and the policies under which they were taken in."""
    from deid_assets.command_line.listing import ListedDelivery, listed_deliveries

    def line(one: ListedDelivery) -> str:
        of = one.problem or f"{one.kind}  {' '.join(one.paths)}"
        return f"{one.key}  {of}" + (f"  taken in under {', '.join(one.policies)}" if one.policies else "")

    _print_listed(listed_deliveries(Home.here()), as_json, line, "No delivery has been registered here.")


@main.group()
def delivery() -> None:
    """Add deliveries to a policy, and remove those that were not released."""


@delivery.command("add")
@click.argument("named", metavar="PATH_OR_URL...", nargs=-1, required=True, type=_PATH_OR_URL)
@click.option(
    "--policy",
    "policy_name",
    callback=_not_empty,
    required=True,
    shell_complete=policies,
    help="A policy's name, or a YAML file.",
)
@_KEY
def delivery_add(named: tuple[Path | str, ...], policy_name: str, key: str | None) -> None:
    """Register a delivery as a partition of a policy's assets, without running anything."""
    from deid_assets.command_line.deliveries import add_delivery

    home = Home.here().create()
    added = add_delivery(home, Asked(policy_name, _fetched(home, named, key), key))
    click.echo(f"The delivery {added} is registered. Run it with `deid run`, or launch the job in the UI.")


@delivery.command("remove")
@click.argument("key", callback=_plain_key, shell_complete=deliveries)
@click.option("--policy", "policy_name", callback=_not_empty, required=True, shell_complete=policies, help="The policy's name.")
@click.option("--reason", required=True, callback=_not_empty, help="Why; recorded in the restricted store.")
def delivery_remove(key: str, policy_name: str, reason: str) -> None:
    """Remove a refused or failed delivery from a policy, with its restricted store. Your own files stay."""
    from deid_assets.command_line.deliveries import remove_delivery

    remove_delivery(Home.here().create(), policy_name, key, reason)
    click.echo(f"The delivery {key} was removed from {policy_name}.")


@main.command("purge")
@click.option("--reason", default="past its retention", show_default=True, help="Recorded in the restricted store.")
@click.option("--yes", is_flag=True, help="Remove them; without it, only list what would be removed.")
@click.option("--with-waiting", is_flag=True, help="Also remove stores of which a release waits for approval.")
def purge_stores(reason: str, yes: bool, with_waiting: bool) -> None:
    """Remove restricted stores, with their crosswalks, that are past their policy's retention. Releases stay."""
    from deid_assets.command_line.deliveries import expired_stores, purge

    home = Home.here()
    expired = expired_stores(home)
    for one in expired:
        kept = one.waits is not None and not (yes and with_waiting)
        if yes and not kept:
            purge(home, one, reason)
        said = "removed" if yes else "would be removed"
        if one.waits is not None and kept:
            said = f"kept: release {one.waits} of it waits for approval (--with-waiting removes it, too)"
        click.echo(f"{one.policy}  {one.delivery}  {how_many(one.days, 'day')} old  {said}")
    if yes and expired:
        say_witnesses(home)
    if not expired:
        click.echo("No restricted store is past its retention.")
    elif not yes:
        click.echo("Nothing was removed; --yes removes them.")


@main.command()
@click.argument("release", type=FILE, shell_complete=releases)
@click.option("--key", "key_file", type=FILE, help="The publisher's public key (PEM).")
@click.option("--registry", type=FILE, help="The registry; by default the one next to the release.")
@click.option("--head", help="The expected head of the registry; detects a registry whose end was cut off.")
@click.option("--no-registry", is_flag=True, help="Do not check the registry, nor the release's place in its chain.")
@click.option(
    "--certificate",
    type=FILE,
    help="The exact certificate of optimality from the restricted store; checked as well.",
)
def verify(
    release: Path, key_file: Path | None, registry: Path | None, head: str | None, no_registry: bool, certificate: Path | None
) -> None:
    """Check a release offline: digests, signature, certificate of optimality, registry chain.

    RELEASE is the folder of a release or, in the home that made it, policy/number. Exit code 0 only if all checks pass under a
    trusted key: that of --key or, for a release that lies in this home, the home's own. A missing registry fails;
    --no-registry skips its checks.
    """
    from deid_assets.release.keyring import public_key_of
    from deid_assets.release.keys import PublicKey
    from deid_assets.release.publication.verification import MANIFEST, verify_release
    from deid_assets.release.verdict import verdict_in

    if no_registry and (registry or head):
        raise click.UsageError("--no-registry skips what --registry and --head check: choose one")
    home = Home.here()
    if not release.exists() and (home.releases / release).is_dir():
        release = home.releases / release
    # A release of this home is also compared with what the home remembers; a copy elsewhere cannot be.
    own = home.store.is_dir() and release.resolve().is_relative_to(home.releases.resolve())
    of_home = own and key_file is None
    trusted = public_key_of(home) if of_home else PublicKey.read(key_file) if key_file else None
    chosen = None if no_registry else registry or release.absolute().parent.parent / "registry.jsonl"
    report = verify_release(release, trusted, chosen, head, certificate, of_home)
    with telling_what_is_missing(home) if own else contextlib.nullcontext():
        click.echo(report.text())
        verdict = verdict_in(release / MANIFEST)
        for sentence in verdict.sentences if report.ok and verdict is not None else ():
            click.echo(sentence)
    sys.exit(0 if report.ok else ERROR)


@main.command("synthetic")
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--layout", type=click.Choice(["omop", "tuva"]), required=True, help="How the tables are laid out.")
@click.option("--members", type=click.IntRange(min=1), default=50_000, show_default=True, help="Number of people.")
@click.option("--seed", type=click.IntRange(min=0), default=1, show_default=True, help="Whoever knows it can make them again.")
@click.option("--results", is_flag=True, help="With laboratory results; all else is the same.")
def synthetic_delivery(folder: Path, layout: str, members: int, seed: int, results: bool) -> None:
    """Write a delivery of made-up people into FOLDER, as an OMOP CDM or as Tuva's input layer.

    Diagnoses are of ICD-10-CM. Nothing is published, and no home is needed.
    """
    from deid_assets.sources.synthetic.delivery import Contents, write_delivery
    from deid_assets.sources.synthetic.layouts import write_omop, write_tuva

    with tempfile.TemporaryDirectory() as made:
        write_delivery(Path(made), members, seed, Contents(icd10cm=True, fills=True, results=results))
        {"omop": write_omop, "tuva": write_tuva}[layout](Path(made), folder, "icd10cm")
    click.echo(
        f"{members:,} made-up people were written into {folder}: {', '.join(sorted(one.name for one in folder.iterdir()))}"
    )


@main.command("export")
@click.argument("release", type=FILE, shell_complete=releases)
@click.argument("folder", type=click.Path(path_type=Path, file_okay=False))
@click.option("--key", "key_file", type=FILE, help="The publisher's public key (PEM), for a release of another home.")
def export_release(release: Path, folder: Path, key_file: Path | None) -> None:
    """Write a release as an OMOP CDM 5.4 into FOLDER, a new folder of Parquet tables.

    RELEASE is the folder of a release or, in the home that made it, policy/number. It is verified first, and nothing but its
    files is read.
    """
    from deid_assets.release.keyring import public_key_of
    from deid_assets.release.keys import PublicKey
    from deid_assets.release.lineage.published import release_folder
    from deid_assets.release.omop.export import export_omop
    from deid_assets.release.publication.verification import verify_release

    home = Home.here()
    found = release_folder(home, release)
    report = verify_release(found, PublicKey.read(key_file) if key_file else public_key_of(home))
    if not report.ok:
        raise ReleaseError(f"{release} is not exported, because it is not in order:\n{report.text()}")
    written = export_omop(found, folder)
    for table, rows in written.rows.items():
        click.echo(f"{table}: {how_many(rows, 'row')}")
    for table, rows in written.undated.items():
        click.echo(f"left out, because the CDM has no event without a date: {how_many(rows, 'row')} of {table}")
    if written.without_events:
        told = "members without an event with a date, who have a sex and a year of birth alone"
        click.echo(f"left out, because the CDM has no day for it: all else of {written.without_events:,} {told}")
    if written.left_out:
        click.echo(f"left out, because the CDM has no table for them: {', '.join(written.left_out)}")


@main.group()
def key() -> None:
    """Manage the signing key and the secret."""


@key.command("rotate")
@click.option(
    "--lost",
    metavar="REASON",
    help="The old key cannot sign the new one, because it was lost or stolen. Describe what happened.",
)
def key_rotate(lost: str | None) -> None:
    """Replace the signing key with a new one, and record it in the registry.

    The old key signs the new one, so recipients who trust the old key can continue. With --lost, they need the new key.
    The old private key is removed; its public key stays in the registry.
    """
    from deid_assets.release.rotation import rotate

    home = Home.here().create()
    rotated = rotate(home, lost)
    say_witnesses(home)
    said = (
        "recorded as lost; send recipients the new key over a trusted channel"
        if rotated.entry.lost
        else "the old key signed the new one"
    )
    click.echo(f"The signing key was replaced ({said}).\nFingerprint of the new key: {rotated.key.fingerprint}")
    click.echo("Print it with `deid key export`, and back up the folders keys and releases again.")


@key.command("new-secret")
def key_new_secret() -> None:
    """Create a new secret after the old one was lost: pseudonyms, noise and sample change from then on."""
    from deid_assets.release.keyring import accept_given_secret, new_secret

    home = Home.here().create()
    if accept_given_secret(home):
        click.echo("The secret that the environment gives is that of this home from now on. Keep it elsewhere.")
        return
    new_secret(home)
    click.echo("A new secret was created in the folder keys. Back it up.")


@main.group("clock")
def clock_group() -> None:
    """Correct how the registry sees the clock of this machine."""


@clock_group.command("correct")
@click.option("--reason", required=True, help="Reason for the correction; recorded in the registry.")
def clock_correct(reason: str) -> None:
    """Record that the newest registry entries were made while the clock was ahead, so later ones may have earlier times."""
    from deid_assets.release.rotation import correct_clock

    home = Home.here().create()
    entry = correct_clock(home, reason)
    say_witnesses(home)
    click.echo(f"Recorded in the registry: the next entries may be dated {entry.time} or later.")


@key.command("export")
@click.option("--output", type=FILE, help="File to write; by default the key is printed.")
def key_export(output: Path | None) -> None:
    """Print the public key with which recipients verify signatures."""
    from deid_assets.release.keyring import signing_key_of

    home = Home.here().create()
    if output is not None and output.resolve().is_relative_to(home.keys.resolve()):
        raise ReleaseError(
            "the folder keys contains the private key, which a public key must not replace; choose another folder"
        )
    pem = signing_key_of(home).public.pem
    if output is None:
        click.echo(pem.decode().strip())
        return
    try:
        output.write_bytes(pem)
    except OSError as error:
        raise ReleaseError(f"the public key cannot be written to {output}: {error.strerror}") from None

"""The ledger that `deid counts` keeps: which one is asked for, and what it says of a file."""

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path

import click

from deid_assets.command_line.count_files import CountFile, read_counts
from deid_assets.command_line.count_options import NONE, AskedLedger
from deid_assets.command_line.deciding import releases_here
from deid_assets.errors import CountsError, how_many
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import Charge, NoisyCell, definition
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, ConsistentNoise
from deid_assets.methods.counts.noise import Claims, NoiseRule
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.published_files import PublishedFile, chance_together, disclosed_together, related
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets.release.counts.home_ledger import HomeLedger
from deid_assets.release.counts.ledger import FILE, CountLedger, Draft, Limits
from deid_assets.release.keys import Secret
from deid_assets.store.home import Home

NOT_KEPT = (
    "no ledger: nothing is remembered of this file. Other versions of these tables are not recognized: the mean of 24 noisy "
    "ones gives about 65 % of the counts exactly, masks of two versions can be subtracted, and noise has no budget or lockout"
)


def asked_for(asked: AskedLedger) -> CountLedger | None:
    """The ledger that is asked for; None if it is stated that there is none.

    Raises
    ------
    click.UsageError
        If nothing says which.
    """
    named = asked.ledger or _home_here()
    if named is None:
        raise click.UsageError(
            "say where it is remembered what was published: --ledger FOLDER (a new one, or the home of releases), or "
            f"--ledger {NONE}, and then nothing recognizes other versions of these tables"
        )
    return None if named == NONE else opened(Path(named), Limits(asked.lockout, asked.rho))


def opened(folder: Path, limits: Limits | None = None) -> CountLedger:
    """The ledger in a folder, or in a home of releases."""
    if _is_home(folder):
        return HomeLedger.of(releases_here(Home(folder.absolute())), limits)

    return CountLedger(folder, limits or Limits())


def _home_here() -> str | None:
    named = os.environ.get("DEID_HOME")
    return named if named and _is_home(Path(named)) else None


def _is_home(folder: Path) -> bool:
    """Whether a folder is a home, even if nothing was decided in it yet.

    Raises
    ------
    CountsError
        If it was a ledger of its own before.
    """
    home = Home(folder.absolute())
    is_one = os.path.lexists(home.journal) or (home.store.is_dir() and home.keys.is_dir())
    if is_one and (home.root / FILE).exists():
        raise CountsError(
            f"{folder} was a ledger of its own before it became a home of releases: move its {FILE} to another folder"
        )
    return is_one


def planned(tables: CountTables, rule: NoiseRule, noise: ConsistentNoise) -> tuple[NoisyCell, ...]:
    """The noisy cells that `add_noise` will make, before anything is drawn. Zeros that will be shown are among them."""
    identity = noise.identity
    cells = zip(tables.cells, tables.contribution.tolist(), strict=True)
    return tuple(
        NoisyCell(name, identity, inf if rule.claims is Claims.MASKED and person > 1 else rule.sd * person, person)
        for name, person in cells
        if person == 1 or rule.claims is not Claims.DROPPED
    )


def require_affordable(ledger: CountLedger | None, plan: Sequence[NoisyCell], tables: CountTables) -> None:
    """Refuse noise that the ledger does not allow, before it is drawn."""
    if ledger is not None:
        kept = {cell.name for cell in plan}
        ledger.require_affordable(plan, [one for one in tables.sums if kept.issuperset((one.total, *one.parts))])


@dataclass(frozen=True)
class Published:
    """A file that is about to be written.

    Attributes
    ----------
    true
        The file of true counts.
    content
        What will be written.
    rule
        Of masks; None for noise.
    plan
        The noisy cells; empty for masks.
    """

    true: CountFile
    content: bytes
    rule: SmallCounts | None
    plan: tuple[NoisyCell, ...] = ()


def enter(ledger: CountLedger | None, published: Published, secret: Secret, seconds: float) -> str:
    """Record a file in the ledger before it is written, and return what is to be said of that.

    The very bytes that will be written are read back and recorded.

    Raises
    ------
    RefusedByLedgerError
        If earlier files do not allow it.
    CountsError
        If the ledger cannot be used.
    """
    if ledger is None:
        return NOT_KEPT

    true = published.true
    read = read_counts(true.path, marks=True, negative=True, content=published.content)
    draws = {cell.name: cell.draw for cell in published.plan}
    says = replace(file_of(read, published.rule), draws=())
    says = replace(says, draws=tuple(draws[name] if 0 < sd < inf else "" for name, sd in zip(says.cells, says.sd, strict=True)))
    counts = {name: int(count) for name, count in zip(true.cells, true.shown, strict=True)}
    entered = ledger.enter(Draft(says, counts, published.plan), secret, Watch(seconds))
    what = f"recorded as file {entered.files} of" if entered.is_new else "published before and recorded in"
    which = "the new ledger" if entered.is_new and entered.files == 1 else "the ledger"
    cost = f"; its noise has cost {entered.spent:.4g} of {entered.total:g} zCDP" if published.plan else ""
    return f"{what} {which} {ledger.path}{cost}"


def file_of(read: CountFile, rule: SmallCounts | None) -> PublishedFile:
    """What a file says that was published; each noisy count is a draw of its own."""
    sd = read.sd or tuple(inf if isinstance(one, str) else 0.0 for one in read.shown)
    draws = tuple(f"{one} {width!r}" if 0 < width < inf else "" for one, width in zip(read.shown, sd, strict=True))
    return PublishedFile(read.cells, read.shown, sd, draws, read.contribution, read.sums, rule, ("",) * len(read.cells), "")


def audited_with(ledger: CountLedger, files: Sequence[PublishedFile], seconds: float) -> tuple[bool, str]:
    """Audit given files together with everything in a ledger: whether counts are given away, and what is said of that.

    Raises
    ------
    CountsError
        If nothing is recorded there, or the files contradict what is.
    """
    state = ledger.read()
    if not state.files:
        raise CountsError(
            f"{ledger.path}: there is no ledger, or nothing is recorded in it; name the one of `deid counts protect`"
        )
    recorded, budget = state.files, state.budget
    known = {(name, one, sd): draw for file in recorded for name, one, sd, draw in _noise_of(file)}
    given = [
        replace(file, draws=tuple(known.get((name, one, sd), draw) for name, one, sd, draw in _noise_of(file)))
        for file in files
    ]
    new = {
        (definition(name), draw): sd
        for file in given
        for name, one, sd, draw in _noise_of(file)
        if draw and (name, one, sd) not in known
    }
    if new:
        cells, draws = zip(*new, strict=True)
        budget = replace(budget, charges=(*budget.charges, Charge(cells, draws, 0.0, tuple(new.values()))))
    disclosed, chance = 0, 0.0
    for place, file in enumerate(given):
        others = related(file, (*recorded, *given[:place], *given[place + 1 :]))
        disclosed = max(disclosed, disclosed_together(file, others, watch=Watch(seconds)))
        chance = max(chance, chance_together([*others, file], budget))
    is_noisy = f"; a noisy count is read exactly with a probability of at most {chance:.3f}" if chance else ""
    said = (
        f"Together with {how_many(len(recorded), 'file')} of the ledger, "
        f"{how_many(disclosed, 'small count is', 'small counts are')} given away{is_noisy}"
    )
    return disclosed > 0 or chance > CHANCE_AT_MOST, said


def _noise_of(file: PublishedFile) -> Iterator[tuple[CellName, int | str, float, str]]:
    return zip(file.cells, file.shown, file.sd, file.draws, strict=True)

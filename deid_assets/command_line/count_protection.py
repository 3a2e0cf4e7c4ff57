"""What `deid counts audit` and `deid counts protect` do: compute what tables of counts give away, and protect them.

Tables are protected by masks, or by noise. The ledger remembers what was published: here is which one is asked for, and what it
says of a file.
"""

import hashlib
import math
import os
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from pathlib import Path
from typing import Any

import click
import numpy as np

from deid_assets.command_line.count_files import CountFile, counts_csv, read_counts, require_sums, table_csv, write_file
from deid_assets.command_line.count_options import NONE, AskedLedger, Auditing, Protection, StatedSums, progress
from deid_assets.command_line.deciding import releases_here
from deid_assets.errors import CountsError, RefusedByLedgerError, how_many
from deid_assets.methods.counts.audit import CellKnowledge, SmallCounts, audit_tables
from deid_assets.methods.counts.budget import Charge, NoisyCell, definition, meaning, rho_of_tables
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, ConsistentNoise, estimate_audit
from deid_assets.methods.counts.masking import UnprotectedError, mask
from deid_assets.methods.counts.noise import Claims, Mechanism, NoiseRule, Zeros, add_noise
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.published_files import PublishedFile, chance_together, disclosed_together, related
from deid_assets.methods.counts.relations import forgotten_sums, unsummed
from deid_assets.methods.counts.spelling import require_one_spelling, require_one_spelling_in
from deid_assets.methods.counts.tables import HIDDEN, CellName, CountTables, PublishedCounts
from deid_assets.release.counts.ledger import FILE, CountLedger, Draft, HomeLedger, Limits
from deid_assets.release.keys import Secret, given_secret
from deid_assets.store.digests import canonical_json
from deid_assets.store.home import Home


def audited(files: Sequence[Path], sums: StatedSums, how: Auditing, output: Path | None) -> dict[str, Any]:
    """Audit files together, and write what can be computed of every cell, if a file is named; what came of it."""
    read = [read_counts(file, sums.sums_file if i == 0 else None, marks=True, negative=True) for i, file in enumerate(files)]
    require_sums(read, sums.no_sums)
    require_one_spelling_in((file.path, file.cells) for file in read)
    is_noisy = [how.sd is not None or any(width > 0 for width in file.sd or ()) for file in read]
    if any(is_noisy) and not all(is_noisy):
        raise CountsError("some of these files have noise and some do not: audit them on their own, or give --sd")
    if how.repeats > 1 and not all(is_noisy):
        raise CountsError("--repeats is about noisy counts, but these have neither a column sd nor --sd")
    rule = SmallCounts(how.threshold, how.values, how.zeros != "protected")
    found = _noisy_findings(read, rule, how.sd, how.repeats) if all(is_noisy) else masked_findings(read, rule, how.seconds)
    table = found.pop("table")
    if not sums.no_sums and not all(is_noisy):
        found |= beside_sums(read, found)
    if how.ledger is not None:
        found |= _beside_ledger(how.ledger, read, None if all(is_noisy) else rule, (how.sd, how.seconds), found)
    if output is not None:
        write_file(output, table, files, 0o600)
    return found


def _beside_ledger(
    folder: Path, read: list[CountFile], rule: SmallCounts | None, limits: tuple[float | None, float], found: dict[str, Any]
) -> dict[str, Any]:
    """What the audit of a ledger adds to what was found of the files alone."""
    sd, seconds = limits
    noisy = [
        file if rule is not None or file.sd is not None
        else replace(file, sd=tuple(math.inf if isinstance(one, str) else sd or 0.0 for one in file.shown))
        for file in read
    ]  # fmt: skip
    files = [file_of(file, rule) for file in noisy]
    refused, said = audited_with(opened_ledger(folder), files, seconds)
    return {"refused": found["refused"] or refused, "summary": f"{found['summary']}. {said}"}


def masked_findings(read: list[CountFile], rule: SmallCounts, seconds: float) -> dict[str, Any]:
    """What the sums give away of masked tables."""
    for file in read:
        if any(isinstance(value, int) and value < 0 for value in file.shown):
            raise CountsError(f"{file.path}: column 'count': negative counts have noise; give --sd")
    releases = [
        PublishedCounts.of_marks(
            (file.cells, file.sums), file.shown, np.array(file.contribution), rule.threshold, rule.smallest()
        )
        for file in read
    ]
    with progress("hidden counts that depend on each other") as told:
        found = audit_tables(PublishedCounts.together(releases), rule, Watch(seconds, told))
    upper = [int(high) if np.isfinite(high) else None for high in found.high]
    rows = [
        {**name._asdict(), "finding": finding.value, "low": int(low), "high": high}
        for name, finding, low, high in zip(found.cells, found.findings, found.low, upper, strict=True)
    ]
    disclosed = [rows[i] for i in found.disclosed()]
    columns: dict[str, Iterable[object]] = {
        key: [row[key] for row in rows] for key in ("low", "high", "finding")
    }  # CSV writes None as nothing
    hidden = sum(finding is CellKnowledge.HIDDEN for finding in found.findings)
    unproven = int((~found.proven).sum())
    doubt = f"; {how_many(unproven, 'range is', 'ranges are')} possibly wider, because too hard to prove" if unproven else ""
    return {
        "refused": bool(disclosed),
        "summary": f"{how_many(len(rows), 'cell')}: {len(disclosed)} disclosed, {hidden} hidden{doubt}",
        "disclosed": disclosed,
        "table": table_csv(found.cells, columns),
    }


def _noisy_findings(read: list[CountFile], rule: SmallCounts, sd: float | None, repeats: int) -> dict[str, Any]:
    """What can be estimated of noisy tables; cells of several files with different numbers are repeats.

    A small count without noise is shown, whatever noise the others have.
    """
    seen: dict[Any, set[tuple[int, float]]] = {}
    for file in read:
        widths = file.sd if file.sd is not None else [np.inf if isinstance(one, str) else sd or 0.0 for one in file.shown]
        for name, one, width in zip(file.cells, file.shown, widths, strict=True):
            if one == "T":
                raise CountsError(f"{file.path}: column 'count': a noisy table cannot have the mark T; use H")
            seen.setdefault(name, set()).add((0 if isinstance(one, str) else one, width))
    sums = {(one.total, one.parts): one for file in read for one in file.sums}
    names = list(seen)
    pooled = [_pooled(seen[name]) for name in names]
    numbers, widths_of = (np.array(column) for column in zip(*pooled, strict=True))
    found = estimate_audit(names, list(sums.values()), numbers, widths_of, repeats)
    columns = {
        "estimate": found.estimates.round(3).tolist(),
        "sd": found.sd.round(4).tolist(),
        "chance": found.chances.round(4).tolist(),
    }
    contribution = {name: person for file in read for name, person in zip(file.cells, file.contribution, strict=True)}
    persons = np.array([contribution[name] for name in names])
    shown = np.flatnonzero((widths_of == 0) & rule.is_small(numbers, persons))
    estimated = found.disclosed()
    told = [*zip(shown, [CellKnowledge.SHOWN_SMALL] * len(shown), strict=True), *((i, "estimated") for i in estimated)]
    disclosed = [
        {**names[i]._asdict(), "finding": str(finding), **{key: column[i] for key, column in columns.items()}}
        for i, finding in told
    ]
    of_exact = f" {how_many(len(shown), 'small count is', 'small counts are')} shown without noise;" if len(shown) else ""
    return {
        "refused": bool(disclosed),
        "summary": f"{how_many(len(names), 'noisy cell')}:{of_exact} {len(estimated)} are read exactly with a probability "
        f"above {CHANCE_AT_MOST}; the highest is {found.chances[~np.isnan(found.variance_factors)].max(initial=0.0):.3f}",
        "disclosed": disclosed,
        "table": table_csv(names, columns),
    }


def _pooled(numbers: set[tuple[int, float]]) -> tuple[float, float]:
    """The weighted mean of independent noisy counts of a cell, and its standard deviation before rounding."""
    exact = {count for count, width in numbers if width == 0}
    if len(exact) > 1:
        raise CountsError("two files contradict each other about a count without noise")
    if exact:
        return float(exact.pop()), 0.0
    weights = {(count, width): 1 / (width**2 + 1 / 12) for count, width in numbers}
    total = sum(weights.values())
    if not total:
        return 0.0, float("inf")
    if len(numbers) == 1:
        return float(next(iter(numbers))[0]), next(iter(numbers))[1]
    variance = 1 / total - 1 / 12
    return sum(count * weight for (count, _), weight in weights.items()) / total, max(variance, 1e-9) ** 0.5


def beside_sums(read: list[CountFile], found: dict[str, Any]) -> dict[str, Any]:
    """What an audit adds of masked cells that are in no sum: they pass because nothing is known of them."""
    names = list(dict.fromkeys(name for file in read for name in file.cells))
    marked = {name for file in read for name, one in zip(file.cells, file.shown, strict=True) if isinstance(one, str)}
    lonely = unsummed(names, np.array([name in marked for name in names]), [one for file in read for one in file.sums])
    if not len(lonely):
        return {}
    rows = [{**names[i]._asdict(), "finding": "in no sum", "low": None, "high": None} for i in lonely]
    told = (
        f"{how_many(len(rows), 'masked cell is', 'masked cells are')} in no stated sum; state it, or say --no-sums if none can "
        "be guessed"
    )
    return {"refused": True, "disclosed": found["disclosed"] + rows, "summary": f"{found['summary']}. {told}"}


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
    return None if named == NONE else opened_ledger(Path(named), Limits(asked.lockout, asked.rho))


def opened_ledger(folder: Path, limits: Limits | None = None) -> CountLedger:
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


def planned_noise(tables: CountTables, rule: NoiseRule, noise: ConsistentNoise) -> tuple[NoisyCell, ...]:
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
    with_totals
        The file of true counts with all totals that it does not have, where these are known; readers add them up, and other
        files may have them.
    """

    true: CountFile
    content: bytes
    rule: SmallCounts | None
    plan: tuple[NoisyCell, ...] = ()
    with_totals: CountFile | None = None


def enter_in_ledger(ledger: CountLedger | None, published: Published, secret: Secret, seconds: float) -> str:
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
    # Without cells that were dropped, their totals are none that readers could add up.
    if published.with_totals is not None and len(read.cells) == len(true.cells):
        true = published.with_totals
        read = _with_hidden_totals(read, true)
    draws = {cell.name: cell.draw for cell in published.plan}
    says = replace(file_of(read, published.rule), draws=())
    says = replace(says, draws=tuple(draws[name] if 0 < sd < inf else "" for name, sd in zip(says.cells, says.sd, strict=True)))
    counts = {name: int(count) for name, count in zip(true.cells, true.shown, strict=True)}
    entered = ledger.enter(Draft(says, counts, published.plan), secret, Watch(seconds))
    what = f"recorded as file {entered.files} of" if entered.is_new else "published before and recorded in"
    which = "the new ledger" if entered.is_new and entered.files == 1 else "the ledger"
    cost = f"; its noise has cost {entered.spent:.4g} of {entered.total:g} zCDP" if published.plan else ""
    return f"{what} {which} {ledger.path}{cost}"


def _with_hidden_totals(read: CountFile, true: CountFile) -> CountFile:
    """A published file with the cells of true counts that it does not have, hidden, and their sums."""
    known = set(read.cells)
    new = [(name, person) for name, person in zip(true.cells, true.contribution, strict=True) if name not in known]
    return replace(
        read,
        cells=(*read.cells, *(name for name, _ in new)),
        shown=(*read.shown, *[HIDDEN] * len(new)),
        contribution=(*read.contribution, *(person for _, person in new)),
        sd=None if read.sd is None else (*read.sd, *[inf] * len(new)),
        sums=(*read.sums, *(one for one in true.sums if not known.issuperset((one.total, *one.parts)))),
    )


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
    before = {name for file in recorded for name in file.cells}
    require_one_spelling({name for file in files for name in file.cells}, before, "the files of the ledger")
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


_DELTA = 1e-5
_NAMED_AT_MOST = 3
_SHAPE = {"zeros": "noisy", "claims": "scaled"}
"""Keys all noise of count tables; it has the defaults of two options, so that earlier tables repeat their numbers."""


@dataclass(frozen=True)
class Protecting:
    """How tables are protected.

    Attributes
    ----------
    small
        Which counts are small.
    secret
        Of masks, noise and ledger.
    ledger
        What was published before; None without one.
    seconds
        How long the audit beside the ledger may take.
    noise
        None for masks.
    """

    small: SmallCounts
    secret: Secret
    ledger: CountLedger | None
    seconds: float
    noise: NoiseRule | None

    @classmethod
    def of(cls, how: Protection) -> "Protecting":
        """With the secret and the ledger that are asked for."""
        small = SmallCounts(how.threshold, how.values, how.zeros != "protected" and how.groups != "protect")
        zeros = Zeros.SHOWN if how.zeros == "shown" else Zeros.NOISY
        noise = NoiseRule(how.sd, Mechanism(how.mechanism), zeros, Claims(how.claims)) if how.method == "noise" else None
        return cls(small, _secret_of(how.secret_file), asked_for(how.asked), how.seconds, noise)


@dataclass(frozen=True, eq=False)
class Protected:
    """Protected tables.

    Attributes
    ----------
    summary
        What was done, without a count of people.
    published
        What is to be `recorded` before it is written; None if the tables would still give counts away.
    shown
        The count or mark of every cell that is not dropped.
    sd
        Standard deviation of the noise in each, infinite where it is masked; None where counts are masked.
    known
        The counts that everybody can compute, by cell: those that are shown as they are, and those that follow from them.
    above_0
        Masked cells that are known not to be 0.
    reader
        What a reader who knows the program learns of masks. It is computed of true counts, so it is said and not written.
    """

    summary: str
    published: Published | None = None
    shown: tuple[int | str, ...] = ()
    sd: tuple[float, ...] | None = None
    known: Mapping[CellName, int] = field(default_factory=dict)
    above_0: Collection[CellName] = ()
    reader: Mapping[str, Any] = field(default_factory=dict)


def protect(file: Path, sums: StatedSums, how: Protection, output: Path | None) -> dict[str, Any]:
    """Protect the true counts of a file, and write them; what came of it, with what is to be printed where no file is named."""
    if output is not None and not output.absolute().parent.is_dir():
        raise CountsError(f"{output} cannot be written: there is no such folder; nothing was protected")
    read = read_counts(file, sums.sums_file)
    if read.sd is not None:
        raise CountsError(f"{file}: it has a column 'sd', so its counts have noise already; protect the true counts")
    require_sums([read], sums.no_sums)
    if not sums.no_sums:
        _require_no_forgotten_sum(file, read.tables)
    protecting = Protecting.of(how)
    done = protected(read, protecting)
    found: dict[str, Any] = {"refused": done.published is None, "summary": done.summary}
    found |= ({"reader": done.reader} if done.reader else {}) | {"disclosed": []}
    if done.published is None:
        return found
    found |= recorded(done.published, protecting)
    if found["refused"]:
        return found
    if output is None:
        return found | {"printed": done.published.content.decode()}
    write_file(output, done.published.content, (file,), 0o644)
    return found


def protected(read: CountFile, how: Protecting) -> Protected:
    """Protect tables of true counts.

    Raises
    ------
    CountsError
        If the ledger cannot be used.
    """
    try:
        return _masked(read, how) if how.noise is None else _noisy(read, how.noise, how)
    except (UnprotectedError, RefusedByLedgerError) as error:
        return Protected(str(error))


def recorded(published: Published, how: Protecting) -> dict[str, Any]:
    """Enter tables in the ledger before they are written; what came of it."""
    try:
        return {"ledger": enter_in_ledger(how.ledger, published, how.secret, how.seconds)}
    except RefusedByLedgerError as error:
        return {"refused": True, "summary": str(error)}


def _masked(read: CountFile, how: Protecting) -> Protected:
    """Mask tables; also the counts that everybody can compute of them."""
    with progress("small counts") as told:
        found = mask(read.tables, how.secret.derive("masks of count tables"), how.small, watch=Watch(told=told))
    small, hidden = found.shown.count("T"), found.shown.count("H")
    audit, reader = found.audit, found.reader
    known = {name: int(low) for name, low, high in zip(audit.cells, audit.low, audit.high, strict=True) if low == high}
    return Protected(
        f"{how_many(len(read.cells), 'cell')}: {how_many(small, 'small count')} masked as T, {hidden} hidden as H to protect "
        "them",
        Published(read, counts_csv(read.cells, found.shown, read.contribution, read.sums), how.small),
        found.shown,
        known=known,
        above_0={name for name, low in zip(audit.cells, audit.low, strict=True) if low > 0 and name not in known},
        reader={
            "judged": len(reader.values),
            "least_values": int(reader.values.min(initial=how.small.threshold)),
            "highest_posterior": float(reader.highest.max(initial=0.0)),
        },
    )


def _secret_of(file: Path | None) -> Secret:
    """The secret of masks, noise and ledger.

    Raises
    ------
    CountsError
        If there is none.
    """
    secret = given_secret(os.environ if file is None else {"DEID_SECRET_FILE": str(file)})
    if secret is None:
        raise CountsError(
            "masks and noise need a secret: set DEID_SECRET, DEID_SECRET_FILE or DEID_SECRET_COMMAND, or give --secret-file. "
            "Make one with `openssl rand -hex 32`, and keep it: with another one, the same tables get other masks and new noise"
        )
    return secret


def _noisy(read: CountFile, rule: NoiseRule, how: Protecting) -> Protected:
    """Add noise to tables."""
    tables = read.tables
    content = sorted([*name, *numbers] for name, *numbers in zip(tables.cells, read.shown, read.contribution, strict=True))
    delivery = hashlib.sha256(canonical_json(content)).hexdigest()
    # What becomes of zeros and of claims is no part of it: with another option, the same counts show the same numbers.
    noise = ConsistentNoise(how.secret.derive("noise of count tables"), delivery, _SHAPE, rule.mechanism)
    plan = planned_noise(tables, rule, noise)
    require_affordable(how.ledger, plan, tables)
    noisy = add_noise(tables, rule, noise.draw)
    found = estimate_audit(noisy.cells, noisy.sums, noisy.counts, noisy.sd)
    highest = found.chances[~np.isnan(found.variance_factors)].max(initial=0.0)
    said = [
        f"{how_many(len(noisy.cells), 'noisy cell')}; the sums give one exactly with a probability of at most {highest:.3f}"
    ]
    if len(noisy.dropped):
        said.append(f"{how_many(len(noisy.dropped), 'cell of claims was', 'cells of claims were')} dropped")
    if noisy.masked.any() and rule.mechanism is Mechanism.SCRIPT:
        said.append(
            f"{how_many(int(noisy.masked.sum()), 'cell is', 'cells are')} masked by the true N, which no budget of noise covers"
        )
    elif (noisy.sd > 0).all():
        said.append(meaning(rho_of_tables(noisy.cells, noisy.sums, noisy.sd, noisy.contribution), _DELTA))
    else:
        said.append(
            f"{how_many(int((noisy.sd == 0).sum()), 'zero is', 'zeros are')} shown without noise, which no budget of noise "
            "covers"
        )
    if number := len(found.disclosed()):
        return Protected(
            f"{how_many(number, 'cell')} would be read exactly with a probability above {CHANCE_AT_MOST}: the noise is too "
            "narrow for the sums; raise --sd"
        )
    shown = tuple("H" if masked else int(count) for count, masked in zip(noisy.counts, noisy.masked, strict=True))
    sd = tuple(np.where(noisy.masked, np.inf, noisy.sd).tolist())
    widths = ["" if width == np.inf else width for width in sd]
    written = counts_csv(noisy.cells, shown, noisy.contribution.tolist(), noisy.sums, widths)
    known = {name: one for name, one, width in zip(noisy.cells, shown, sd, strict=True) if width == 0 and isinstance(one, int)}
    return Protected(". ".join(said), Published(read, written, None, plan), shown, sd, known)


def _require_no_forgotten_sum(file: Path, tables: CountTables) -> None:
    """Refuse true counts between which a sum holds that nobody stated."""
    if found := forgotten_sums(tables):
        named = "; ".join(f"{one.total} = {' + '.join(map(str, one.parts[:_NAMED_AT_MOST]))}" for one in found[:_NAMED_AT_MOST])
        raise CountsError(
            f"{file}: {how_many(len(found), 'sum holds that is', 'sums hold that are')} not stated "
            f"({named}{' ...' if len(found) > 1 else ''}); nothing would stand against who knows them. State them in a column "
            "'sums' or with --sums; if they hold by chance, say --no-sums"
        )

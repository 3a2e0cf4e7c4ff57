"""Protected tables of counts: by masks, or by noise; what `deid counts protect` does."""

import hashlib
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from deid_assets.command_line import count_ledger
from deid_assets.command_line.count_files import CountFile, counts_csv, read_counts, require_sums, write_file
from deid_assets.command_line.count_options import Protection, StatedSums, progress
from deid_assets.errors import CountsError, RefusedByLedgerError, how_many
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import meaning, rho_of_tables
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, ConsistentNoise, estimate_audit
from deid_assets.methods.counts.masking import UnprotectedError, mask
from deid_assets.methods.counts.noise import Claims, Mechanism, NoiseRule, Zeros, add_noise
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.relations import forgotten_sums
from deid_assets.methods.counts.tables import CellName, CountTables
from deid_assets.release.counts.ledger import CountLedger
from deid_assets.release.keys import Secret, given_secret
from deid_assets.store.digests import canonical_json

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
        return cls(small, _secret_of(how.secret_file), count_ledger.asked_for(how.asked), how.seconds, noise)


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
    published: count_ledger.Published | None = None
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


def recorded(published: count_ledger.Published, how: Protecting) -> dict[str, Any]:
    """Enter tables in the ledger before they are written; what came of it."""
    try:
        return {"ledger": count_ledger.enter(how.ledger, published, how.secret, how.seconds)}
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
        count_ledger.Published(read, counts_csv(read.cells, found.shown, read.contribution, read.sums), how.small),
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
    plan = count_ledger.planned(tables, rule, noise)
    count_ledger.require_affordable(how.ledger, plan, tables)
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
    return Protected(". ".join(said), count_ledger.Published(read, written, None, plan), shown, sd, known)


def _require_no_forgotten_sum(file: Path, tables: CountTables) -> None:
    """Refuse true counts between which a sum holds that nobody stated."""
    if found := forgotten_sums(tables):
        named = "; ".join(f"{one.total} = {' + '.join(map(str, one.parts[:_NAMED_AT_MOST]))}" for one in found[:_NAMED_AT_MOST])
        raise CountsError(
            f"{file}: {how_many(len(found), 'sum holds that is', 'sums hold that are')} not stated "
            f"({named}{' ...' if len(found) > 1 else ''}); nothing would stand against who knows them. State them in a column "
            "'sums' or with --sums; if they hold by chance, say --no-sums"
        )

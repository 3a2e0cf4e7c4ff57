"""The ledger of `deid counts`: every file that was published, what noise cost, and the audit of the next one with all of them.

It is one file, which only its owner can read. It holds what was published and how, and no count that was not. A keyed digest of
each true count tells whether a later one is the same; only the owner of the secret can compute it. A file is recorded before
it is written: a crash between the two leaves a record without a file, and the same call writes the file at no cost.

In the home of releases, the cost is also a line of the registry, where releases find it; and the tables of releases are audited
together with the files.
"""

import contextlib
import hashlib
import hmac
import json
import math
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from deid_assets.errors import CountsError, DeidError, RefusedByLedgerError, ReleaseError
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import Budget, Charge, NoisyCell, definition
from deid_assets.methods.counts.cohort import sums_of
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.published_files import PublishedFile, chance_together, disclosed_together, related
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.policy.sections.counts import DEFAULT_TOTAL, CountNoise, NoiseBudget
from deid_assets.release import cumulative
from deid_assets.release.keys import Secret
from deid_assets.release.publication.publish import Releases
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Chain
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of
from deid_assets.store import durable
from deid_assets.store.digests import REGISTRY_AT_MOST, bytes_digest, canonical_json, kept_bytes, parse_json
from deid_assets.store.home import Home

FILE = "count_ledger.json"
_LOCK = ".count_ledger.lock"
_KIND = "deid counts, ledger 1"
_UNBOUNDED = 1e9


@dataclass(frozen=True)
class Limits:
    """What all files of a ledger may cost.

    Attributes
    ----------
    lockout
        How often one cell may be published with noise of its own.
    rho
        Largest cost of all noise, in zCDP; None: the strictest that an earlier file stated, or 50. A stricter one of an
        earlier file holds, too.
    """

    lockout: int = 10
    rho: float | None = None

    def section(self, strictest: float) -> CountNoise:
        """The same as a policy says it, given the strictest total so far."""
        return CountNoise(lockout=self.lockout, budget=NoiseBudget(rho=min(strictest, self.rho or _default(strictest))))


def _default(strictest: float) -> float:
    return strictest if strictest < _UNBOUNDED else DEFAULT_TOTAL


@dataclass(frozen=True)
class Draft:
    """A file that is to be published.

    Attributes
    ----------
    says
        What it says. Its versions are filled in by the ledger.
    true_counts
        The true count of every cell.
    plan
        The noisy cells as `Budget.charged` takes them; empty for masks.
    """

    says: PublishedFile
    true_counts: Mapping[CellName, int]
    plan: tuple[NoisyCell, ...] = ()


@dataclass(frozen=True)
class Entered:
    """What became of a file in the ledger.

    Attributes
    ----------
    is_new
        Whether it was not there before.
    files
        How many there are now.
    spent, total
        What all noise cost, and what it may, in zCDP.
    """

    is_new: bool
    files: int
    spent: float
    total: float


@dataclass(frozen=True)
class CountLedger:
    """A ledger.

    Parameters
    ----------
    folder
        Where its file is, or will be.
    releases
        Those of the home that it belongs to; None for a folder of its own.
    limits
        What files may cost.
    """

    folder: Path
    releases: Releases | None = None
    limits: Limits = field(default_factory=Limits)

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE

    def files(self) -> tuple[PublishedFile, ...]:
        """Everything that was published: of a home, the tables of its releases first; then the files, oldest first.

        Raises
        ------
        CountsError
            If the ledger was changed, or tables of a release are not known.
        """
        return self._read().files

    def budget(self) -> Budget:
        """What noise may cost, and did.

        Raises
        ------
        CountsError
            As `files`.
        """
        return self._read().budget

    def require_affordable(self, plan: Sequence[NoisyCell], sums: Sequence[Sum]) -> None:
        """Refuse noise that is too much; call it before any is drawn.

        Raises
        ------
        RefusedByLedgerError
            If the total would be exceeded, or a cell would be published too often.
        """
        _charged(self.budget(), plan, sums)

    def enter(self, draft: Draft, secret: Secret, watch: Watch | None = None) -> Entered:
        """Audit a file together with all earlier ones, and record it; then it may be written.

        Parameters
        ----------
        secret
            Keys the digests of true counts.
        watch
            When to stop the audit: what is not proven hidden by then is refused.

        Raises
        ------
        RefusedByLedgerError
            If it gives counts away together with earlier files, or costs too much. Then nothing is recorded.
        CountsError
            If the ledger cannot be read or written, or was changed.
        """
        file = _with_versions(draft, secret)
        new = _record_of(file)
        with self._deciding():
            state = self._read()
            after = _charged(state.budget, draft.plan, file.sums)
            if any({name: record[name] for name in new} == new for record in state.records):
                return Entered(False, len(state.records), after.spent, after.total)
            _require_hidden(replace(draft, says=file), related(file, state.files), after, watch)
            # The registry of a home has the cost.
            fresh = after.charges[len(state.budget.charges) :] if self.releases is None else ()
            cost = {
                "total": after.total if draft.plan and self.releases is None else None,
                "rho": math.fsum(charge.rho for charge in fresh),
                "charged": [
                    list(one) for charge in fresh for one in zip(charge.cells, charge.draws, charge.sds or (), strict=True)
                ],
            }
            self._charge(draft)
            self._write([*state.records, new | cost])
            return Entered(True, len(state.records) + 1, after.spent, after.total)

    def _charge(self, draft: Draft) -> None:
        """Add the cost to the registry of the home; the caller holds its lock."""
        if self.releases is None or not draft.plan:
            return
        chain = self.releases.registry.chain()
        line = NoisyPublication(self._section(chain), draft.plan, draft.says.sums).charge(chain, clock.now(chain.last_time))
        if line is not None:
            self.releases.append(line.signed(self.releases.key))

    def _section(self, chain: Chain) -> CountNoise:
        """What files may cost in a home, whose releases may have stated a stricter total."""
        unbounded = CountNoise(budget=NoiseBudget(rho=_UNBOUNDED))
        return self.limits.section(budget_of(chain, unbounded).total)

    @contextlib.contextmanager
    def _deciding(self) -> Iterator[None]:
        """Hold the lock: of the home, or of the folder, which is created."""
        if self.releases is not None:
            with self.releases.deciding():
                yield
            return
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CountsError(f"the ledger {self.folder} cannot be created: {error.strerror}; name a folder") from None
        with durable.locked(self.folder / _LOCK):
            yield

    def _read(self) -> "_State":
        records = self._records()
        files = tuple(map(_file_of, records))
        if self.releases is None:
            strictest = min((record["total"] for record in records if record["total"] is not None), default=_UNBOUNDED)
            section = self.limits.section(strictest)
            return _State(records, files, Budget(section.budget.total, section.lockout, tuple(_charges(records))))
        tables, chain = tuple(_tables_of(self.releases)), self.releases.registry.chain()
        budget = budget_of(chain, self._section(chain))
        called = tuple(_charges_of_tables(tables, budget))
        return _State(records, (*tables, *files), replace(budget, charges=(*budget.charges, *called)))

    def _records(self) -> list[dict[str, Any]]:
        if self.folder.exists() and not self.folder.is_dir():
            raise CountsError(f"the ledger {self.folder} is not a folder; name a folder with --ledger")
        try:
            content = kept_bytes(self.path, f"the ledger {self.path}", REGISTRY_AT_MOST)
        except ReleaseError as error:
            raise CountsError(str(error)) from None
        if not content:
            return []
        try:
            told = parse_json(content)
            if told["kind"] != _KIND or told["digest"] != _digest(told["files"]):
                raise ValueError
            records: list[dict[str, Any]] = told["files"]
        except (DeidError, ValueError, KeyError, TypeError):
            raise CountsError(
                f"the ledger {self.path} was changed or cut, so it is not known what was published; restore it from a backup"
            ) from None
        return records

    def _write(self, records: list[dict[str, Any]]) -> None:
        content = canonical_json({"kind": _KIND, "files": records, "digest": _digest(records)})
        try:
            durable.replace(self.path, content, 0o600)
        except OSError as error:
            raise CountsError(f"the ledger {self.path} cannot be written: {error.strerror}") from None


@dataclass(frozen=True)
class _State:
    """A ledger as it was read: what the file holds, everything that was published, and what it cost."""

    records: list[dict[str, Any]]
    files: tuple[PublishedFile, ...]
    budget: Budget


def _charged(budget: Budget, plan: Sequence[NoisyCell], sums: Sequence[Sum]) -> Budget:
    try:
        return budget.charged(plan, sums)
    except CountsError as error:
        raise RefusedByLedgerError(f"refused by the ledger: {error} (--lockout, --rho)") from None


def _require_hidden(draft: Draft, others: Sequence[PublishedFile], budget: Budget, watch: Watch | None) -> None:
    beside = f"together with {len(others)} earlier files of the ledger"
    try:
        disclosed = disclosed_together(draft.says, others, draft.true_counts, watch)
        chance = chance_together([*others, draft.says], budget)
    except CountsError as error:
        raise RefusedByLedgerError(
            f"{beside}, the tables cannot be audited: {error}. Give cells that count other people other names, use the "
            "secret of the earlier files, or publish noise"
        ) from None
    if disclosed:
        what = "hide more (--threshold, --values), or publish noise" if draft.says.rule else "use wider noise (--sd)"
        raise RefusedByLedgerError(
            f"{beside}, {disclosed} small counts would be given away, of cells or of people who came or went: {what}. Cells "
            "that count other people need other names"
        )
    if chance > CHANCE_AT_MOST:
        raise RefusedByLedgerError(
            f"{beside}, the mean of all noise would give a count exactly with a probability of {chance:.3f}, above "
            f"{CHANCE_AT_MOST}: publish an earlier file again, whose numbers repeat at the same --sd and --mechanism, or much "
            "wider noise"
        )


def ledger_of(folder: Path, limits: Limits | None = None, releases: Releases | None = None) -> CountLedger:
    """The ledger in a folder, or in the home that has these releases."""
    return CountLedger(folder if releases is None else releases.home.store, releases, limits or Limits())


def is_home(folder: Path) -> bool:
    """Whether a folder is the home of releases."""
    home = Home(folder.absolute())
    return os.path.lexists(home.journal) or os.path.lexists(home.root / "releases" / "registry.jsonl")


def _tables_of(releases: Releases) -> Iterator[PublishedFile]:
    for made in cumulative.releases_made(releases.restricted, releases.registry):
        told = tables_of_manifest(json.loads(made.file.read_bytes()).get("counts"), made.name)
        if told is not None:
            yield told


def tables_of_manifest(told: Mapping[str, Any] | None, name: str) -> PublishedFile | None:
    """The tables of a release as a file, from its restricted manifest; None if it has none.

    Raises
    ------
    CountsError
        If an earlier version of the product kept too little of them.
    """
    if told is None or "cells" not in told or ("kept" in told and not told["kept"]["rows"]):
        return None
    if "kept" not in told:
        raise CountsError(
            f"an earlier version of this product published the tables of {name}, and did not keep what is needed to audit "
            "files together with them; use a ledger of its own (--ledger), and do not publish the same cells in it"
        )
    rows = [dict(zip(told["kept"]["columns"], row, strict=True)) for row in told["kept"]["rows"]]
    cells = tuple(CellName(row["table"], row["row"], row["column"]) for row in rows)
    threshold = told["kept"].get("masked_below")
    return PublishedFile(
        cells,
        tuple(row["mark"] or int(row["count"]) for row in rows),
        tuple(math.inf if row["mark"] else float(row["sd"] or 0) for row in rows),
        tuple(row["draw"] or "" for row in rows),
        tuple(int(row["contribution"]) for row in rows),
        sums_of(cells),
        None if threshold is None else SmallCounts(threshold),
        tuple(row["same"] for row in rows),
        name,
        tuple(int(row["least"]) for row in rows),
    )


def _with_versions(draft: Draft, secret: Secret) -> PublishedFile:
    """The file with keyed digests of its true counts, which tell versions of a cell apart."""
    key = secret.derive("versions of counts in a ledger")

    def version(name: CellName) -> str:
        return hmac.new(key, json.dumps([*name, draft.true_counts[name]]).encode(), hashlib.sha256).hexdigest()[:32]

    return replace(draft.says, versions=tuple(map(version, draft.says.cells)), keyed_by=secret.commitment())


def _record_of(file: PublishedFile) -> dict[str, Any]:
    """What the ledger keeps of a file, apart from its cost."""
    position = {name: place for place, name in enumerate(file.cells)}
    rule = file.rule
    return {
        "keyed_by": file.keyed_by,
        "masked": None if rule is None else [rule.threshold, rule.values, rule.zeros_shown],
        "cells": [
            [*name, version, shown, sd if math.isfinite(sd) else None, draw, person]
            for name, version, shown, sd, draw, person in zip(
                file.cells, file.versions, file.shown, file.sd, file.draws, file.contribution, strict=True
            )
        ],
        "sums": [[one.name, position[one.total], [position[part] for part in one.parts]] for one in file.sums],
    }


def _file_of(record: Mapping[str, Any]) -> PublishedFile:
    """The inverse of `_record_of`."""
    tables, rows, columns, versions, shown, sds, draws, persons = zip(*record["cells"], strict=True)
    cells = tuple(map(CellName, tables, rows, columns))
    return PublishedFile(
        cells,
        shown,
        tuple(math.inf if sd is None else float(sd) for sd in sds),
        draws,
        persons,
        tuple(Sum(name, cells[total], tuple(cells[part] for part in parts)) for name, total, parts in record["sums"]),
        None if record["masked"] is None else SmallCounts(*record["masked"]),
        versions,
        record["keyed_by"],
    )


def _charges(records: Sequence[Mapping[str, Any]]) -> Iterator[Charge]:
    for record in records:
        if record["charged"]:
            cells, draws, sds = zip(*record["charged"], strict=True)
            yield Charge(cells, draws, record["rho"], sds)


def _charges_of_tables(files: Sequence[PublishedFile], budget: Budget) -> Iterator[Charge]:
    """The draws of tables of releases by what the cells are called there: the registry knows them by what they count."""
    known = {pair for charge in budget.charges for pair in zip(charge.cells, charge.draws, strict=True)}
    new = dict[tuple[str, str], float]()
    for file in files:
        for name, draw, sd in zip(file.cells, file.draws, file.sd, strict=True):
            if draw and (definition(name), draw) not in known:
                new[definition(name), draw] = sd
    if new:
        yield Charge(tuple(cell for cell, _ in new), tuple(draw for _, draw in new), 0.0, tuple(new.values()))


def _digest(records: list[dict[str, Any]]) -> str:
    return bytes_digest(canonical_json(records))

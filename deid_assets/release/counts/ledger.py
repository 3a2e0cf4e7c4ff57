"""The ledger of `deid counts`: every file that was published, what noise cost, and the audit of the next one with all of them.

It is one file, which only its owner can read. It holds what was published and how, and no count that was not. A keyed digest of
each true count tells whether a later one is the same; only the owner of the secret can compute it. A file is recorded before
it is written: a crash between the two leaves a record without a file, and the same call writes the file at no cost.

In a home, files and releases have one budget, and the tables of releases are audited with files. Noise of a file is charged in
the registry, where releases find it: before the file is recorded.
"""

import contextlib
import hashlib
import hmac
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pandas as pd

from deid_assets.errors import CountsError, DeidError, RefusedByLedgerError, ReleaseError, how_many
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import DEFAULT_TOTAL, Budget, Charge, NoisyCell, definition
from deid_assets.methods.counts.cohort import sums_of
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.published_files import PublishedFile, chance_together, disclosed_together, related
from deid_assets.methods.counts.published_tables import names_of
from deid_assets.methods.counts.spelling import require_one_spelling
from deid_assets.methods.counts.tables import CellName, Sum
from deid_assets.policy.sections.counts import CountNoise, NoiseBudget
from deid_assets.release import cumulative
from deid_assets.release.keys import Secret
from deid_assets.release.publication import waiting as waiting_releases
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

    def total(self, strictest: float) -> float:
        """The total that holds after files that stated no less than this, infinite if they stated none."""
        return min(strictest, self.rho or (strictest if math.isfinite(strictest) else DEFAULT_TOTAL))


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

    @property
    def noisy_sums(self) -> tuple[Sum, ...]:
        """The sums of noisy cells alone: noise of a total that is not published costs nothing."""
        noisy = {cell.name for cell in self.plan}
        return tuple(one for one in self.says.sums if noisy.issuperset((one.total, *one.parts)))


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
    limits
        What files may cost.
    """

    folder: Path
    limits: Limits = field(default_factory=Limits)

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / FILE

    def read(self) -> "State":
        """What was published, and what it cost.

        Raises
        ------
        CountsError
            If the ledger was changed, or what was published is not known for another reason.
        """
        records = self._records()
        strictest = min((record["total"] for record in records if record["total"] is not None), default=math.inf)
        budget = Budget(self.limits.total(strictest), self.limits.lockout, tuple(_charges(records)))
        return State(records, tuple(map(_file_of, records)), budget)

    def require_affordable(self, plan: Sequence[NoisyCell], sums: Sequence[Sum]) -> None:
        """Refuse noise that is too much; call it before any is drawn.

        Raises
        ------
        RefusedByLedgerError
            If the total would be exceeded, or a cell would be published too often.
        """
        _charged(self.read().budget, plan, sums)

    def enter(self, draft: Draft, secret: Secret, watch: Watch | None = None) -> Entered:
        """Audit a file together with all earlier ones, and record it; then it may be written.

        Parameters
        ----------
        draft
            It was audited by itself.
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
        with self.deciding():
            state = self.read()
            after = _charged(state.budget, draft.plan, draft.noisy_sums)
            if any({name: record[name] for name in new} == new for record in state.records):
                return Entered(False, len(state.records), after.spent, after.total)
            _require_one_spelling(file, state.files)
            _require_hidden(replace(draft, says=file), related(file, state.files), after, watch)
            self._write([*state.records, new | self.charge(draft, state.budget, after)])
            return Entered(True, len(state.records) + 1, after.spent, after.total)

    def charge(self, draft: Draft, before: Budget, after: Budget) -> dict[str, Any]:
        """What the record of a file says of its cost; the caller holds the lock."""
        fresh = after.charges[len(before.charges) :]
        return {
            "total": after.total if draft.plan else None,
            "rho": math.fsum(charge.rho for charge in fresh),
            "charged": [
                list(one) for charge in fresh for one in zip(charge.cells, charge.draws, charge.sds or (), strict=True)
            ],
        }

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Hold the lock of the ledger, whose folder is created."""
        try:
            self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise CountsError(f"the ledger {self.folder} cannot be created: {error.strerror}; name a folder") from None
        with durable.locked(self.folder / _LOCK):
            yield

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
class State:
    """A ledger as it was read.

    Attributes
    ----------
    records
        What its file holds.
    files
        Everything that was published, oldest first.
    budget
        What noise may cost, and did.
    """

    records: list[dict[str, Any]]
    files: tuple[PublishedFile, ...]
    budget: Budget


def _charged(budget: Budget, plan: Sequence[NoisyCell], sums: Sequence[Sum]) -> Budget:
    try:
        return budget.charged(plan, sums)
    except CountsError as error:
        raise RefusedByLedgerError(f"refused by the ledger: {error} (--lockout, --rho)") from None


def _require_one_spelling(file: PublishedFile, others: Sequence[PublishedFile]) -> None:
    try:
        require_one_spelling(file.cells, {name for one in others for name in one.cells}, "earlier files of the ledger")
    except CountsError as error:
        raise RefusedByLedgerError(str(error)) from None


def _require_hidden(draft: Draft, others: Sequence[PublishedFile], budget: Budget, watch: Watch | None) -> None:
    beside = f"together with {how_many(len(others), 'earlier file')} of the ledger"
    try:
        disclosed = disclosed_together(draft.says, others, draft.true_counts, watch) if others else 0
        chance = chance_together([*others, draft.says], budget)
    except CountsError as error:
        raise RefusedByLedgerError(
            f"{beside}, the tables cannot be audited: {error}. Give cells that count other people other names, use the "
            "secret of the earlier files, or publish noise"
        ) from None
    if disclosed:
        what = "hide more (--threshold, --values), or publish noise" if draft.says.rule else "use wider noise (--sd)"
        raise RefusedByLedgerError(
            f"{beside}, {how_many(disclosed, 'small count')} would be given away, of cells or of people who came or went: "
            f"{what}. Cells that count other people need other names"
        )
    if chance > CHANCE_AT_MOST:
        raise RefusedByLedgerError(
            f"{beside}, the mean of all noise would give a count exactly with a probability of {chance:.3f}, above "
            f"{CHANCE_AT_MOST}: publish an earlier file again, whose numbers repeat at the same --sd and --mechanism, or much "
            "wider noise"
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


def _digest(records: list[dict[str, Any]]) -> str:
    return bytes_digest(canonical_json(records))


_UNBOUNDED = 1e9
_OF_RELEASES = "releases"
"""In place of a key: releases know themselves which of their cells count the same people."""


@dataclass(frozen=True)
class HomeLedger(CountLedger):
    """The ledger in the restricted store of a home.

    Parameters
    ----------
    releases
        The releases of the home.
    """

    releases: Releases = field(kw_only=True)

    @classmethod
    def of(cls, releases: Releases, limits: Limits | None = None) -> "HomeLedger":
        """The ledger of the home that has these releases."""
        return cls(releases.home.store, limits or Limits(), releases=releases)

    def read(self) -> State:
        """As that of a folder. The tables of all releases are among the files, and the registry has the cost.

        Raises
        ------
        CountsError
            If the ledger was changed, or too little is known of the tables of a release.
        ReleaseError
            If the registry or a release cannot be read.
        """
        found, tables, chain = super().read(), tuple(_tables_of(self.releases)), self.releases.registry.chain()
        budget = budget_of(chain, self._section(chain))
        budget = replace(budget, charges=(*budget.charges, *_charges_of_tables(tables, budget)))
        return State(found.records, (*tables, *found.files), budget)

    def charge(self, draft: Draft, before: Budget, after: Budget) -> dict[str, Any]:
        """Add the cost to the registry, and nothing to the record; the caller holds the lock."""
        if draft.plan:
            chain = self.releases.registry.chain()
            publication = NoisyPublication(self._section(chain), draft.plan, draft.noisy_sums)
            line = publication.charge(chain, clock.now(chain.last_time))
            if line is not None:
                self.releases.append(line.signed(self.releases.key))
        return {"total": None, "rho": 0.0, "charged": []}

    @contextlib.contextmanager
    def deciding(self) -> Iterator[None]:
        """Hold the lock of the releases: none is published meanwhile."""
        with self.releases.deciding():
            yield

    def _section(self, chain: Chain) -> CountNoise:
        """What files may cost, as a policy says it; releases may have stated a stricter total."""
        strictest = budget_of(chain, CountNoise(budget=NoiseBudget(rho=_UNBOUNDED))).total
        total = self.limits.total(strictest if strictest < _UNBOUNDED else math.inf)
        return CountNoise(lockout=self.limits.lockout, budget=NoiseBudget(rho=total))


def files_of(home: Home) -> tuple[PublishedFile, ...]:
    """The files that `deid counts` published in a home.

    Raises
    ------
    CountsError
        If the ledger was changed.
    """
    return CountLedger(home.store).read().files


def sds_by_definition(published: pd.DataFrame, files: Iterable[PublishedFile]) -> dict[str, tuple[float, ...]]:
    """The standard deviations of the noise of files, by `definition` of the cells that are called the same.

    Cells that are called by their definition are left out, because the registry tells their noise.

    Parameters
    ----------
    published
        As `published.published_counts` returns it.
    """
    draws: dict[CellName, dict[str, float]] = {}
    for file in files:
        for name, draw, sd in zip(file.cells, file.draws, file.sd, strict=True):
            if draw:
                draws.setdefault(name, {})[draw] = sd
    called = zip(names_of(published), published["definition"], strict=True)
    return {cell: tuple(draws[name].values()) for name, cell in called if name in draws and definition(name) != cell}


def _tables_of(releases: Releases) -> Iterator[PublishedFile]:
    """The tables of all releases, also of those that wait for approval and may be published any time."""
    made = [(one.name, one.file.read_bytes()) for one in cumulative.releases_made(releases.restricted, releases.registry)]
    waiting = waiting_releases.waiting_folders(releases.waiting)
    made += [(f"{one.parent.name}/{one.name}", waiting_releases.staged_editions(one).restricted) for one in waiting]
    for name, content in made:
        told = tables_of_manifest(json.loads(content).get("counts"), name)
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
        _OF_RELEASES,
        tuple(int(row["least"]) for row in rows),
    )


def _charges_of_tables(files: Sequence[PublishedFile], budget: Budget) -> Iterator[Charge]:
    """The draws of tables of releases by what the cells are called there: the registry knows them by what they count."""
    known = {pair for charge in budget.charges for pair in zip(charge.cells, charge.draws, strict=True)}
    new = dict[tuple[str, str], float]()
    for file in files:
        for name, draw, sd in zip(file.cells, file.draws, file.sd, strict=True):
            if 0 < sd < math.inf and (definition(name), draw) not in known:
                new[definition(name), draw] = sd
    if new:
        yield Charge(tuple(cell for cell, _ in new), tuple(draw for _, draw in new), 0.0, tuple(new.values()))

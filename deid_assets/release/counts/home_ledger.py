"""The ledger of `deid counts` in a home: files and releases have one budget, and the tables of releases are audited with files.

Noise of a file is charged in the registry, where releases find it: before the file is recorded, as it is recorded before it is
written.
"""

import contextlib
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pandas as pd

from deid_assets.errors import CountsError
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import Budget, Charge, definition
from deid_assets.methods.counts.cohort import sums_of
from deid_assets.methods.counts.published_files import PublishedFile
from deid_assets.methods.counts.published_tables import names_of
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.sections.counts import CountNoise, NoiseBudget
from deid_assets.release import cumulative
from deid_assets.release.counts.ledger import CountLedger, Draft, Limits, State
from deid_assets.release.publication import waiting as waiting_releases
from deid_assets.release.publication.publish import Releases
from deid_assets.release.registry import clock
from deid_assets.release.registry.chain import Chain
from deid_assets.release.registry.noise_charges import NoisyPublication, budget_of
from deid_assets.store.home import Home

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
            publication = NoisyPublication(self._section(chain), draft.plan, draft.says.sums)
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

"""Why no node of the lattice is a candidate, and which policy changes would make one.

Measurements are made at the coarsest node: what fails there fails everywhere below. There are two kinds of rows. Some locate
the risk: a quasi-identifier made coarser by one level, which merges the classes of its coarsest level in pairs; kinds of
members; how many members a population needs. The others are possible policy changes: a quasi-identifier left out, or more
members suppressed. Changes are evaluated in the same way as nodes are chosen: in both readings, with the gate's number of
draws, with suppression, against every gate. Only changes that pass are recommended. The release fraction is not a possible
change: 1/F does not depend on it (methods#population).
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from functools import cached_property
from types import MappingProxyType
from typing import Protocol

import numpy as np
import pandas as pd

from deid_assets.methods.adversary.two_readings import Adversary
from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import OtherGates
from deid_assets.methods.lattice.choice import HIGH_RISK, choose_generalization
from deid_assets.methods.lattice.members_needed import members_needed
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData, top_node

COLUMNS = ("kind", "what", "share", "threshold", "suppressed", "against", "would_pass", "change")
_CLAIM_BANDS = ((1, 1), (2, 5), (6, 20), (21, 100), (101, None))
_MOST_SUPPRESSED = 0.2  # beyond it the release is no longer a random sample of the members
NOT_TRIED = "not tried"
NOT_A_POLICY = "no policy can say it"
ALLOWED = "already allowed"


@dataclass(frozen=True)
class Change:
    """A policy change: quasi-identifiers that are left out, or the share of sampled members that may be suppressed."""

    without: tuple[str, ...] = ()
    suppress_at_most: float | None = None


@dataclass(frozen=True)
class Demands:
    """Requirements on a chosen node, as in `choose_generalization`.

    Attributes
    ----------
    never
        A gate that fails for every change because it does not depend on the node; empty for none.
    worst_class_at_most
        As in `choose_generalization`.
    """

    max_high_risk_share: float
    draws: int
    confidence: float
    suppress_at_most: float
    aim: float
    never: str = ""
    worst_class_at_most: float | None = None


def diagnose(
    computation: NodeComputation,
    keys: Callable[[str], bytes],
    member_columns: Sequence[str],
    claim_columns: Sequence[str],
    adversary: Adversary,
    demands: Demands,
    draws: int,
    other_gates: OtherGates | None = None,
    written: Callable[[Change], str | None] = lambda change: "",
    executor: Executor | None = None,
    together: Mapping[str, tuple[str, ...]] = MappingProxyType({}),
) -> pd.DataFrame:
    """Locate the risk of the coarsest node, and evaluate changes that would remove it.

    Parameters
    ----------
    keys
        Returns the 16-byte key of a named stream.
    member_columns, claim_columns
        Names of the quasi-identifiers, in the order of the data.
    draws
        Number of draws for rows that locate the risk; changes are evaluated with `demands.draws`.
    other_gates
        Further requirements on a chosen node.
    written
        Returns the policy text for a change; None if no policy can express it.
    together
        The columns that are left out with a column, because no policy has them without it.

    Returns
    -------
    pandas.DataFrame
        kind ('as it is', 'coarser', 'without', 'members with', 'suppressing', 'population'), what, share (of draws at high
        risk before suppression; for kinds of members, of their own draws), threshold (MaxSup), suppressed (share of sampled
        members suppressed if the change passed), against (the gate that fails under the change; empty if it passed),
        would_pass, change (policy text; empty if it did not pass).
    """
    remedies = _Remedies(computation, keys, (*member_columns, *claim_columns), len(member_columns), adversary, demands, draws,
                         other_gates, written, executor, together)  # fmt: skip
    top, stream_key = top_node(computation.dimensions), keys("where the risk is")
    found = computation.measure(top, stream_key, draws, executor=executor)
    rows = [remedies.told("as it is", "coarsest node", found.share)]
    for column, coarser in _one_level_coarser(computation, (*member_columns, *claim_columns)):
        share = coarser.measure(top_node(coarser.dimensions), stream_key, draws, executor=executor).share
        rows.append(remedies.told("coarser", column, share))
    rows += remedies.without_columns()

    classes = computation.drawn_classes(top, stream_key, draws, exemption="once", executor=executor)
    at_risk = ~classes.exempt & (classes.sizes < computation.k)
    claims = adversary.claims[classes.targets]
    for low, high in _CLAIM_BANDS:
        own = (claims >= low) & (claims <= (high if high is not None else claims.max(initial=low)))
        if own.any():
            text = f"{low} claim" if low == high == 1 else f"{low} to {high} claims" if high else f"over {low - 1} claims"
            rows.append(remedies.told("members with", text, float(at_risk[own].mean())))
    if found.share > demands.max_high_risk_share and (
        needed := members_needed(computation, keys, demands.suppress_at_most, demands.max_high_risk_share, executor)
    ):
        share = found.share if needed.at_least is None else demands.max_high_risk_share
        rows.append(remedies.told("population", str(needed), share))
    rows.append(remedies.more_suppression(found.share))
    return pd.DataFrame(rows, columns=list(COLUMNS))


class DiagnosisRow(Protocol):
    """A row of the diagnosis, by its columns."""

    would_pass: bool
    against: str


def outcome_of_change(row: DiagnosisRow) -> str:
    """Return the outcome of a change in words, from a row of the diagnosis; empty if the row only locates the risk."""
    return "yes" if row.would_pass else "" if row.against == NOT_TRIED else f"no: {row.against}"


def best_change(diagnosis: pd.DataFrame) -> pd.Series | None:
    """Return the row to recommend: suppression, which keeps every column, otherwise the fewest columns and least risk."""
    passed = diagnosis[diagnosis["would_pass"]]
    if passed.empty:
        return None
    order = [(row.kind != "suppressing", row.what.count(" and "), row.share) for row in passed.itertuples()]
    return passed.iloc[order.index(min(order))]


@dataclass(frozen=True, eq=False)
class _Remedies:
    """Evaluate changes at the coarsest node of a computation."""

    computation: NodeComputation
    keys: Callable[[str], bytes]
    columns: tuple[str, ...]
    of_members: int
    adversary: Adversary
    demands: Demands
    draws: int
    other_gates: OtherGates | None
    written: Callable[[Change], str | None]
    executor: Executor | None
    together: Mapping[str, tuple[str, ...]]

    def told(self, kind: str, what: str, share: float) -> tuple:
        """Return a row that locates the risk and recommends nothing."""
        return kind, what, share, self.demands.max_high_risk_share, 0.0, NOT_TRIED, False, ""

    def without_columns(self) -> list[tuple]:
        """Return a row for each quasi-identifier left out alone; if none passes, also for growing sets of them."""
        alone = dict.fromkeys(self._with(column) for column in self.columns)
        rows = [self._row(Change(columns), self._share(Change(columns))) for columns in alone if self._may_go(columns)]
        gone: tuple[str, ...] = ()
        while not any(row[6] for row in rows) and not self.demands.never:
            # Greedy, because evaluating all sets of columns would take too long.
            more = [tuple(dict.fromkeys((*gone, *self._with(column)))) for column in self.columns if column not in gone]
            more = [columns for columns in dict.fromkeys(more) if self._may_go(columns)]
            more = [columns for columns in more if self.written(Change(columns)) is not None]
            if not more:
                break
            shares = [self._share(Change(columns)) for columns in more]
            nearest = int(
                np.argmin([self._excess(Change(columns), share) for columns, share in zip(more, shares, strict=True)])
            )
            gone = more[nearest]
            rows += [self._row(Change(gone), shares[nearest])] if gone not in alone else []
        return rows

    def more_suppression(self, share: float) -> tuple:
        """Return the row for more suppressed members: as few as suffice, and more than the policy allows."""
        row = ("suppressing", "flagged members", share, self.demands.max_high_risk_share)
        if self.demands.suppress_at_most >= _MOST_SUPPRESSED:
            return (*row, 0.0, NOT_TRIED, False, "")
        suppressed, gate = self._tried(Change(suppress_at_most=_MOST_SUPPRESSED), share)
        if gate:
            return (*row, suppressed, gate, False, "")
        # A share that a person would write, at which it is tried again: that it sufficed is no proof that it does.
        at_most = min(_MOST_SUPPRESSED, math.ceil(100 * suppressed + 0.5) / 100)
        least = Change(suppress_at_most=at_most)
        fewer, gate = self._tried(least, share)
        if at_most <= self.demands.suppress_at_most:
            return (*row, fewer, gate or ALLOWED, False, "")
        return self._offered(*row, suppressed if gate else fewer, Change(suppress_at_most=_MOST_SUPPRESSED) if gate else least)

    def _with(self, column: str) -> tuple[str, ...]:
        """Return the column and those that are left out with it, in the order of the columns."""
        leaving = {column, *self.together.get(column, ())}
        return tuple(one for one in self.columns if one in leaving)

    def _may_go(self, columns: tuple[str, ...]) -> bool:
        """Whether at least one member-level and one claim-level column remain."""
        members, claims = self.columns[: self.of_members], self.columns[self.of_members :]
        return set(members) - set(columns) != set() != set(claims) - set(columns)

    def _share(self, change: Change) -> float:
        """Return the share at high risk on few draws with nobody suppressed."""
        return self._left(change).measure((), self.keys("where the risk is"), self.draws, executor=self.executor).share

    def _excess(self, change: Change, share: float) -> float:
        """Return how far the change is from passing: the sum of the relative excesses over the limits."""
        gates = self._gates_left(change)
        return max(0.0, share / self.demands.max_high_risk_share - 1) + (gates.excess(()) if gates else 0.0)

    def _row(self, change: Change, share: float) -> tuple:
        suppressed, gate = self._tried(change, share)
        row = ("without", " and ".join(change.without), share, self.demands.max_high_risk_share)
        return (*row, suppressed, gate, False, "") if gate else self._offered(*row, suppressed, change)

    def _offered(self, kind: str, what: str, share: float, threshold: float, suppressed: float, change: Change) -> tuple:
        """Return the row of a change that passed; it is recommended only if a policy can express it."""
        text = self.written(change)
        if text is None:
            return kind, what, share, threshold, suppressed, NOT_A_POLICY, False, ""
        return kind, what, share, threshold, suppressed, "", True, text

    def _tried(self, change: Change, share: float) -> tuple[float, str]:
        """Return the share of suppressed sampled members, and the gate that fails under the change; empty if it passes.

        Parameters
        ----------
        share
            Share at high risk on few draws with nobody suppressed; it identifies hopeless changes.
        """
        demands = self.demands
        at_most = demands.suppress_at_most if change.suppress_at_most is None else change.suppress_at_most
        if demands.never:
            return 0.0, demands.never
        if share > demands.max_high_risk_share + at_most:
            return 0.0, HIGH_RISK
        found, passed_over, _ = choose_generalization(
            self._left(change), [()] if share <= demands.max_high_risk_share else [], [()], self.adversary,
            lambda name: self.keys(f"tried: {name}"), demands.max_high_risk_share, demands.draws, demands.confidence, at_most,
            demands.aim, self.executor, self._gates_left(change), worst_class_at_most=demands.worst_class_at_most,
        )  # fmt: skip
        return (float(found[0].suppressed.mean()), "") if found else (0.0, passed_over.get((), HIGH_RISK))

    @cached_property
    def _data(self) -> LongitudinalData:
        return _at_top(self.computation)

    def _left(self, change: Change) -> NodeComputation:
        """Return the coarsest node as a lattice of one node, without the removed columns."""
        data, computation = self._data, self.computation
        members, claims = self._places(change)
        own = LongitudinalData(
            data.demographics[:, members], tuple(data.demographic_domains[i] for i in members),
            tuple(data.held[h] for h in claims), tuple(data.history_domains[h] for h in claims),
            data.targets, tuple(data.known[h] for h in claims), tuple(data.power[h] for h in claims),
        )  # fmt: skip
        return NodeComputation(own, (), computation.k, extract=computation.extract)

    def _gates_left(self, change: Change) -> OtherGates | None:
        if self.other_gates is None:
            return None
        members, _ = self._places(change)
        top = self.computation.top.demographics
        domains = self.computation.data.demographic_domains
        delivered = np.stack([domains[i].levels[top[i]][self.other_gates.delivered[:, i]] for i in members], axis=1)
        gates = replace(self.other_gates, data=self._left(change).data, dimensions=(), delivered=delivered)
        if gates.claim_bins is None or len(members) == self.of_members:
            return gates
        # Under the changed policy claims are truncated within fewer, larger classes: bins too small now may merge.
        classes = np.unique(delivered, axis=0, return_inverse=True)[1].reshape(-1)
        joined = truncate_within_classes(gates.claim_bins, classes, 1, gates.class_size_at_least, self.keys("bins cut again"))
        return replace(gates, claim_bins=joined)

    def _places(self, change: Change) -> tuple[list[int], list[int]]:
        """Return the positions of the remaining member-level and claim-level columns."""
        left = [number for number, column in enumerate(self.columns) if column not in change.without]
        of_members = self.of_members
        return [n for n in left if n < of_members], [n - of_members for n in left if n >= of_members]


def _at_top(computation: NodeComputation) -> LongitudinalData:
    """Return the data with every value replaced by its coarsest class; finer levels are not needed and cost bit-sets."""
    data, top = computation.data, computation.top
    demographics = [domain.levels[level] for domain, level in zip(data.demographic_domains, top.demographics, strict=True)]
    histories = [domain.levels[level] for domain, level in zip(data.history_domains, top.histories, strict=True)]

    def recoded(all_values: Sequence[Histories]) -> tuple[Histories, ...]:
        return tuple(Histories(v.offsets, codes[v.codes]) for v, codes in zip(all_values, histories, strict=True))

    def domains(of: Sequence[np.ndarray]) -> tuple[Domain, ...]:
        return tuple(Domain((np.arange(int(codes.max(initial=-1)) + 1),)) for codes in of)

    coded = np.stack([codes[data.demographics[:, i]] for i, codes in enumerate(demographics)], axis=1)
    return LongitudinalData(
        coded, domains(demographics), recoded(data.held), domains(histories), data.targets, recoded(data.known), data.power
    )


def _one_level_coarser(computation: NodeComputation, columns: Sequence[str]) -> Iterator[tuple[str, NodeComputation]]:
    """Yield, for each column with more than two classes at the coarsest node, a lattice with one coarser level."""
    data = _at_top(computation)
    of_members = len(data.demographic_domains)
    for place, column in enumerate(columns):
        domains = [*data.demographic_domains, *data.history_domains]
        size = domains[place].sizes[0]
        if size < 3:
            continue
        domains[place] = Domain((np.arange(size), np.arange(size) // 2))
        own = replace(data, demographic_domains=tuple(domains[:of_members]), history_domains=tuple(domains[of_members:]))
        moved: tuple[tuple[int, ...], tuple[int, ...]] = ((place,), ()) if place < of_members else ((), (place - of_members,))
        yield column, NodeComputation(own, (Dimension(column, *moved, 2),), computation.k, extract=computation.extract)

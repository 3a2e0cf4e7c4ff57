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
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Protocol

import numpy as np
import pandas as pd

from deid_assets.methods.kernel.node_computation import NodeComputation
from deid_assets.methods.lattice.candidate_gates import OtherGates
from deid_assets.methods.lattice.choice import HIGH_RISK, Judge, choose_generalization
from deid_assets.methods.lattice.members_needed import members_needed
from deid_assets.methods.long_tail.number_of_claims import truncate_within_classes
from deid_assets.methods.population.longitudinal_data import Dimension, Domain, Histories, LongitudinalData, top_node
from deid_assets.methods.statistics.numbering import numbered_together

COLUMNS = ("kind", "what", "share", "threshold", "suppressed", "against", "would_pass", "change")
_CLAIM_BANDS = ((1, 1), (2, 5), (6, 20), (21, 100), (101, None))
_MOST_SUPPRESSED = 0.2  # beyond it the release is no longer a random sample of the members
NOT_TRIED = "not tried"
NOT_A_POLICY = "no policy can say it"
ALLOWED = "already allowed"


@dataclass(frozen=True)
class PolicyChange:
    """A policy change: quasi-identifiers that are left out, or the share of sampled members that may be suppressed."""

    without: tuple[str, ...] = ()
    suppress_at_most: float | None = None


@dataclass(frozen=True)
class Columns:
    """Names of the quasi-identifiers.

    Attributes
    ----------
    members, claims
        In the order of the data.
    together
        The columns that are left out with a column, because no policy has them without it.
    """

    members: Sequence[str]
    claims: Sequence[str]
    together: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @property
    def all(self) -> tuple[str, ...]:
        """Those of members, then those of claims."""
        return (*self.members, *self.claims)


def diagnose(
    judge: Judge,
    columns: Columns,
    draws: int,
    written: Callable[[PolicyChange], str | None] = lambda change: "",
    never: str = "",
) -> pd.DataFrame:
    """Locate the risk of the coarsest node, and evaluate changes that would remove it.

    Parameters
    ----------
    draws
        Number of draws for rows that locate the risk; changes are evaluated with `judge.demands.draws`.
    written
        Returns the policy text for a change; None if no policy can express it.
    never
        A gate that fails for every change because it does not depend on the node; empty for none.

    Returns
    -------
    pandas.DataFrame
        kind ('as it is', 'coarser', 'without', 'members with', 'suppressing', 'population'), what, share (of draws at high
        risk before suppression; for kinds of members, of their own draws), threshold (MaxSup), suppressed (share of sampled
        members suppressed if the change passed), against (the gate that fails under the change; empty if it passed),
        would_pass, change (policy text; empty if it did not pass).
    """
    computation, demands = judge.computation, judge.demands
    remedies = _Remedies(judge, columns, draws, written, never)
    top, stream_key = top_node(computation.dimensions), judge.keys("where the risk is")
    found = computation.measure(top, stream_key, draws)
    rows = [remedies.told("as it is", "coarsest node", found.share)]
    for column, coarser in _one_level_coarser(computation, columns.all):
        share = coarser.measure(top_node(coarser.dimensions), stream_key, draws).share
        rows.append(remedies.told("coarser", column, share))
    rows += remedies.without_columns()

    classes = computation.drawn_classes(top, stream_key, draws, exemption="once")
    at_risk = ~classes.exempt & (classes.sizes < computation.k)
    claims = judge.adversary.claims[classes.targets]
    for low, high in _CLAIM_BANDS:
        own = (claims >= low) & (claims <= (high if high is not None else claims.max(initial=low)))
        if own.any():
            text = f"{low} claim" if low == high == 1 else f"{low} to {high} claims" if high else f"over {low - 1} claims"
            rows.append(remedies.told("members with", text, float(at_risk[own].mean())))
    if found.share > demands.max_high_risk_share and (
        needed := members_needed(computation, judge.keys, demands.suppress_at_most, demands.max_high_risk_share)
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

    judge: Judge
    columns: Columns
    draws: int
    written: Callable[[PolicyChange], str | None]
    never: str

    def told(
        self,
        kind: str,
        what: str,
        share: float,
        tried: tuple[float, str] = (0.0, NOT_TRIED),
        change: PolicyChange | None = None,
    ) -> tuple:
        """Return a row that locates the risk, or the outcome of a change: what it suppresses, and the gate that it fails."""
        suppressed, against = tried
        text = "" if against or change is None else self.written(change)
        if text is None:
            against, text = NOT_A_POLICY, ""
        return kind, what, share, self.judge.demands.max_high_risk_share, suppressed, against, not against, text

    def without_columns(self) -> list[tuple]:
        """Return a row for each quasi-identifier left out alone; if none passes, also for growing sets of them."""
        alone = dict.fromkeys(self._with(column) for column in self.columns.all)
        rows = [
            self._row(PolicyChange(columns), self._share(PolicyChange(columns))) for columns in alone if self._may_go(columns)
        ]
        gone: tuple[str, ...] = ()
        while not any(row[6] for row in rows) and not self.never:
            # Greedy, because evaluating all sets of columns would take too long.
            more = [tuple(dict.fromkeys((*gone, *self._with(column)))) for column in self.columns.all if column not in gone]
            more = [columns for columns in dict.fromkeys(more) if self._may_go(columns)]
            more = [columns for columns in more if self.written(PolicyChange(columns)) is not None]
            if not more:
                break
            shares = [self._share(PolicyChange(columns)) for columns in more]
            nearest = int(
                np.argmin([self._excess(PolicyChange(columns), share) for columns, share in zip(more, shares, strict=True)])
            )
            gone = more[nearest]
            rows += [self._row(PolicyChange(gone), shares[nearest])] if gone not in alone else []
        return rows

    def more_suppression(self, share: float) -> tuple:
        """Return the row for more suppressed members: as few as suffice, and more than the policy allows."""
        row, allowed = partial(self.told, "suppressing", "flagged members", share), self.judge.demands.suppress_at_most
        if allowed >= _MOST_SUPPRESSED:
            return row()
        most = PolicyChange(suppress_at_most=_MOST_SUPPRESSED)
        suppressed, gate = self._tried(most, share)
        if gate:
            return row((suppressed, gate))
        # A share that a person would write, at which it is tried again: that it sufficed is no proof that it does.
        at_most = min(_MOST_SUPPRESSED, math.ceil(100 * suppressed + 0.5) / 100)
        least = PolicyChange(suppress_at_most=at_most)
        fewer, gate = self._tried(least, share)
        if at_most <= allowed:
            return row((fewer, gate or ALLOWED))
        return row((suppressed, ""), most) if gate else row((fewer, ""), least)

    def _with(self, column: str) -> tuple[str, ...]:
        """Return the column and those that are left out with it, in the order of the columns."""
        leaving = {column, *self.columns.together.get(column, ())}
        return tuple(one for one in self.columns.all if one in leaving)

    def _may_go(self, columns: tuple[str, ...]) -> bool:
        """Whether at least one member-level and one claim-level column remain."""
        return set(self.columns.members) - set(columns) != set() != set(self.columns.claims) - set(columns)

    def _share(self, change: PolicyChange) -> float:
        """Return the share at high risk on few draws with nobody suppressed."""
        return self._left(change).measure((), self.judge.keys("where the risk is"), self.draws).share

    def _excess(self, change: PolicyChange, share: float) -> float:
        """Return how far the change is from passing: the sum of the relative excesses over the limits."""
        gates = self._gates_left(change)
        return max(0.0, share / self.judge.demands.max_high_risk_share - 1) + (gates.excess(()) if gates else 0.0)

    def _row(self, change: PolicyChange, share: float) -> tuple:
        return self.told("without", " and ".join(change.without), share, self._tried(change, share), change)

    def _tried(self, change: PolicyChange, share: float) -> tuple[float, str]:
        """Return the share of suppressed sampled members, and the gate that fails under the change; empty if it passes.

        Parameters
        ----------
        share
            Share at high risk on few draws with nobody suppressed; it identifies hopeless changes.
        """
        judge, demands = self.judge, self.judge.demands
        at_most = demands.suppress_at_most if change.suppress_at_most is None else change.suppress_at_most
        if self.never:
            return 0.0, self.never
        if share > demands.max_high_risk_share + at_most:
            return 0.0, HIGH_RISK
        changed = Judge(
            self._left(change),
            judge.adversary.knowing(self._places(change)[1]),
            lambda name: judge.keys(f"tried: {name}"),
            replace(demands, suppress_at_most=at_most),
            self._gates_left(change),
        )
        found, passed_over, _ = choose_generalization(changed, [()] if share <= demands.max_high_risk_share else [], [()])
        return (float(found[0].suppressed.mean()), "") if found else (0.0, passed_over.get((), HIGH_RISK))

    @cached_property
    def _data(self) -> LongitudinalData:
        return _at_top(self.judge.computation)

    def _left(self, change: PolicyChange) -> NodeComputation:
        """Return the coarsest node as a lattice of one node, without the removed columns."""
        data, (members, claims) = self._data, self._places(change)
        own = LongitudinalData(
            data.demographics[:, members], tuple(data.demographic_domains[i] for i in members),
            tuple(data.held[h] for h in claims), tuple(data.history_domains[h] for h in claims),
            data.targets, tuple(data.known[h] for h in claims), tuple(data.power[h] for h in claims),
            knows=data.knows.of(claims),
        )  # fmt: skip
        return self.judge.computation.over(own, ())

    def _gates_left(self, change: PolicyChange) -> OtherGates | None:
        other_gates, computation = self.judge.other_gates, self.judge.computation
        if other_gates is None:
            return None
        members, _ = self._places(change)
        top, domains = computation.top.demographics, computation.data.demographic_domains
        columns = [domains[i].levels[top[i]][other_gates.delivered[:, i]] for i in members]
        delivered = np.stack(columns, axis=1)
        gates = replace(other_gates, data=self._left(change).data, dimensions=(), delivered=delivered)
        if gates.claim_bins is None or len(members) == len(self.columns.members):
            return gates
        # Under the changed policy claims are truncated within fewer, larger classes: bins too small now may merge.
        classes = numbered_together(columns)
        key = self.judge.keys("bins cut again")
        none_is_told = not gates.claim_bins[gates.sampled].all()
        joined = truncate_within_classes(gates.claim_bins, classes, 1, gates.class_size_at_least, key, none_is_told)
        return replace(gates, claim_bins=joined)

    def _places(self, change: PolicyChange) -> tuple[list[int], list[int]]:
        """Return the positions of the remaining member-level and claim-level columns."""
        members, claims = (
            [number for number, column in enumerate(columns) if column not in change.without]
            for columns in (self.columns.members, self.columns.claims)
        )
        return members, claims


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
        coded, domains(demographics), recoded(data.held), domains(histories), data.targets, recoded(data.known), data.power,
        knows=data.knows,
    )  # fmt: skip


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
        yield column, computation.over(own, (Dimension(column, *moved, 2),))

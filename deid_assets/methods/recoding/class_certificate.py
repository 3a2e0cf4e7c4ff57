"""A certificate that levels by class lose little more than need be, verified without data (methods#recoding-by-class).

It holds the candidates of each demographic class with their estimated shares and losses, and the choice. `problems` solves the
linear relaxation again: no choice among these candidates within the budget loses less than its bound.

It bounds the loss given the estimates only: shares are estimated from draws, and a candidate's true share may differ. It holds
for one member-level node and for the candidates listed, which the search took from the lower convex hulls of all claim-level
nodes on other draws; other member-level nodes, and nodes off those hulls, are not ruled out. Whether the release is safe is no
part of it: that is measured on the recoded data, on fresh draws.
"""

import math
from dataclasses import dataclass, replace

import numpy as np

from deid_assets.methods.lattice.predictive_tagging import node_text
from deid_assets.methods.recoding.knapsack import Candidates, relaxation
from deid_assets.methods.recoding.recoded_data import Node

CANDIDATES_AT_MOST = 200_000
"""Largest number of candidates that is checked, because a malicious certificate could try to exhaust memory."""

MEMBERS_TO_TELL = 100
"""Classes with fewer released members are published without their numbers."""

SHARE_STEP = 1e-5
"""Step to which published shares of random draws are rounded down."""

_ROUND_OFF = 1e-9


@dataclass(frozen=True)
class ClassCandidate:
    """Levels that a class could have.

    Attributes
    ----------
    levels
        Of the claim-level dimensions, in order.
    share
        What the class then adds to the share of the release at high risk: its part of the members times its own share.
    loss
        What it adds to the loss.
    """

    levels: Node
    share: float
    loss: float


@dataclass(frozen=True)
class ChoiceOfClass:
    """The candidates of one class, and its choice.

    Attributes
    ----------
    codes
        The class: its demographic codes at the member-level node.
    candidates
        Its candidates; only the chosen one, with neither share nor loss, if its numbers are not told.
    chosen
        Position of the chosen one.
    members
        Its released members; None in a certificate to be published.
    """

    codes: Node
    candidates: tuple[ClassCandidate, ...]
    chosen: int
    members: int | None = None

    @property
    def choice(self) -> ClassCandidate:
        """The chosen candidate."""
        return self.candidates[self.chosen]


@dataclass(frozen=True)
class ClassCertificate:
    """The chosen levels of every class, and the bound on the loss of any other choice.

    Attributes
    ----------
    dimensions, heights
        Names of the claim-level dimensions, and the highest level of each.
    member_node
        The member-level node: levels of all dimensions of the lattice, 0 for claim-level ones.
    budget
        Largest sum of shares of a choice.
    classes
        The classes with released members.
    member_loss
        Loss of the member-level node, part of the loss of every choice.
    untold_loss
        Loss of the classes whose numbers are not told, together; 0 if there is none.
    most_loss
        Loss of the coarsest node: 1 if losses are parts of it.
    loss
        Loss of the choice.
    bound
        No choice loses less, by the linear relaxation over the candidates; `untold_loss` is not in it.
    at_least
        Levels of the claim-level dimensions below which no class of the release stays; empty: of the lowest. If any is above 0,
        the release is coarser than the choice: a further measurement refused the choice itself.
    step
        0 if losses are exact; otherwise each is rounded to the nearest multiple of it, and `untold_loss` up.

    Examples
    --------
    One class, which can afford the coarser of two levels only:

    >>> finer, coarser = ClassCandidate((0,), 0.02, 0.0), ClassCandidate((1,), 0.0, 0.5)
    >>> proof = ClassCertificate(
    ...     ("place",), (1,), (2, 0), 0.01, (ChoiceOfClass((0,), (finer, coarser), 1),), 0.25, 0.0, 1.0, 0.75, 0.5)
    >>> proof.problems(), proof.gap
    ([], 0.25)
    >>> replace(proof, bound=0.75).problems()
    ['the bound is not that of the linear relaxation']
    """

    dimensions: tuple[str, ...]
    heights: tuple[int, ...]
    member_node: Node
    budget: float
    classes: tuple[ChoiceOfClass, ...]
    member_loss: float
    untold_loss: float
    most_loss: float
    loss: float
    bound: float
    step: float = 0.0
    at_least: Node = ()

    @property
    def gap(self) -> float:
        """How much less than the choice another could lose, at most, given the estimates and apart from `tolerance`."""
        return max(0.0, self.loss - self.bound)

    @property
    def tolerance(self) -> float:
        """How much larger than `gap` the gap of the exact numbers may be; half of it bounds the error of `loss`."""
        # Half a step for each class and the member-level node, in the loss and again in the bound; a step for what is untold.
        return self.step * (len(self.classes) + 2)

    @property
    def share(self) -> float:
        """The estimated share at high risk of the choice."""
        return math.fsum(own.choice.share for own in self.classes)

    def with_bound(self) -> "ClassCertificate":
        """Return the certificate with `loss` and `bound` computed.

        Raises
        ------
        ValueError
            If no choice among the candidates is within the budget.
        """
        bound = self._bound()
        if bound is None:
            raise ValueError("no choice among the candidates is within the budget")
        return replace(self, loss=self._loss(), bound=bound)

    def problems(self) -> list[str]:
        """Return the defects of the proof; empty if it holds. Classes are named by their codes."""
        found = self._malformed()
        if found:
            return found
        found += [
            f"shares and losses do not fit together in a class: {node_text(own.codes)}"
            for own in self.classes
            if not _fits_together(own)
        ]
        if self.share > self.budget * (1 + _ROUND_OFF):
            found.append("the choice exceeds the budget")
        if not _same(self.loss, self._loss()):
            found.append("the loss is not the sum of its parts")
        bound = self._bound()
        if bound is None or not _same(self.bound, bound):
            found.append("the bound is not that of the linear relaxation")
        elif self.loss < self.bound - _ROUND_OFF * max(1.0, self.bound):
            found.append("the choice loses less than the bound")
        return found

    def rounded(self, step: float, hide_counts: bool) -> "ClassCertificate":
        """Return what may be published: rounded parts of the largest loss, and small classes without numbers.

        Shares are rounded down, and small classes count as free of risk and loss in the bound. Both only lower it. What rounded
        losses may hide is in `tolerance`.

        Parameters
        ----------
        step
            Step of losses (`lattice.certificate.rounding_step`).
        hide_counts
            Whether shares count people. If so, they are rounded down to multiples of `step` as well; shares of random draws
            are rounded down to `SHARE_STEP`.

        Examples
        --------
        >>> few = ChoiceOfClass((1,), (ClassCandidate((0,), 0.004, 0.0), ClassCandidate((1,), 0.0, 0.1)), 1, members=4)
        >>> many = replace(few, codes=(2,), members=400)
        >>> exact = ClassCertificate(("place",), (1,), (2, 0), 0.001, (few, many), 0.0, 0.0, 2.0, 0.2, 0.0).with_bound()
        >>> public = exact.rounded(0.02, hide_counts=False)
        >>> public.classes[0].candidates, public.classes[1].choice.loss, public.untold_loss, public.problems()
        ((ClassCandidate(levels=(1,), share=0.0, loss=0.0),), 0.04, 0.06, [])
        """
        most = self.most_loss or 1.0
        share_step = step if hide_counts else SHARE_STEP

        def told(own: ChoiceOfClass) -> ChoiceOfClass:
            if own.members is not None and own.members < MEMBERS_TO_TELL:
                return ChoiceOfClass(own.codes, (ClassCandidate(own.choice.levels, 0.0, 0.0),), 0)
            rounded = tuple(
                ClassCandidate(one.levels, _down(one.share, share_step), _near(one.loss / most, step)) for one in own.candidates
            )
            return replace(own, candidates=rounded, members=None)

        untold = [own.choice.loss for own in self.classes if own.members is not None and own.members < MEMBERS_TO_TELL]
        return replace(
            self,
            classes=tuple(told(own) for own in self.classes),
            member_loss=_near(self.member_loss / most, step),
            untold_loss=-_down(-(math.fsum(untold) + self.untold_loss) / most, step) if untold or self.untold_loss else 0.0,
            most_loss=1.0,
            step=step,
        ).with_bound()

    def _malformed(self) -> list[str]:
        """Return why the proof cannot be read; empty if it can."""
        if len(self.heights) != len(self.dimensions) or any(height < 0 for height in self.heights):
            return ["each dimension needs its highest level"]
        if sum(len(own.candidates) for own in self.classes) > CANDIDATES_AT_MOST:
            return [f"there are more than {CANDIDATES_AT_MOST:,} candidates"]
        if not self.classes or len({own.codes for own in self.classes}) < len(self.classes):
            return ["there is no class, or one is listed twice"]
        numbers = [self.budget, self.member_loss, self.untold_loss, self.most_loss, self.loss, self.bound, self.step]
        numbers += [number for own in self.classes for one in own.candidates for number in (one.share, one.loss)]
        if not all(math.isfinite(number) and number >= 0 for number in numbers) or self.budget >= 1 or self.step > 1:
            return ["a number is out of range"]
        if self.at_least and not self._in_lattice(self.at_least):
            return ["the levels below which no class stays do not lie in the lattice"]
        if not all(0 <= own.chosen < len(own.candidates) for own in self.classes):
            return ["a class has no choice among its candidates"]
        for own in self.classes:
            nodes = [one.levels for one in own.candidates]
            if len(set(nodes)) < len(nodes) or not all(self._in_lattice(node) for node in nodes):
                return ["a candidate is listed twice, or does not lie in the lattice"]
        return []

    def _in_lattice(self, node: Node) -> bool:
        return len(node) == len(self.heights) and all(
            0 <= level <= height for level, height in zip(node, self.heights, strict=True)
        )

    def _loss(self) -> float:
        return math.fsum([self.member_loss, self.untold_loss, *(own.choice.loss for own in self.classes)])

    def _bound(self) -> float | None:
        relaxed = relaxation(
            [
                Candidates(np.array([one.share for one in own.candidates]), np.array([one.loss for one in own.candidates]))
                for own in self.classes
            ],
            self.budget,
        )
        return None if relaxed is None else self.member_loss + relaxed.bound


def _fits_together(own: ChoiceOfClass) -> bool:
    """Whether no candidate loses less, or has a larger share, than one that is below it in the lattice."""
    levels = np.array([one.levels for one in own.candidates]).reshape(len(own.candidates), -1)
    shares, losses = (np.array([getattr(one, what) for one in own.candidates]) for what in ("share", "loss"))
    for lower, share, loss in zip(levels, shares, losses, strict=True):
        above = np.all(levels >= lower, axis=1)
        if np.any(above & ((losses < loss - _ROUND_OFF) | (shares > share + _ROUND_OFF))):
            return False
    return True


def _down(number: float, step: float) -> float:
    """Return the largest multiple of the step that does not exceed the number."""
    return round(math.floor(number / step + _ROUND_OFF) * step, 12)


def _near(number: float, step: float) -> float:
    """Return the multiple of the step nearest to the number."""
    return round(round(number / step) * step, 12)


def _same(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=_ROUND_OFF, abs_tol=_ROUND_OFF)

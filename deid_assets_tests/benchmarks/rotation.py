"""Ten yearly deliveries, released under each rule about who leaves between releases: what disappearing discloses, and costs.

python -m deid_assets_tests.benchmarks.rotation [--seed NUMBER]

Rotation, its gate and the sample size are the product's. The delivery is simulated: who is in it, and who has a condition for
which members are removed.
"""

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from deid_assets.assessments.membership_changes import Leavers, newly_sensitive, rotation_measurements
from deid_assets.methods.disclosure.absence import absence_by_class, absence_factor
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll, left_for_good, rotated
from deid_assets.methods.preparation.sampling import members_left_out, sample_size
from deid_assets.policy.loading import policy_by_name
from deid_assets.policy.models import Policy
from deid_assets_tests.benchmarks.timing import head, machine, row


@dataclass(frozen=True)
class Population:
    """What is simulated.

    Attributes
    ----------
    members, released, deliveries, classes
        Members of the first delivery, of each release, and how many deliveries and demographic classes there are.
    sensitive
        Share of members who have a condition for which they are removed when they join.
    leave, join, newly_sensitive
        Shares of the members of a delivery, each year.
    """

    members: int = 200_000
    released: int = 20_000
    deliveries: int = 10
    classes: int = 36
    sensitive: float = 0.13
    leave: float = 0.02
    join: float = 0.03
    newly_sensitive: float = 0.01


@dataclass(eq=False)
class People:
    """Everybody who was ever delivered, as (n,) arrays: class, whether still a member, and whether sensitive.

    Tags are places in these arrays; the order of the sample is random, and the same in every year.
    """

    classes: np.ndarray
    member: np.ndarray
    sensitive: np.ndarray
    order: np.ndarray

    @classmethod
    def of(cls, what: Population, random: np.random.Generator) -> "People":
        none = np.empty(0, dtype=np.int64)
        people = cls(none, none.astype(bool), none.astype(bool), none.astype(float))
        people.join(what.members, what, random)
        return people

    def join(self, number: int, what: Population, random: np.random.Generator) -> None:
        """Add members."""
        self.classes = np.append(self.classes, random.integers(what.classes, size=number))
        self.member = np.append(self.member, np.ones(number, dtype=bool))
        self.sensitive = np.append(self.sensitive, random.random(number) < what.sensitive)
        self.order = np.append(self.order, random.random(number))

    def a_year_passes(self, what: Population, random: np.random.Generator) -> None:
        """Some leave, some have a new sensitive condition, and some join."""
        number = int(self.member.sum())
        self.member &= random.random(len(self.member)) >= what.leave
        self.sensitive |= random.random(len(self.member)) < what.newly_sensitive
        self.join(round(what.join * number), what, random)

    def roll(self, released: np.ndarray) -> Roll:
        """The roll of a delivery, as the product keeps it."""
        kind = np.where(released, self.classes, NOT_RELEASED)
        kind = np.where(self.sensitive, REMOVED, kind)
        tags = np.flatnonzero(self.member)
        return Roll(tags.astype(np.uint64), kind[tags].astype(np.int32))


Rule = Callable[[People, list[np.ndarray], np.random.Generator], np.ndarray]
"""(n,) bool of people: who may not be released this year, by the members of earlier releases."""


def no_rule(people: People, released: list[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """Everybody eligible may be released."""
    return np.zeros(len(people.member), dtype=bool)


def fresh_sample(people: People, released: list[np.ndarray], random: np.random.Generator) -> np.ndarray:
    """Everybody eligible may be released, and other members are drawn each year."""
    people.order = random.random(len(people.order))
    return no_rule(people, released, random)


def padding(at_most: float) -> Rule:
    """In each class, as many more leave as make the newly removed a small enough share of those who are missing."""

    def out(people: People, released: list[np.ndarray], random: np.random.Generator) -> np.ndarray:
        found = _of(people, left_for_good([released]))
        last = _of(people, released[-1]) if released else found
        gone = last & ~(people.member & ~people.sensitive)
        classes = int(people.classes.max()) + 1
        missing, removed = (np.bincount(people.classes[who], minlength=classes) for who in (gone, gone & people.member))
        wanted = np.maximum(np.ceil(removed / at_most - missing), 0)
        # Those who have to leave are the first of their class in an order drawn for this year.
        could = np.flatnonzero(last & ~gone & ~found)
        could = could[np.lexsort((random.random(len(could)), people.classes[could]))]
        first = np.searchsorted(people.classes[could], people.classes[could])
        found[could[np.arange(len(could)) - first < wanted[people.classes[could]]]] = True
        return found

    return out


def rotation(share: float) -> Rule:
    """The product's: nobody returns, and each of the others leaves with a probability, by a hash keyed for this year."""

    def out(people: People, released: list[np.ndarray], random: np.random.Generator) -> np.ndarray:
        left = left_for_good([released])
        before = np.setdiff1d(np.unique(np.concatenate([left, *released])), left)
        return _of(people, left) | _of(people, before[rotated(before, random.bytes(32), share)])

    return out


@dataclass(eq=False)
class Result:
    """What all re-releases under a rule disclose and cost.

    Attributes
    ----------
    by_class, known, path
        (2,) each: newly removed, and all, of those missing: by class, known to be members still, and in all releases before.
    worst
        The largest posterior of any class in any year.
    left_out
        Members of the last release who could have been released again, and were not, over all years.
    ever, factor
        Share of the eligible members of the last delivery ever released, and the largest factor of absence of a class.
    gate
        What the product's gate compares with its limit, by year.
    """

    by_class: np.ndarray = field(default_factory=lambda: np.zeros(2))
    known: np.ndarray = field(default_factory=lambda: np.zeros(2))
    path: np.ndarray = field(default_factory=lambda: np.zeros(2))
    worst: float = 0.0
    left_out: int = 0
    ever: float = 0.0
    factor: float = 0.0
    gate: list[float] = field(default_factory=list)


def simulate(rule: Rule, what: Population, seed: int, policy: Policy | None = None) -> Result:
    """Release ten deliveries under a rule; the same people join, leave and fall ill whatever the rule is.

    Parameters
    ----------
    policy
        Whose gate is asked each year; None: no gate is.
    """
    of_people, of_rule = np.random.default_rng(seed), np.random.default_rng([seed, 1])
    people, result, released = People.of(what, of_people), Result(), list[np.ndarray]()
    for year in range(what.deliveries):
        if year:
            people.a_year_passes(what, of_people)
        out = rule(people, released, of_rule)
        own = _drawn(people, out, what.released, of_rule)
        tags = np.flatnonzero(own).astype(np.uint64)
        if released:
            _count(result, people, released, own)
            result.left_out += int((_of(people, released[-1]) & people.member & ~people.sensitive & out).sum())
        if released and policy is not None:
            left = left_for_good([released])
            before = np.setdiff1d(np.unique(np.concatenate(released)), left)
            found = newly_sensitive(policy, Leavers(left, before, left[:0]), people.roll(own))
            result.gate.append(rotation_measurements(policy, found)[0].value)
        released.append(tags)
    ever = _of(people, np.unique(np.concatenate(released)))
    member, may = people.member, ~people.sensitive
    absent = absence_by_class(people.classes[member], may[member], ever[member], ~may[member])
    result.ever, result.factor = float(absent.released.sum() / absent.eligible.sum()), absent.largest
    return result


def _drawn(people: People, out: np.ndarray, size: int, random: np.random.Generator) -> np.ndarray:
    """(n,) bool: the first of the eligible who may be released, less some left out at random, as the product draws them."""
    could = np.flatnonzero(people.member & ~people.sensitive & ~out)
    size = sample_size(int(people.member.sum()), len(could), size, None, random.bytes(32))
    left_out = members_left_out(size, len(could), random.bytes(32))
    first = could[np.argsort(people.order[could])][: size + left_out]
    own = np.zeros(len(out), dtype=bool)
    own[random.permutation(first)[left_out:]] = True
    return own


def _count(result: Result, people: People, released: list[np.ndarray], own: np.ndarray) -> None:
    """Add what those who are missing from a release disclose, who were in the last one, or in all before."""
    last, always = _of(people, released[-1]), np.logical_and.reduce([_of(people, tags) for tags in released])
    missing, removed = ~own, people.member & people.sensitive
    for counts, who in (
        (result.by_class, last & missing),
        (result.known, last & missing & people.member),
        (result.path, always & missing & people.member),
    ):
        counts += (who & removed).sum(), who.sum()
    of_class, gone = (np.bincount(people.classes[last & missing & who], minlength=1) for who in (removed, missing))
    of_class = np.append(of_class, np.zeros(len(gone) - len(of_class), dtype=int))
    result.worst = max(result.worst, float((of_class[gone > 0] / gone[gone > 0]).max(initial=0.0)))


def _of(people: People, tags: np.ndarray) -> np.ndarray:
    """(n,) bool of people: who has one of these tags."""
    found = np.zeros(len(people.member), dtype=bool)
    found[tags.astype(np.int64)] = True
    return found


def rows(what: Population, seed: int) -> list[tuple[str, Result]]:
    """Each rule by name, with what it gives."""
    shipped = policy_by_name("heritage_public")
    return [
        ("no rule", simulate(no_rule, what, seed)),
        ("fresh sample", simulate(fresh_sample, what, seed)),
        ("padding to .15", simulate(padding(0.15), what, seed)),
        *(
            (f"rotation {share:g}", simulate(rotation(share), what, seed, shipped.model_copy(update={"rotation": share})))
            for share in sorted({0.0572, shipped.rotation or 0.0572})
        ),
    ]


def table(what: Population, seed: int) -> None:
    """Print the table."""
    limit = policy_by_name("heritage_public").removal.change_posterior_at_most
    head(
        "rule", "pooled by class", "worst class", "known to be a member", "in all releases", "left out", "ever released",
        "average factor of absence", "largest", f"gate, largest (limit {limit:g})",
    )  # fmt: skip
    for name, found in rows(what, seed):
        by_class, known, path = (f"{removed / number:.3f}" for removed, number in (found.by_class, found.known, found.path))
        refused = sum(value > limit for value in found.gate)
        gate = "" if not found.gate else f"{max(found.gate):.4f}: {refused} of {len(found.gate)} refused"
        row(
            name, by_class, f"{found.worst:.3f}", known, path, f"{found.left_out:,}", f"{found.ever:.3f}",
            f"{absence_factor(found.ever):.3f}", f"{found.factor:.3f}", gate,
        )  # fmt: skip


def main() -> None:
    """Print the table of one seed, with the machine."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seed", type=int, default=1)
    asked = parser.parse_args()
    print(f"{machine()}\n", flush=True)
    table(Population(), asked.seed)


if __name__ == "__main__":
    main()

"""The sensitivity analysis by brute force: claims as tuples, loops and counters; no NumPy, no code of the product.

A member is his demographics and two lists of claims, delivered and kept; a claim is (values, year, day), None where
something is missing. Knowledge is what one adversary knows: per quasi-identifier a list of values, and facts.
"""

from collections import Counter
from dataclasses import dataclass, field, replace
from fractions import Fraction
from itertools import combinations, product


@dataclass(frozen=True)
class Member:
    """Released member: what may be known of him (D1), what is released (D2), and the power against him."""

    demographics: tuple[int, ...]
    known: tuple[tuple, ...]
    held: tuple[tuple, ...]
    power: tuple[int, ...]


@dataclass(frozen=True)
class Knowledge:
    """Values per quasi-identifier; values with their years; years; a claim known jointly; orders (h, first, then).

    `bins`: of the number of released claims, in all or by year, and their width.
    """

    values: tuple[tuple, ...]
    dated: tuple[tuple, ...] | None = None
    years: tuple[int, ...] = ()
    claim: tuple | None = None
    orders: tuple[tuple, ...] = field(default=())
    bins: tuple[str, int, dict] | None = None


def fits(knowledge: Knowledge, demographics, member: Member) -> bool:
    """Whether a released record agrees with all that is known."""
    if member.demographics != demographics:
        return False
    for h, values in enumerate(knowledge.values):
        if Counter(values) - Counter(claim[0][h] for claim in member.held):
            return False
    for h, values in enumerate(knowledge.dated or ()):
        if Counter(values) - Counter((claim[0][h], claim[1]) for claim in member.held):
            return False
    if knowledge.bins is not None and knowledge.bins != bins_of(member, *knowledge.bins[:2]):
        return False
    if Counter(knowledge.years) - Counter(claim[1] for claim in member.held):
        return False
    # A blank is no knowledge, and a claim of blanks is none.
    known = knowledge.claim and set(knowledge.claim) != {None}
    if known and not any(like(knowledge.claim, claim[0]) for claim in member.held):
        return False
    return all(
        any(
            one[0][h] == first and other[0][h] == then and may_precede(one, other)
            for one in member.held
            for other in member.held
        )
        for h, first, then in knowledge.orders
    )


def bins_of(member: Member, knows: str, width: int) -> tuple[str, int, dict]:
    """How many claims are released, in bins of so many numbers: in all, or of each year, where there are any."""
    counts = Counter("all" if knows == "number" else claim[1] for claim in member.held)
    return knows, width, {year: (number - 1) // width for year, number in counts.items()}


def like(known_values, values) -> bool:
    """Whether a claim agrees with a known one wherever that one is not blank."""
    return all(known is None or known == value for known, value in zip(known_values, values, strict=True))


def may_precede(one, other) -> bool:
    """By year, then day; a missing day may be any, a missing year any time, and a tie is consistent."""
    if None in (one[1], other[1]):
        return True
    if one[1] != other[1]:
        return one[1] < other[1]
    return one[2] is None or other[2] is None or one[2] <= other[2]


def class_of(knowledge: Knowledge, target: Member, members) -> tuple[bool, int]:
    """Whether the target's own record fits, and how many records do."""
    return fits(knowledge, target.demographics, target), sum(fits(knowledge, target.demographics, member) for member in members)


def success(knowledge: Knowledge, target: Member, members) -> Fraction:
    """How probable it is that the adversary picks the target."""
    matched, size = class_of(knowledge, target, members)
    return Fraction(1, size) if matched else Fraction(0)


def subsets_of_claims(claims, h, power, within=None, dated=False):
    """The claims whose value of h is known, a tuple for each equally likely choice, `within` in it if it can be.

    Where values are `dated`, a claim without a year has none.
    """
    there = [n for n, claim in enumerate(claims) if claim[0][h] is not None and not (dated and claim[1] is None)]
    if within in there:
        others = [number for number in there if number != within]
        size = max(min(power, len(there)), 1) - 1
        return [(within, *rest) for rest in combinations(others, size)]
    return list(combinations(there, min(power, len(there))))


def expected_success(members, knows: str) -> Fraction:
    """The exact success of attack 1: every target, everything that may be known, each as likely as it is drawn."""
    return sum((expected_of(target, members, knows) for target in members), Fraction(0)) / len(members)


def expected_of(target: Member, members, knows: str) -> Fraction:
    histories = range(len(target.power) - 1)  # the last is the power against the year
    claims = target.known
    starts = range(len(claims)) if knows == "claim" and claims else [None]
    total = Fraction(0)
    for start in starts:
        choices = [subsets_of_claims(claims, h, target.power[h], start, knows == "dated_values") for h in histories]
        if knows == "year":
            told = [number for number, claim in enumerate(claims) if claim[1] is not None]
            choices.append(list(combinations(told, min(target.power[-1], len(told)))))
        every = list(product(*choices))
        for chosen in every:
            options = every_knowledge(claims, chosen, histories, knows, start)
            if knows in ("number", "yearly_numbers"):
                options = [(replace(known, bins=bins_of(target, knows, 1)), weight) for known, weight in options]
            total += sum(weight * success(known, target, members) for known, weight in options) / len(every) / len(starts)
    return total


def every_knowledge(claims, chosen, histories, knows, start):
    """What the adversary may know once the claims are chosen, with its probability."""
    values = tuple(tuple(claims[number][0][h] for number in chosen[h]) for h in histories)
    if knows == "claim":
        return [(Knowledge(values, claim=claims[start][0] if start is not None else None), Fraction(1))]
    if knows == "year":
        return [(Knowledge(values, years=tuple(claims[number][1] for number in chosen[-1])), Fraction(1))]
    if knows == "dated_values":
        dated = tuple(tuple((claims[number][0][h], claims[number][1]) for number in chosen[h]) for h in histories)
        return [(Knowledge(values, dated=dated), Fraction(1))]
    if knows == "order":
        per_history = [orders_of(claims, chosen[h], h) for h in histories]
        return [
            (Knowledge(values, orders=tuple(fact for fact, _ in facts if fact is not None)), product_of(facts))
            for facts in product(*per_history)
        ]
    return [(Knowledge(values), Fraction(1))]


def product_of(facts) -> Fraction:
    weight = Fraction(1)
    for _, own in facts:
        weight *= own
    return weight


def orders_of(claims, chosen, h):
    """The facts that one pair of known values may tell, with probabilities; None where it tells nothing."""
    if len(chosen) < 2:
        return [(None, Fraction(1))]
    pairs = [(a, b) for a in chosen for b in chosen if a != b]
    found = []
    for a, b in pairs:
        one, other = claims[a], claims[b]
        untold = None in (one[1], other[1]) or (one[1] == other[1] and None in (one[2], other[2]))
        if untold or one[0][h] == other[0][h]:
            fact = None
        elif (one[1], one[2] or 0) > (other[1], other[2] or 0) if one[1] == other[1] else one[1] > other[1]:
            fact = (h, other[0][h], one[0][h])
        else:
            fact = (h, one[0][h], other[0][h])
        found.append((fact, Fraction(1, len(pairs))))
    return found

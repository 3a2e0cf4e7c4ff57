"""The node computation by brute force: dictionaries and loops, no NumPy, no code of the product.

Slow and plain on purpose. Members are `Person`s, knowledge is one `Counter` per history, classes are counted by asking
every member. The tests compare the product with this, draw for draw.
"""

from collections import Counter
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, product
from math import prod


@dataclass(frozen=True)
class Person:
    """One member: level-1 values, and per history the values delivered (D), the values kept (D') and the power p."""

    demographics: tuple[int, ...]
    known: tuple[tuple[int, ...], ...]
    held: tuple[tuple[int, ...], ...]
    power: tuple[int, ...] = ()
    released: bool = True


def generalized(values, level_map):
    """The multiset of values after generalization."""
    return Counter(level_map[value] for value in values)


def contained(knowledge, held):
    """Whether a multiset is contained in another, counts included."""
    return all(held[value] >= count for value, count in knowledge.items())


def class_size(people, target, knowledge, demographic_maps, history_maps):
    """Members who share the target's generalized demographics and hold the knowledge; the target counts itself.

    `knowledge` is a tuple with the sampled base values of every history. A map of None drops the quasi-identifier.
    """
    wanted = [
        None if level_map is None else generalized(values, level_map)
        for values, level_map in zip(knowledge, history_maps, strict=True)
    ]

    def matches(person):
        same = all(
            level_map is None or level_map[mine] == level_map[theirs]
            for level_map, mine, theirs in zip(demographic_maps, target.demographics, person.demographics, strict=True)
        )
        return same and all(
            level_map is None or contained(want, generalized(held, level_map))
            for want, held, level_map in zip(wanted, person.held, history_maps, strict=True)
        )

    return sum(matches(person) for person in people) + (not matches(target))


def exempt(target, knowledge, history_maps):
    """Whether some history's knowledge is gone from the target's own D' (methods#node-risk, step 4.b.i.2)."""
    return any(
        level_map is not None and not contained(generalized(values, level_map), generalized(held, level_map))
        for values, held, level_map in zip(knowledge, target.held, history_maps, strict=True)
    )


def flagged(people, target, knowledge, demographic_maps, history_maps, exemption_maps, k):
    """Whether one draw is at high risk."""
    if exempt(target, knowledge, exemption_maps):
        return False
    return class_size(people, target, knowledge, demographic_maps, history_maps) < k


def every_knowledge(person):
    """All the knowledge an adversary may draw about a person, equally likely."""
    per_history = [
        list(combinations(values, min(power, len(values)))) for values, power in zip(person.known, person.power, strict=True)
    ]
    return product(*per_history)


def flag_probability(people, target, demographic_maps, history_maps, exemption_maps, k):
    """The exact probability that a draw of this target is flagged."""
    draws = list(every_knowledge(target))
    hits = sum(flagged(people, target, knowledge, demographic_maps, history_maps, exemption_maps, k) for knowledge in draws)
    return Fraction(hits, len(draws))


def k_minimal_nodes(heights, passes):
    """Every node that passes while no node below it does, by asking them all."""
    nodes = list(product(*(range(height + 1) for height in heights)))
    good = [node for node in nodes if passes(node)]
    return {
        node
        for node in good
        if not any(other != node and all(a <= b for a, b in zip(other, node, strict=True)) for other in good)
    }


def number_of_nodes(heights):
    return prod(height + 1 for height in heights)

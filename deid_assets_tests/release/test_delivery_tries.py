"""Which generalizations a further try goes to, and what is refused because it was refused before."""

import pandas as pd
import pytest

from deid_assets.errors import RefusedError
from deid_assets.methods.lattice.candidate_gates import NOT_COARSER, REFUSED
from deid_assets.release.keys import Secret
from deid_assets.release.registry.delivery_tries import DeliveryTries
from deid_assets.release.registry.tries import Partitions, Sample, Tries

SECRET = Secret(b"0123456789abcdef" * 2, "environment")
CODES = {"age": [[0, 1, 2, 3], [0, 0, 1, 1], [0, 0, 0, 0]], "place": [[0, 1, 2, 3], [0, 0, 0, 1], [0, 0, 0, 1]]}
DOMAINS = pd.DataFrame(
    [
        (column, str(value), level, code)
        for column, levels in CODES.items()
        for level, codes in enumerate(levels)
        for value, code in enumerate(codes)
    ],
    columns=["quasi_identifier", "value", "level", "level_code"],
)
LATTICE = {(age, place): {"age": age, "place": place} for age in range(3) for place in range(3)}
PARTITIONS = Partitions(DOMAINS, SECRET)


class Told(DeliveryTries):
    """Tries of which the registry tells that some nodes were refused, by chance or not."""

    def read(self) -> Tries:
        refused = {PARTITIONS.digest(LATTICE[node]): by_chance for node, by_chance in self.home.items()}
        return Tries(dict.fromkeys(refused, 1), refused, len(refused))


def told(refused: dict) -> DeliveryTries:
    return Told(refused, SECRET, "a" * 64, Sample("member", 600), PARTITIONS)


def left(refused: dict) -> set:
    return set(LATTICE) - set(told(refused).not_tried_again(LATTICE, LATTICE.__getitem__))


def test_all_are_tried_while_none_was_refused_by_chance():
    assert left({}) == left({(1, 1): False}) == set(LATTICE)


def test_only_what_is_coarser_than_all_that_were_refused_by_chance_is_tried():
    assert left({(1, 0): True}) == {(1, 1), (1, 2), (2, 0), (2, 1), (2, 2)}
    assert left({(1, 0): True, (2, 0): True}) == {(2, 1), (2, 2)}
    assert told({(1, 0): True}).not_tried_again(LATTICE, LATTICE.__getitem__)[(1, 0)] == REFUSED
    assert told({(1, 0): True}).not_tried_again(LATTICE, LATTICE.__getitem__)[(0, 2)] == NOT_COARSER
    assert left({(2, 2): True}) == set()


def test_a_level_that_does_the_same_to_the_values_is_the_same_generalization():
    """Both coarser levels of place put the same values together: what was refused at one was refused at the other."""
    assert left({(1, 1): True}) == {(2, 2)}
    assert told({(1, 1): True}).not_tried_again(LATTICE, LATTICE.__getitem__)[(1, 2)] == REFUSED


@pytest.mark.parametrize("by_chance", [True, False])
def test_what_was_refused_is_not_chosen(by_chance):
    tries = told({(1, 1): by_chance})
    tries.require_not_refused(LATTICE[2, 2])
    with pytest.raises(RefusedError, match="refused before"):
        tries.require_not_refused(LATTICE[1, 2])


def test_after_three_refused_tries_nothing_is_measured_or_chosen():
    tries = told({(0, 0): True, (0, 1): True, (1, 0): True})
    for attempt in (lambda: tries.at(LATTICE[2, 2]), tries.choosing):
        with pytest.raises(RefusedError, match="refused 3 times because of what random draws measured"):
            attempt()


def test_the_gate_refuses_what_was_refused_before_and_nothing_else():
    tries = told({(1, 1): False})
    (refusal,) = tries.refusals(tries.at(LATTICE[1, 1]))
    assert refusal.rule == "refused_before" and refusal.is_judgement
    assert tries.refusals(tries.at(LATTICE[2, 2])) == []
    assert not tries.is_still(tries.at(LATTICE[1, 1])) and tries.is_still(tries.at(LATTICE[2, 2]))

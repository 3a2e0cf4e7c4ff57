"""Small populations with values that are not told, as the product's arrays and as the people of the oracle."""

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from deid_assets.methods.kernel import knowledge
from deid_assets.methods.kernel.knowledge import draw_knowledge
from deid_assets.methods.population.longitudinal_data import LongitudinalData, generalization_at, top_node
from deid_assets.methods.suppression.values import SuppressedValues, with_values_not_told
from deid_assets_tests.methods import oracle
from deid_assets_tests.methods.cases import KEY, cases, data_of, rich_case
from deid_assets_tests.methods.oracle import Person

Value = tuple[int, int, int]
"""Target, history and base code."""


@dataclass(frozen=True)
class Population:
    """People before and after values are suppressed.

    Attributes
    ----------
    people, shown
        In `shown`, a value that is not told has the code that follows the last base code.
    gone
        The suppressed values.
    missing
        (H, N) claims that lack a value.
    """

    people: list[Person]
    shown: list[Person]
    gone: frozenset[Value]
    missing: np.ndarray
    demographic_domains: tuple
    history_domains: tuple
    dimensions: tuple
    k: int

    @classmethod
    def of(cls, case, gone, missing) -> "Population":
        people, demographic_domains, history_domains, dimensions, k = case
        shown = people_shown(people, history_domains, gone, missing)
        return cls(people, shown, frozenset(gone), missing, demographic_domains, history_domains, dimensions, k)

    @property
    def before(self) -> LongitudinalData:
        """The data without suppressed values."""
        return data_of(self.people, self.demographic_domains, self.history_domains)

    @property
    def suppressed(self) -> SuppressedValues:
        columns = np.array(sorted(self.gone), dtype=np.int64).reshape(-1, 3).T
        return SuppressedValues(*columns)

    @property
    def data(self) -> LongitudinalData:
        """The data of the release, from the product."""
        return with_values_not_told(self.before, self.suppressed, self.missing)

    @property
    def released(self) -> list[Person]:
        return [person for person in self.shown if person.released]

    def maps(self, levels) -> tuple[list, list]:
        """The level maps of demographics and of histories; what is not told is its own class."""
        demographics = [
            domain.levels[at].tolist() for domain, at in zip(self.demographic_domains, levels.demographics, strict=True)
        ]
        histories = [
            None if at is None else [*domain.levels[at].tolist(), domain.sizes[at]]
            for domain, at in zip(self.history_domains, levels.histories, strict=True)
        ]
        return demographics, histories

    def top_maps(self) -> list:
        return self.maps(generalization_at(self.before, self.dimensions, top_node(self.dimensions)))[1]

    def without_not_told(self, what) -> tuple:
        """Knowledge or histories without the values that are not told."""
        sizes = [domain.sizes[0] for domain in self.history_domains]
        return tuple(tuple(code for code in codes if code != size) for codes, size in zip(what, sizes, strict=True))

    def exempt(self, who: Person, what, history_maps) -> bool:
        """Whether truncation took known values from D'; values that are not told exempt nobody."""
        told = replace(who, held=self.without_not_told(who.held))
        return oracle.exempt(told, self.without_not_told(what), history_maps)

    def flagged(self, who: Person, what, levels, exemption_maps) -> bool:
        """The definition: among all whose D' has the told values and as many that are not told; the target counts itself."""
        if self.exempt(who, what, exemption_maps):
            return False
        return oracle.class_size(self.shown, who, what, *self.maps(levels)) < self.k


def people_shown(people, history_domains, gone, missing) -> list[Person]:
    """The people of a release: suppressed values are not told in D and D', missing ones in D' only."""
    numbers = iter(range(len(people)))
    target_of = {place: next(numbers) for place, person in enumerate(people) if person.released}
    shown = []
    for place, person in enumerate(people):
        known, held = [], []
        for history, domain in enumerate(history_domains):
            instead = domain.sizes[0]

            def told(code, history=history, instead=instead, place=place):
                return instead if (target_of.get(place), history, code) in gone else code

            known.append(tuple(told(code) for code in person.known[history]))
            held.append((*(told(code) for code in person.held[history]), *[instead] * int(missing[history][place])))
        shown.append(replace(person, known=tuple(known), held=tuple(held)))
    return shown


@st.composite
def populations(draw) -> Population:
    """Some known values of some targets suppressed, and some values of anybody missing."""
    case = draw(st.one_of(cases(), st.integers(0, 2**32 - 1).map(rich_case)))
    people, _, history_domains, _, _ = case
    targets = [person for person in people if person.released]
    values = sorted(
        {(target, history, code) for target, who in enumerate(targets) for history, own in enumerate(who.known) for code in own}
    )
    generator = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    gone = [value for value in values if generator.random() < draw(st.sampled_from([0.0, 0.2, 0.5]))] if values else []
    missing = generator.integers(0, 3, (len(history_domains), len(people))) * (generator.random() < 0.7)
    return Population.of(case, gone, missing)


def draws_of(data: LongitudinalData, released: list[Person], count: int):
    """The first draws of the test's stream: targets, people and their knowledge for the oracle."""
    for start in range(0, count, knowledge.DRAWS_PER_BLOCK):
        block = draw_knowledge(data, KEY, start // knowledge.DRAWS_PER_BLOCK)
        for draw in range(min(len(block), count - start)):
            sampled = tuple(tuple(code for code in codes[:, draw].tolist() if code >= 0) for codes in block.codes)
            yield int(block.targets[draw]), released[block.targets[draw]], sampled


def multisets(histories) -> list[Counter]:
    """What each history has, whatever its order."""
    return [Counter(codes) for codes in histories]

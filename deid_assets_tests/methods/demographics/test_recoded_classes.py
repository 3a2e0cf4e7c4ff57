"""Classes of a cohort of which each state has ages of its own."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from deid_assets.methods.demographics.class_sizes import ClassCounter
from deid_assets.methods.demographics.local_recoding import classes_with_ages
from deid_assets.methods.demographics.measures import LARGEST, TOTAL, Measure
from deid_assets.methods.demographics.risk import bounded_risks, groups_by
from deid_assets_tests import examples
from deid_assets_tests.methods.demographics.small_population import small_cells

MEASURES = (TOTAL, Measure("graduated", 3), LARGEST)


@settings(max_examples=examples.of(60), deadline=None)
@given(st.data())
def test_each_state_has_the_risks_of_its_own_level(data):
    """The measured risk of a state is that of a release of everybody at the state's level, where states are published."""
    cells, *_ = data.draw(small_cells())
    demographics = cells.demographics
    states, labels = groups_by(cells, "geography", "state")
    levels = demographics.age.levels
    chosen = np.array(data.draw(st.lists(st.sampled_from(range(len(levels))), min_size=len(labels), max_size=len(labels))))
    place = data.draw(st.sampled_from(["town", "state"]))
    node = (0, 0, demographics.geography.number_of(place), 0)
    found = bounded_risks(classes_with_ages(cells, node, levels, chosen[states], states), MEASURES, len(labels), 0.99)
    for number in range(len(labels)):
        alone = bounded_risks(ClassCounter(cells, states).at((int(chosen[number]), *node[1:])), MEASURES, len(labels), 0.99)
        for own, expected in ((found.expected, alone.expected), (found.upper, alone.upper), (found.lower, alone.lower)):
            np.testing.assert_allclose(own[:, number], expected[:, number], rtol=1e-9)

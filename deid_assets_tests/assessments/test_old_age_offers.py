"""Ages over 89 in the detail that a state or an ethnicity carries, and what may be said of it."""

import pandas as pd
import pytest

from deid_assets.assessments.demographic_verdicts import (
    ETHNICITY,
    OLD_AGES,
    OTHER_STATES,
    STATE,
    Question,
    offers,
    old_ages_of,
    policy_named,
)
from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import published_alternatives, safe_harbor
from deid_assets.sources.demographics import cells_of_cohort

FIVE_YEAR = published_alternatives()[1]
OLD = {"White": 50, "Black": 1, "Other": 1}
"""People of each year of age from 90 on, of one state and sex; 20 of each year before."""


def cells(*groups):
    """A cohort of (number, age, state, race)."""
    people = pd.DataFrame(
        [
            (state, sex, race, age, age, 20 if age < 90 else OLD[race])
            for state in ("MN", "WI", "IA")
            for sex in "FM"
            for race in OLD
            for age in range(120)
        ],
        columns=["state", "sex", "race", "age_from", "age_to", "people"],
    )
    rows = [(age, "F", state, race) for number, age, state, race in groups for _ in range(number)]
    return cells_of_cohort(pd.DataFrame(rows, columns=["age", "sex", "state", "race"]), people, tuple(OLD))[0]


KNOWN = ((12, 40, "MN", "White"), (2, 95, "MN", "White"), (12, 40, "MN", "Black"), (1, 95, "MN", "Black"))
"""Whites: 12/20 + 2/1500 under Safe Harbor, 12/100 + 2/50 with single years of old age. Blacks: 12/20 + 1/30; 12/100 + 1/1 with
single years, 12/100 + 1/5 by five."""


def test_an_ethnicity_shows_what_it_carries():
    found = old_ages_of(cells(*KNOWN), Question(), FIVE_YEAR, ETHNICITY)
    assert found.possible and found.levels == {"white": "1 year", "black": "5 years"}


def test_a_state_shows_what_all_of_it_carries():
    """12/20 + 2/1500 + 12/20 + 1/30 = 1.2347 against 24/100 + 2/50 + 1/1 = 1.28 and 24/100 + 2/250 + 1/5."""
    assert old_ages_of(cells(*KNOWN), Question(), FIVE_YEAR, STATE).levels == {"MN": "5 years"}


def test_an_ethnicity_must_be_no_riskier_in_every_state():
    """Whites of Iowa have no young people who make up for finer old ages."""
    found = old_ages_of(cells(*KNOWN, (11, 95, "IA", "White")), Question(), FIVE_YEAR, ETHNICITY)
    assert found.levels == {"white": "1 year, 90+", "black": "5 years"}


def test_small_groups_are_joined_and_have_the_coarsest_level_of_them():
    groups = (*KNOWN, (12, 40, "WI", "White"), (1, 95, "WI", "Black"), (2, 40, "IA", "White"), (1, 95, "IA", "Black"))
    found = old_ages_of(cells(*groups), Question(), FIVE_YEAR, STATE).levels
    # Iowa alone: 2/20 + 1/30 = .133 against 2/100 + 1/10 by ten years.
    assert set(found) == {"MN", OTHER_STATES} and found[OTHER_STATES] == "10 years"


def test_offers_are_policies_that_gain_by_it():
    found = offers(cells(*KNOWN), Question(), (safe_harbor(), *published_alternatives()))
    listed = {(offer.policy, offer.by): dict(offer.levels) for offer in found}
    assert listed["5 year", ETHNICITY] == {"white": "1 year", "black": "5 years"}
    assert all(offer.possible and offer.offered == OLD_AGES for offer in found)
    assert ("Safe Harbor", STATE) not in listed, "any finer old age adds risk to Safe Harbor"


def test_a_policy_without_states_or_with_a_class_across_90_gets_no_offer():
    known = cells(*KNOWN)
    coarse = [
        policy_named("age 5 years; ethnicity any; geography region; sex sex"),
        policy_named("age withheld; ethnicity any; geography state; sex sex"),
    ]
    assert offers(known, Question(), coarse) == ()
    with pytest.raises(PolicyError, match="does not publish geography by state"):
        old_ages_of(known, Question(), coarse[0], STATE)
    with pytest.raises(PolicyError, match="joins ages below 90 and others"):
        old_ages_of(known, Question(), coarse[1], STATE)


def test_a_policy_that_no_old_age_saves_is_not_possible():
    single = policy_named("age 1 year; ethnicity any; geography state; sex sex")
    found = old_ages_of(cells(*KNOWN), Question(), single, STATE, OLD_AGES[:2])
    assert not found.possible and found.levels == {}

"""Small populations and cohorts, and an oracle that shares no code with the product: one record and one person at a time."""

import itertools
import math

import numpy as np
import pandas as pd
from hypothesis import strategies as st

from deid_assets.methods.demographics.attributes import Attribute, CohortAttributes, Level
from deid_assets.methods.demographics.population import EVENLY, Cells, cells_of, population_of

AGES = range(8)
SPANS = ((0, 0), (1, 1), (2, 3), (4, None))
RACES, PLACES, SEXES, DAYS = ("x", "y", "z"), ("a1", "a2", "b1", "b2"), ("F", "M"), (1, 2, 3, 4)
SHARES = {"visit": {1: 0.05, 2: 0.1, 3: 0.05, 4: 0.8}, "birth": {1: 0.1, 2: 0.2, 3: 0.3, 4: 0.4}}


def attribute(name, values, shares=None, **levels):
    return Attribute.of(name, pd.Index(values), [Level.of(level, list(labels)) for level, labels in levels.items()], shares)


def small_demographics(dated=False):
    ages = [str(age) for age in AGES]
    age = attribute(
        "age", AGES, years=ages, top=[*ages[:5], *["5+"] * 3], pairs=[str(a // 2) for a in AGES],
        thirds=[str(a // 3) for a in AGES],
        none=["*"] * 8,
    )  # fmt: skip
    race = attribute("ethnicity", RACES, any=RACES, two=["x", "o", "o"])
    place = attribute(
        "geography", PLACES, town=PLACES, state=["a", "a", "b", "b"], river=["1", "2", "1", "2"], nation=["n"] * 4
    )
    sex = attribute("sex", SEXES, sex=SEXES, none=["*"] * 2)
    levels = {"day": ["1", "2", "3", "4"], "half": ["p", "p", "q", "q"], "none": ["*"] * 4}
    dates = [attribute(name, DAYS, list(shares.values()), **levels) for name, shares in SHARES.items()]
    return CohortAttributes(age, race, place, sex, tuple(dates) if dated else ())


def table_of(people):
    """The population table with this number of people in each row, in the order of the product."""
    keys = itertools.product(PLACES, SEXES, RACES, SPANS)
    rows = [(*group, *span, number) for (*group, span), number in zip(keys, people, strict=True)]
    return pd.DataFrame(rows, columns=["geography", "sex", "ethnicity", "youngest", "oldest", "people"])


ROWS = len(PLACES) * len(SEXES) * len(RACES) * len(SPANS)


@st.composite
def small_cells(draw, dated=False) -> tuple[Cells, pd.DataFrame, pd.DataFrame]:
    """Cells, with the cohort and the table that they were made from; some rows hold fewer people than the cohort."""
    table = table_of(np.random.default_rng(draw(st.integers(0, 9_999))).integers(0, 7, ROWS).tolist())
    person = {
        "age": st.sampled_from(list(AGES)), "ethnicity": st.sampled_from(RACES), "geography": st.sampled_from(PLACES),
        "sex": st.sampled_from(SEXES), **dict.fromkeys(SHARES, st.sampled_from(DAYS)),
    }  # fmt: skip
    cohort = pd.DataFrame(draw(st.lists(st.fixed_dictionaries(person), min_size=1, max_size=12)))
    return cells_of(cohort, population_of(table, small_demographics(dated), EVENLY)), cohort, table


def distribution(cohort, table, demographics, node, record):
    """The distribution of the size of a record's class: size -> probability, one unknown person at a time."""
    codes = {
        own.name: dict(zip(own.values, own.levels[level].codes.tolist(), strict=True))
        for own, level in zip(demographics.attributes, node, strict=True)
    }
    mine = {name: code[record[name]] for name, code in codes.items()}
    found = {sum(all(code[row[name]] == mine[name] for name, code in codes.items()) for row in cohort): 1.0}
    dates = [name for name in SHARES if name in mine]
    day = math.prod(sum(SHARES[name][d] for d in DAYS if codes[name][d] == mine[name]) for name in dates)
    for place, sex, race, youngest, oldest, people in table:
        group = {"geography": place, "sex": sex, "ethnicity": race}
        if any(codes[name][value] != mine[name] for name, value in group.items()):
            continue
        span = range(youngest, AGES[-1] + 1 if math.isnan(oldest) else int(oldest) + 1)
        share = day * sum(codes["age"][age] == mine["age"] for age in span) / len(span)
        known = sum(row["age"] in span and all(row[name] == value for name, value in group.items()) for row in cohort)
        for _ in range(max(0, people - known)):
            after: dict[int, float] = {}
            for size, probability in found.items():
                after[size] = after.get(size, 0) + probability * (1 - share)
                after[size + 1] = after.get(size + 1, 0) + probability * share
            found = {size: probability for size, probability in after.items() if probability > 0}
    return found


def oracle_risks(cohort, table, demographics, node, measures):
    """The risk of a cohort by each measure, record by record."""
    cohort, table = cohort.to_dict("records"), list(table.itertuples(index=False, name=None))
    classes = [distribution(cohort, table, demographics, node, record) for record in cohort]
    return [_risk(measure, classes) for measure in measures]


def _risk(measure, classes):
    def of(size):
        if measure.at_most is not None and size > measure.at_most:
            return 0.0
        return 1.0 if measure.kind == "non-graduated" else size**-measure.exponent

    risks = [sum(probability * of(size) for size, probability in sizes.items()) for sizes in classes]
    return max(risks) if measure.kind == "largest" else sum(risks)

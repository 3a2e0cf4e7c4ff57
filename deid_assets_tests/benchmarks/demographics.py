"""How long verdicts and the search for alternatives to Safe Harbor take, for a cohort against a made-up population.

    python -m deid_assets_tests.benchmarks.demographics [--people 100000] [--dates 0 1 2]

Prints a Markdown table of seconds that pass. The population has three states with 200 ZIP codes, 20 counties, seven races and
single years of age; each date multiplies the number of policies by six. Expected risks are compared in every state, as the
command does with `--compare expected`, and upper bounds, with which every policy must be measured.
"""

import argparse
import datetime
import time

import numpy as np
import pandas as pd

from deid_assets.assessments.demographic_verdicts import Question, alternatives, judge
from deid_assets.methods.demographics.attributes import Attribute, date_attribute
from deid_assets.sources.census import RACES
from deid_assets.sources.demographics import cells_of_cohort
from deid_assets_tests.benchmarks.timing import head, machine, row

STATES, ZIPS, COUNTIES = ("MN", "WI", "TN"), 200, 20
RACES_AND_SHARES = dict(zip(RACES.values(), (0.75, 0.12, 0.01, 0.04, 0.01, 0.05, 0.02), strict=True))
FIRST, LAST = datetime.date(2008, 1, 1), datetime.date(2008, 12, 31)


def population(rng: np.random.Generator) -> pd.DataFrame:
    """People by place, sex, race and year of age: about 14 million."""
    places = pd.DataFrame({"zip": [f"{55_000 + 7 * number:05}" for number in range(ZIPS)]})
    places["county"] = [f"county {number % COUNTIES:02}" for number in range(ZIPS)]
    places["state"] = [STATES[number % COUNTIES % len(STATES)] for number in range(ZIPS)]
    groups = places.merge(pd.DataFrame({"sex": ["F", "M"]}), how="cross").merge(
        pd.DataFrame({"race": list(RACES_AND_SHARES)}), how="cross"
    )
    people = groups.merge(pd.DataFrame({"age_from": range(120)}), how="cross")
    share = people["race"].map(RACES_AND_SHARES) * np.exp(-((people["age_from"] / 75) ** 6))
    return people.assign(age_to=people["age_from"], people=rng.poisson(600 * share))


def cohort(people: pd.DataFrame, number: int, dates: int, rng: np.random.Generator) -> pd.DataFrame:
    """People of the population, drawn with equal chance; their dates are spread evenly."""
    rows = rng.choice(len(people), number, p=people["people"] / people["people"].sum())
    drawn = people.iloc[rows].rename(columns={"age_from": "age"}).reset_index(drop=True)
    for at in range(dates):
        drawn[f"date_{at}"] = pd.Timestamp(FIRST) + pd.to_timedelta(rng.integers(0, 366, number), unit="D")
    return drawn


def attributes(dates: int) -> tuple[Attribute, ...]:
    return tuple(date_attribute(f"date_{at}", FIRST, LAST, 0.1) for at in range(dates))


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--people", type=int, default=100_000)
    parser.add_argument("--dates", type=int, nargs="*", default=[0, 1, 2])
    asked = parser.parse_args()
    print(f"{machine()} {asked.people:,} people of the cohort. Seconds:\n")
    head("dates", "policies", "place the cohort", "verdicts", "compared", "discovery", "measured", "alternatives")
    for dates in asked.dates:
        rng = np.random.default_rng(7)
        people = population(rng)
        drawn = cohort(people, asked.people, dates, rng)
        start = time.perf_counter()
        cells, _ = cells_of_cohort(drawn, people, tuple(RACES_AND_SHARES), attributes(dates))
        placed = time.perf_counter() - start
        for question in (Question(at_upper_bound=False), Question()):
            start = time.perf_counter()
            judge(cells, question)
            judged = time.perf_counter() - start
            start = time.perf_counter()
            found = alternatives(cells, question)
            row(
                str(dates), f"{found.policies:,}", f"{placed:.1f}", f"{judged:.1f}",
                "upper bounds" if question.at_upper_bound else "expected risks", f"{time.perf_counter() - start:.1f}",
                f"{found.measured:,}", str(len(found.alternatives)),
            )  # fmt: skip


if __name__ == "__main__":
    main()

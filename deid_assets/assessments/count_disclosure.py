"""What the published tables of counts give away, alone and together with earlier releases; the gate audits the files again."""

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pandas as pd

from deid_assets.assessments.assessment import CANDIDATE, Assessed, Assessment, Gate, Limit, Work
from deid_assets.assessments.evidence import Measurement, exact
from deid_assets.errors import CountsError
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST
from deid_assets.methods.counts.published_tables import COLUMNS, chance_of_exact_estimate, disclosed_counts, masked_tables
from deid_assets.methods.counts.tables import PublishedCounts
from deid_assets.policy.kinds import AnyPolicy

NAME = "count_disclosure_audit"
DISCLOSED_CELLS, CHANCE = "disclosed_small_counts", "chance_of_exact_count"


def assess(work: Work[Any]) -> Assessed:
    """Evidence: what can be computed of the counts that are published with the release.

    Masked tables: how many small counts are shown, exposed or nearly exposed by all sums, also together with the masked
    tables of earlier releases. Noisy tables: the highest probability with which the best estimate names a count, if noise is
    averaged over all publications so far. Nothing but canaries if the policy publishes no tables.
    """
    if work.policy.counts.protection == "none":
        return Assessed((), canaries())
    published = work.tables["published_counts"].frame()
    measured = count_measurements(
        work.policy, published, work.history.masked_counts(), work.history.publications(work.tables["published_counts"])
    )
    shown = {"cells": len(published), "masked": int(published["mark"].notna().sum())}
    return Assessed(measured, canaries(), shown=shown)


def count_measurements(
    policy: AnyPolicy, published: pd.DataFrame, earlier: Iterable[PublishedCounts], publications: int
) -> tuple[Measurement, ...]:
    """What an adversary learns of published tables.

    Parameters
    ----------
    published
        As `published_tables` describes it.
    earlier
        Masked tables of earlier releases.
    publications
        How often the most published cell was published with noise of its own, this time included.
    """
    if policy.counts.protection == "masked":
        found = disclosed_cells(published, policy.counts.small_counts, earlier)
        return (exact(DISCLOSED_CELLS, "cells", found, 0.0, NAME, "methods#inferred-counts", None),)
    chance = chance_of_exact_estimate(published, publications)
    return (exact(CHANCE, "probability", chance, CHANCE_AT_MOST, NAME, "methods#noisy-count-estimates", None),)


def disclosed_cells(published: pd.DataFrame, rule: SmallCounts, earlier: Iterable[PublishedCounts]) -> int:
    """Count the small counts that are shown, exposed or nearly exposed, and small differences from earlier releases."""
    return disclosed_counts(masked_tables(published, rule.threshold), list(earlier), rule)


def canaries() -> Findings:
    """Whether made-up tables give away what they are known to give away, and nothing else.

    One masked count follows from a sum; one from a count that an earlier release shows; one from nothing, whatever an earlier
    release shows of others. Of noisy tables, one
    has noise that is too narrow, one is averaged too often, and one hides its counts.
    """
    rule = SmallCounts()
    own_sum = _steps(("remaining", 98, None, "b"), ("excluded", None, "T", "b"))
    hidden = _steps(("remaining", None, "H", "b"), ("excluded", None, "T", "b"))
    before = masked_tables(_steps(("remaining", 98, None, "b"), ("excluded", None, "H", "b")), rule.threshold)
    other = masked_tables(_steps(("remaining", 50, None, "x"), ("excluded", None, "H", "x")), rule.threshold)
    masked = [
        _found(own_sum, rule, []),
        _found(hidden, rule, [before]),
        _found(hidden, rule, [other]),
        _found(hidden, rule, []),
    ]
    noisy = [
        chance_of_exact_estimate(_noisy(sd), publications) > CHANCE_AT_MOST
        for sd, publications in ((0.1, 1), (2.5, 30), (2.5, 1))
    ]
    return compare([1.0, 1.0, 0.0, 0.0, 1.0, 1.0, 0.0], [*masked, *map(float, noisy)])


def _found(tables: pd.DataFrame, rule: SmallCounts, earlier: list[PublishedCounts]) -> float:
    try:
        return float(disclosed_cells(tables, rule, earlier))
    except CountsError:  # an audit that calls these tables contradictory finds nothing in them
        return -1.0


def _steps(*after: tuple[str, int | None, str | None, str]) -> pd.DataFrame:
    """Steps of which 100 remained before, and some were excluded after."""
    rows: list[tuple[object, ...]] = [("attrition", "before", "remaining", 100, None, None, 1, 0, "a")]
    rows += [("attrition", "after", column, count, mark, None, 1, 0, same) for column, count, mark, same in after]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _noisy(sd: float) -> pd.DataFrame:
    steps = _steps(("remaining", 98, None, "b"), ("excluded", 2, None, "b"))
    return steps.assign(sd=sd)


COUNT_DISCLOSURE_AUDIT: Assessment[Any] = Assessment(
    NAME,
    version="3",
    policy_sections=("counts",),
    inputs=(*CANDIDATE, "published_counts"),
    measure=assess,
    shaped_by={NAME: ()},
    gates=(
        Gate(
            DISCLOSED_CELLS,
            "no_small_count_is_disclosed",
            "No small count of the masked tables is shown, or can be computed, alone or with earlier releases.",
            "Small counts of the masked tables that are shown, or that sums give exactly or nearly, together with earlier "
            "releases.",
            1.0,
            lambda policy: Limit(0.0),
            applies=lambda policy: policy.counts.protection == "masked",
        ),
        Gate(
            CHANCE,
            "chance_of_exact_count_within_threshold",
            "No noisy count is more likely to be estimated exactly than not.",
            "Highest probability with which somebody names a noisy count of people exactly, from all sums, if they average "
            "all publications so far.",
            1.0,
            lambda policy: Limit(CHANCE_AT_MOST),
            applies=lambda policy: policy.counts.protection == "noise",
        ),
    ),
)

COUNTS_OF_RECORDS = replace(COUNT_DISCLOSURE_AUDIT, inputs=("release_records", "published_counts"))
COUNTS_OF_PEOPLE = replace(COUNT_DISCLOSURE_AUDIT, inputs=("release_people", "published_counts"))
"""The same beside the rows of a flat table, and of a cohort, to which its evidence is bound."""

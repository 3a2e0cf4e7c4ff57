"""What the published tables of counts give away, alone and together with earlier releases; the gate audits the files again."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd

from deid_assets.assessments.assessment import COUNT, Adversary, Assessed, Assessment, Gate, Work
from deid_assets.assessments.evidence import Measurement, Method
from deid_assets.assessments.kernel_input import CANDIDATE
from deid_assets.errors import CountsError
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST
from deid_assets.methods.counts.published_tables import (
    COLUMNS,
    EarlierTables,
    chance_of_exact_estimate,
    disclosed_beside_noise,
    disclosed_counts,
    masked_tables,
    names_of,
    noisy_tables,
)
from deid_assets.methods.counts.tables import PublishedCounts
from deid_assets.policy.kinds import AnyPolicy

NAME = "count_disclosure_audit"
DISCLOSED_CELLS, CHANCE = "disclosed_small_counts", "chance_of_exact_count"


def assess(work: Work[Any]) -> Assessed:
    """Evidence: what can be computed of the counts that are published with the release.

    Masked tables: how many small counts are shown, exposed or nearly exposed by all sums, also together with the tables of
    earlier releases, masked or noisy; whatever protects the tables of this release. Noisy tables: the highest probability with
    which the best estimate names a count, if noise is averaged over all publications so far, each as wide as it was. Nothing
    but canaries if the policy publishes no tables.
    """
    if work.policy.counts.protection == "none":
        return Assessed((), canary_findings())
    table = work.tables["published_counts"]
    published = table.frame()
    measured = count_measurements(work.policy, published, work.history.earlier_tables(), work.history.earlier_noise(table))
    shown = {"cells": len(published), "masked": int(published["mark"].notna().sum())}
    return Assessed(measured, canary_findings(), shown=shown)


def count_measurements(
    policy: AnyPolicy, published: pd.DataFrame, earlier: EarlierTables, noise: Mapping[str, Sequence[float]]
) -> tuple[Measurement, ...]:
    """What an adversary learns of published tables.

    Parameters
    ----------
    published
        As `published_tables` describes it, with the column `draw`.
    earlier
        Tables of earlier releases.
    noise
        By definition: the standard deviations with which cells were published before, in draws other than theirs.
    """
    found = disclosed_cells(published, policy.counts.small_counts, earlier, policy.counts.protection == "masked")
    disclosed = Method(NAME, "methods#inferred-counts").at_most(DISCLOSED_CELLS, "cells", found, 0.0)
    if policy.counts.protection == "masked":
        return (disclosed,)
    chance = chance_of_exact_estimate(published, noise)
    return disclosed, Method(NAME, "methods#noisy-count-estimates").at_most(CHANCE, "probability", chance, CHANCE_AT_MOST)


def disclosed_cells(published: pd.DataFrame, rule: SmallCounts, earlier: EarlierTables, are_masked: bool) -> int:
    """Count the small counts that masked tables disclose, those of earlier releases included, beside noisy ones of any."""
    earlier.require_apart_from_files(names_of(published), are_masked)
    if are_masked:
        own = masked_tables(published, rule.threshold)
        earlier.require_known(own.cells)
        earlier.require_same_classes(own.cells, are_masked=True)
        return disclosed_counts(own, earlier.masked, rule, earlier.noisy)
    if not earlier.masked:
        return 0
    together, noisy = PublishedCounts.together(earlier.masked), (*earlier.noisy, noisy_tables(published))
    earlier.require_same_classes(noisy[-1].cells, are_masked=False)
    return len(disclosed_beside_noise(together, audit_tables(together, rule), noisy, rule))


def canary_findings() -> Findings:
    """Whether made-up tables give away what they are known to give away, and nothing else.

    One masked count follows from a sum, one from a count that an earlier release shows, and one nearly from narrow noise of an
    earlier release. One follows from nothing, whatever an earlier release shows of others, and with wide noise beside it. Of
    noisy tables, one has noise that is too narrow, one is averaged too often, one was published before with narrower noise, and
    one hides its counts.
    """
    rule = SmallCounts()
    own_sum = _steps(("remaining", 98, None, "b"), ("excluded", None, "T", "b"))
    hidden = _steps(("remaining", None, "H", "b"), ("excluded", None, "T", "b"))
    before, other = (
        EarlierTables(masked=(masked_tables(_steps(("remaining", count, None, same), ("excluded", None, "H", same)), 11),))
        for count, same in ((98, "b"), (50, "x"))
    )
    narrow, wide = (
        EarlierTables(noisy=(noisy_tables(_noisy(sd).assign(draw=["1", "2", "3"], same=["a", "b", "b"])),))
        for sd in (0.5, 40.0)
    )
    masked = [
        _found(tables, rule, earlier)
        for tables, earlier in (
            (own_sum, EarlierTables()), (hidden, before), (hidden, narrow),
            (hidden, other), (hidden, wide), (hidden, EarlierTables()),
        )
    ]  # fmt: skip
    noisy = [
        chance_of_exact_estimate(_noisy(sd), dict.fromkeys(_noisy(sd)["definition"], before)) > CHANCE_AT_MOST
        for sd, before in ((0.1, []), (2.5, [2.5] * 29), (5.0, [1.0] * 4), (2.5, []))
    ]
    return compare([1.0, 1.0, 1.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0, 0.0], [*masked, *map(float, noisy)])


def _found(tables: pd.DataFrame, rule: SmallCounts, earlier: EarlierTables) -> float:
    try:
        return float(disclosed_cells(tables, rule, earlier, are_masked=True))
    except CountsError:  # an audit that calls these tables contradictory finds nothing in them
        return -1.0


def _steps(*after: tuple[str, int | None, str | None, str]) -> pd.DataFrame:
    """Steps of which 100 remained before, and some were excluded after."""
    rows: list[tuple[object, ...]] = [("attrition", "before", "remaining", 100, None, None, 1, 0, "a", "before remaining")]
    rows += [
        ("attrition", "after", column, count, mark, None, 1, 0, same, f"after {column}") for column, count, mark, same in after
    ]
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _noisy(sd: float) -> pd.DataFrame:
    steps = _steps(("remaining", 98, None, "b"), ("excluded", 2, None, "b"))
    return steps.assign(sd=sd)


COUNT_DISCLOSURE_AUDIT: Assessment[Any] = Assessment(
    NAME,
    adversary=Adversary(
        "Somebody who computes small counts from published tables and their sums, over all releases.",
        "Tables are published with the release.",
        "Klann JG et al. The ad-hoc uncertainty principle of patient privacy. AMIA Summits 2018",
    ),
    version="4",
    policy_sections=("counts",),
    inputs=(*CANDIDATE, "published_counts"),
    measure=assess,
    shaped_by={NAME: ()},
    gates=(
        Gate(
            DISCLOSED_CELLS,
            "no_small_count_is_disclosed",
            "No small count of the masked tables is shown, or can be computed, alone or with earlier releases.",
            "Small counts of masked tables that are shown, or that sums or noisy tables give exactly or nearly, together with "
            "earlier releases.",
            lambda policy: 0.0,
            disclosed=1.0,
            applies=lambda policy: policy.counts.protection != "none",
            range=COUNT,
        ),
        Gate(
            CHANCE,
            "chance_of_exact_count_within_threshold",
            "No noisy count is more likely to be estimated exactly than not.",
            "Highest probability with which somebody names a noisy count of people exactly, from all sums, if they average "
            "all publications so far.",
            lambda policy: CHANCE_AT_MOST,
            disclosed=1.0,
            applies=lambda policy: policy.counts.protection == "noise",
        ),
    ),
)

COUNTS_OF_RECORDS = replace(COUNT_DISCLOSURE_AUDIT, inputs=("release_records", "published_counts"))
COUNTS_OF_PEOPLE = replace(COUNT_DISCLOSURE_AUDIT, inputs=("release_people", "published_counts"))
"""The same beside the rows of a flat table, and of a cohort, to which its evidence is bound."""

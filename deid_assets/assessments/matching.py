"""Released records matched with people whom an adversary can identify: what attacks 2 and 3 share (methods#marketer-risk).

F is the class size in the adversary's file, which contains every released member. If the policy names such a table, F
is counted in it. Otherwise the file is the delivery: all of its members, including removed and suppressed ones, with
their claims before the long tail is cut. A register that contains every member of the delivery has classes at least as
large, so the result is an upper bound for each such register. For an adversary with the insurer's own list it is the
exact number. Released members missing from the file count as found (`marketer_risk.matched_share`), and are reported
separately as `..._not_in_the_file`. They include members whose visits were cut, because their released visits are
nobody's complete history.

f is counted in the rows that would be published.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from deid_assets.assessments.evidence import Measurement, counted
from deid_assets.methods.attacks.linkage import Linkage, attempt_summary, simulate_linkage
from deid_assets.methods.attacks.marketer_risk import expected_marketer_risk, missing_records, published_marketer_risk
from deid_assets.policy.models import Policy
from deid_assets.store.tables import Table

CONFIDENCE = 0.99
TRIALS = 100
"""Number of simulated adversaries of each kind."""


@dataclass(frozen=True)
class ClassSizes:
    """Sizes of the classes that records and people form together.

    Attributes
    ----------
    population, released
        (J,) int64: people in the file, and released records.
    """

    population: np.ndarray
    released: np.ndarray

    @property
    def records(self) -> int:
        """Released records."""
        return int(self.released.sum())

    @property
    def people(self) -> int:
        """People in the file."""
        return int(self.population.sum())


@dataclass(frozen=True)
class Attempts:
    """Simulated linkages by adversaries who link everybody, and by adversaries who link only people unique in the file."""

    eager: Linkage
    cautious: Linkage


def sizes_of(beside: Table, sql: str) -> ClassSizes:
    """Run `class_sizes`."""
    arrays = beside.arrays(sql)
    return ClassSizes(np.asarray(arrays["population_size"]), np.asarray(arrays["released_size"]))


def linked(beside: Table, sql: str, key: bytes) -> Attempts:
    """Simulate linkage on `class_numbers`, in which a record and its person share a number."""
    arrays = {name: np.asarray(values) for name, values in beside.arrays(sql).items()}
    own = arrays["released"].astype(bool)
    people, classes = arrays["person"][~own], arrays["class"][~own]
    records = arrays["person"][own]
    place = np.minimum(np.searchsorted(people, records), max(len(people) - 1, 0))
    match = np.where(people[place] == records, place, -1) if len(people) else np.full(len(records), -1)
    attempts = [
        simulate_linkage(arrays["class"][own], classes, match, np.random.default_rng([*key, cautious]), TRIALS, cautious)
        for cautious in (False, True)
    ]
    return Attempts(*attempts)


def released_names(policy: Policy, columns: Iterable[str]) -> dict[str, str]:
    """Released name of each column."""
    return {column: policy.quasi_identifier(column).release_as for column in columns}


def gate_on(name: str, share: float | None, at_most: float | None, section: str) -> Measurement:
    """A share that is a gate if the policy limits it."""
    # A sample size would be an exact number of members beside a probability, which the public edition shows.
    return counted(name, "probability", share, at_most, "marketer_risk", section, None)


def reported(name: str, share: float | None, section: str) -> Measurement:
    """A share that is only reported."""
    return counted(name, "probability", share, None, "marketer_risk", section, None)


def formulas(prefix: str, sizes: ClassSizes | None, section: str, unit: str) -> Iterable[Measurement]:
    """The expectation over samples, the published closed form, and those not in the file, in units of the records."""
    records = sizes.records if sizes else 0
    expected = published = missing = None
    if sizes is not None and records:
        missing = missing_records(sizes.released, sizes.population) / records
        if sizes.people > 0:
            expected = expected_marketer_risk(sizes.population)
            published = published_marketer_risk(sizes.population, records) if records <= sizes.people else None
    yield reported(f"{prefix}_expected", expected, section)
    yield reported(
        f"{prefix}_published_formula",
        published,
        "methods#marketer-risk; El Emam et al. 2012, Multimedia Appendix 1, equation 2 (biased low)",
    )
    yield counted(f"{prefix}_not_in_the_file", unit, missing, None, "marketer_risk", section, records)


def linkages(prefix: str, attempts: Attempts | None, section: str, commitment: str) -> Iterable[Measurement]:
    """How often simulated linkages are right, and how many of the released members they find."""
    if attempts is None:
        return
    for kind, linkage in (("linked", attempts.eager), ("linked_if_alone", attempts.cautious)):
        for what, shares in (("precision", linkage.precision), ("recall", linkage.recall)):
            summary = attempt_summary(shares, CONFIDENCE)
            yield Measurement(
                name=f"{prefix}_{kind}_{what}",
                unit="probability",
                value=summary.mean if summary else None,
                bound=summary.high if summary else None,
                threshold=None,
                comparison="at_most",
                statistic="upper_bound",
                confidence=CONFIDENCE,
                method="linkage_simulation",
                section=section,
                sample_size=linkage.correct.size,
                seed_commitment=commitment,
                gating=False,
            )

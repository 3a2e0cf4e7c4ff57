"""Convert matched classes to the measurements of attacks 2 and 3."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from deid_assets.assessments.evidence import Measurement
from deid_assets.assessments.measure import INPATIENT, VOTER_LIST, exact
from deid_assets.methods.attacks.inpatient_classes import ALL_YEARS
from deid_assets.methods.attacks.linkage import Linkage, attempt_summary
from deid_assets.methods.attacks.marketer_risk import (
    expected_marketer_risk,
    matched_share,
    missing_records,
    published_marketer_risk,
)

CONFIDENCE = 0.99
FOUR = 4
"""Columns of each row of Table 6 of El Emam et al. 2012."""


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


def period_name(period: int) -> str:
    """Name of a period.

    Examples
    --------
    >>> period_name(2), period_name(ALL_YEARS)
    ('year_2', 'all_years')
    """
    return "all_years" if period == ALL_YEARS else f"year_{period}"


def inpatients_name(period: int) -> str:
    """Name of the number of released inpatients of a period.

    Examples
    --------
    >>> inpatients_name(ALL_YEARS)
    'inpatients_all_years'
    """
    return f"inpatients_{period_name(period)}"


def voter_list_measurements(
    at_most: float | None, sizes: ClassSizes | None, attempts: Attempts | None, commitment: str
) -> tuple[Measurement, ...]:
    """Attack 2: the share of released members matched by age and sex.

    Parameters
    ----------
    at_most
        Threshold of the gate; None if there is no gate.
    sizes
        None if the release shows neither age nor sex.
    attempts
        None if true matches are unknown.
    """
    share = matched_share(sizes.released, sizes.population) if sizes and sizes.records else None
    section = "methods#voter-list; El Emam et al. 2012"
    return (
        _gate(VOTER_LIST, share, at_most, section),
        *_formulas("voter_list", sizes, section, "share of released members"),
        *_linkage("voter_list", attempts, section, commitment),
    )


def inpatient_measurements(
    at_most: float | None,
    columns: tuple[str, ...],
    shares: Mapping[tuple[int, tuple[str, ...]], float],
    inpatients: Mapping[int, int],
    sizes: ClassSizes | None,
    attempts: Attempts | None,
    commitment: str,
) -> tuple[Measurement, ...]:
    """Attack 3: the share of released members with inpatient visits matched by all of their visits.

    Parameters
    ----------
    at_most
        Threshold of the gate; None if there is no gate.
    columns
        All columns that can be matched.
    shares
        Matched share of each period and choice of columns; empty if no inpatient visit is released.
    inpatients
        Released members with inpatient visits in each period, the denominator of the shares. The released claims reveal
        it.
    sizes, attempts
        With all columns, over all years.
    """
    section = "methods#inpatient-database; El Emam et al. 2012, Table 6"
    found = [_gate(INPATIENT, max(shares.values(), default=None), at_most, section)]
    for period in sorted({period for period, _ in shares}, key=lambda period: (period == ALL_YEARS, period)):
        name = f"{INPATIENT}_{period_name(period)}"
        of_four = [share for (own, subset), share in shares.items() if own == period and len(subset) == FOUR]
        found.append(_told(name, shares[period, columns], section))
        found.append(
            exact(
                inpatients_name(period),
                "published members",
                inpatients[period],
                None,
                "marketer_risk",
                section,
                None,
                gating=False,
            )
        )
        if of_four:
            found.append(_told(f"{name}_least_of_four", min(of_four), section))
            found.append(_told(f"{name}_most_of_four", max(of_four), section))
    return (
        *found,
        *_formulas("inpatient", sizes, section, "share of members"),
        *_linkage("inpatient", attempts, section, commitment),
    )


def _formulas(prefix: str, sizes: ClassSizes | None, section: str, unit: str) -> Iterable[Measurement]:
    """The expectation over samples, the published closed form, and those not in the file, in units of the records."""
    records = sizes.records if sizes else 0
    expected = published = missing = None
    if sizes is not None and records:
        missing = missing_records(sizes.released, sizes.population) / records
        if sizes.people > 0:
            expected = expected_marketer_risk(sizes.population)
            published = published_marketer_risk(sizes.population, records) if records <= sizes.people else None
    yield _told(f"{prefix}_expected", expected, section)
    yield _told(
        f"{prefix}_published_formula",
        published,
        "methods#marketer-risk; El Emam et al. 2012, Multimedia Appendix 1, equation 2 (biased low)",
    )
    yield exact(f"{prefix}_not_in_the_file", unit, missing, None, "marketer_risk", section, records, gating=False)


def _linkage(prefix: str, attempts: Attempts | None, section: str, commitment: str) -> Iterable[Measurement]:
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


def _gate(name: str, share: float | None, at_most: float | None, section: str) -> Measurement:
    # A sample size would be an exact number of members beside a probability, which the public edition shows.
    return exact(name, "probability", share, at_most, "marketer_risk", section, None, gating=at_most is not None)


def _told(name: str, share: float | None, section: str) -> Measurement:
    return exact(name, "probability", share, None, "marketer_risk", section, None, gating=False)

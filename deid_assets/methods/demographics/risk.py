"""Risk of policies for a cohort, with bounds for what is not known about the population (methods#demographics-risk).

Verdicts compare policies as Malin et al. (2011, Tables 3 and 4) do.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from deid_assets.methods.demographics.attributes import DemographicPolicy
from deid_assets.methods.demographics.class_sizes import ClassCounter, Classes
from deid_assets.methods.demographics.measures import PUBLISHED, Measure
from deid_assets.methods.demographics.population import Cells
from deid_assets.methods.demographics.spread import LEFT_OUT, ClassSizes, expected, plug_in, reciprocal_at_most

WHOLE = "all"
"""Group of a row about the whole cohort."""

ROUND_OFF = 1e-9
"""Risks are sums of many numbers; two that differ by less than this share are equal."""


@dataclass(frozen=True, eq=False)
class Risks:
    """Risks of one policy.

    Attributes
    ----------
    expected, lower, upper
        (measures, groups) float: sums over records, or the largest risk of a record.
    error
        (measures, groups) float: how wrong the expected risk may be (`left_out`).
    """

    expected: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    error: np.ndarray


def no_riskier(risk: np.ndarray, reference: np.ndarray, error: np.ndarray | float = 0.0) -> np.ndarray:
    """Whether each risk is at most the reference, apart from rounding errors and from what sums leave out.

    Parameters
    ----------
    risk, reference
        Expected risks, or upper bounds of them.
    error
        What their sums may have left out (`left_out`), that of the risk and that of the reference together.

    Examples
    --------
    >>> no_riskier(np.array([0.3, 0.31, 5.34e-19]), np.array([0.1 + 0.2, 0.3, 0.0]), 1e-15).tolist()
    [True, False, True]
    """
    return np.asarray(risk) <= np.asarray(reference) * (1 + ROUND_OFF) + error


def equal_ranks(risks: np.ndarray, errors: np.ndarray) -> np.ndarray:
    """Rank risks in ascending order, from 0; one that `no_riskier` does not tell apart from the next lower one shares its rank.

    Examples
    --------
    >>> equal_ranks(np.array([0.3, 0.0, 5.34e-19, 0.1 + 0.2]), np.full(4, 1e-15)).tolist()
    [1, 0, 0, 1]
    """
    order = np.argsort(risks, kind="stable")
    ascending, of_each, ranks = risks[order], errors[order], np.zeros(len(risks), dtype=np.int64)
    ranks[order[1:]] = np.cumsum(~no_riskier(ascending[1:], ascending[:-1], of_each[1:] + of_each[:-1]))
    return ranks


def left_out(classes: Classes, measures: Sequence[Measure], groups: int) -> np.ndarray:
    """Return (measures, groups) float: how wrong expected risks may be, because sums over sizes leave out tails.

    Nothing is left out of a class without random people. In others, no size has a greater risk than that of the people who are
    in the class for certain.
    """
    parts = np.count_nonzero(classes.sizes.rest * classes.sizes.share, axis=0)
    return _gathered(parts * LEFT_OUT * _risks_of(classes.sizes.certain, measures), classes, measures, groups)


def risks_at(classes: Classes, measures: Sequence[Measure], groups: int, mean_size: bool = False) -> np.ndarray:
    """Return (measures, groups) float: the expected risk, or with `mean_size` that of classes of exactly the expected size."""
    first = plug_in(classes.sizes, measures) if mean_size else expected(classes.sizes, measures)[0]
    return _gathered(first, classes, measures, groups)


def risks_and_errors(classes: Classes, measures: Sequence[Measure], groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the expected risks, (measures, groups) float, and how wrong they may be (`left_out`), of the same shape."""
    return risks_at(classes, measures, groups), left_out(classes, measures, groups)


def quick_bounds(classes: Classes, measures: Sequence[Measure], groups: int) -> tuple[np.ndarray, np.ndarray]:
    """Return (measures, groups) float: a lower and an upper bound of the expected risk, found without sums over sizes.

    A risk without a threshold is convex in g, and at the expected size too small. Where a bound is not known, it is 0 or
    infinite.
    """
    convex = np.array([[measure.at_most is None] for measure in measures])
    reciprocal = np.array([[measure.at_most is None and measure.exponent == 1] for measure in measures])
    lower = risks_at(classes, measures, groups, mean_size=True)
    risk = np.broadcast_to(reciprocal_at_most(classes.sizes), (len(measures), len(classes.sizes.certain)))
    upper = _gathered(risk, classes, measures, groups)
    return np.where(convex, lower, 0.0), np.where(reciprocal, upper, np.inf)


def largest_risks(classes: Classes, measures: Sequence[Measure], groups: int) -> np.ndarray:
    """Return (measures, groups) float: the risk if nobody of those who may be in a class is in it; never exceeded."""
    return _gathered(_risks_of(classes.sizes.certain, measures), classes, measures, groups)


def bounded_risks(classes: Classes, measures: Sequence[Measure], groups: int, confidence: float) -> Risks:
    """Return the expected risks with a lower and an upper bound, each of which holds with this confidence.

    The risk that is bounded is that of the population as it is, if its unknown people are spread as assumed. For a sum, the
    bound is Bernstein's. It holds although the people of a row cannot be in two classes at once: such counts are negatively
    associated. For the largest risk of a record, and wherever it is tighter, the bound is the risk of classes without any of
    the people who may be in them (upper) or with all of them (lower).

    References
    ----------
    Joag-Dev K, Proschan F (1983). Negative association of random variables. doi:10.1214/aos/1176346079
    Shao QM (2000). A comparison theorem on moment inequalities. doi:10.1023/A:1007849609234
    """
    first, variance = expected(classes.sizes, measures)
    certain = classes.sizes.certain
    nobody = _risks_of(certain, measures)
    everybody = _risks_of(certain + classes.sizes.rest.sum(axis=0), measures)
    mean = _gathered(first, classes, measures, groups)
    most, least = _gathered(nobody, classes, measures, groups), _gathered(everybody, classes, measures, groups)
    tail = -np.log1p(-confidence)
    upper, lower = most.copy(), least.copy()
    for number, measure in enumerate(measures):
        if measure.sums:
            weight = classes.records
            spread = np.bincount(classes.group, weights=weight**2 * variance[number, classes.of], minlength=groups)
            jump = np.zeros(groups)
            np.maximum.at(jump, classes.group, weight * (nobody - everybody)[number, classes.of])
            reach = tail * jump / 3 + np.sqrt((tail * jump / 3) ** 2 + 2 * tail * spread)
            upper[number] = np.minimum(most[number], mean[number] + reach)
            lower[number] = np.maximum(least[number], mean[number] - reach)
    return Risks(mean, lower, upper, left_out(classes, measures, groups))


def _risks_of(sizes: np.ndarray, measures: Sequence[Measure]) -> np.ndarray:
    nothing = np.zeros((0, len(sizes)))
    return plug_in(ClassSizes(sizes, nothing, nothing), measures)


def _gathered(risk: np.ndarray, classes: Classes, measures: Sequence[Measure], groups: int) -> np.ndarray:
    """Return (measures, groups) float: risks of records, (measures, classes), added up or the largest taken."""
    found = np.zeros((len(measures), groups))
    for number, measure in enumerate(measures):
        own = risk[number, classes.of]
        if measure.sums:
            found[number] = np.bincount(classes.group, weights=classes.records * own, minlength=groups)
        else:
            np.maximum.at(found[number], classes.group, own)
    return found


def groups_by(cells: Cells, attribute: str, level: str) -> tuple[np.ndarray, tuple[str, ...]]:
    """Return the group of each record by a level of an attribute, such as geography and state, and the groups' labels.

    Groups without a record have no number.
    """
    names = [own.name for own in cells.demographics.attributes]
    chosen = cells.demographics.attributes[names.index(attribute)].level(level)
    present, group = np.unique(chosen.codes[cells.codes[:, names.index(attribute)]], return_inverse=True)
    return group, tuple(chosen.labels[number] for number in present)


def risks_of_policies(
    cells: Cells,
    policies: Sequence[DemographicPolicy],
    measures: Sequence[Measure] = PUBLISHED,
    by: tuple[str, str] | None = None,
    confidence: float = 0.99,
    mean_size: bool = False,
) -> pd.DataFrame:
    """Return the risk of each policy by each measure, for the whole cohort and, if asked for, for each group of it.

    Parameters
    ----------
    cells
        The cohort in its population.
    policies, measures
        What to measure.
    by
        An attribute and a level of it, such as ('geography', 'state').
    confidence
        Confidence of each bound.
    mean_size
        Take classes to have their expected size, as Malin et al. (2011) did; their risk is too small, and has no bounds.

    Returns
    -------
    pd.DataFrame
        policy | group ('all' or a label) | measure | records | risk, lower, upper: float; records at risk or, for the largest
        record risk, a probability; 0 if it is within the error | error: how wrong the risk may be | percent, upper_percent: 100
        times a share of the group's records, or the largest record risk in per cent. Without bounds, `lower` and `upper` are
        missing.

    Examples
    --------
    >>> from deid_assets.methods.demographics import attributes, measures, population
    >>> state = attributes.Attribute.from_table("geography", pd.DataFrame({"state": ["WA"]}, index=["WA"]))
    >>> sex, race = attributes.sex_attribute(), attributes.ethnicity_attribute()
    >>> people = attributes.CohortAttributes(attributes.age_attribute(), race, state, sex)
    >>> table = pd.DataFrame(
    ...     [("WA", s, e, first, last, 12) for s in sex.values for e in race.values for first, last in [(0, 99), (100, None)]],
    ...     columns=["geography", "sex", "ethnicity", "youngest", "oldest", "people"],
    ... )
    >>> known = population.population_of(table, people, population.EVENLY)
    >>> cohort = pd.DataFrame({"age": [101, 102], "ethnicity": "white", "geography": "WA", "sex": "F"})
    >>> found = risks_of_policies(population.cells_of(cohort, known), [attributes.safe_harbor()], [measures.TOTAL])
    >>> found[["policy", "group", "records"]].values.tolist()
    [['Safe Harbor', 'all', 2]]
    """
    demographics = cells.demographics
    groupings: list[tuple[np.ndarray | None, tuple[str, ...]]] = [(None, (WHOLE,))]
    if by is not None:
        groupings.append(groups_by(cells, *by))
    frames: list[pd.DataFrame] = []
    for groups, labels in groupings:
        counter = ClassCounter(cells, groups)
        sizes = np.array([cells.records]) if groups is None else np.bincount(groups)
        for policy in policies:
            classes = counter.at(policy.node(demographics))
            if mean_size:
                plain = risks_at(classes, measures, len(labels), mean_size=True)
                risks = Risks(plain, np.full_like(plain, np.nan), np.full_like(plain, np.nan), np.zeros_like(plain))
            else:
                risks = bounded_risks(classes, measures, len(labels), confidence)
            frames.extend(
                _rows(policy.name, measure, labels, sizes, Risks(*(own[number] for own in vars(risks).values())))
                for number, measure in enumerate(measures)
            )
    return pd.concat(frames, ignore_index=True)


def _rows(policy: str, measure: Measure, labels: Sequence[str], records: np.ndarray, risks: Risks) -> pd.DataFrame:
    whole = records if measure.sums else np.ones(len(labels))
    risk = np.where(risks.expected > risks.error, risks.expected, 0.0)
    return pd.DataFrame(
        {
            "policy": policy,
            "group": labels,
            "measure": measure.name,
            "records": records,
            "risk": risk,
            "lower": risks.lower,
            "upper": risks.upper,
            "error": risks.error,
            "percent": 100 * risk / whole,
            "upper_percent": 100 * risks.upper / whole,
        }
    )


def influence_of_exponent(cells: Cells, policies: Sequence[DemographicPolicy], exponents: Sequence[float]) -> pd.DataFrame:
    """Return the total risk of each policy at each exponent a, in per cent of the cohort.

    A larger exponent leaves less risk in all classes but those of one person.

    Returns
    -------
    pd.DataFrame
        Index exponent, one column for each policy.
    """
    measures, counter = [Measure("total", exponent=exponent) for exponent in exponents], ClassCounter(cells)
    columns = {
        policy.name: 100 * risks_at(counter.at(policy.node(cells.demographics)), measures, 1)[:, 0] / cells.records
        for policy in policies
    }
    return pd.DataFrame(columns, index=pd.Index(exponents, name="exponent"))


def verdicts(
    risks: pd.DataFrame, reference: str = "Safe Harbor", at_upper_bound: bool = False, same: Collection[str] = ()
) -> pd.DataFrame:
    """Return risks with a column `riskier`: whether the policy exceeds the reference in this group by this measure.

    Parameters
    ----------
    risks
        As `risks_of_policies` returns them; several cohorts may be stacked if their groups have different labels.
    reference
        Name of the policy to compare with.
    at_upper_bound
        Compare the upper bound with the expected risk of the reference, for a population that is only estimated.
    same
        Policies of other names with the levels of the reference. They are as risky as it is; by an upper bound, they would seem
        riskier.

    Raises
    ------
    ValueError
        If the reference was not measured in each group by each measure, or bounds are missing.
    """
    own = risks.loc[risks["policy"] == reference, ["group", "measure", "risk", "error"]].rename(
        columns={"risk": "of_reference", "error": "reference_error"}
    )
    joined = risks.merge(own, on=["group", "measure"], how="left", validate="many_to_one")
    compared = (
        joined["upper"].where(~joined["policy"].isin([reference, *same]), joined["risk"]) if at_upper_bound else joined["risk"]
    )
    if joined["of_reference"].isna().any() or compared.isna().any():
        raise ValueError(f"the risk of {reference}, and the bounds compared with it, must be known for each group and measure")
    error = (joined.pop("error") + joined.pop("reference_error")).to_numpy()
    return joined.assign(riskier=~no_riskier(compared.to_numpy(), joined["of_reference"].to_numpy(), error))

"""What equivalence classes disclose about sensitive attributes: what longitudinal and flat releases share.

Numbers that can be counted in the published rows (values in a class, members in classes of one value, distances of
distributions) are public.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from deid_assets.assessments.assessment import COUNT, HALF, Gate, Image, Shown, limit_of
from deid_assets.assessments.evidence import Comparison, Measurement, counted
from deid_assets.assessments.planting import PLAIN, as_certain, own_values
from deid_assets.assessments.published import Published, written
from deid_assets.errors import PolicyError
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.tables import ReportTable
from deid_assets.methods.canaries.planting import Findings, compare
from deid_assets.methods.disclosure.attribute_disclosure import AttributeDisclosure
from deid_assets.policy.sections.disclosure import DisclosureLimits

HOMOGENEOUS, DIVERSITY, CLOSENESS = "homogeneous_share", "least_diversity", "greatest_distance"
ONE, OTHER = PLAIN, PLAIN + 1
"""The values of a sensitive attribute in canaries; of numbers, the second is the larger."""


def gates_of(name: str) -> tuple[Gate[Any], ...]:
    """The gates of an assessment of attributes, by its name."""
    return (
        Gate(
            HOMOGENEOUS,
            f"{name}_homogeneity_within_threshold",
            "At most the allowed share of members is in a class in which everybody has the same value of a sensitive "
            "attribute (homogeneity).",
            "Members whose whole class has the same value of a sensitive attribute, unless everybody has it; the worst "
            "attribute.",
            HALF,
            lambda policy: limit_of(policy.attribute_disclosure.homogeneous_share_at_most),
        ),
        Gate(
            DIVERSITY,
            f"{name}_diversity_within_threshold",
            "Every class has at least the required diversity of every sensitive attribute (l-diversity).",
            "Different values of a sensitive attribute in the least diverse class (l-diversity); the worst attribute.",
            1.0,  # the worst class decides: a class of one
            lambda policy: limit_of(policy.attribute_disclosure.l_at_least),
            range=COUNT,
        ),
        Gate(
            CLOSENESS,
            f"{name}_closeness_within_threshold",
            "In every class, the distribution of each sensitive attribute is at most the allowed distance from the whole "
            "release (t-closeness).",
            "Distance between the distribution of a sensitive attribute in a class and in the whole release (t-closeness); the "
            "worst attribute.",
            HALF,  # whoever has the rarer of two values is .5 or more from the whole
            lambda policy: limit_of(policy.attribute_disclosure.t_at_most),
        ),
    )


def ordered_ranks(counts: pd.DataFrame, column: str) -> np.ndarray:
    """The rank of every row's value: missing values first, then by the number that the label begins with.

    Raises
    ------
    PolicyError
        If a value has no number; the message gives the column and how many.
    """
    missing = counts["value"].isna()
    numberless = counts.loc[counts["number"].isna() & ~missing, "value"].nunique()
    if numberless:
        raise PolicyError(
            f"column {column}: {numberless} of its values do not begin with a number, so they have no order; remove the "
            "column from attribute_disclosure.ordered"
        )
    known = counts.loc[~missing, ["number", "value"]].drop_duplicates().sort_values(["number", "value"])["value"]
    first = int(missing.any())
    places = {value: place for place, value in enumerate(known, start=first)}
    return np.array([places.get(value, 0) for value in counts["value"]], dtype=np.int64)


def attribute_metadata(found: Mapping[str, AttributeDisclosure]) -> dict[str, Shown]:
    """What the UI shows about attribute disclosure."""
    table = pd.DataFrame(
        [
            (
                name,
                one.classes,
                one.homogeneous_share,
                one.least_distinct,
                one.least_entropy,
                one.greatest_distance,
                one.mean_distance,
            )
            for name, one in found.items()
        ],
        columns=["attribute", "classes", "homogeneous share", "distinct l", "entropy l", "t", "mean t"],
    )
    shown: dict[str, Shown] = {"attributes": table}
    if found:
        figure = dots_figure(
            [(name, [one.greatest_distance, one.mean_distance]) for name, one in found.items()],
            ["maximum over classes", "mean over members"], "distance from the whole release [%]",
        )  # fmt: skip
        shown["closeness"] = Image(figure, "t-closeness of every sensitive attribute")
    return shown


def attribute_measurements(
    limits: DisclosureLimits, found: Mapping[str, AttributeDisclosure], released: int
) -> tuple[Measurement, ...]:
    """What classes disclose about each sensitive attribute, and about the worst of them.

    Parameters
    ----------
    found
        By name of the attribute in the release.
    released
        Members, or records of a flat table.
    """
    method, section = "attribute_disclosure", "methods#attribute-disclosure; Machanavajjhala et al. 2007; Li et al. 2007"
    l_of = "least_distinct" if limits.l_kind == "distinct" else "least_entropy"

    def worst(field: str, choose: Callable[[list[float]], float]) -> float | None:
        values = [getattr(one, field) for one in found.values()]
        return None if not values or None in values else choose(values)

    def least_diversity() -> float | None:
        """The least l. Attributes without information have no l; if all are such, only the number of members bounds it."""
        values = [getattr(one, l_of) for one in found.values() if not one.tells_nothing]
        return None if not found or None in values else min(values, default=released)

    measured = [
        counted("sensitive_attributes", "attributes", len(found), None, method, section, None),
        counted(HOMOGENEOUS, "share of published rows", worst("homogeneous_share", max), limits.homogeneous_share_at_most,
                  method, section, released),
        counted(DIVERSITY, "values", least_diversity(), limits.l_at_least, method, section, released, "at_least"),
        counted(CLOSENESS, "distance", worst("greatest_distance", max), limits.t_at_most, method, section, released),
    ]  # fmt: skip
    for name, one in found.items():
        kinds: tuple[tuple[str, str, float | None, Comparison], ...] = (
            ("homogeneous_share", "share of published rows", one.homogeneous_share, "at_most"),
            ("distinct_l", "values", one.least_distinct, "at_least"),
            ("entropy_l", "values", one.least_entropy, "at_least"),
            ("t", "distance", one.greatest_distance, "at_most"),
            ("mean_t", "distance", one.mean_distance, "at_most"),
        )
        for measure, unit, value, comparison in kinds:
            measured.append(counted(f"{name}/{measure}", unit, value, None, method, section, released, comparison))
    return tuple(measured)


def report_table(found: Published) -> ReportTable:
    """The report's table: what classes disclose about each attribute."""
    names = [name.removesuffix("/distinct_l") for name in found if name.endswith("/distinct_l")]
    columns = ("homogeneous_share", "distinct_l", "entropy_l", "t", "mean_t")
    return ReportTable(
        "attributes",
        "What a class discloses about sensitive attributes",
        "Homogeneous: share of members whose whole class has the same value. l: number of different values in the least "
        "diverse class. Entropy l: exp of the entropy in the least diverse class. t: distance between the distribution in a "
        "class and in the whole release, at most and on average; small classes are far from the whole by chance alone. If "
        "members have several values of an attribute, l counts sets of values, and is 1 where a class has a value in common; "
        "the other measures use single values. What the whole release shares is not disclosed by a class: such a value does "
        "not count, and an attribute that is the same for everybody has no l.",
        (
            ("Attribute", "name"),
            ("Homogeneous", "number"),
            ("l", "number"),
            ("Entropy l", "number"),
            ("t", "number"),
            ("Mean t", "number"),
        ),
        tuple((name, *(written(found, f"{name}/{column}") for column in columns)) for name in names),
    )


def attribute_classes(columns: Sequence[str]) -> list[tuple[Mapping[str, object], tuple[int, ...]]]:
    """Distinct values and the sensitive values of the members of each class.

    The plain class has two of each value. For each column there are two classes that differ in it alone: one with the
    same value twice, and one with one of each.
    """
    values = (value + 1 for value in own_values())
    made: list[tuple[Mapping[str, object], tuple[int, ...]]] = [({}, (ONE, ONE, OTHER, OTHER))]
    for column in columns:
        made += [({column: next(values)}, (OTHER, OTHER)), ({column: next(values)}, (ONE, OTHER))]
    return made


def certain_disclosure(columns: int) -> dict[str, float]:
    """The known disclosure of `attribute_classes` of that many columns, from the shares of OTHER per class and overall."""
    members = 4 + 4 * columns
    whole = (2 + 3 * columns) / members
    distances = [whole - 0.5] * (4 + 2 * columns) + [1 - whole] * (2 * columns)
    homogeneous = 2 * columns / members
    return {
        "classes": 1 + 2 * columns,
        "members": members,
        "homogeneous_share": homogeneous,
        "least_distinct": 1 if columns else 2,
        "least_entropy": 1.0 if columns else 2.0,
        "greatest_distance": max(distances),
        "mean_distance": float(np.mean(distances)),
    }


def compared_with_certain(
    limits: DisclosureLimits, found: Mapping[str, AttributeDisclosure], columns: Mapping[str, int]
) -> Findings:
    """Compare the findings per attribute, and the worst one reported to the gate, with the known results.

    Parameters
    ----------
    columns
        Per attribute, the columns that form classes. If no attribute is sensitive, none may be measured.
    """
    certain = {name: certain_disclosure(number) for name, number in columns.items()}
    total = Findings(0, 0)
    for name, numbers in certain.items():
        measured = [getattr(found[name], one) for one in numbers]
        total += compare(list(numbers.values()), [-1.0 if number is None else number for number in measured])
    diversity = "least_distinct" if limits.l_kind == "distinct" else "least_entropy"
    worst = {
        "sensitive_attributes": len(columns),
        HOMOGENEOUS: max((one["homogeneous_share"] for one in certain.values()), default=None),
        DIVERSITY: min((one[diversity] for one in certain.values()), default=None),
        CLOSENESS: max((one["greatest_distance"] for one in certain.values()), default=None),
    }
    return total + as_certain(worst, attribute_measurements(limits, found, 1))

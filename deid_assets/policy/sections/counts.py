"""The policy sections of published counts: how they are protected, and what they may cost (methods#counts)."""

import json
import math
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import DEFAULT_TOTAL, rho_within
from deid_assets.methods.counts.cohort import OTHER, UNKNOWN
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST, chance_of_exact_average
from deid_assets.methods.counts.noise import Mechanism, NoiseRule, Zeros
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.problems import Path, Problem
from deid_assets.policy.sections.longitudinal import ColumnName, Name, Probability, Said, Section

if TYPE_CHECKING:
    from deid_assets.policy.flat import FlatPolicy
    from deid_assets.policy.kinds import AnyPolicy
    from deid_assets.policy.models import Policy

Cost = Annotated[float, Field(gt=0)]

SUMMED = ("integer", "rounded", "sum_of_claims", "months_enrolled")
"""Kinds of declared columns of members whose sums can be published."""
CELLS_AT_MOST = 1_000
"""Classes of one total."""


class NoiseBudget(Section):
    """What all noisy counts of this home may cost together: as zCDP, or as (epsilon, delta)-differential privacy."""

    rho: Cost | None = Field(None, description=f"largest cost, in zCDP; null: {DEFAULT_TOTAL:g}, unless epsilon is given")
    epsilon: Cost | None = Field(None, description="instead of rho: largest cost as epsilon at `delta`")
    delta: Probability = Field(1e-5, description="delta at which costs are stated")

    @model_validator(mode="after")
    def _one_total(self) -> "NoiseBudget":
        if self.rho is not None and self.epsilon is not None:
            raise ValueError("a budget has either rho or epsilon, not both")
        return self

    @property
    def total(self) -> float:
        """The largest cost, in zCDP."""
        if self.epsilon is not None:
            return rho_within(self.epsilon, self.delta)
        return DEFAULT_TOTAL if self.rho is None else self.rho


class CountNoise(Section):
    """The noise of the numbers about people that are published with a release, and its budget (methods#noisy-counts)."""

    sd: Annotated[float, Field(gt=0, le=1000)] = Field(2.5, description="standard deviation of the noise, in people")
    mechanism: Literal["rounded", "discrete"] = Field(
        "rounded",
        description="rounded: round(N(0, sd)); discrete: the discrete Gaussian, for which the stated differential privacy also "
        "holds in the arithmetic of a computer",
    )
    budget: NoiseBudget = Field(
        NoiseBudget(), description="what all noisy counts of this home may cost together; a release beyond is refused"
    )
    lockout: Annotated[int, Field(ge=1, le=100)] = Field(
        10, description="how often one cell may be published with noise of its own, over all deliveries and policies"
    )


class Masking(Section):
    """When masked counts are hidden well enough, if tables are masked (methods#masked-counts)."""

    threshold: Annotated[int, Field(ge=2, le=1000)] = Field(11, description="counts from 1 to one less are small, and hidden")
    values: Annotated[int, Field(ge=2, le=1000)] = Field(
        5, description="number of values that remain possible for a hidden count, given all sums; at least"
    )


class ProtectedTables(CountNoise):
    """How tables of counts are protected that are published with a release."""

    protection: Literal["none", "noise", "masked"] = Field(
        "none",
        description="none: no tables are published; noise: every count of the tables is noisy; masked: small counts are "
        "hidden, and others by which they could be computed. Other numbers of the manifest are noisy in any case",
    )
    zeros: Literal["noisy", "shown"] = Field(
        "noisy",
        description="noise: counts of 0 are noisy too, or shown with a standard deviation of 0; then they tell that nobody is "
        "there, and no budget covers them",
    )
    masking: Masking = Masking()

    @property
    def noise_rule(self) -> NoiseRule:
        """How counts become noisy; the more one person adds to a count, the wider."""
        return NoiseRule(self.sd, Mechanism(self.mechanism), Zeros(self.zeros))

    @property
    def has_totals(self) -> bool:
        """Whether sums of columns are published."""
        return False

    @property
    def small_counts(self) -> SmallCounts:
        """When masked counts are hidden well enough."""
        return SmallCounts(self.masking.threshold, self.masking.values)


class Total(Section):
    """A protected sum of a column of members, such as months enrolled, so that recipients can compute rates."""

    column: Name = Field(description="declared column of members whose values are summed; it need not be released")
    by: tuple[Name, ...] = Field(
        (),
        description="columns of `characteristics` by whose classes, combined, it is summed, too; empty: only over all members",
    )


class Counts(ProtectedTables):
    """Tables of counts that are published with a release: how many members each step left, and who they are."""

    protection: Literal["noise", "masked"] = Field(
        "noise",
        description="noise: every count of the tables is noisy; masked: small counts are hidden, and others by which they "
        "could be computed. Other numbers of the manifest are noisy either way",
    )
    claims_per_member: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="count claims too, at most this many of each member, with noise that is as many times wider (about three "
        "times the number beyond which claims are cut); null: claims are not counted",
    )
    characteristics: dict[Name, str] | None = Field(
        None,
        description="columns of members, each with the level at which members are counted; null: all member-level "
        "quasi-identifiers, at their coarsest level with several classes. Levels must list their classes",
    )
    totals: tuple[Total, ...] = Field(
        (),
        description="sums over the eligible members, published as the file Totals; the noise is as many times wider as one "
        "member may have at most",
    )

    @property
    def has_totals(self) -> bool:
        """Whether the policy asks for some."""
        return bool(self.totals)


class PeopleCounts(ProtectedTables):
    """Tables of counts that are published with a release: how many people each step left, and who they are."""

    characteristics: dict[ColumnName, Said | tuple[Said, ...]] | None = Field(
        None,
        description="columns of the release by which people are counted: of demographics the level; of attributes the list of "
        "values that are counted, all others together. null: all demographics, at their level with the fewest classes, but "
        "several",
    )


class RecordCounts(ProtectedTables):
    """Tables of counts that are published with a release: how many records each step left, and what they are."""

    characteristics: dict[ColumnName, Said | tuple[Said, ...]] | None = Field(
        None,
        description="columns of the release by which records are counted: of quasi-identifiers the level, which must list its "
        "classes; of attributes the list of values that are counted, all others together. null: all quasi-identifiers, at "
        "their coarsest level with several classes",
    )
    ordered: tuple[ColumnName, ...] = Field(
        (),
        description="those whose classes are listed from low to high: cumulative shares and percentiles are published of them",
    )


def level_or_values(listed: dict[str, str | tuple[str, ...]]) -> tuple[dict[str, str], dict[str, tuple[str, ...]]]:
    """Split characteristics into columns with a level, and columns with a list of values.

    Examples
    --------
    >>> level_or_values({"Age": "10 years", "Likes": ("tea", "coffee")})
    ({'Age': '10 years'}, {'Likes': ('tea', 'coffee')})
    """
    levels = {column: own for column, own in listed.items() if isinstance(own, str)}
    return levels, {column: own for column, own in listed.items() if not isinstance(own, str)}


def classes_of(hierarchy: Hierarchy, level: int) -> tuple[str, ...]:
    """The classes of a level, as the policy lists them; empty if it does not."""
    try:
        return hierarchy.order(level)
    except ValueError:
        return ()


def characteristics_of(policy: "Policy") -> dict[str, int]:
    """The columns by which members are counted, each with its level."""
    named = policy.counts.characteristics
    if named is not None:
        return {str(column): policy.hierarchy_of(column).level_names.index(level) for column, level in named.items()}
    return _coarsest({qi.column: policy.hierarchy_of(qi.column) for qi in policy.quasi_identifiers.members})


def levels_of_records(policy: "FlatPolicy") -> dict[str, int]:
    """The quasi-identifiers by which records are counted, by their names in the release, each with its level."""
    named = policy.counts.characteristics
    if named is None:
        return _coarsest({qi.release_as: policy.hierarchy_of(qi.release_as) for qi in policy.quasi_identifiers})
    levels, _ = level_or_values(named)
    return {column: policy.hierarchy_of(column).level_names.index(level) for column, level in levels.items()}


def _coarsest(hierarchies: dict[str, Hierarchy]) -> dict[str, int]:
    """For each column the coarsest level that lists several classes; columns without such a level are left out."""
    usable = {
        column: [level for level in range(hierarchy.levels) if len(classes_of(hierarchy, level)) > 1]
        for column, hierarchy in hierarchies.items()
    }
    return {column: levels[-1] for column, levels in usable.items() if levels}


def count_noise_problems(policy: "AnyPolicy") -> Iterator[Problem]:
    """Counts that are averaged too often would not be protected as the policy says."""
    section = policy.counts
    chance = chance_of_exact_average(section.lockout, section.sd)
    if chance > CHANCE_AT_MOST:
        yield Problem(
            ("counts", "lockout"),
            f"is too high for noise of standard deviation {section.sd:g}: the average of {section.lockout} publications is "
            f"exact with a probability of {chance:.2f}, and more than {CHANCE_AT_MOST:g} is not protection",
        )


def table_problems(section: ProtectedTables) -> Iterator[Problem]:
    """Yield what contradicts itself in a section."""
    if section.protection == "masked" and section.zeros == "shown":
        yield Problem(("counts", "zeros"), "is about noise, and the tables are masked, which shows zeros; remove it")
    if section.protection == "none":
        defaults = type(section)()
        for name in sorted(set(type(section).model_fields) - set(CountNoise.model_fields) - {"protection"}):
            if getattr(section, name) != getattr(defaults, name):
                yield Problem(
                    ("counts", name),
                    "is about tables, and none are published; set protection to noise or masked, or remove it",
                )


def listed_values_problems(section: PeopleCounts | RecordCounts, attributes: tuple[str, ...]) -> Iterator[Problem]:
    """Yield the problems of attributes whose values are listed.

    Parameters
    ----------
    attributes
        By their names in the release.
    """
    for column, values in level_or_values(section.characteristics or {})[1].items():
        path: Path = ("counts", "characteristics", column)
        if column not in attributes:
            yield Problem(
                path, f"lists values, but is not an attribute of this policy: {', '.join(attributes) or 'it has none'}"
            )
        elif not values or len(set(values)) < len(values) or {OTHER, UNKNOWN} & set(values):
            yield Problem(
                path, f"list each value once, at least one, and neither '{OTHER}' nor '{UNKNOWN}', which are counted anyway"
            )


def count_table_problems(policy: "Policy") -> Iterator[Problem]:
    """Counts that are averaged too often, or tables that cannot be made, would not be protected as the policy says."""
    found = [*count_noise_problems(policy), *table_problems(policy.counts), *_characteristic_problems(policy)]
    yield from found
    # Without one of its hierarchies, which another rule misses, nothing can be said of classes.
    if not found and all(qi.hierarchy in policy.hierarchies for qi in policy.quasi_identifiers.members):
        for number, total in enumerate(policy.counts.totals):
            for problem in _total_problems(policy, total, policy.counts.totals[:number]):
                yield Problem(("counts", "totals", number, *problem.path), problem.message)


def _characteristic_problems(policy: "Policy") -> Iterator[Problem]:
    known = policy.member_columns
    for column, level in (policy.counts.characteristics or {}).items():
        path: Path = ("counts", "characteristics", column)
        if column not in known:
            yield Problem(path, f"is not a member-level quasi-identifier of this policy: {', '.join(known)}")
            continue
        named = policy.quasi_identifier(column).hierarchy
        if named not in policy.hierarchies:
            continue  # the rule of hierarchies says so
        yield from _level_problems(path, policy.hierarchy(named), level)


def _total_problems(policy: "Policy", total: Total, earlier: Sequence[Total]) -> Iterator[Problem]:
    """What is wrong with a total, and with it beside those that are listed before it."""
    counted = characteristics_of(policy)
    if (policy.counts.protection, policy.counts.zeros) != ("noise", "noisy"):
        told = "an exact sum of 0, or of the most that a class may have, tells what each of its members has"
        yield Problem((), f"needs protection: noise and zeros: noisy; {told}")
    if total.column not in policy.columns.members:
        yield Problem(("column",), "is not a declared column of members (columns.members)")
    elif most_of(policy, total.column) is None:
        yield Problem(
            ("column",),
            f"cannot be summed: no noise hides what one member adds. Sum a column of the kind {', '.join(SUMMED)}, with "
            "numbers from 0 to a largest one (at_most)",
        )
    else:
        others = {other.column for other in earlier if other.column in policy.columns.members} - {total.column}
        if summed_of(policy, total.column) in {summed_of(policy, other) for other in others}:
            yield Problem(("column",), "sums what another total sums; two noisy sums of the same numbers can be averaged")
    for column in total.by:
        if column not in counted:
            yield Problem(
                ("by",), f"{column} is not among the columns that members are counted by: {', '.join(counted) or 'none'}"
            )
    known = [column for column in total.by if column in counted]
    cells = math.prod(1 + len(classes_of(policy.hierarchy_of(column), counted[column])) for column in known)
    if cells > CELLS_AT_MOST:
        yield Problem(("by",), f"makes {cells:,} classes, and at most {CELLS_AT_MOST:,} are summed by; name fewer columns")
    if len(set(total.by)) < len(total.by) or any(
        set(total.by) == set(one.by) and total.column == one.column for one in earlier
    ):
        yield Problem((), "says the same twice")


def most_of(policy: "Policy", column: str) -> int | None:
    """The largest value of a declared column that can be summed; None where it cannot."""
    made = policy.columns.members[column]
    least, most = made.limits or (-1, None)
    return most if made.kind in SUMMED and least >= 0 else None


def summed_of(policy: "Policy", column: str) -> str:
    """What of the delivery a declared column sums: two that differ only in limits, steps or kind sum the same."""
    made = policy.columns.members[column].model_dump(mode="json", by_alias=True)
    return json.dumps([made.get("from"), made.get("year")])


def record_table_problems(policy: "FlatPolicy") -> Iterator[Problem]:
    """Yield the problems of the tables of a flat policy."""
    section, known = policy.counts, [qi.release_as for qi in policy.quasi_identifiers]
    yield from table_problems(section)
    yield from listed_values_problems(section, tuple(one.release_as for one in policy.attributes))
    for column, level in level_or_values(section.characteristics or {})[0].items():
        path: Path = ("counts", "characteristics", column)
        if column not in known:
            yield Problem(path, f"is not a quasi-identifier of this policy: {', '.join(known)}; of an attribute, list values")
        else:
            yield from _level_problems(path, policy.hierarchy_of(column), level)
    counted = known if section.characteristics is None else list(section.characteristics)
    for number, column in enumerate(section.ordered):
        if column not in counted or column in section.ordered[:number]:
            yield Problem(("counts", "ordered", number), f"{column} is listed twice, or records are not counted by it")


def _level_problems(path: Path, hierarchy: Hierarchy, level: str) -> Iterator[Problem]:
    if level not in hierarchy.level_names:
        yield Problem(path, f"has no level '{level}'; levels: {', '.join(hierarchy.level_names)}")
    elif len(classes_of(hierarchy, hierarchy.level_names.index(level))) < 2:
        yield Problem(
            path, f"level '{level}' does not list several classes, so that nobody in a class would show; name another"
        )

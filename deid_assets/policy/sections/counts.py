"""The policy sections of published counts: how they are protected, and what they may cost (methods#counts)."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field, model_validator

from deid_assets.methods.counts.audit import SmallCounts
from deid_assets.methods.counts.budget import rho_within
from deid_assets.methods.counts.estimates import CHANCE_AT_MOST
from deid_assets.methods.counts.noise import Claims, Mechanism, NoiseRule, Zeros
from deid_assets.methods.counts.repeats import chance_of_exact_average
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.sections.longitudinal import MemberColumn, Probability, Section

if TYPE_CHECKING:
    from deid_assets.policy.models import Policy

Path = tuple[str | int, ...]

DEFAULT_TOTAL = 50.0
"""Of the noisy counts of a home, in zCDP."""

Cost = Annotated[float, Field(gt=0)]


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


class Counts(CountNoise):
    """Tables of counts that are published with a release: how many members each step left, and who they are."""

    protection: Literal["noise", "masked"] = Field(
        "noise",
        description="noise: every count of the tables is noisy; masked: small counts are hidden, and others by which they "
        "could be computed. Other numbers of the manifest are noisy either way",
    )
    zeros: Literal["noisy", "shown"] = Field(
        "noisy",
        description="noise: counts of 0 are noisy too, or shown with a standard deviation of 0; then they tell that nobody is "
        "there, and no budget covers them",
    )
    masking: Masking = Masking()
    claims_per_member: Annotated[int, Field(ge=1, le=1_000_000)] | None = Field(
        None,
        description="count claims too, at most this many of each member, with noise that is as many times wider (about three "
        "times the number beyond which claims are cut); null: claims are not counted",
    )
    characteristics: dict[MemberColumn, str] | None = Field(
        None,
        description="columns of members, each with the level at which members are counted; null: all member-level "
        "quasi-identifiers, at their coarsest level with several classes. Levels must list their classes",
    )

    @property
    def noise_rule(self) -> NoiseRule:
        """How counts become noisy."""
        claims = Claims.SCALED if self.claims_per_member else Claims.DROPPED
        return NoiseRule(self.sd, Mechanism(self.mechanism), Zeros(self.zeros), claims)

    @property
    def small_counts(self) -> SmallCounts:
        """When masked counts are hidden well enough."""
        return SmallCounts(self.masking.threshold, self.masking.values)


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
    found: dict[str, int] = {}
    for qi in policy.quasi_identifiers.members:
        hierarchy = policy.hierarchy_of(qi.column)
        usable = [level for level in range(hierarchy.levels) if len(classes_of(hierarchy, level)) > 1]
        if usable:
            found[qi.column] = usable[-1]
    return found


def count_noise_problems(section: CountNoise) -> Iterator[tuple[Path, str]]:
    """Yield the problems of noise, as path and message."""
    chance = chance_of_exact_average(section.lockout, section.sd)
    if chance > CHANCE_AT_MOST:
        yield (
            ("counts", "lockout"),
            f"is too high for noise of standard deviation {section.sd:g}: the average of {section.lockout} publications is "
            f"exact with a probability of {chance:.2f}, and more than {CHANCE_AT_MOST:g} is not protection",
        )


def count_table_problems(policy: "Policy") -> Iterator[tuple[Path, str]]:
    """Yield the problems of the tables, as path and message."""
    section, known = policy.counts, policy.quasi_identifiers.member_columns
    if section.protection == "masked" and section.zeros == "shown":
        yield ("counts", "zeros"), "is about noise, and the tables are masked, which shows zeros; remove it"
    for column, level in (section.characteristics or {}).items():
        path: Path = ("counts", "characteristics", column)
        if column not in known:
            yield path, f"is not a member-level quasi-identifier of this policy: {', '.join(known)}"
            continue
        named = policy.quasi_identifier(column).hierarchy
        if named not in policy.hierarchies:
            continue  # the rule of hierarchies says so
        hierarchy = policy.hierarchy(named)
        if level not in hierarchy.level_names:
            yield path, f"has no level '{level}'; levels: {', '.join(hierarchy.level_names)}"
        elif len(classes_of(hierarchy, hierarchy.level_names.index(level))) < 2:
            yield path, f"level '{level}' does not list several classes, so that nobody in a class would show; name another"

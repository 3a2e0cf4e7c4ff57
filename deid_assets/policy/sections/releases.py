"""The section `releases`: what connects the releases of one policy, and what a person says about earlier ones."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from deid_assets.policy.sections.longitudinal import Said, Section


def _policy_or_release(text: str) -> str:
    policy, _, number = (text if "/" in text else f"{text}/0001").partition("/")
    if not (policy.isidentifier() and policy == policy.lower() and number.isdecimal() and len(number) >= 4):
        raise ValueError("a release is named by its policy and number, such as heritage/0001, or by its policy alone")
    return text


ReleaseName = Annotated[str, AfterValidator(_policy_or_release)]


def _names(stated: Mapping[str, str], release: str) -> bool:
    """Whether a statement names a release, as policy/number, or its policy with all of its releases."""
    return release in stated or release.partition("/")[0] in stated


@dataclass(frozen=True)
class Hiding:
    """Among whom people are hidden if the records of several releases are linked.

    Attributes
    ----------
    k
        How many people must be alike.
    among_released
        Whether only people in the releases hide others (k-anonymity), or everybody who was delivered.
    in_population
        Whether classes are counted in an outside population. Then k people must differ between two tables in all, and people
        whom they show with other quasi-identifiers are outside of the risk that was measured.
    at_most
        Share of an earlier release's people who may stand out as missing, and of people in both who may be shown otherwise.
    """

    k: int
    among_released: bool
    in_population: bool
    at_most: float


class OtherPeople(Section):
    """Which earlier releases are of other people."""

    other_people: dict[ReleaseName, Said] = Field({}, description="earlier releases of other people")
    recurring_at_most: Annotated[float, Field(ge=0, le=1)] = Field(
        0.2,
        description="of the rows that occur once here, the share that may occur once in a release of other people, too, beyond "
        "what is expected by chance; if more do, this one is refused, whether `other_people` or identifiers say that they are "
        "others",
    )

    def are_others(self, release: str) -> bool:
        """Whether the people of a release, as policy/number, are stated to be others."""
        return _names(self.other_people, release)


class Releases(OtherPeople):
    """How the releases of one policy belong together (methods#meet).

    Whatever this section says, records of one member in several releases count as linked.
    """

    pseudonyms: Literal["fresh", "stable"] = Field(
        "fresh",
        description="pseudonyms of members: fresh ones for each delivery, or stable ones under this policy, so that recipients "
        "can join its releases; those of providers, vendors and PCPs are always fresh",
    )
    generalization: Literal["free", "pinned"] = Field(
        "free",
        description="free: the node of least loss is chosen for each delivery; pinned: the levels of the last release of this "
        "policy are used again, measured again, and refused if they no longer pass",
    )
    other_people: dict[ReleaseName, Said] = Field(
        {},
        description="earlier releases, or policies with all of theirs, that cannot be compared, because they were made with "
        "another secret or by a version that kept no rows, each with the reason why none of their members is in this policy's "
        "deliveries; without this statement they refuse every release",
    )
    left_out: dict[ReleaseName, Said] = Field(
        {},
        description="earlier releases, or policies with all of theirs, whose members this policy's releases leave out, each "
        "with the reason. A release that cannot be compared, because the version that made it kept no rows, can only be "
        "followed by one without its members",
    )

    def leaves_out(self, release: str) -> bool:
        """Whether the members of a release, as policy/number, are left out."""
        return _names(self.left_out, release)


class CohortReleases(OtherPeople):
    """How releases of cohorts belong together (methods#linked-records)."""

    other_people: dict[ReleaseName, Said] = Field(
        {},
        description="earlier releases, or policies with all of theirs, each with the reason why none of their people is in "
        "this policy's deliveries. Without this statement, an earlier cohort of another delivery refuses this one if it was "
        "released with other columns, levels or attributes, or seems to have nobody in common. If some people are known to be "
        "in both, no statement helps",
    )
    differing_at_least: Annotated[int, Field(ge=1, le=1_000_000)] = Field(
        11,
        description="how many people must be new, changed or missing beside an earlier release, if any is: the difference of "
        "both tables is their rows",
    )
    standing_out_at_most: Annotated[float, Field(ge=0, le=1)] = Field(
        0.05,
        description="share of the people of an earlier release who may be missing now although fewer than `differing_at_least` "
        "are, and of the people in both whom this release shows with other demographics than the earlier one",
    )


class RecordReleases(OtherPeople):
    """How releases of flat tables belong together (methods#linked-records)."""

    generalization: Literal["free", "pinned"] = Field(
        "free",
        description="free: the node of least loss is chosen for each delivery; pinned: the levels of the last release of this "
        "policy are used again, measured again, and refused if they no longer pass",
    )
    other_people: dict[ReleaseName, Said] = Field(
        {},
        description="earlier releases, or policies with all of theirs, each with the reason why none of their people is in "
        "this policy's deliveries. Without this statement, every earlier flat release of the home that is not linked with this "
        "one refuses it: nothing identifies people here or there (no `direct_identifier`), another column or secret does, or "
        "both seem to have nobody in common. Releases of the same delivery do not",
    )

"""The section `releases`: what connects the releases of one policy, and what a person says about earlier ones."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from deid_assets.policy.sections.longitudinal import Said, Section


def _release_name(text: str) -> str:
    policy, _, number = text.partition("/")
    if not (policy.isidentifier() and policy == policy.lower() and number.isdecimal() and len(number) >= 4):
        raise ValueError("a release is named by its policy and number, such as heritage/0001")
    return text


ReleaseName = Annotated[str, AfterValidator(_release_name)]


class Releases(Section):
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
        description="earlier releases that cannot be compared, because they were made with another secret or by a version that "
        "kept no rows, each with the reason why none of their members is in this policy's deliveries; without this "
        "statement they refuse every release",
    )


def _policy_or_release(text: str) -> str:
    _release_name(text if "/" in text else f"{text}/0001")
    return text


class CohortReleases(Section):
    """Which releases of cohorts are of other people (methods#linked-records)."""

    other_people: dict[Annotated[str, AfterValidator(_policy_or_release)], Said] = Field(
        {},
        description="earlier releases, or policies with all of theirs, each with the reason why none of their people is in "
        "this policy's deliveries. Without this statement, every earlier cohort of another delivery that was released with "
        "other columns, levels or attributes refuses this one. If some people are known to be in both, no statement helps",
    )

    def are_others(self, release: str) -> bool:
        """Whether the people of a release, as policy/number, are stated to be others."""
        return release in self.other_people or release.partition("/")[0] in self.other_people


class RecordReleases(CohortReleases):
    """How releases of flat tables belong together (methods#linked-records)."""

    generalization: Literal["free", "pinned"] = Field(
        "free",
        description="free: the node of least loss is chosen for each delivery; pinned: the levels of the last release of this "
        "policy are used again, measured again, and refused if they no longer pass",
    )
    other_people: dict[Annotated[str, AfterValidator(_policy_or_release)], Said] = Field(
        {},
        description="earlier releases, or policies with all of theirs, each with the reason why none of their people is in "
        "this policy's deliveries. Without this statement, every earlier flat release of the home that is not linked with this "
        "one refuses it: nothing identifies people here or there (`source.person`), another column or secret does, or both "
        "seem to have nobody in common. Releases of the same delivery do not",
    )

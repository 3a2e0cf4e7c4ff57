"""Demographic policies as values: Safe Harbor and the five alternatives of Malin et al. (2011, Table 2)."""

from collections.abc import Mapping
from dataclasses import dataclass

from deid_assets.errors import PolicyError
from deid_assets.methods.demographics.attributes import TOP_CODED, CohortAttributes

Node = tuple[int, ...]


@dataclass(frozen=True)
class DemographicPolicy:
    """A policy on demographics: one level for each attribute.

    Examples
    --------
    >>> safe_harbor().with_levels(geography="zip3").levels["geography"]
    'zip3'
    """

    name: str
    chosen: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, name: str, levels: Mapping[str, str]) -> "DemographicPolicy":
        """Return the policy with these levels, by attribute."""
        return cls(name, tuple(levels.items()))

    @property
    def levels(self) -> dict[str, str]:
        """Name of the level of each attribute."""
        return dict(self.chosen)

    def with_levels(self, **levels: str) -> "DemographicPolicy":
        """Return the policy of the same name with other or further levels."""
        return DemographicPolicy.of(self.name, self.levels | levels)

    def node(self, demographics: CohortAttributes) -> Node:
        """Return the position of the chosen level of each attribute.

        Raises
        ------
        PolicyError
            If the policy names an attribute that the cohort does not have, or none of an attribute that it has.
        """
        names = [attribute.name for attribute in demographics.attributes]
        if missing := [name for name in names if name not in self.levels]:
            raise PolicyError(f"policy {self.name}: choose a level of {', '.join(missing)}")
        if unknown := [name for name in self.levels if name not in names]:
            raise PolicyError(f"policy {self.name}: the cohort has no {', '.join(unknown)}")
        return tuple(attribute.number_of(self.levels[attribute.name]) for attribute in demographics.attributes)


def policy_at(node: Node, demographics: CohortAttributes) -> DemographicPolicy:
    """Return the policy of a node, named by its levels."""
    levels = {
        attribute.name: attribute.levels[number].name for attribute, number in zip(demographics.attributes, node, strict=True)
    }
    return DemographicPolicy.of("; ".join(f"{name} {level}" for name, level in levels.items()), levels)


def safe_harbor(geography: str = "state", **further: str) -> DemographicPolicy:
    """Return Safe Harbor: single years of age to 89, any ethnicity, a state (or the level named), sex.

    Parameters
    ----------
    further
        Levels of dates, such as admission='year'.

    References
    ----------
    45 CFR 164.514(b)(2); Malin B, Benitez K, Masys D (2011), Table 2, doi:10.1136/jamia.2010.004622
    """
    return DemographicPolicy.of(
        "Safe Harbor", {"age": TOP_CODED, "ethnicity": "any", "geography": geography, "sex": "sex"} | further
    )


def published_alternatives(**further: str) -> tuple[DemographicPolicy, ...]:
    """Return the five alternatives of Malin et al. (2011, Table 2): all by state and sex, and none with a top code.

    Examples
    --------
    >>> [policy.name for policy in published_alternatives()]
    ['GenEth', '5 year', '5 year-GenEth', '10 year', '10 year-GenEth']
    """
    return tuple(
        DemographicPolicy.of(name, {"age": age, "ethnicity": ethnicity, "geography": "state", "sex": "sex"} | further)
        for name, age, ethnicity in (
            ("GenEth", "1 year", "AA/WH/OT"),
            ("5 year", "5 years", "any"),
            ("5 year-GenEth", "5 years", "AA/WH/OT"),
            ("10 year", "10 years", "any"),
            ("10 year-GenEth", "10 years", "AA/WH/OT"),
        )
    )

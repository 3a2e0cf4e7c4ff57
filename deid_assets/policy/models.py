"""The policy: all sections together, and the questions that the rest of the package asks it."""

import hashlib
import json
import math
from collections.abc import Mapping

from pydantic import Field

from deid_assets.errors import PolicyError
from deid_assets.policy.hierarchies import Hierarchy
from deid_assets.policy.hierarchy_specs import AnyHierarchy, CsvSpec
from deid_assets.policy.sections import (
    Adversary,
    AnyQuasiIdentifier,
    Demographics,
    Dimension,
    Grouping,
    Intake,
    LongTail,
    Name,
    NeighborAttack,
    OptOuts,
    Owner,
    ProviderSuppression,
    QuasiIdentifiers,
    Recipients,
    Removal,
    Risk,
    Said,
    Sample,
    Section,
    TopCoding,
)
from deid_assets.sources.delivery import SourceOptions

RESTRICTED_SECTIONS = ("opt_outs",)
"""Sections that name members. They never leave, not even as a digest: a guessed identifier could be tried on it."""


class Policy(Section):
    """What is published, against whom it is protected, and which thresholds decide.

    Read one with `load_policy`, which also applies the rules of `validation.py`; a policy built by hand is not judged.
    """

    policy: Name = Field(description="name of the policy; the first part of asset keys")
    title: Said = Field(description="one line for people")
    description: Said = Field(description="what the policy is for")
    owners: tuple[Owner, ...] = Field(min_length=1, description="who answers for releases: e-mail or team:name")
    recipients: Recipients = Field(description="recipient_class and terms_of_use")
    source: SourceOptions = Field(description="where deliveries come from: kind synthetic, desynpuf or tables")
    intake: Intake = Intake()
    opt_outs: OptOuts = OptOuts()
    removal: Removal = Field(description="members and claims that are never released")
    sample: Sample = Field(description="how many of the eligible members are released: members or fraction")
    top_coding: TopCoding = Field(description="percentile from which values are one class")
    grouping: Grouping = Grouping()
    long_tail: LongTail = Field(description="which claims of members with very many are cut")
    quasi_identifiers: QuasiIdentifiers = Field(description="what an adversary may know, of members and of claims")
    dimensions: tuple[Dimension, ...] = Field(
        min_length=1, description="dimensions of the lattice; without one nothing could be generalized"
    )
    hierarchies: dict[Name, AnyHierarchy] = Field(min_length=1, description="hierarchies by name")
    adversary: Adversary = Field(description="what the adversary knows")
    risk: Risk = Field(description="thresholds, how class sizes are known, how they are measured")
    neighbor_attack: NeighborAttack = Field(description="attack 1: its trials and gates")
    demographics: Demographics = Demographics()
    provider_suppression: ProviderSuppression = ProviderSuppression()

    @property
    def name(self) -> str:
        """Name of the policy."""
        return self.policy

    @property
    def files(self) -> tuple[str, ...]:
        """Files that belong to the policy, relative to it: whoever copies it must copy these."""
        named = {spec.file for spec in self.hierarchies.values() if isinstance(spec, CsvSpec)}
        return tuple(sorted(named | ({self.opt_outs.file} if self.opt_outs.file else set())))

    # What the lattice is made of

    def hierarchy(self, name: str) -> Hierarchy:
        """Return a hierarchy by its name."""
        try:
            return self.hierarchies[name].build(name)
        except KeyError:
            raise PolicyError(f"policy {self.name} has no hierarchy '{name}'") from None

    def quasi_identifier(self, column: str) -> AnyQuasiIdentifier:
        """Return a quasi-identifier by its column."""
        for found in self.quasi_identifiers.all:
            if found.column == column:
                return found
        raise PolicyError(f"policy {self.name} has no quasi-identifier '{column}'")

    def hierarchy_of(self, column: str) -> Hierarchy:
        """Return the hierarchy of a quasi-identifier."""
        return self.hierarchy(self.quasi_identifier(column).hierarchy)

    def publishes(self, column: str) -> bool:
        """Say whether a quasi-identifier is published: those that are not listed are not."""
        return any(listed.column == column for listed in self.quasi_identifiers.all)

    @property
    def dimension_levels(self) -> tuple[int, ...]:
        """Number of levels of each dimension, in the order of `dimensions`."""
        return tuple(self.hierarchy_of(dimension.columns[0]).levels for dimension in self.dimensions)

    @property
    def node_count(self) -> int:
        """Number of nodes of the lattice."""
        return math.prod(self.dimension_levels)

    def level_of(self, column: str, node: tuple[int, ...]) -> int:
        """Return the level of a quasi-identifier at a node; columns that no dimension moves have level 0.

        Parameters
        ----------
        node
            One level per dimension, in the order of `dimensions`.
        """
        for dimension, level in zip(self.dimensions, node, strict=True):
            if column in dimension.columns:
                return level
        return 0

    # Numbers that follow from others

    @property
    def safe_class_size(self) -> int:
        """Smallest class size in the population that is not at high risk: ceil(1 / threshold); 20 for .05."""
        return smallest_at_least(1 / self.risk.threshold)

    @property
    def counts_population(self) -> bool:
        """Whether class sizes are counted in the delivery, rather than estimated from the release."""
        return self.risk.class_size == "counted"

    @property
    def declared_alpha(self) -> float | None:
        """Released members over population members, where the policy alone tells; else None: ask the delivery."""
        if self.counts_population:
            return self.sample.fraction
        if self.sample.members is not None and self.risk.population_size is not None:
            return self.sample.members / self.risk.population_size
        return None

    # Identity

    def content(self, *sections: str) -> dict:
        """Return sections (all, if none is named) as JSON values, with the contents of the files that they name.

        Restricted: it holds the identifiers of members who opted out.
        """
        unknown = [section for section in sections if section not in type(self).model_fields]
        if unknown:
            raise PolicyError(
                f"a policy has no section {', '.join(unknown)}; its sections are {', '.join(type(self).model_fields)}"
            )
        chosen = sections or tuple(type(self).model_fields)
        content = self.model_dump(mode="json", by_alias=True, include=set(chosen))
        if "opt_outs" in content:
            content["opt_outs"] = {"members": list(self.opt_outs.all_members)}
        for name, spec in self.hierarchies.items() if "hierarchies" in content else ():
            if isinstance(spec, CsvSpec):
                content["hierarchies"][name]["rows"] = [list(row) for row in spec.rows]
        return content

    def public_content(self) -> dict:
        """Return the policy as JSON values, as recipients and auditors may see it: without those who opted out."""
        return {section: value for section, value in self.content().items() if section not in RESTRICTED_SECTIONS}

    def section_hash(self, *names: str) -> str:
        """Return the SHA-256 (hexadecimal) of the canonical JSON of the sections named: what a code version needs.

        Defaults that the file leaves out count as if it stated them; the order of keys does not count.
        """
        return _digest(self.content(*names) if names else {})

    @property
    def hash(self) -> str:
        """SHA-256 of the whole policy. Restricted, as it depends on those who opted out; see `public_hash`."""
        return _digest(self.content())

    @property
    def public_hash(self) -> str:
        """SHA-256 of `public_content`: anyone who has the published policy can compute it again."""
        return _digest(self.public_content())


def smallest_at_least(number: float) -> int:
    """Return ceil of a quotient, unmoved by its last binary digits: 1 / .05 is 20, also if floats say 20.000000000004.

    Examples
    --------
    >>> smallest_at_least(1 / 0.05), smallest_at_least(0.15 / 0.05), smallest_at_least(20.001)
    (20, 3, 21)
    """
    return math.ceil(round(number, 9))


def _digest(content: Mapping) -> str:
    text = json.dumps(content, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()

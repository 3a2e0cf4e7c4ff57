"""Demographic attributes and the levels to which a policy generalizes them (methods#demographics-policies).

The levels of an attribute need not form one chain: ZIP codes lead to three-digit ZIP codes or to counties, and neither refines
the other. Which level refines which is therefore computed from the levels, never declared.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import pandas as pd

from deid_assets.errors import PolicyError


@dataclass(frozen=True, eq=False)
class Level:
    """One generalization of an attribute.

    Parameters
    ----------
    name
        Name of the level, unique within its attribute.
    codes
        (base values,) int: the class of each base value; 0, 1, .. without gaps.
    labels
        Label of each class, as it is published.
    distinguishes
        False for a level of a date that is taken to distinguish nobody: the people who are not in the cohort are in each of
        its classes.
    """

    name: str
    codes: np.ndarray
    labels: tuple[str, ...]
    distinguishes: bool = True

    def __post_init__(self) -> None:
        codes = np.ascontiguousarray(self.codes, dtype=np.int64)
        if not np.array_equal(np.unique(codes), np.arange(len(self.labels))):
            raise ValueError(f"level {self.name}: codes must be 0, 1, .. without gaps, with one label each")
        object.__setattr__(self, "codes", codes)

    @classmethod
    def of(cls, name: str, labels: Sequence[str], distinguishes: bool = True) -> "Level":
        """Return the level that gives each base value one of these labels.

        Examples
        --------
        >>> Level.of("group", ["AA", "WH", "AA"]).codes.tolist()
        [0, 1, 0]
        """
        codes, found = pd.factorize(pd.Series(list(labels), dtype="str"))
        if np.any(codes < 0):
            raise ValueError(f"level {name}: every base value needs a label")
        return cls(name, codes, tuple(found), distinguishes)

    def refines(self, other: "Level") -> bool:
        """Whether values that this level joins are joined by the other level too; every level refines itself."""
        joined = self.codes * len(other.labels) + other.codes
        return len(np.unique(joined)) == len(self.labels)


@dataclass(frozen=True, eq=False)
class Attribute:
    """A demographic attribute: its base values and the levels that a policy may choose.

    Parameters
    ----------
    name
        Column of the cohort.
    values
        (base values,) distinct values as the cohort and the population table write them.
    levels
        In any order.
    shares
        (base values,) float, sum 1: how people are spread over the values, if the population table does not say. None for
        an attribute that the table counts.
    aliases
        Further names of levels: state is another name of county if there is one county.

    Raises
    ------
    ValueError
        If two levels have one name or join the same values, or if a level or the shares have another length.
    """

    name: str
    values: pd.Index
    levels: tuple[Level, ...]
    shares: np.ndarray | None = None
    aliases: Mapping[str, str] = field(default_factory=dict)
    refines: np.ndarray = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "values", pd.Index(self.values))
        object.__setattr__(self, "levels", tuple(self.levels))
        names = [*(level.name for level in self.levels), *self.aliases]
        if not self.values.is_unique or len(set(names)) != len(names) or not names:
            raise ValueError(f"{self.name}: values and names of levels must be distinct, and there must be a level")
        if any(len(level.codes) != len(self.values) for level in self.levels):
            raise ValueError(f"{self.name}: every level must give a class to each of the {len(self.values)} values")
        if self.shares is not None and (
            np.shape(self.shares) != (len(self.values),) or np.min(self.shares) < 0 or abs(np.sum(self.shares) - 1) > 1e-9
        ):
            raise ValueError(f"{self.name}: shares must be one number from 0 to 1 for each value, with sum 1")
        refines = np.array([[finer.refines(coarser) for coarser in self.levels] for finer in self.levels])
        if np.any(refines & refines.T & ~np.eye(len(self.levels), dtype=bool)):
            raise ValueError(f"{self.name}: two levels join the same values")
        object.__setattr__(self, "refines", refines)

    @classmethod
    def of(cls, name: str, values: pd.Index, levels: Iterable[Level], shares: np.ndarray | None = None) -> "Attribute":
        """Return an attribute in which levels that join the same values are one level, with the name of the first."""
        kept: list[Level] = []
        aliases = {}
        for level in levels:
            same = next((other for other in kept if level.refines(other) and other.refines(level)), None)
            if same is None:
                kept.append(level)
            else:
                aliases[level.name] = same.name
        return cls(name, values, tuple(kept), shares, aliases)

    @classmethod
    def from_table(cls, name: str, table: pd.DataFrame) -> "Attribute":
        """Return an attribute of a table with one row for each base value (the index) and one column of labels for each level.

        Examples
        --------
        >>> places = pd.DataFrame({"county": ["A", "A", "B"], "state": ["WA", "WA", "WA"]}, index=["98101", "98102", "98501"])
        >>> Attribute.from_table("geography", places).refines.tolist()
        [[True, True], [False, True]]
        """
        return cls.of(name, table.index, [Level.of(str(column), list(table[column])) for column in table])

    def number_of(self, level: str) -> int:
        """Return the position of a level.

        Raises
        ------
        PolicyError
            If there is no level of this name.
        """
        names = [own.name for own in self.levels]
        kept = self.aliases.get(level, level)
        if kept not in names:
            raise PolicyError(f"{self.name} has no level {level!r}; its levels are: {', '.join([*names, *self.aliases])}")
        return names.index(kept)

    def level(self, name: str) -> Level:
        """Return a level by its name."""
        return self.levels[self.number_of(name)]

    def codes_of(self, column: pd.Series) -> np.ndarray:
        """Return (n,) int, the position of each value among the base values; -1 where it is not one of them."""
        return np.asarray(self.values.get_indexer(pd.Index(column)), dtype=np.int64)

    @cached_property
    def chains(self) -> tuple[tuple[int, ...], ...]:
        """Chains of levels, each from fine to coarse, of which every level is in exactly one."""
        chains: list[list[int]] = []
        for level in sorted(range(len(self.levels)), key=lambda level: -len(self.levels[level].labels)):
            chain = next((chain for chain in chains if self.refines[chain[-1], level]), None)
            if chain is None:
                chains.append([level])
            else:
                chain.append(level)
        return tuple(tuple(chain) for chain in chains)


@dataclass(frozen=True, eq=False)
class CohortAttributes:
    """The attributes of a cohort: age, ethnicity, geography and sex, which a population table counts, and perhaps dates.

    Raises
    ------
    ValueError
        If the values of age are not consecutive years, two attributes have one name, or shares are given for a counted
        attribute or lack for a date.
    """

    age: Attribute
    ethnicity: Attribute
    geography: Attribute
    sex: Attribute
    dates: tuple[Attribute, ...] = ()

    def __post_init__(self) -> None:
        years = self.age.values.to_numpy()
        if not np.issubdtype(years.dtype, np.integer) or np.any(np.diff(years) != 1):
            raise ValueError("the values of age must be consecutive years")
        if len({attribute.name for attribute in self.attributes}) != len(self.attributes):
            raise ValueError("attributes must have different names")
        if any(attribute.shares is not None for attribute in (self.age, self.ethnicity, self.geography, self.sex)):
            raise ValueError("a population table counts age, ethnicity, geography and sex; shares are for dates")
        if any(date.shares is None for date in self.dates):
            raise ValueError("a date needs shares: no population table counts it")

    @property
    def attributes(self) -> tuple[Attribute, ...]:
        """The attributes in the order of a node: age, ethnicity, geography, sex and the dates."""
        return (self.age, self.ethnicity, self.geography, self.sex, *self.dates)

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of levels of each attribute; their product is the number of policies."""
        return tuple(len(attribute.levels) for attribute in self.attributes)

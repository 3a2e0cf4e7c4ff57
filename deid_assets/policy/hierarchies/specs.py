"""How a policy writes a hierarchy: one model per kind, each of which builds a `Hierarchy`."""

from abc import ABC, abstractmethod
from typing import Annotated, Literal

from pydantic import Field, ValidationInfo, model_validator

from deid_assets.errors import PolicyError, how_many
from deid_assets.policy.hierarchies.hierarchy import CodeTable, Dates, Diagnoses, Hierarchy, Identity, Level, Prefixes, Rule
from deid_assets.policy.hierarchies.intervals import Cuts, Intervals, Wording
from deid_assets.policy.sections.longitudinal import Said, Section
from deid_assets.policy.sections.table_file import TableFile
from deid_assets.reference.chapters import chapters_of
from deid_assets.reference.codes import DiagnosisSystem

LARGEST = 1_000_000
"""Largest number that an interval hierarchy may name: it counts days or years."""

Whole = Annotated[int, Field(ge=0, le=LARGEST)]
Step = Annotated[int, Field(ge=1, le=LARGEST)]


class HierarchySpec(Section, ABC):
    """What all kinds share."""

    @abstractmethod
    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""

    @model_validator(mode="after")
    def _is_a_hierarchy(self, info: ValidationInfo) -> "HierarchySpec":
        """Refuse levels that skip values or do not nest while the file is read, so that the message can name the line."""
        self._read(info)
        try:
            self.build("")
        except PolicyError as error:
            raise ValueError(str(error).removeprefix("hierarchy '': ")) from None
        return self

    def _read(self, info: ValidationInfo) -> None:
        """Read the files that the hierarchy names; most name none."""


class IntervalLevel(Section):
    """One level: classes of equal width, or classes that begin at the given cut points."""

    name: Said = Field(description="name of the level")
    width: Step | None = Field(None, description="width of every class, starting at the hierarchy's first value")
    top: Whole | None = Field(None, description="with width: values from here on are one class")
    starts: tuple[Whole, ...] | None = Field(None, description="smallest value of each class; the last class is open")
    then_every: Step | None = Field(None, description="with starts: after the last, a class begins every so many values")
    labels: tuple[Said, ...] = Field((), description="labels of the first classes")
    unit: Literal["day", "week", "month"] | None = Field(
        None, description="unit in which the other classes are labelled (a month has 28 days)"
    )
    missing_joins: Whole | None = Field(
        None,
        description="missing values of members join the class of this value; null: they are a class of their own",
    )

    @model_validator(mode="after")
    def _width_or_starts(self) -> "IntervalLevel":
        if (self.width is None) == (self.starts is None):
            raise ValueError("give either width or starts")
        if self.top is not None and self.width is None:
            raise ValueError("top goes with width; with starts, the last class is open anyway")
        if self.then_every is not None and self.starts is None:
            raise ValueError("then_every goes with starts")
        if self.starts == ():
            raise ValueError("starts must contain at least one value")
        return self

    def cuts(self, first: int, last: int | None) -> Cuts:
        """Return the classes of this level in a hierarchy of values from `first` to `last`."""
        if self.starts is not None:
            return Cuts(self.starts, self.then_every, last)
        if self.top is None or self.width is None:
            return Cuts((first,), self.width, last)
        return Cuts((*range(first, self.top, self.width), self.top), None, last)


class IntervalsSpec(HierarchySpec):
    """Whole numbers in intervals."""

    kind: Literal["intervals"]
    from_: Whole = Field(0, alias="from", description="smallest value")
    to: Whole | None = Field(None, description="largest value; null: unlimited")
    levels: tuple[IntervalLevel, ...] = Field(min_length=1, description="levels, finest first")

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        rule = Intervals(
            first=self.from_,
            last=self.to,
            cuts=tuple(level.cuts(self.from_, self.to) for level in self.levels),
            wordings=tuple(Wording(level.labels, level.unit) for level in self.levels),
        )
        joined = tuple(level.missing_joins for level in self.levels)
        return Hierarchy(name, tuple(level.name for level in self.levels), rule, joined)


class TextSpec(HierarchySpec, ABC):
    """Text values; blanks may join the class of everything."""

    missing_joins: Said | None = Field(
        None,
        description="name of a level with a single class, which missing values join from there on; null: they are a class of "
        "their own",
    )

    def hierarchy(self, name: str, level_names: tuple[str, ...], rule: Rule, anything: str = "") -> Hierarchy:
        """Return the hierarchy of a rule, with missing values handled as the policy says.

        Parameters
        ----------
        anything
            A value that the rule covers, if it lists none.

        Raises
        ------
        PolicyError
            If the level does not exist, or if it has several classes. A blank in one of several classes would pass for
            a value that it may not have, and would not protect the holders of that value from anybody who knows this.
        """
        if self.missing_joins is None:
            return Hierarchy(name, level_names, rule)
        if self.missing_joins not in level_names:
            raise PolicyError(f"missing_joins does not name a level; levels: {', '.join(level_names)}")
        first = level_names.index(self.missing_joins)
        if len(rule.all_labels(first) or ()) != 1:
            raise PolicyError(
                f"missing_joins: level '{self.missing_joins}' has several classes; missing values can only join a level with "
                "one class"
            )
        joins = (rule.all_values() or [anything])[0]
        joined = tuple(joins if level >= first else None for level in range(len(level_names)))
        return Hierarchy(name, level_names, rule, joined)


class CodesSpec(TextSpec):
    """A table in the policy: each value with its labels at the levels above it."""

    kind: Literal["codes"]
    level_names: tuple[Said, ...] = Field(min_length=2, description="names of the levels; the first is the value itself")
    values: dict[Said, tuple[str, ...]] = Field(min_length=1, description="labels of each value above level 0")

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        rows = tuple((value, *labels) for value, labels in self.values.items())
        return self.hierarchy(name, self.level_names, CodeTable(rows))


class CsvSpec(TextSpec, TableFile):
    """A table in a file, in ARX's format: one row per value, one column per level, separated by semicolons."""

    kind: Literal["csv"]
    file: Said = Field(description="path of the file, below the policy's folder")
    level_names: tuple[Said, ...] | None = Field(None, description="names of the levels; the first is the value itself")

    def _read(self, info: ValidationInfo) -> None:
        self.read_file(info)
        columns = len(self.rows[0])
        if self.level_names is not None and len(self.level_names) != columns:
            raise ValueError(
                f"file {self.file} has {how_many(columns, 'column')}, but "
                f"{how_many(len(self.level_names), 'level is', 'levels are')} named"
            )

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        names = self.level_names or ("value", *(f"level {level}" for level in range(1, len(self.rows[0]))))
        return self.hierarchy(name, names, CodeTable(self.rows))


class PrefixesSpec(TextSpec):
    """Text cut to its first characters."""

    kind: Literal["prefixes"]
    lengths: tuple[Annotated[int, Field(ge=0, le=1000)] | None, ...] = Field(
        min_length=1, description="characters kept at each level, decreasing; null: all of them, 0: none ('*')"
    )

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        names = tuple("whole text" if length is None else f"{length} characters" for length in self.lengths)
        return self.hierarchy(name, names, Prefixes(self.lengths))


class DiagnosesSpec(TextSpec):
    """Diagnosis codes as categories, blocks and chapters of their coding system."""

    kind: Literal["diagnoses"]
    system: DiagnosisSystem = Field(description="coding system of all values")
    levels: tuple[Level, ...] = Field(min_length=1, description="finest first; ICD-9-CM has no blocks")

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        first = chapters_of(self.system)[0][1]
        return self.hierarchy(name, tuple(self.levels), Diagnoses(self.system, tuple(self.levels)), first)


class DatesSpec(HierarchySpec):
    """Dates as days, months, quarters or years."""

    kind: Literal["dates"]
    levels: tuple[Literal["day", "month", "quarter", "year"], ...] = Field(min_length=1, description="finest first")

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        return Hierarchy(name, tuple(self.levels), Dates(tuple(self.levels)))


class FixedSpec(HierarchySpec):
    """One level: the column is published unchanged."""

    kind: Literal["fixed"]
    level_name: Said = Field("as it is", description="name of the level")
    values: tuple[Said, ...] = Field((), description="the only allowed values, in display order; none: any value")

    def build(self, name: str) -> Hierarchy:
        """Return the hierarchy under the name that the policy gives it."""
        rule: Rule = CodeTable(tuple((value,) for value in self.values)) if self.values else Identity()
        return Hierarchy(name, (self.level_name,), rule)


AnyHierarchy = Annotated[
    IntervalsSpec | CodesSpec | CsvSpec | PrefixesSpec | DiagnosesSpec | DatesSpec | FixedSpec, Field(discriminator="kind")
]

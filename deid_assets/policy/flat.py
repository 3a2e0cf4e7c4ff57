"""The policy of a flat release: one table with a record per person, k-anonymity or k-map, bounded suppression."""

import math
from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from deid_assets.errors import how_many
from deid_assets.methods.disclosure.identifier_patterns import named_as_direct_identifier
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.policy.base import ReleasePolicy
from deid_assets.policy.cohort import FileBelow
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.problems import Problem, did_you_mean
from deid_assets.policy.rules.limits import limit_problems
from deid_assets.policy.rules.validation import (
    detail_problems,
    first_problems,
    reason_problems,
    secret_list_problems,
    unknown_hierarchy,
)
from deid_assets.policy.sections.counts import RecordCounts, count_noise_problems, record_table_problems
from deid_assets.policy.sections.disclosure import FlatAttributeDisclosure
from deid_assets.policy.sections.longitudinal import ClassSize, ColumnName, Delimiter, Intake, Name, Said, Section, Share
from deid_assets.policy.sections.releases import Hiding, RecordReleases

OWN_COLUMNS = ("record", "class_size", "row_key", "rowid")
"""Columns that the store adds to records or file rows; a released column of this name would be mistaken for one."""

Loss = Literal["entropy", "precision", "discernibility", "average_class_size"]


class FlatSource(Section):
    """One table: CSV, Parquet or DuckDB."""

    kind: Literal["flat"] = "flat"
    file: FileBelow | None = Field(None, description="file name below the delivery's folder; none if the delivery is the file")
    table: Said | None = Field(None, description="for a DuckDB file: table or schema.table")
    delimiter: Delimiter = ","
    person: Said | None = Field(
        None,
        description="column that identifies a person; it is not published, and links releases of the same people. A delivery "
        "in which a person has more than `records_per_person` records is refused. null: nothing checks how many a person has, "
        "and the manifest says so",
    )
    records_per_person: Annotated[int, Field(ge=1, le=1_000)] = Field(
        1, description="most records that one person has; the noise of counts is as many times wider"
    )


class FlatColumn(Section):
    """A column that is published unchanged, because only the person and the publisher know it."""

    column: Said = Field(description="name of the column in the delivery")
    release_as: ColumnName = Field(description="name of the column in the release")


class FlatQuasiIdentifier(FlatColumn):
    """A column that an adversary may know."""

    hierarchy: Name = Field(description="name of the hierarchy")


class FlatPopulation(Section):
    """A table of the population that the records come from: classes are counted in it (k-map)."""

    file: FileBelow = Field(description="file name below the delivery's folder, with the same columns and format")


class FlatRisk(Section):
    """When a flat release is safe enough (methods#flat-tables)."""

    k: ClassSize = Field(description="smallest allowed class size")
    max_suppressed: Share = Field(description="highest share of records in smaller classes, which are left out (MaxSup)")
    loss: Loss = Field("entropy", description="information loss for choosing among nodes that pass")


class FlatPolicy(ReleasePolicy):
    """What is published of a flat table, and how large its equivalence classes must be."""

    has_events: ClassVar[Literal[False]] = False
    dates: ClassVar[None] = None  # those that are released are of events
    kind: Literal["flat"] = Field(description="flat: a table with one record per person")
    source: FlatSource = Field(description="where to find the table in a delivery")
    intake: Intake = Intake()
    population: FlatPopulation | None = Field(None, description="table of the population for k-map; null: k-anonymity")
    quasi_identifiers: tuple[FlatQuasiIdentifier, ...] = Field(min_length=1, description="columns that an adversary may know")
    attributes: tuple[FlatColumn, ...] = Field(
        (), description="columns published as they are; columns that are not listed anywhere are not published"
    )
    formulas: Literal["refuse", "neutralize"] = Field(
        "refuse",
        description="attributes that a spreadsheet would interpret as formulas: refuse the release, or publish them with an "
        "apostrophe in front",
    )
    risk: FlatRisk = Field(description="k, maximum suppression, information loss")
    attribute_disclosure: FlatAttributeDisclosure = FlatAttributeDisclosure()
    counts: RecordCounts = RecordCounts()
    releases: RecordReleases = RecordReleases()
    reviewed_attributes: dict[ColumnName, Said] = Field(
        {},
        description="attributes, by their names in the release, that may single people out, refine a quasi-identifier or look "
        "like identifiers, and quasi-identifiers with the name of a direct identifier, each with the "
        "reason why it is published nevertheless; the report shows both",
    )

    @property
    def records_per_person(self) -> int:
        """What one person adds to a count of records at most."""
        return self.source.records_per_person

    @property
    def persons_checked(self) -> str:
        """Why one person adds no more to a count of records."""
        own, most = self.source, self.source.records_per_person
        said = f"no person has more than {how_many(most, 'record')}"
        if own.person is not None:
            return f"The delivery identifies persons, and {said} in it."
        return f"The policy states that {said}, and nothing checks it: a person with more is protected less than this says."

    @property
    def person_column(self) -> str | None:
        """Name of the column that identifies people; None if nothing does."""
        return self.source.person

    @property
    def hiding(self) -> Hiding:
        """Among whom people are hidden if the records of several releases are linked."""
        return Hiding(self.risk.k, self.population is None, False, self.risk.max_suppressed)

    def hierarchy_of(self, release_as: str) -> Hierarchy:
        """Return the hierarchy of a quasi-identifier, by its name in the release."""
        (found,) = (qi.hierarchy for qi in self.quasi_identifiers if qi.release_as == release_as)
        return self.hierarchy(found)

    @property
    def reviewable(self) -> list[str]:
        """Columns that a reason may overrule: attributes, and quasi-identifiers with the name of a direct identifier."""
        named = (qi for qi in self.quasi_identifiers if any(map(named_as_direct_identifier, (qi.release_as, qi.column))))
        return [one.release_as for one in (*self.attributes, *named)]

    @property
    def columns(self) -> tuple[FlatColumn, ...]:
        """All columns of the release, quasi-identifiers first."""
        return (*self.quasi_identifiers, *self.attributes)

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Attributes whose disclosure is measured per class, by their names in the release."""
        listed = self.attribute_disclosure.sensitive
        return tuple(column.release_as for column in self.attributes) if listed is None else listed

    @property
    def generalized(self) -> dict[str, str]:
        """Columns that have coarser levels, by their names in the release."""
        return {qi.release_as: qi.column for qi in self.quasi_identifiers if self.hierarchy(qi.hierarchy).levels > 1}

    @property
    def node_count(self) -> int:
        """Number of nodes of the lattice."""
        return math.prod(self.hierarchy(qi.hierarchy).levels for qi in self.quasi_identifiers)


def flat_problems(policy: FlatPolicy) -> tuple[Problem, ...]:
    """Return every problem that spans sections of a flat policy."""
    together = (
        secret_list_problems, _distinct_columns, _feasible_lattice, _sensitive_attributes, reason_problems,
        detail_problems, record_table_problems, _persons,
    )  # fmt: skip
    return first_problems(policy, (_known_hierarchies, limit_problems, count_noise_problems), together)


def _known_hierarchies(policy: FlatPolicy) -> Iterator[Problem]:
    """A quasi-identifier without a hierarchy would be published without being judged."""
    for number, listed in enumerate(policy.quasi_identifiers):
        path = ("quasi_identifiers", number, "hierarchy")
        yield from unknown_hierarchy(policy, path, listed.hierarchy)
        spec = policy.hierarchies.get(listed.hierarchy)
        if spec is not None and spec.kind in ("intervals", "dates"):
            told = "the columns of a flat table are read as text: use a hierarchy of kind csv, codes, prefixes or fixed"
            yield Problem(path, told)


def _distinct_columns(policy: FlatPolicy) -> Iterator[Problem]:
    """A column listed at two levels would be published at the finer one; two columns cannot share a name."""
    sections = [("quasi_identifiers", policy.quasi_identifiers), ("attributes", policy.attributes)]
    columns: set[str] = set()
    names: set[str] = set()
    for section, listed in sections:
        for number, one in enumerate(listed):
            if one.column.lower() in columns:
                yield Problem((section, number, "column"), f"column {one.column} is listed twice")
            if one.release_as.lower() in names:
                yield Problem((section, number, "release_as"), f"the release already has a column {one.release_as}")
            if one.release_as.lower() in OWN_COLUMNS:
                yield Problem(
                    (section, number, "release_as"), f"{one.release_as} is a column of the store: choose another name"
                )
            columns.add(one.column.lower())
            names.add(one.release_as.lower())


def _feasible_lattice(policy: FlatPolicy) -> Iterator[Problem]:
    """Where losses depend on classes, the search keeps what it knows of every node in memory, and so does whoever verifies."""
    if policy.node_count > LISTED_AT_MOST and policy.risk.loss not in ("entropy", "precision"):
        yield Problem(
            ("risk", "loss"),
            f"the lattice has {policy.node_count:,} nodes, and of more than {LISTED_AT_MOST:,} the best is found by losses of "
            "levels only: say entropy or precision, list fewer columns, or use hierarchies with fewer levels",
        )


def _persons(policy: FlatPolicy) -> Iterator[Problem]:
    """Classes are counted in records."""
    own = policy.source
    if own.records_per_person >= policy.risk.k:
        yield Problem(
            ("source", "records_per_person"),
            f"a class of k = {policy.risk.k} records could be those of a single person; set a larger risk.k",
        )
    if own.person is None and policy.opt_outs.all_members:
        yield Problem(
            ("opt_outs",),
            "nothing tells whose a record is: give the column that identifies a person the role direct_identifier",
        )
    if own.person is not None and own.person.lower() in {one.column.lower() for one in policy.columns}:
        yield Problem(("source", "person"), f"column {own.person} identifies a person, so it must not be published")


def _sensitive_attributes(policy: FlatPolicy) -> Iterator[Problem]:
    """A rule for something that is not an attribute, or without any attribute, would have no effect."""
    limits, attributes = policy.attribute_disclosure, [column.release_as for column in policy.attributes]
    for name, allowed in (("sensitive", attributes), ("ordered", policy.sensitive_columns)):
        listed = getattr(limits, name) or ()
        for number, column in enumerate(listed):
            if column not in allowed or column in listed[:number]:
                found = "is listed twice" if column in allowed else f"is not one of {', '.join(allowed) or 'any'}"
                kind = "attribute" if name == "sensitive" else "sensitive attribute"
                yield Problem(("attribute_disclosure", name, number), f"{kind} {column} {found}{did_you_mean(column, allowed)}")
    if policy.formulas == "neutralize" and not attributes:
        yield Problem(("formulas",), "neutralize changes attributes, but there are none; remove it")
    if not policy.sensitive_columns:
        for name in ("homogeneous_share_at_most", "l_at_least", "t_at_most"):
            if getattr(limits, name) is not None:
                yield Problem(("attribute_disclosure", name), "cannot gate, because no attribute is sensitive; set it to null")

"""The policy of a longitudinal release: all sections together, and the queries that the rest of the package makes."""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Literal

from pydantic import Field

from deid_assets.errors import PolicyError
from deid_assets.methods.candidate.provider_suppression import PATTERN
from deid_assets.methods.disclosure.identifier_patterns import named_as_direct_identifier
from deid_assets.methods.lattice.predictive_tagging import LISTED_AT_MOST
from deid_assets.policy.base import LATER_SECTIONS, ReleasePolicy
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.sections import disclosure, longitudinal
from deid_assets.policy.sections.columns import (
    Concept,
    DeclaredColumn,
    DeclaredColumns,
    DeliveredInteger,
    DeliveredText,
    Drugs,
    Grouped,
)
from deid_assets.policy.sections.counts import Counts
from deid_assets.policy.sections.dates import ConnectedDate, Dates
from deid_assets.policy.sections.population import InpatientAttack, PopulationTable, VoterListAttack
from deid_assets.policy.sections.releases import Releases
from deid_assets.policy.sections.sensitivity import REPORTED, AttackSensitivity, NumberOfClaims
from deid_assets.policy.sections.table_file import TableFile
from deid_assets.policy.sections.utility import Utility
from deid_assets.reference.known_columns import EVENT_TABLE, IN_DAYS_IN_HOSPITAL, KNOWN, PROVIDER_PSEUDONYMS, KnownColumn
from deid_assets.sources.delivery import (
    DIAGNOSIS_COLUMNS,
    EVENT_COLUMNS,
    YEARS_BY_DEFAULT,
    DiagnosisCodes,
    SourceOptions,
    TablesSource,
)
from deid_assets.store.tables import number_of


class Policy(ReleasePolicy):
    """What is published, against which adversary it is protected, and which thresholds decide.

    Read a policy with `load_policy`, which also applies the rules of `validation.py`; a policy built by hand is not
    validated.
    """

    later_sections: ClassVar[Mapping[str, Any]] = LATER_SECTIONS | {"columns": {"members": {}, "claims": {}}, "attributes": []}
    kind: ClassVar[Literal["longitudinal"]] = "longitudinal"
    has_events: ClassVar[Literal[True]] = True
    """Whether there are tables of events, such as claims, beside the table of people."""
    source: SourceOptions = Field(description="where deliveries come from: kind synthetic, desynpuf or tables")
    intake: longitudinal.Intake = longitudinal.Intake()
    columns: DeclaredColumns = Field(
        DeclaredColumns(),
        description="columns of the delivery beyond those that every policy knows: `quasi_identifiers` lists each like any "
        "other or, of claims, `attributes` does",
    )
    diagnosis_codes: DiagnosisCodes = Field(
        "icd9cm",
        description="the coding system of diagnoses: `icd9cm`, `icd10cm`, `by_date` (ICD-10-CM from October 2015 on, by the "
        "date of discharge, else of service), or `{from: COLUMN}`, a column of the delivered claims that names it; a delivery "
        "of another system is refused",
    )
    removal: longitudinal.Removal = Field(description="members and claims that are removed before release")
    sample: longitudinal.Sample = Field(description="how many of the eligible members are released: members or fraction")
    rotation: longitudinal.Probability | None = Field(
        None,
        description="probability with which every member of earlier releases leaves for good at each later delivery, drawn "
        "before the delivery is read: disappearing multiplies the odds of a new sensitive condition by at most 1 / rotation; "
        "null: nobody leaves, and the limit on disappearance holds for every class of those who happen to be missing",
    )
    top_coding: longitudinal.TopCoding = Field(description="percentile from which values are one class")
    grouping: longitudinal.Grouping = longitudinal.Grouping()
    long_tail: longitudinal.LongTail = Field(description="how claims of members with very many claims are cut")
    number_of_claims: NumberOfClaims | None = Field(
        None, description="the number of claims as a quasi-identifier; null: no adversary is assumed to know it"
    )
    dates: Dates | None = Field(None, description="how dates of service are released; null: they are not released")
    quasi_identifiers: longitudinal.QuasiIdentifiers = Field(description="what an adversary may know about members and claims")
    attributes: tuple[longitudinal.ClaimAttribute, ...] = Field(
        (),
        description="declared columns of claims that are published as they were made, because only the person and the "
        "publisher know them; the gate measures whom they single out and what they tell of quasi-identifiers",
    )
    dimensions: tuple[longitudinal.Dimension, ...] = Field(
        min_length=1, description="dimensions of the lattice; without one, nothing could be generalized"
    )
    recoding: Literal["by_column", "by_class"] = Field(
        "by_column",
        description="by_column: every column of claims has one level for all members; by_class, a level in each demographic "
        "class, was removed: policies with it are read, and not run",
    )
    adversary: longitudinal.Adversary = Field(description="what the adversary knows")
    risk: longitudinal.Risk = Field(description="thresholds, how class sizes are determined, how they are measured")
    neighbor_attack: longitudinal.NeighborAttack = Field(description="attack 1: its trials and gates")
    voter_list_attack: VoterListAttack = VoterListAttack()
    inpatient_attack: InpatientAttack = InpatientAttack()
    attack_sensitivity: AttackSensitivity = AttackSensitivity()
    demographics: longitudinal.Demographics = longitudinal.Demographics()
    provider_suppression: longitudinal.ProviderSuppression = longitudinal.ProviderSuppression()
    population_estimates: disclosure.PopulationEstimates = disclosure.PopulationEstimates()
    attribute_disclosure: disclosure.AttributeDisclosure = disclosure.AttributeDisclosure()
    membership: disclosure.MembershipDisclosure = disclosure.MembershipDisclosure()
    provider_graph: disclosure.ProviderGraph = disclosure.ProviderGraph()
    inference: disclosure.Inference = disclosure.Inference()
    utility: Utility = Utility()
    counts: Counts = Counts()
    releases: Releases = Releases()
    reviewed_attributes: dict[longitudinal.ColumnName, longitudinal.Said] = Field(
        {},
        description="columns published without a hierarchy that may single members out or refine a quasi-identifier, and "
        "declared quasi-identifiers with the name of a direct identifier, each with the reason "
        "why it is published nevertheless; the report shows both",
    )

    def named_files(self) -> Iterator[tuple[str, str, str]]:
        """As for every policy, plus the tables of people."""
        yield from super().named_files()
        for section, table in self.population_tables.items():
            yield section, table.file, table.digest
        for column in self.columns.all.values():
            if isinstance(column, TableFile) and column.file is not None:
                yield "columns", column.file, column.digest

    @property
    def population_tables(self) -> dict[str, PopulationTable]:
        """Tables of people held by an adversary, by the section that names them."""
        sections: dict[str, VoterListAttack | InpatientAttack] = {
            "voter_list_attack": self.voter_list_attack,
            "inpatient_attack": self.inpatient_attack,
        }
        return {name: section.table for name, section in sections.items() if section.table is not None}

    # Sections that not every policy has, for what is only made where they are

    @property
    def years_of_claims(self) -> int:
        """How many years of claims a delivery has at most."""
        years = self.source.years if isinstance(self.source, TablesSource) else None
        return YEARS_BY_DEFAULT if years is None else max(YEARS_BY_DEFAULT, years.count)

    @property
    def connected_dates(self) -> tuple[ConnectedDate, ...]:
        """The dates that follow from the date of service; none if the policy releases no dates."""
        return () if self.dates is None else self.dates.connected

    @property
    def dates_section(self) -> Dates:
        """The section `dates`.

        Raises
        ------
        PolicyError
            If the policy has none: it releases no dates.
        """
        if self.dates is None:
            raise PolicyError(f"policy {self.name} has no section dates")
        return self.dates

    @property
    def number_of_claims_section(self) -> NumberOfClaims:
        """The section `number_of_claims`.

        Raises
        ------
        PolicyError
            If the policy has none: no claims are cut for their number.
        """
        if self.number_of_claims is None:
            raise PolicyError(f"policy {self.name} has no section number_of_claims")
        return self.number_of_claims

    # What the lattice is made of

    def quasi_identifier(self, column: str) -> longitudinal.AnyQuasiIdentifier:
        """Return a quasi-identifier by its column."""
        for found in self.quasi_identifiers.all:
            if found.column == column:
                return found
        raise PolicyError(f"policy {self.name} has no quasi-identifier '{column}'")

    def identity(self, column: str) -> str:
        """A declared column is the table that it is of and how it is made: another name or meaning makes no other column."""
        return json.dumps(self._made[column], sort_keys=True) if column in self._made else column

    @cached_property
    def _made(self) -> dict[str, tuple[str, dict[str, Any]]]:
        """The table of each declared column, and how it is made."""
        return {
            name: (table, {key: value for key, value in made.items() if key not in ("meaning", "file", "ingredients", "codes")})
            for table, columns in self.content("columns").get("columns", {}).items()
            for name, made in columns.items()
        }

    @property
    def attribute_names(self) -> dict[str, str]:
        """Released name of each attribute -> its column."""
        return {one.release_as: one.column for one in self.attributes}

    @property
    def passed_on_columns(self) -> tuple[str, ...]:
        """Released columns of claims without a hierarchy, judged by what they disclose beside the others."""
        return (*longitudinal.PASSED_ON_COLUMNS, *self.attribute_names)

    @property
    def reviewable(self) -> list[str]:
        """Columns that a reason may overrule: attributes, and quasi-identifiers with the name of a direct identifier."""
        named = (qi for qi in self.quasi_identifiers.all if any(map(named_as_direct_identifier, self.called(qi))))
        return [*self.passed_on_columns, *(qi.release_as for qi in named)]

    def called(self, qi: longitudinal.AnyQuasiIdentifier) -> tuple[str, ...]:
        """Names of a quasi-identifier, its delivered one included unless its values were counted, grouped or translated."""
        column = self.columns.all.get(qi.column)
        if isinstance(column, DeliveredInteger) or (isinstance(column, DeliveredText) and not column.translated):
            return (qi.release_as, qi.column, column.from_)
        return (qi.release_as, qi.column)

    @cached_property
    def origins(self) -> dict[str, str]:
        """Each declared quasi-identifier -> what of the delivery it is made of, and as what; if several are, with a number.

        Tries and draws go by it. Neither another name nor a limit, group or format that changes no value gives fresh ones.
        """
        found: dict[str, str] = {}
        seen: Counter[tuple[str, ...]] = Counter()
        listed = [qi.column for qi in self.quasi_identifiers.all if qi.column in self._made]
        for name in sorted(listed, key=lambda name: (self.identity(name), name)):
            table, made = self._made[name]
            # Of what a column of events has, `of` is not what it is made of: which concepts, or which anchor.
            told = ("kind", "from", "until", *(("of",) if table == "members" else ()))
            of = (table, *(made[key] for key in told if key in made))
            found[name] = json.dumps([*of, seen[of]])
            seen[of] += 1
        return found

    def kept_name(self, column: str) -> str:
        """The name of a column in what is kept for later releases: columns that are made otherwise have other names.

        Otherwise values of two columns that only have the same name would be taken for one another.
        """
        if column not in self._made:
            return column
        return f"declared {hashlib.sha256(self.identity(column).encode()).hexdigest()[:32]}"

    def column(self, name: str) -> KnownColumn | DeclaredColumn:
        """What a quasi-identifier means and may contain, whether every policy knows it or this one declares it."""
        return self.columns.all.get(name) or KNOWN[name]

    @property
    def numbers(self) -> tuple[str, ...]:
        """The columns that contain whole numbers; the others contain text."""
        return tuple(name for name in (*KNOWN, *self.columns.all) if self.column(name).limits is not None)

    @property
    def event_tables(self) -> tuple[str, ...]:
        """The tables of events: claims, then others in the order of their names."""
        return ("claims", *sorted(self.source.events))

    @property
    def event_table_of(self) -> dict[str, str]:
        """The table of each claim-level quasi-identifier that is of one table, where there are several tables of events."""
        if not self.has_other_events:
            return {}
        listed = (column for column in self.claim_names if column not in longitudinal.DATE_COLUMNS)
        return {column: self.columns.table_of(column) for column in listed}

    @property
    def event_columns(self) -> tuple[str, ...]:
        """What claims have beside the columns that every policy knows: declared ones, and the table where there are several."""
        table = (EVENT_TABLE,) if self.has_other_events else ()
        return (*sorted(self.columns.of_events), *table)

    @property
    def has_other_events(self) -> bool:
        """Whether there are other tables of events beside the claims."""
        return len(self.event_tables) > 1

    def claim_columns_of(self, table: str) -> tuple[str, ...]:
        """The quasi-identifiers of one table of events; what is known of dates is known of each."""
        return tuple(
            column
            for column in self.claim_names
            if column in longitudinal.DATE_COLUMNS or self.columns.table_of(column) == table
        )

    def numbers_of_events(self, column: str) -> tuple[str, ...]:
        """Columns of members that count the events of a claim-level quasi-identifier: of its table; of dates, of all tables."""
        others = self.event_tables[1:]
        if column in ("year", *longitudinal.DATE_COLUMNS):
            return ("claims", *map(number_of, others))
        table = self.columns.table_of(column)
        return (number_of(table),) if table in others else ("claims",)

    def mapped_of(self, table: str) -> tuple[str, ...]:
        """The canonical columns that another table of events has: its identifiers, and when each event was."""
        return tuple(column for column in EVENT_COLUMNS if column in self.source.events[table].columns)

    def columns_of_file(self, table: str, columns: Sequence[str]) -> tuple[str, ...]:
        """The columns of `release_claims` in the file of one table of events, in their order.

        Those of claims are all that no other table has alone. Another table has the member, its providers, year and dates, and
        what the policy declares of it.
        """
        own: dict[str, set[str]] = {one: set() for one in self.event_tables}
        for name, column in (*((name, column) for column, name in self.claim_names.items()), *self.attribute_names.items()):
            if column in self.columns.of_events:
                own[self.columns.table_of(column)].add(name)
        if table == "claims":
            alone = {EVENT_TABLE}.union(*(names for one, names in own.items() if one != table))
            return tuple(name for name in columns if name not in alone)
        providers = {name for column, name in PROVIDER_PSEUDONYMS.items() if column in self.mapped_of(table)}
        dates = {self.claim_names[column] for column in self.claim_names if column in longitudinal.DATE_COLUMNS}
        dates |= set() if self.dates is None else {self.dates.release_as}
        kept = {"MemberID", "Year", *providers, *dates, *own[table]}
        return tuple(name for name in columns if name in kept)

    @property
    def pattern_of_care(self) -> tuple[str, ...]:
        """Columns by which providers are recognized: groups of codes, what other tables tell but no numbers, and the table."""
        return (*PATTERN, *self.text_of_other_events, *((EVENT_TABLE,) if self.has_other_events else ()))

    @property
    def released_pattern(self) -> dict[str, str]:
        """The columns of a pattern of care that a release shows, and their names in it."""
        names = {qi.column: qi.release_as for qi in self.quasi_identifiers.claims} | {EVENT_TABLE: EVENT_TABLE}
        return {column: name for column, name in names.items() if column in self.pattern_of_care}

    @property
    def text_of_other_events(self) -> tuple[str, ...]:
        """The quasi-identifiers of other tables of events than claims that are text: no numbers and no dates."""
        others = (column for table in self.event_tables[1:] for column in self.claim_columns_of(table))
        return tuple(one for one in others if one not in (*self.numbers, *longitudinal.DATE_COLUMNS))

    def hierarchy_of(self, column: str) -> Hierarchy:
        """Return the hierarchy of a quasi-identifier."""
        return self.hierarchy(self.quasi_identifier(column).hierarchy)

    @property
    def member_columns(self) -> tuple[str, ...]:
        """The quasi-identifiers of members: those that every policy knows in a fixed order, then declared ones by name.

        The order does not depend on the policy's text, because draws are made column by column.
        """
        return self._ordered(self.quasi_identifiers.members, longitudinal.MEMBER_COLUMNS)

    @property
    def member_names(self) -> dict[str, str]:
        """The quasi-identifiers in the released table of members, and their names there."""
        return {qi.column: qi.release_as for qi in self.quasi_identifiers.members if qi.column not in IN_DAYS_IN_HOSPITAL}

    @property
    def claim_names(self) -> dict[str, str]:
        """The quasi-identifiers of claims, ordered as those of members, and their names in the release."""
        names = {qi.column: qi.release_as for qi in self.quasi_identifiers.claims}
        known = (*longitudinal.CLAIM_COLUMNS, *longitudinal.DATE_COLUMNS)
        return {column: names[column] for column in self._ordered(self.quasi_identifiers.claims, known)}

    @staticmethod
    def _ordered(listed: tuple[longitudinal.AnyQuasiIdentifier, ...], known: tuple[str, ...]) -> tuple[str, ...]:
        columns = {qi.column for qi in listed}
        return (*(column for column in known if column in columns), *sorted(columns.difference(known)))

    @property
    def prefers_detail(self) -> bool:
        """Whether members are suppressed so that the others keep more detail."""
        return self.risk.suppression.prefer == "detail"

    def publishes(self, column: str) -> bool:
        """Return whether a quasi-identifier is published; those that are not listed are not."""
        return any(listed.column == column for listed in self.quasi_identifiers.all)

    @property
    def sensitive_columns(self) -> tuple[str, ...]:
        """Published columns whose disclosure is measured per class."""
        listed = self.attribute_disclosure.sensitive
        chosen = disclosure.SENSITIVE_BY_DEFAULT if listed is None else listed
        return tuple(column for column in chosen if column in self.names_of_sensitive)

    @property
    def names_of_sensitive(self) -> dict[str, str]:
        """The columns that may be named as sensitive, and their names in the release; without diagnoses there is no index."""
        index = {"charlson": "CharlsonIndex"} if self.reads_diagnoses else {}
        listed = {qi.column: qi.release_as for qi in self.quasi_identifiers.all if qi.column not in longitudinal.DATE_COLUMNS}
        return index | listed | {column: name for name, column in self.attribute_names.items()}

    @property
    def generalized(self) -> dict[str, str]:
        """Columns that the lattice generalizes, by their names in the release, in policy order."""
        moved = {column for dimension in self.dimensions for column in dimension.columns}
        return {qi.release_as: qi.column for qi in self.quasi_identifiers.all if qi.column in moved}

    @property
    def dimension_levels(self) -> tuple[int, ...]:
        """Number of levels of each dimension, in the order of `dimensions`."""
        return tuple(self.hierarchy_of(dimension.columns[0]).levels for dimension in self.dimensions)

    @property
    def node_count(self) -> int:
        """Number of nodes of the lattice."""
        return math.prod(self.dimension_levels)

    @property
    def lists_lattice(self) -> bool:
        """Whether the search lists every node; a larger lattice is searched best first."""
        return self.node_count <= LISTED_AT_MOST

    def level_of(self, column: str, node: tuple[int, ...]) -> int:
        """Return the level of a quasi-identifier at a node; columns that no dimension generalizes have level 0.

        Parameters
        ----------
        node
            One level per dimension, in the order of `dimensions`.
        """
        for dimension, level in zip(self.dimensions, node, strict=True):
            if column in dimension.columns:
                return level
        return 0

    @property
    def measured_number_of_claims(self) -> NumberOfClaims:
        """What the measured adversary knows about the number of claims; a gate only if the policy says so."""
        return self.number_of_claims or REPORTED

    def reference_level(self, column: str) -> int:
        """Return the level of a member-level quasi-identifier at which claim counts are protected."""
        named = self.number_of_claims.reference if self.number_of_claims else {}
        for dimension in self.dimensions:
            if column in dimension.columns:
                # Columns of one dimension may name their levels differently; the dimension uses the names of its first
                # column.
                return self.hierarchy_of(dimension.columns[0]).level_names.index(named[dimension.name])
        return 0

    # Derived numbers

    @property
    def safe_class_size(self) -> int:
        """Smallest population class size that is not at high risk: ceil(1 / threshold); 20 for .05."""
        return smallest_at_least(1 / self.risk.threshold)

    @property
    def counts_population(self) -> bool:
        """Whether class sizes are counted in the delivery instead of estimated from the release."""
        return self.risk.class_size == "counted"

    @property
    def declared_alpha(self) -> float | None:
        """Released members over population members, if the policy alone determines it; else None: ask the delivery."""
        if self.counts_population:
            return self.sample.fraction
        if self.sample.members is not None and self.risk.population_size is not None:
            return self.sample.members / self.risk.population_size
        return None

    @property
    def reads_diagnoses(self) -> bool:
        """Whether claims have diagnoses; without them, they have no Charlson index."""
        claims = self.source.claims if isinstance(self.source, TablesSource) else None
        return claims is None or not {*DIAGNOSIS_COLUMNS}.isdisjoint(claims.columns)

    @property
    def listed_columns(self) -> tuple[str, ...]:
        """The declared columns of codes that are read by the lists which remove members; rare diseases are diagnoses."""
        every, kinds = self.removal.lists_codes, self.removal.listed_kinds
        return tuple(name for name, one in self.columns.declared.coded.items() if every or one.kind in kinds)

    @property
    def listed_columns_of_events(self) -> dict[str, tuple[str, ...]]:
        """Those of each table of events beside the claims that has any."""
        found = {
            table: tuple(name for name in self.listed_columns if self.columns.table_of(name) == table)
            for table in self.event_tables[1:]
        }
        return {table: columns for table, columns in found.items() if columns}

    def public_content(self) -> dict[str, Any]:
        """As for every policy; of a table of drugs, which may be licensed, only the SHA-256."""
        content = super().public_content()
        for columns in content.get("columns", {}).values():
            for column in columns.values():
                if column["kind"] in ("ndc", "concept"):
                    rows = [column.pop("groups"), column.pop("codes" if column["kind"] == "concept" else "ingredients", None)]
                    column["sha256"] = hashlib.sha256(json.dumps(rows, sort_keys=True).encode()).hexdigest()
        return content

    def content(self, *sections: str) -> dict[str, Any]:
        """As for every policy, plus digests of population tables and the contents of tables of codes."""
        content = super().content(*sections)
        for columns in content.get("columns", {}).values():
            for name, column in columns.items():
                declared = self.columns.all[name]
                if isinstance(declared, Grouped | Drugs):
                    column["groups"] = dict(declared.groups)
                if isinstance(declared, Drugs) and declared.names_ingredients:
                    column["ingredients"] = dict(declared.ingredients)
                if isinstance(declared, Concept):
                    column["groups"] = {row[0]: row[1] for row in declared.rows}
                    column["codes"] = {row[0]: row[2] for row in declared.rows}
        for name, table in self.population_tables.items():
            if name in content:
                content[name]["table"]["sha256"] = table.digest
        return content


def smallest_at_least(number: float) -> int:
    """Return ceil of a quotient, robust to rounding in its last bits: 1 / .05 is 20 even if floats give 20.000000000004.

    Examples
    --------
    >>> smallest_at_least(1 / 0.05), smallest_at_least(0.15 / 0.05), smallest_at_least(20.001)
    (20, 3, 21)
    """
    return math.ceil(round(number, 9))

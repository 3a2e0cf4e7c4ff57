"""What columns published unchanged disclose, as measurements of the gate, and the resulting refusals.

Every column is a gate by itself, unless the policy lists it as reviewed, with a reason. One that looks like a direct identifier
is a gate even then, unless a second person approves the release. All attributes that nobody reviewed are a gate together. A
reviewed column's numbers are still in the evidence, beside their limits, and the report shows them with the reason. Shares that
can be counted in the published rows are shown; those counted in the population are protected.

Of claims, year, payment delay, Charlson index and SupLOS are published unchanged, payment delay below its top code. The other
columns need no further check. Quasi-identifiers and released dates are part of the risk measurement, whatever their
hierarchy. Identifiers of members, providers, vendors and PCPs are pseudonyms; those of providers, vendors and PCPs are
suppressed if they are rare.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from deid_assets.assessments.evidence import Measurement, Method, Refusal
from deid_assets.assessments.kernel_input import Candidate, released_date_columns
from deid_assets.assessments.record_risk import levels_of
from deid_assets.methods.candidate.released_tables import members_by_value, passed_on, released_with_codes
from deid_assets.methods.disclosure import identifier_patterns, leak_limits
from deid_assets.methods.disclosure.attribute_leaks import (
    EncodedColumn,
    Together,
    Told,
    Withheld,
    column_of,
    joint_codes,
    most_made_of,
    most_told,
    singled_out,
    told_together,
    withheld_labels,
)
from deid_assets.methods.flat.queries import published_records
from deid_assets.methods.population.encoding import domains_of, record_codes
from deid_assets.methods.preparation.top_coding import TopCode
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.policy.models import Policy
from deid_assets.policy.sections.longitudinal import PSEUDONYM_COLUMNS
from deid_assets.reference.known_columns import EVENT_TABLE
from deid_assets.store.tables import Table, quoted, rows_of

METHOD = Method("attribute_leaks", "Goodman and Kruskal 1954; WP29 Opinion 05/2014; 45 CFR 164.514(b)(2)")

MEANINGS: Mapping[str, str] = {
    leak_limits.SINGLED_OUT: "Records, of those with a value, whose value is shared by too few others: the value singles "
    "people out.",
    leak_limits.REFINEMENT: "How much better a quasi-identifier can be guessed, at a finer level than it is released at, by an "
    "adversary who knows the column.",
    leak_limits.SURE: "Of what would be guessed wrongly of a quasi-identifier, the share that the column discloses with near "
    "certainty.",
    leak_limits.MADE_OF: "How much better the column can be guessed by an adversary who knows a quasi-identifier at a finer "
    "level than it is released at.",
    leak_limits.IDENTIFIERS: "Records whose value looks like a direct identifier: social security or telephone number, "
    "e-mail, date ...",
    leak_limits.FORMATS: "Records whose value has the form of a ZIP code or of a person's number, which other numbers may "
    "also have.",
    leak_limits.RARE_NAMES: "Of the records whose value is rare, those whose value may be a person's name.",
    leak_limits.NAMED: "Whether the column's name says that it identifies people.",
    leak_limits.UNIQUE: "Records whose value is that of one person only, such as a name, a code or a number of a person; "
    "dates aside.",
    leak_limits.TOGETHER: "The same as refinement, for several columns together, none of which does it alone.",
    leak_limits.REVIEWED_TOGETHER: "The same as refinement, for several columns together that a person reviewed.",
    leak_limits.ALL_SINGLED_OUT: "Records, or released claims, whose values of all these columns together are those of too "
    "few people.",
    leak_limits.UNREVIEWED_SINGLED_OUT: "The same for the columns that nobody reviewed.",
}

_WHY: Mapping[str, str] = {
    leak_limits.SINGLED_OUT: "its values single people out",
    leak_limits.REFINEMENT: "it discloses a quasi-identifier at a finer level than the release shows it",
    leak_limits.SURE: "for some records it discloses a quasi-identifier at a finer level than the release shows it",
    leak_limits.MADE_OF: "it follows from a quasi-identifier that the release shows at a coarser level, as if it were made of "
    "it",
    leak_limits.IDENTIFIERS: "its values look like direct identifiers",
    leak_limits.FORMATS: "its values have the form of direct identifiers",
    leak_limits.RARE_NAMES: "its rare values look like names of persons",
    leak_limits.NAMED: "its name says that it identifies people",
    leak_limits.UNIQUE: "most of its values belong to one person only, as names, codes and numbers of persons do",
}


@dataclass(frozen=True)
class Remedy:
    """What can be done instead of a review, as imperatives: about one column, and about several that leak together."""

    one: str
    several: str


@dataclass(frozen=True)
class PublishedAttributes:
    """Attributes of one record per person as they are published, beside what the release withholds of the same people.

    Attributes
    ----------
    columns
        By the name in the release: the values of all published rows.
    linked
        The same, of the rows whose people are known.
    withheld
        Labels of these people that the release does not show.
    repeated
        By name: how far other withheld values than these labels predict an attribute.
    """

    columns: Mapping[str, EncodedColumn]
    linked: Mapping[str, EncodedColumn]
    withheld: Sequence[Withheld]
    repeated: Mapping[str, float]


@dataclass(frozen=True)
class ColumnLeaks:
    """What was found about a column that is published unchanged.

    Attributes
    ----------
    singled_out, of
        People, or records, whose value is rare; those that have a value.
    refines, sure
        The greatest lambda, and certain knowledge.
    patterns
        Values that look like identifiers.
    named
        Whether one of the column's names says that it identifies people.
    made_of
        How well withheld labels predict the column; None if this was not measured.
    unique
        Records with a value of one person only, and those with a value; None if this was not measured.
    """

    singled_out: int
    of: int
    refines: Told
    sure: Told
    patterns: identifier_patterns.Patterns
    named: bool
    made_of: float | None = None
    unique: tuple[int, int] | None = None

    @property
    def identifying(self) -> frozenset[str]:
        """Measures by which the column looks like a direct identifier, so that one person's review does not overrule them.

        A name of the column alone does not: most values must single people out, too.
        """
        found = {leak_limits.RARE_NAMES, leak_limits.UNIQUE}
        if identifier_patterns.OF_ONE_PERSON.intersection(self.patterns.kinds):
            found.add(leak_limits.IDENTIFIERS)
        if self.patterns.rare_numbers > leak_limits.LIMITS[leak_limits.FORMATS] * self.patterns.filled:
            found.add(leak_limits.FORMATS)
        if self.named and self.singled_out > leak_limits.LIMITS[leak_limits.UNIQUE] * self.of:
            found |= {leak_limits.NAMED, leak_limits.FORMATS}
        return frozenset(found)


def judge_attributes(
    policy: FlatPolicy | CohortPolicy, staged: Table, published: PublishedAttributes, k: int, instead: Remedy
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Measure every attribute of one record per person, and refuse those that leak and were not reviewed.

    Parameters
    ----------
    staged
        The published rows as read back.
    k
        Values are rare if fewer people have them.
    instead
        As for `leak_refusals`.
    """
    columns, linked, withheld = published.columns, published.linked, published.withheld
    found = {}
    for attribute in policy.attributes:
        name = attribute.release_as
        refines, sure = most_told(linked[name], withheld, k)
        found[name] = ColumnLeaks(
            int(singled_out(columns[name].codes, columns[name].blank, k).sum()),
            int((~columns[name].blank).sum()),
            refines,
            sure,
            identifier_patterns.patterns_of(staged, name, k),
            identifier_patterns.named_as_identifier(name) or identifier_patterns.named_as_identifier(attribute.column),
            max(most_made_of(linked[name], withheld, k), published.repeated.get(name, 0.0)),
            identifier_patterns.unique_values(staged, name, policy.records_per_person),
        )
    together = told_together(linked, withheld, leak_limits.TOGETHER_AT_MOST, leak_limits.LIMITS[leak_limits.REFINEMENT], k)
    reviews = Reviews(frozenset(policy.reviewed_attributes), policy.needs_second_person)
    measured = leak_measurements(found, together, reviews, counted_in_release=True)

    def singled(names: Sequence[str]) -> tuple[int, int]:
        joint = joint_codes([columns[name] for name in names])
        return int(singled_out(joint, np.zeros(len(joint), dtype=bool), k).sum()), len(joint)

    measured += all_singled_out(list(columns), singled, reviews, "share of published values")
    return measured, leak_refusals(found, together, measured, reviews, instead)


@dataclass(frozen=True)
class Reviews:
    """What a policy overrules.

    Attributes
    ----------
    columns
        Columns that were reviewed, each with a reason.
    by_two
        Whether somebody else than the owners has to approve the release: only then is a column published that looks like a
        direct identifier.
    """

    columns: frozenset[str]
    by_two: bool

    def overrule(self, column: str, measure: str, leaks: ColumnLeaks) -> bool:
        """Whether a measure of a column decides nothing."""
        return column in self.columns and (self.by_two or measure not in leaks.identifying)


def leak_measurements(
    found: Mapping[str, ColumnLeaks], together: Sequence[Together], reviews: Reviews, counted_in_release: bool
) -> tuple[Measurement, ...]:
    """The measurements of all columns, by their names in the release.

    Parameters
    ----------
    together
        Sets of columns that refine jointly but not individually. A set in which every column was reviewed is not a
        gate.
    reviews
        What the policy overrules.
    counted_in_release
        Whether holders of a value were counted in the release itself, which then discloses their number.
    """
    measured = []
    published = "share of published values"
    counted = published if counted_in_release else "share of released members"  # readers count who has a value
    for column, leaks in found.items():
        looked, filled, rare = leaks.patterns, leaks.patterns.filled, leaks.patterns.rare
        values: tuple[tuple[str, str, float, int | None], ...] = (
            (leak_limits.SINGLED_OUT, counted, _share(leaks.singled_out, leaks.of), leaks.of),
            (leak_limits.REFINEMENT, "probability", leaks.refines.fall, None),
            (leak_limits.SURE, "probability", leaks.sure.sure, None),
            (leak_limits.IDENTIFIERS, published, _share(looked.identifiers, filled), filled),
            (leak_limits.FORMATS, published, _share(looked.formats, filled), filled),
            (leak_limits.RARE_NAMES, published, _share(looked.rare_names, rare), rare),
            (leak_limits.NAMED, "attributes", float(leaks.named), None),
        )
        if leaks.made_of is not None:
            values += ((leak_limits.MADE_OF, "probability", leaks.made_of, None),)
        if leaks.unique is not None:
            own, texts = leaks.unique
            values += ((leak_limits.UNIQUE, published, _share(own, texts), texts),)
        measured += [
            replace(
                METHOD.at_most(f"{column}/{name}", unit, value, leak_limits.LIMITS[name], size),
                gating=not reviews.overrule(column, name, leaks),
            )
            for name, unit, value, size in values
        ]
    if len(found) > 1:
        open_sets = [one for one in together if not reviews.columns.issuperset(one.columns)]
        reviewed = [one for one in together if reviews.columns.issuperset(one.columns)]
        for name, sets, gating in ((leak_limits.TOGETHER, open_sets, True), (leak_limits.REVIEWED_TOGETHER, reviewed, False)):
            if gating or sets:
                worst = max((one.fall for one in sets), default=0.0)
                gate = METHOD.at_most(name, "probability", worst, leak_limits.TOGETHER_AT_MOST)
                measured.append(replace(gate, gating=gating))
    return tuple(measured)


def all_singled_out(
    names: Sequence[str], singled: Callable[[Sequence[str]], tuple[int, int]], reviews: Reviews, unit: str
) -> tuple[Measurement, ...]:
    """Records, or claims, that all attributes jointly single out.

    A gate unless some were reviewed: then those that were not are the gate, and the number for all of them is shown beside.

    Parameters
    ----------
    names
        Of all attributes, in the release.
    singled
        Returns how many records some of them jointly single out, and of how many.
    unit
        Of the share: whether the published rows show it.
    """
    open_columns = [name for name in names if name not in reviews.columns]

    def measured(name: str, chosen: Sequence[str], gating: bool) -> Measurement:
        rare, of = singled(chosen)
        gate = METHOD.at_most(name, unit, _share(rare, of), leak_limits.ALL_SINGLED_OUT_AT_MOST, of)
        return replace(gate, gating=gating)

    found = [measured(leak_limits.ALL_SINGLED_OUT, names, len(open_columns) == len(names))]
    if open_columns and len(open_columns) < len(names):
        found.append(measured(leak_limits.UNREVIEWED_SINGLED_OUT, open_columns, True))
    return tuple(found)


def leak_refusals(
    found: Mapping[str, ColumnLeaks],
    together: Sequence[Together],
    measurements: Sequence[Measurement],
    reviews: Reviews,
    instead: Remedy,
) -> list[Refusal]:
    """Return a refusal for each column with a failed measurement: what the column does, and what to do.

    Numbers are included only if they count nobody, because refused rows are not published.

    Parameters
    ----------
    instead
        What can be done otherwise.
    """
    failed: dict[str, list[Measurement]] = {}
    for one in measurements:
        if one.gating and not one.passed:
            # The name for several columns has no slash, unlike the name for one column.
            several = one.name in (leak_limits.ALL_SINGLED_OUT, leak_limits.UNREVIEWED_SINGLED_OUT)
            failed.setdefault(leak_limits.ALL_SINGLED_OUT if several else one.name.rpartition("/")[0], []).append(one)
    refusals = []
    for column, broken in failed.items():
        if column == leak_limits.ALL_SINGLED_OUT:
            named = [name for name in found if name not in reviews.columns]
            text = (
                f"columns {', '.join(named)}: together they single out more than {leak_limits.ALL_SINGLED_OUT_AT_MOST:.0%} of "
                f"the records, so that whoever knows these values of a person finds their record. {instead.several}, or list "
                "them under reviewed_attributes, each with a reason"
            )
        elif column in found:
            why = "; ".join(_why(one, found[column].patterns) for one in broken)
            text = f"column {column}: {why}. {instead.one}, or list it under reviewed_attributes with a reason"
            if any(one.name.partition("/")[2] in found[column].identifying for one in broken):
                text = (
                    f"column {column}: {why}. {instead.one}. A reason under reviewed_attributes does not suffice for what "
                    "looks like a direct identifier: a second person has to approve the release, too (section approval, which "
                    "names nobody who is an owner)"
                )
        else:
            sets = sorted({one.columns for one in together if one.fall > leak_limits.TOGETHER_AT_MOST})
            text = (
                f"columns {'; '.join(' and '.join(columns) for columns in sets)}: together they disclose a "
                f"quasi-identifier at a finer level than the release shows it. {instead.several}, or list all of them under "
                "reviewed_attributes, each with a reason"
            )
        refusals.append(Refusal("attribute_leak", f"gate/{column or leak_limits.TOGETHER}", None, None, text))
    return refusals


def _why(broken: Measurement, patterns: identifier_patterns.Patterns) -> str:
    """What a column does that it must not do."""
    name = broken.name.partition("/")[2]
    kinds = {leak_limits.IDENTIFIERS: patterns.kinds, leak_limits.FORMATS: patterns.format_kinds}.get(name)
    if kinds is not None:
        return f"{_WHY[name]} ({', '.join(kinds)})"
    if name in (leak_limits.REFINEMENT, leak_limits.SURE, leak_limits.MADE_OF):
        return f"{_WHY[name]} ({broken.compared:.2g}, and at most {broken.threshold:g} may be)"
    return _WHY[name]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


_REMEDY = "Lower top_coding.percentile if payment delays are rare, or correct the delivery if a column is wrongly filled"
_INSTEAD_OF_CLAIMS = Remedy(_REMEDY, _REMEDY)


def passed_on_leaks(candidate: Candidate, pay_delay: TopCode | None) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Measure every such column, per member, and refuse those that leak and were not reviewed.

    The holders of a value are counted in the delivery. If that is an extract of the population, there are more holders
    in the population, so the count errs on the safe side.

    Parameters
    ----------
    candidate
        With the published claims as read back.
    pay_delay
        Payment delays from here on are one class.
    """
    policy, staged, held = candidate.policy, candidate.tables["release_claims"], candidate.tables["held"]
    unjudged = _unjudged(policy, staged)
    k, expressions = policy.safe_class_size, passed_on(pay_delay, policy.attribute_names)
    # The gate compares the staged claims with these, column by column, so results for one apply to the other.
    told, together = told_in_tables(_tables(candidate, expressions), k)
    found = {}
    for name in expressions:
        named = identifier_patterns.named_as_identifier(name) or any(
            map(identifier_patterns.named_as_identifier, _read_from(policy, name))
        )
        refines, sure = told[name]
        row = _by_value(staged, held, [name], expressions, k)
        singled, of = int(row["singled"]), int(row["members"])
        found[name] = ColumnLeaks(singled, of, refines, sure, identifier_patterns.patterns_of(staged, name, k), named)
    reviews = Reviews(frozenset(policy.reviewed_attributes), policy.needs_second_person)
    measured = leak_measurements(found, together, reviews, counted_in_release=False)

    def singled_claims(names: Sequence[str]) -> tuple[int, int]:
        return _worst_table(policy, staged, held, names, expressions)

    measured += all_singled_out(policy.passed_on_columns, singled_claims, reviews, "probability")
    return measured, [*unjudged, *leak_refusals(found, together, measured, reviews, _INSTEAD_OF_CLAIMS)]


def _read_from(policy: Policy, name: str) -> tuple[str, ...]:
    """The delivered columns that an attribute is made of, by their names in the delivery; none of other columns."""
    column = policy.attribute_names.get(name)
    return () if column is None else tuple(cell.column for cell in policy.columns.declared.of_events[column].cells)


def _unjudged(policy: Policy, staged: Table) -> list[Refusal]:
    """Columns of the staged claims that are not measured."""
    judged = {EVENT_TABLE, *PSEUDONYM_COLUMNS, *policy.passed_on_columns, *released_date_columns(policy).values()}
    judged |= {qi.release_as for qi in policy.quasi_identifiers.claims}
    judged |= {one.release_as for one in policy.connected_dates}  # they follow from the others
    return [
        Refusal("unjudged_column", name, None, None, f"release_claims: nothing measures what column {name} discloses")
        for name in staged.columns()
        if name not in judged
    ]


def _by_value(staged: Table, held: Table, names: Sequence[str], expressions: Mapping[str, str], k: int) -> pd.Series:
    """The row of `members_by_value`, of one column or of several together."""
    return staged.query(members_by_value(staged, held, {name: expressions[name] for name in names}), [k]).iloc[0]


def _worst_table(
    policy: Policy, staged: Table, held: Table, names: Sequence[str], expressions: Mapping[str, str]
) -> tuple[int, int]:
    """Claims that several columns single out together, and claims: of the table of events in which they are most."""
    found = [(0, 0)]
    for table in policy.event_tables:
        if listed := policy.columns_of_file(table, names):
            row = _by_value(rows_of(staged, table), rows_of(held, table), listed, expressions, policy.safe_class_size)
            found.append((int(row["singled_claims"]), int(row["claims"])))
    return max(found, key=lambda one: (one[0] / max(one[1], 1), one[1]))


@dataclass(frozen=True, eq=False)
class TableOfEvents:
    """The rows of one table of events: its published columns, and what they could tell.

    Attributes
    ----------
    columns
        By their names in the release.
    withheld
        For one quasi-identifier after the other, (n,) bool, the rows that have a value of it, and all labels finer than the
        released one. They take much memory, and may be made when they are asked for, once.
    """

    columns: Mapping[str, EncodedColumn]
    withheld: Iterable[tuple[np.ndarray, tuple[Withheld, ...]]]


def told_in_tables(tables: Sequence[TableOfEvents], k: int) -> tuple[dict[str, tuple[Told, Told]], list[Together]]:
    """Measure what columns tell of labels, each table by itself: rows of other tables, which lack a column, say nothing of it.

    Returns
    -------
    (dict, list)
        By column the greatest fall and the greatest share of certain knowledge, over all tables that have it and all
        quasi-identifiers; and the sets of columns of a table that tell more together.
    """
    told = dict.fromkeys((name for table in tables for name in table.columns), (Told(), Told()))
    together: list[Together] = []
    for table in tables:
        for known, labels in table.withheld:
            columns = {name: EncodedColumn(own.codes[known], own.blank[known]) for name, own in table.columns.items()}
            for name, column in columns.items():
                (fall, sure), (falls, is_sure) = told[name], most_told(column, labels, k)
                told[name] = max(fall, falls, key=lambda one: one.fall), max(sure, is_sure, key=lambda one: one.sure)
            varying = {name: own for name, own in columns.items() if table.columns[name].codes.any()}
            limits = leak_limits.TOGETHER_AT_MOST, leak_limits.LIMITS[leak_limits.REFINEMENT]
            together += told_together(varying, labels, *limits, k)
    return told, together


def _tables(candidate: Candidate, expressions: Mapping[str, str]) -> list[TableOfEvents]:
    """The released rows of each table of events, with the published columns that it has."""
    policy, listed, held = candidate.policy, candidate.policy.quasi_identifiers, candidate.tables["held"]
    members, claims = ([qi.column for qi in part] for part in (listed.members, listed.claims))
    table_of = {EVENT_TABLE: f"c.{EVENT_TABLE}"} if policy.has_other_events else {}
    # One column after the other is read of them: all together would take much memory.
    rows = candidate.write(
        "released_with_codes", released_with_codes(candidate.recoding, held, members, claims, {**expressions, **table_of})
    )
    found = []
    for table in policy.event_tables:
        own = rows_of(rows, table)
        names = policy.columns_of_file(table, list(expressions))
        columns = {name: column_of(own.query(f"SELECT {quoted(name)} FROM {own.sql}")[name]) for name in names}
        found.append(TableOfEvents(columns, _withheld_of_claims(candidate, own)))
    return found


def _withheld_of_claims(candidate: Candidate, claims: Table) -> Iterator[tuple[np.ndarray, tuple[Withheld, ...]]]:
    """For each quasi-identifier, the claims that have a value of it, and all labels finer than the released one."""
    policy, levels, domains = candidate.policy, candidate.levels, candidate.tables["value_domains"].frame()

    def column(value: str) -> np.ndarray:
        return claims.arrays(f"SELECT {value}::INTEGER AS value FROM {claims.sql}")["value"]

    person = column("member_number")
    for number, qi in enumerate(policy.quasi_identifiers.all):
        codes = column(f"coalesce(q{number}, -1)")
        known = codes >= 0
        codes = codes[known]
        by_level = [codes, *(level[codes] for level in _levels(domains, qi.column))]
        names = ["as delivered", *policy.hierarchy_of(qi.column).level_names]
        if len(codes):
            yield known, withheld_labels(qi.column, names, by_level, levels[qi.column] + 1, person[known])


def _levels(domains: pd.DataFrame, column: str) -> Iterator[np.ndarray]:
    """For each level the class of every value."""
    own = domains[domains["quasi_identifier"] == column].sort_values(["level", "base_code"])
    return (rows["level_code"].to_numpy() for _, rows in own.groupby("level"))


_INSTEAD_OF_RECORDS = Remedy(
    "Do not publish it, or publish it as a quasi-identifier with a hierarchy",
    "Declare those that others may know as quasi-identifiers, or do not publish all of them",
)


def record_leaks(
    policy: FlatPolicy, staged: Table, tables: Mapping[str, Table]
) -> tuple[tuple[Measurement, ...], list[Refusal]]:
    """Measure every attribute of the staged rows, and refuse those that leak and were not reviewed.

    Values are counted in the release: a population table has no attributes, and would only make values more common.

    Parameters
    ----------
    staged
        The published rows as read back.
    tables
        Records, those that are left out, domains, and the released level of every quasi-identifier, by their assets.
    """
    names = [column.release_as for column in policy.attributes]
    if not names:
        return (), []
    k, levels = policy.risk.k, levels_of(policy, tables["record_generalization"])
    records, suppressed, domains = (tables[name] for name in ("records", "suppressed_records", "record_domains"))
    rows = staged.query(published_records(staged, records, suppressed, domains, levels, names))
    columns = {name: column_of(rows[name], k) for name in names}
    # Rows that no record produces are refused as such; only the others have labels to check.
    known = rows["record"].notna().to_numpy()
    withheld = _withheld_of_records(policy, records, domains, levels, rows["record"][known].to_numpy(np.int64))
    linked = {name: EncodedColumn(column.codes[known], column.blank[known]) for name, column in columns.items()}
    return judge_attributes(policy, staged, PublishedAttributes(columns, linked, withheld, {}), k, _INSTEAD_OF_RECORDS)


def _withheld_of_records(
    policy: FlatPolicy, records: Table, domains: Table, levels: Mapping[str, int], rows: np.ndarray
) -> list[Withheld]:
    """All labels finer than the released ones, for the numbered records."""
    names = list(levels)
    selects = ", ".join(quoted(name) for name in names)
    numbers = records.query(f"SELECT record, {selects} FROM {records.sql} ORDER BY record")
    place = np.searchsorted(numbers["record"].to_numpy(), rows)
    coded = record_codes(records, domains, names)[place]
    found: list[Withheld] = []
    for axis, (name, domain) in enumerate(zip(names, domains_of(domains, names), strict=True)):
        values = column_of(numbers[name].iloc[place]).codes
        by_level = [values, *(level[coded[:, axis]] for level in domain.levels)]
        level_names = ["as delivered", *policy.hierarchy_of(name).level_names]
        found += withheld_labels(name, level_names, by_level, levels[name] + 1)
    return found

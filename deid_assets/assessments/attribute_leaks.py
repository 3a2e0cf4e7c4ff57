"""What columns published unchanged disclose, as measurements of the gate, and the resulting refusals.

Every column is a gate by itself, unless the policy lists it as reviewed, with a reason. One that looks like a direct identifier
is a gate even then, unless a second person approves the release. All attributes that nobody reviewed are a gate together. A
reviewed column's numbers are still in the evidence, beside their limits, and the report shows them with the reason. Shares that
can be counted in the published rows are shown; those counted in the population are protected.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from deid_assets.assessments.evidence import Measurement, Refusal
from deid_assets.methods.disclosure.attribute_leaks import (
    Column,
    Together,
    Told,
    Withheld,
    joint_codes,
    most_made_of,
    most_told,
    singled_out,
    told_together,
)
from deid_assets.methods.disclosure.identifier_patterns import (
    OF_ONE_PERSON,
    Patterns,
    named_as_identifier,
    patterns_of,
    unique_values,
)
from deid_assets.methods.disclosure.leak_limits import (
    ALL_SINGLED_OUT,
    ALL_SINGLED_OUT_AT_MOST,
    FORMATS,
    IDENTIFIERS,
    LIMITS,
    MADE_OF,
    NAMED,
    RARE_NAMES,
    REFINEMENT,
    REVIEWED_TOGETHER,
    SINGLED_OUT,
    SURE,
    TOGETHER,
    TOGETHER_AT_MOST,
    UNIQUE,
    UNREVIEWED_SINGLED_OUT,
)
from deid_assets.policy.cohort import CohortPolicy
from deid_assets.policy.flat import FlatPolicy
from deid_assets.store.tables import Table

MEANINGS: Mapping[str, str] = {
    SINGLED_OUT: "Records, of those with a value, whose value is shared by too few others: the value singles people out.",
    REFINEMENT: "How much better a quasi-identifier can be guessed, at a finer level than it is released at, by an "
    "adversary who knows the column.",
    SURE: "Of what would be guessed wrongly of a quasi-identifier, the share that the column discloses with near certainty.",
    MADE_OF: "How much better the column can be guessed by an adversary who knows a quasi-identifier at a finer level than it "
    "is released at.",
    IDENTIFIERS: "Records whose value looks like a direct identifier: social security or telephone number, e-mail, date ...",
    FORMATS: "Records whose value has the form of a ZIP code or of a person's number, which other numbers may also have.",
    RARE_NAMES: "Of the records whose value is rare, those whose value may be a person's name.",
    NAMED: "Whether the column's name says that it identifies people.",
    UNIQUE: "Records whose value is that of one person only, such as a name, a code or a number of a person; dates aside.",
    TOGETHER: "The same as refinement, for several columns together, none of which does it alone.",
    REVIEWED_TOGETHER: "The same as refinement, for several columns together that a person reviewed.",
    ALL_SINGLED_OUT: "Records, or released claims, whose values of all these columns together are those of too few people.",
    UNREVIEWED_SINGLED_OUT: "The same for the columns that nobody reviewed.",
}

_WHY: Mapping[str, str] = {
    SINGLED_OUT: "its values single people out",
    REFINEMENT: "it discloses a quasi-identifier at a finer level than the release shows it",
    SURE: "for some records it discloses a quasi-identifier at a finer level than the release shows it",
    MADE_OF: "it follows from a quasi-identifier that the release shows at a coarser level, as if it were made of it",
    IDENTIFIERS: "its values look like direct identifiers",
    FORMATS: "its values have the form of direct identifiers",
    RARE_NAMES: "its rare values look like names of persons",
    NAMED: "its name says that it identifies people",
    UNIQUE: "most of its values belong to one person only, as names, codes and numbers of persons do",
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

    columns: Mapping[str, Column]
    linked: Mapping[str, Column]
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
    patterns: Patterns
    named: bool
    made_of: float | None = None
    unique: tuple[int, int] | None = None

    @property
    def identifying(self) -> frozenset[str]:
        """Measures by which the column looks like a direct identifier, so that one person's review does not overrule them.

        A name of the column alone does not: most values must single people out, too.
        """
        found = {RARE_NAMES, UNIQUE}
        if OF_ONE_PERSON.intersection(self.patterns.kinds):
            found.add(IDENTIFIERS)
        if self.patterns.rare_numbers > LIMITS[FORMATS] * self.patterns.filled:
            found.add(FORMATS)
        if self.named and self.singled_out > LIMITS[UNIQUE] * self.of:
            found |= {NAMED, FORMATS}
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
            patterns_of(staged, name, k),
            named_as_identifier(name) or named_as_identifier(attribute.column),
            max(most_made_of(linked[name], withheld, k), published.repeated.get(name, 0.0)),
            unique_values(staged, name, policy.records_per_person),
        )
    together = told_together(linked, withheld, TOGETHER_AT_MOST, LIMITS[REFINEMENT], k)
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
            (SINGLED_OUT, counted, _share(leaks.singled_out, leaks.of), leaks.of),
            (REFINEMENT, "probability", leaks.refines.fall, None),
            (SURE, "probability", leaks.sure.sure, None),
            (IDENTIFIERS, published, _share(looked.identifiers, filled), filled),
            (FORMATS, published, _share(looked.formats, filled), filled),
            (RARE_NAMES, published, _share(looked.rare_names, rare), rare),
            (NAMED, "attributes", float(leaks.named), None),
        )
        if leaks.made_of is not None:
            values += ((MADE_OF, "probability", leaks.made_of, None),)
        if leaks.unique is not None:
            own, texts = leaks.unique
            values += ((UNIQUE, published, _share(own, texts), texts),)
        measured += [
            _measured(f"{column}/{name}", unit, value, LIMITS[name], size, not reviews.overrule(column, name, leaks))
            for name, unit, value, size in values
        ]
    if len(found) > 1:
        open_sets = [one for one in together if not reviews.columns.issuperset(one.columns)]
        reviewed = [one for one in together if reviews.columns.issuperset(one.columns)]
        for name, sets, gating in ((TOGETHER, open_sets, True), (REVIEWED_TOGETHER, reviewed, False)):
            if gating or sets:
                worst = max((one.fall for one in sets), default=0.0)
                measured.append(_measured(name, "probability", worst, TOGETHER_AT_MOST, None, gating))
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
        return _measured(name, unit, _share(rare, of), ALL_SINGLED_OUT_AT_MOST, of, gating)

    found = [measured(ALL_SINGLED_OUT, names, len(open_columns) == len(names))]
    if open_columns and len(open_columns) < len(names):
        found.append(measured(UNREVIEWED_SINGLED_OUT, open_columns, True))
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
            several = one.name in (ALL_SINGLED_OUT, UNREVIEWED_SINGLED_OUT)
            failed.setdefault(ALL_SINGLED_OUT if several else one.name.rpartition("/")[0], []).append(one)
    refusals = []
    for column, broken in failed.items():
        if column == ALL_SINGLED_OUT:
            named = [name for name in found if name not in reviews.columns]
            text = (
                f"columns {', '.join(named)}: together they single out more than {ALL_SINGLED_OUT_AT_MOST:.0%} of the records, "
                f"so that whoever knows these values of a person finds their record. {instead.several}, or list them under "
                "reviewed_attributes, each with a reason"
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
            sets = sorted({one.columns for one in together if one.fall > TOGETHER_AT_MOST})
            text = (
                f"columns {'; '.join(' and '.join(columns) for columns in sets)}: together they disclose a "
                f"quasi-identifier at a finer level than the release shows it. {instead.several}, or list all of them under "
                "reviewed_attributes, each with a reason"
            )
        refusals.append(Refusal("attribute_leak", f"gate/{column or TOGETHER}", None, None, text))
    return refusals


def _why(broken: Measurement, patterns: Patterns) -> str:
    """What a column does that it must not do."""
    name = broken.name.partition("/")[2]
    kinds = {IDENTIFIERS: patterns.kinds, FORMATS: patterns.format_kinds}.get(name)
    if kinds is not None:
        return f"{_WHY[name]} ({', '.join(kinds)})"
    if name in (REFINEMENT, SURE, MADE_OF):
        return f"{_WHY[name]} ({broken.compared:.2g}, and at most {broken.threshold:g} may be)"
    return _WHY[name]


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0


def _measured(name: str, unit: str, value: float, limit: float | None, size: int | None, gating: bool) -> Measurement:
    method, section = "attribute_leaks", "Goodman and Kruskal 1954; WP29 Opinion 05/2014; 45 CFR 164.514(b)(2)"
    return Measurement(name, unit, value, None, limit, "at_most", "value", None, method, section, size, None, gating)

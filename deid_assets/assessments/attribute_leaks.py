"""What columns published unchanged disclose, as measurements of the gate, and the resulting refusals.

Every column is a gate by itself, unless the policy lists it as reviewed, with a reason. A reviewed column's numbers are
still in the evidence, beside their limits, and the report shows them with the reason. Shares that can be counted in the
published rows are shown; those counted in the population are protected.
"""

from collections.abc import Container, Mapping, Sequence
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
from deid_assets.methods.disclosure.identifier_patterns import Patterns, named_as_identifier, patterns_of
from deid_assets.methods.disclosure.leak_limits import (
    ALL_SINGLED_OUT,
    FORMATS,
    IDENTIFIERS,
    LIMITS,
    MADE_OF,
    NAMED,
    RARE_NAMES,
    REFINEMENT,
    SINGLED_OUT,
    SURE,
    TOGETHER,
    TOGETHER_AT_MOST,
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
    TOGETHER: "The same as refinement, for several columns together, none of which does it alone.",
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
}


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
    """

    singled_out: int
    of: int
    refines: Told
    sure: Told
    patterns: Patterns
    named: bool
    made_of: float | None = None


def judge_attributes(
    policy: FlatPolicy | CohortPolicy, staged: Table, published: PublishedAttributes, k: int, instead: str
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
        )
    together = told_together(linked, withheld, TOGETHER_AT_MOST, LIMITS[REFINEMENT], k)
    joint = joint_codes(list(columns.values()))
    alone = singled_out(joint, np.zeros(len(joint), dtype=bool), k)
    measured = leak_measurements(found, together, policy.reviewed_attributes, counted_in_release=True)
    measured += (all_singled_out(int(alone.sum()), len(joint)),)
    return measured, leak_refusals(found, together, measured, instead)


def leak_measurements(
    found: Mapping[str, ColumnLeaks], together: Sequence[Together], reviewed: Container[str], counted_in_release: bool
) -> tuple[Measurement, ...]:
    """The measurements of all columns, by their names in the release.

    Parameters
    ----------
    together
        Sets of columns that refine jointly but not individually. A set in which every column was reviewed is not a
        gate.
    reviewed
        Columns that were reviewed.
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
        gating = column not in reviewed
        measured += [
            _measured(f"{column}/{name}", unit, value, LIMITS[name], size, gating) for name, unit, value, size in values
        ]
    if len(found) > 1:
        open_sets = [one for one in together if not all(column in reviewed for column in one.columns)]
        worst = max((one.fall for one in open_sets), default=0.0)
        measured.append(_measured(TOGETHER, "probability", worst, TOGETHER_AT_MOST, None, True))
    return tuple(measured)


def all_singled_out(records: int, of: int) -> Measurement:
    """Records that all columns jointly single out. Not a gate, because rich tables always single out records."""
    return _measured(ALL_SINGLED_OUT, "share of published values", _share(records, of), None, of, False)


def leak_refusals(
    found: Mapping[str, ColumnLeaks], together: Sequence[Together], measurements: Sequence[Measurement], instead: str
) -> list[Refusal]:
    """Return a refusal for each column with a failed measurement: what the column does, and what to do.

    Numbers are included only if they count nobody, because refused rows are not published.

    Parameters
    ----------
    instead
        What can be done about a column, as an imperative.
    """
    failed: dict[str, list[Measurement]] = {}
    for one in measurements:
        if one.gating and not one.passed:
            # The name for several columns has no slash, unlike the name for one column.
            failed.setdefault(one.name.rpartition("/")[0], []).append(one)
    refusals = []
    for column, broken in failed.items():
        if column in found:
            why = "; ".join(_why(one, found[column].patterns) for one in broken)
            text = f"column {column}: {why}. {instead}, or list it under reviewed_attributes with a reason"
        else:
            sets = sorted({one.columns for one in together if one.fall > TOGETHER_AT_MOST})
            text = (
                f"columns {'; '.join(' and '.join(columns) for columns in sets)}: together they disclose a "
                f"quasi-identifier at a finer level than the release shows it. {instead}, or list all of them under "
                "reviewed_attributes with a reason"
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

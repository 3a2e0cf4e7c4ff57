"""What a release still discloses: the level of every column, how many classes it has there, how much information is left.

What is said of classes is the policy's, and what is left of the information is rounded as the public certificate is.

Labels that few released members have are listed with the levels without them: what to write into the policy. A level that
separates two claims of thousands tells analysts next to nothing. Its class can be joined with a neighbor: classes only
grow, so that nobody's risk rises, and as the cut is taken out of all coarser levels too, levels still nest. Every number
shown here can be counted in the released files.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deid_assets.assessments.detail import kept_name
from deid_assets.figures.heritage import GENERALIZATIONS, HIERARCHIES
from deid_assets.figures.rendering import ReportTable, percent
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.policy.hierarchies.intervals import Cuts, Intervals
from deid_assets.policy.yaml_text import to_yaml
from deid_assets.release.manifest.dictionary import DescribedTable
from deid_assets.reports.report import GeneralizationRow
from deid_assets.store.tables import quoted


@dataclass(frozen=True)
class ReleasedColumn:
    """A quasi-identifier as it is released.

    Attributes
    ----------
    name
        In the release.
    hierarchy, level
        Its hierarchy, and the level that was chosen.
    kept
        Share of its information that is left; None where nothing generalizes it, or nobody measured it.
    varies
        Whether the delivery has more than one value of it, as far as the public may know.
    """

    name: str
    hierarchy: Hierarchy
    level: int
    kept: float | None
    varies: bool = True

    @property
    def level_name(self) -> str:
        """What the policy calls the level."""
        return self.hierarchy.level_names[self.level]

    @property
    def tells_nothing(self) -> bool:
        """Whether a column that had finer levels ended in one class for all."""
        return self.level > 0 and classes_at(self.hierarchy, self.level) == 1


def classes_at(hierarchy: Hierarchy, level: int) -> int | None:
    """How many classes a level has by the policy; None where the policy sets no number."""
    try:
        return len(hierarchy.order(level))
    except ValueError:
        return None


def released_columns(
    hierarchies: Mapping[str, tuple[Hierarchy, int]], measured: Iterable[Mapping[str, Any]], alike: Collection[str] = ()
) -> tuple[ReleasedColumn, ...]:
    """The columns with what was measured of them.

    Parameters
    ----------
    hierarchies
        Released name to hierarchy and chosen level.
    measured
        The gate's measurements, as a manifest has them.
    alike
        Columns whose values are all alike, or nearly: nothing can be lost of them.
    """
    values = {found["name"]: found["value"] for found in measured}
    return tuple(
        ReleasedColumn(name, hierarchy, level, values.get(kept_name(name)), name not in alike)
        for name, (hierarchy, level) in hierarchies.items()
    )


def retained_rows(columns: Sequence[ReleasedColumn], beside_heritage: bool = True) -> tuple[GeneralizationRow, ...]:
    """One row for each column: level, classes of how many, information kept, and the published Heritage level."""
    return tuple(
        GeneralizationRow(
            column.name,
            column.level_name,
            _classes(column),
            "hardly varies"
            if not column.varies
            else "not generalized"
            if column.hierarchy.levels == 1
            else "not measured"
            if column.kept is None
            else percent(column.kept),
            GENERALIZATIONS.get(column.name, "not published") if beside_heritage else "",
        )
        for column in columns
    )


def _classes(column: ReleasedColumn) -> str:
    """Classes at the chosen level, of how many at the finest."""
    here, finest = (classes_at(column.hierarchy, level) for level in (column.level, 0))
    if here is None:
        return "all that occur"
    return f"{here:,}" if finest is None else f"{here:,} of {finest:,}"


def retained_sentences(columns: Sequence[ReleasedColumn]) -> tuple[str, ...]:
    """What is left, in words: the share on average, and every column that ended in one class for all.

    Examples
    --------
    >>> retained_sentences(())
    ()
    """
    kept = [(column.kept, column) for column in columns if column.kept is not None and column.varies]
    found = []
    if kept:
        share, least = min(kept, key=lambda of_column: of_column[0])
        found.append(
            f"{least.name}, the only column that varies and could be generalized, keeps {percent(share, 2)} of its information "
            f"(level {least.level_name})."
            if len(kept) == 1
            else f"The {len(kept)} columns that vary and could be generalized keep "
            f"{percent(sum(own for own, _ in kept) / len(kept), 2)} of their information on average. {least.name} keeps the "
            f"least, {percent(share, 2)} (level {least.level_name})."
        )
    nothing = [column for column in columns if column.tells_nothing]
    if nothing:
        named = ", ".join(f"{column.name} ({column.level_name})" for column in nothing)
        found.append(f"One class for all, so that their values carry no information: {named}.")
    return tuple(found)


def levels_table(columns: Sequence[ReleasedColumn]) -> ReportTable:
    """Table 4 of El Emam et al. 2012 beside this policy's: every level that a column could have had, finest first."""
    return ReportTable(
        "levels",
        "Levels to choose from (Table 4)",
        "Every level that the policy allows, finest first, with the chosen one in brackets. The last column shows the "
        "hierarchies that the Heritage Health Prize published.",
        (("Column", "name"), ("This policy", "name"), ("Heritage Health Prize", "name")),
        tuple((column.name, _levels(column), HIERARCHIES.get(column.name, "not published")) for column in columns),
    )


def _levels(column: ReleasedColumn) -> str:
    names = column.hierarchy.level_names
    return " → ".join(f"[{name}]" if level == column.level else name for level, name in enumerate(names))


FEW = 20
"""Released members that a label should have, at least: as many as hide each other elsewhere."""


@dataclass(frozen=True)
class LabelCount:
    """How often a label occurs in a released table: rows, and members who have it."""

    label: str
    rows: int
    members: int


def counted_labels(described: DescribedTable, column: str) -> tuple[LabelCount, ...]:
    """Every label of a column with its numbers, the rarest first."""
    name = quoted(column)
    found = described.table.query(
        f"""SELECT {name} AS label, count(*) AS n, count(DISTINCT "MemberID") AS members FROM {described.table.sql}
            WHERE {name} IS NOT NULL GROUP BY 1 ORDER BY 3, 2, 1"""
    )
    return tuple(LabelCount(row.label, int(row.n), int(row.members)) for row in found.itertuples())


def rare_labels(tables: Mapping[str, DescribedTable], few: int = FEW) -> tuple[ReportTable | None, str]:
    """Labels that fewer than so many released members have, and the YAML of levels in which they are joined with others.

    Returns
    -------
    (ReportTable or None, str)
        None and an empty text where there is none. The text names each hierarchy that is cut into intervals.
    """
    rows: list[tuple[str, ...]] = []
    least: dict[tuple[str, int], dict[str, int]] = {}
    levels_of: dict[tuple[str, int], Hierarchy] = {}
    for table, described in tables.items():
        for column, (hierarchy, level) in described.hierarchies.items():
            counts = counted_labels(described, column)
            rare = [found for found in counts if found.members < few]
            rows += [(f"{table}: {column}", found.label, f"{found.rows:,}", f"{found.members:,}") for found in rare]
            # Columns that share a hierarchy share its levels: a label is as rare as where it is rarest.
            shared = least.setdefault((hierarchy.name, level), {})
            shared |= {found.label: min(found.members, shared.get(found.label, found.members)) for found in counts}
            levels_of[hierarchy.name, level] = hierarchy
    if not rows:
        return None, ""
    advised = {
        name: {"levels": levels}
        for (name, level), members in least.items()
        if min(members.values(), default=few) < few and (levels := joined_levels(levels_of[name, level], level, members, few))
    }
    listed = ReportTable(
        "rare",
        "Rare labels",
        f"Labels that fewer than {few} released members have, counted in the files. The gates accept them, but they are of "
        "little use for analysis. Joining their classes with a neighboring one makes classes larger, so nobody's risk rises. "
        "The levels below replace the same levels of the policy, and coarser ones where that is necessary to keep levels "
        "nested. For other kinds of hierarchies, join the labels in their tables.",
        (("Column", "name"), ("Label", "name"), ("Rows", "number"), ("Members", "number")),
        tuple(rows),
    )
    return listed, to_yaml({"hierarchies": advised}, width=110) if advised else ""


def joined_levels(hierarchy: Hierarchy, level: int, members: Mapping[str, int], few: int = FEW) -> list[dict[str, object]]:
    """A level and those above it without the cuts that keep rare classes apart, as a policy writes them.

    Parameters
    ----------
    level
        The released one.
    members
        Label to the released members who have it.

    Returns
    -------
    list of dict
        One for each level from `level` on; empty where the hierarchy is not cut into classes of a known number.
    """
    rule = hierarchy.rule
    if not isinstance(rule, Intervals) or any(cuts.count is None or cuts.step is not None for cuts in rule.cuts[level:]):
        return []
    kept = _kept_starts(rule.cuts[level], [members.get(label, 0) for label in rule.all_labels(level) or ()], few)
    found: list[dict[str, object]] = []
    for place in range(level, hierarchy.levels):
        cuts, labels = rule.cuts[place], rule.all_labels(place) or ()
        starts = [start for start in cuts.starts if start in kept]
        joined = [
            " or ".join(label for label, own in zip(labels, cuts.starts, strict=True) if start <= own < following)
            for start, following in zip(starts, [*starts[1:], float("inf")], strict=True)
        ]
        missing = hierarchy.missing_joins[place] if hierarchy.missing_joins else None
        entry: dict[str, object] = {"name": hierarchy.level_names[place], "starts": starts, "labels": joined}
        found.append(entry if missing is None else {**entry, "missing_joins": missing})
    return found


def _kept_starts(cuts: Cuts, members: Sequence[int], few: int) -> set[int]:
    """The cut points that are left when each rare class has been joined with its neighbor of fewer members.

    A joined class has at least as many members as the larger of both: so much is sure, whoever has both labels. Classes
    that nobody has are no label of the release, and stay.
    """
    starts, counts = list(cuts.starts), list(members)
    while len(starts) > 1 and any(0 < count < few for count in counts):
        rare = next(place for place, count in enumerate(counts) if 0 < count < few)
        beside = [place for place in (rare - 1, rare + 1) if 0 <= place < len(counts)]
        other = min(beside, key=lambda place: (counts[place] == 0, counts[place]))
        first = min(rare, other)
        counts[first : first + 2] = [max(counts[first : first + 2])]
        del starts[first + 1]
    return set(starts)

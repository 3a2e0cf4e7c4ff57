"""What a release still discloses: the level of every column, how many classes it has there, how much information is left.

What is said of classes is the policy's, and what is left of the information is rounded as the public certificate is.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deid_assets.assessments.detail import kept_name
from deid_assets.figures.heritage import GENERALIZATIONS, HIERARCHIES
from deid_assets.figures.rendering import percent
from deid_assets.figures.tables import ReportTable
from deid_assets.policy.hierarchies.hierarchy import Hierarchy
from deid_assets.reports.report import GeneralizationRow


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

"""Published files of counts, audited together: earlier masks, noise and versions of the same cells (methods#ledger-of-counts).

Cells of one name count the same people, whichever file they are in. If their count changed in between, they are two versions
of the cell. Whether it did is known from keyed digests, which tell nobody else what the counts are. Cells of which that is not
known are taken for the same, unless what they show excludes it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import floor, inf, isfinite
from urllib.parse import quote

import numpy as np

from deid_assets.methods.counts.audit import SmallCounts, audit_tables
from deid_assets.methods.counts.budget import Budget, definition
from deid_assets.methods.counts.estimates import chances_of_repeated_cells
from deid_assets.methods.counts.programs import Watch
from deid_assets.methods.counts.published_tables import NoisyTables, disclosed_beside_noise, small_differences
from deid_assets.methods.counts.tables import CellName, PublishedCounts, Sum

_MILLION = 10**6
_ANY = "all"
"""In place of the delivery, where all versions of a cell are taken for one."""


@dataclass(frozen=True)
class PublishedFile:
    """What a file says.

    Attributes
    ----------
    cells
        Names, each once.
    shown
        A count, 'T' or 'H' for every cell.
    sd
        Standard deviation of the noise in each count: 0 where it is exact, infinite where there is a mark.
    draws
        Which draw each noise is, `NoisyCell.draw`; empty where there is none.
    contribution
        What one person adds to each cell at most.
    sums
        The sums that hold for the true counts.
    rule
        Masks: which counts are small, and how well they must stay hidden. None: the counts are noisy.
    versions
        Equal for cells of one name whose counts are equal, if both files have the same `keyed_by`.
    keyed_by
        Whose key the versions have; empty if nobody knows the versions.
    least
        Counts that readers know not to be smaller; empty if there are none.
    """

    cells: tuple[CellName, ...]
    shown: tuple[int | str, ...]
    sd: tuple[float, ...]
    draws: tuple[str, ...]
    contribution: tuple[int, ...]
    sums: tuple[Sum, ...]
    rule: SmallCounts | None
    versions: tuple[str, ...]
    keyed_by: str
    least: tuple[int, ...] = ()

    def ranges(self) -> tuple[np.ndarray, np.ndarray]:
        """The least and the largest count of every cell that the file itself allows; noise allows any."""
        if self.rule is not None:
            found = self.masked(self.cells, self.rule)
            return found.low, found.high
        exact = np.array(self.sd) == 0
        counts = np.array([0 if isinstance(one, str) else one for one in self.shown], float)
        return np.where(exact, counts, -inf), np.where(exact, counts, inf)

    def masked(self, names: Sequence[CellName], rule: SmallCounts) -> PublishedCounts:
        """What masks say, of cells that are called otherwise."""
        marks = PublishedCounts.of_marks(
            (names, self.renamed_sums(names)),
            self.shown,
            np.array(self.contribution, np.int64),
            rule.threshold,
            rule.smallest(),
        )
        low = np.maximum(marks.low, np.array(self.least, float)) if self.least else marks.low
        return PublishedCounts(marks.cells, low, marks.high, marks.sums, marks.contribution)

    def noisy(self, names: Sequence[CellName]) -> NoisyTables:
        """What noise says, of cells that are called otherwise."""
        counts = tuple(0.0 if isinstance(one, str) else float(one) for one in self.shown)
        return NoisyTables(tuple(names), counts, self.sd, self.draws, self.renamed_sums(names))

    def renamed_sums(self, names: Sequence[CellName]) -> tuple[Sum, ...]:
        """The sums, between cells that are called otherwise."""
        called = dict(zip(self.cells, names, strict=True))
        return tuple(Sum(one.name, called[one.total], tuple(called[part] for part in one.parts)) for one in self.sums)


def related(file: PublishedFile, others: Iterable[PublishedFile]) -> tuple[PublishedFile, ...]:
    """The files that share a cell with this one, or with a file that does, and so on; in their order."""
    left, found, names = list(others), set[int](), set(file.cells)
    grew = True
    while grew:
        new = [place for place, one in enumerate(left) if place not in found and not names.isdisjoint(one.cells)]
        grew = bool(new)
        found.update(new)
        names.update(name for place in new for name in left[place].cells)
    return tuple(left[place] for place in sorted(found))


def disclosed_together(
    file: PublishedFile,
    earlier: Sequence[PublishedFile],
    true_counts: Mapping[CellName, int] | None = None,
    watch: Watch | None = None,
) -> int:
    """Count the small counts that a file gives away, or makes earlier masked files give away.

    Every file is held to the rule by which it was masked. Versions of a cell are audited twice: apart, and with the noise of
    one taken for that of another, as somebody does who does not know that it changed. Exact counts of two versions that differ
    by less than the threshold disclose who came or went.

    Parameters
    ----------
    file
        The file that is judged.
    earlier
        Files that were published before.
    true_counts
        Of the cells of the file, where they are known: so which cells of files with another key cannot be the same.

    Raises
    ------
    CountsError
        If masked files contradict each other.

    Examples
    --------
    A count that an earlier file hides, and its complement:

    >>> names = tuple(CellName("sex", "all", name) for name in ("total", "F", "M"))
    >>> sums = (Sum("sex", names[0], names[1:]),)
    >>> def file(shown):
    ...     sd = tuple(float("inf") if isinstance(one, str) else 0.0 for one in shown)
    ...     return PublishedFile(names, shown, sd, ("",) * 3, (1,) * 3, sums, SmallCounts(), ("", "", ""), "")
    >>> [disclosed_together(file((100, "H", "T")), [file(shown)]) for shown in ((100, "H", "T"), (100, 97, "H"))]
    [0, 1]
    """
    files = (*earlier, file)
    named = _versions(files, file, true_counts)
    has_changed = len({name for names in named for name in names}) > len({cell for one in files for cell in one.cells})
    found = set[tuple[CellName, bool]]()
    few = 0
    for apart in (False, True) if has_changed else (False,):
        cells = [_named(names, apart) for names in named]
        masked = [(one, names, one.rule) for one, names in zip(files, cells, strict=True) if one.rule is not None]
        noisy = [one.noisy(names) for one, names in zip(files, cells, strict=True) if one.rule is None]
        if not masked:
            return 0
        together = PublishedCounts.together(one.masked(names, rule) for one, names, rule in masked)
        judged: dict[SmallCounts, set[CellName]] = {}
        for one, names, rule in masked:
            hidden = {name for name, shown in zip(names, one.shown, strict=True) if one is file or isinstance(shown, str)}
            judged.setdefault(rule, set()).update(hidden)
        for rule, of_rule in judged.items():
            audited = audit_tables(together, rule, watch)
            disclosed = disclosed_beside_noise(together, audited, noisy, rule)
            if file.rule is not None:
                disclosed |= {audited.cells[place] for place in audited.disclosed()}
            found |= {(name, apart) for name in disclosed & of_rule}
            if rule == file.rule and not apart:
                few = small_differences(audited, cells[-1], rule)
    return max(sum(apart is view for _, apart in found) for view in (False, True)) + few


def _versions(
    files: Sequence[PublishedFile], file: PublishedFile, true_counts: Mapping[CellName, int] | None
) -> list[list[tuple[CellName, str]]]:
    """The cells of all files, each with its version."""
    low, high = file.ranges()
    if true_counts is not None:
        low = high = np.array([true_counts[name] for name in file.cells], float)
    own = {name: (version, *ends) for name, version, *ends in zip(file.cells, file.versions, low, high, strict=True)}
    return [[*zip(one.cells, _versions_of(one, file.keyed_by, own), strict=True)] for one in files]


def _versions_of(one: PublishedFile, keyed_by: str, own: Mapping[CellName, tuple[str, float, float]]) -> list[str]:
    """The versions of a file's cells, called as the judged file calls them where they may be the same."""
    if one.keyed_by == keyed_by and keyed_by:
        return list(one.versions)
    found = []
    for name, version, low, high in zip(one.cells, one.versions, *one.ranges(), strict=True):
        if name in own and low <= own[name][2] and own[name][1] <= high:
            found.append(own[name][0])
        else:
            found.append(f"{one.keyed_by}-{version}".replace(".", "-"))
    return found


def _named(cells: Iterable[tuple[CellName, str]], apart: bool) -> list[CellName]:
    """The names of versions, as `published_tables` reads them: whose noise may be taken for whose."""
    return [
        name._replace(table=f"{quote(name.table, safe='')} {version if apart else _ANY}.{version}") for name, version in cells
    ]


def chance_together(files: Sequence[PublishedFile], budget: Budget) -> float:
    """Return the highest probability with which somebody names a noisy count who averages all noise of all files.

    Versions of a cell are taken for one count.

    Parameters
    ----------
    files
        All files. Exact counts and sums of masked ones count, too.
    budget
        Tells with which standard deviations cells were published.
    """
    sums = {(one.total, one.parts): one for file in files for one in file.sums}
    names = list(dict.fromkeys(name for file in files for name in file.cells))
    is_noisy = {name for file in files if file.rule is None for name in file.cells}
    exact = {name for file in files for name, sd in zip(file.cells, file.sd, strict=True) if sd == 0}
    if not is_noisy:
        return 0.0
    sds = budget.earlier_sds({definition(name): None for name in is_noisy})
    draws = {name: tuple(_narrower(one) for one in sds.get(definition(name), ()) if isfinite(one)) for name in names}
    highest = 0.0
    # What is exact in one file may be noisy in another, where it is another version; so each cell is also judged without.
    for known in {frozenset(name for name in exact if not draws[name]), frozenset(exact)}:
        chances = chances_of_repeated_cells(
            names, list(sums.values()), [(0.0,) if one in known else draws[one] for one in names]
        )
        judged = [place for place, name in enumerate(names) if name in is_noisy and name not in known]
        highest = max(highest, float(chances[judged].max(initial=0.0)))
    return highest


def _narrower(sd: float) -> float:
    """A standard deviation in millionths, rounded down as the registry does: widths that hardly differ are one."""
    return max(1, floor(round(sd * _MILLION, 3))) / _MILLION

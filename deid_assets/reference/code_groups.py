"""Groups of codes that a policy may declare as columns: HCPCS by letter, CPT by section, revenue codes, taxonomy codes by kind.

`code_groups.csv` has a row for each range of first characters: what the range is of (`by`), its first and last bound, which are
equally long, its group and its source. A code has the group of the longest bounds that take its first characters. Where CPT is
grouped by section, codes that end with a letter begin with it, behind a hyphen: `-T` takes 0016T.

The names are ours. Which numbers mean what is a fact, and is on public pages: of CMS (HCPCS by letter, revenue centers), of the
sections of CPT, and of the levels of the taxonomy of NUCC. The texts of CPT (AMA) and of the UB-04 manual (NUBC, AHA) are
licensed, and nobody said that those of the taxonomy may be passed on: none of them is in the table.
"""

import functools
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, get_args

from deid_assets.reference.tables import read_table

CodeGrouping = Literal["hcpcs_letter", "cpt_section", "revenue_group", "taxonomy_kind"]
CODE_GROUPINGS: tuple[CodeGrouping, ...] = get_args(CodeGrouping)


@dataclass(frozen=True)
class GroupRange:
    """Codes whose first characters lie between two bounds, and their group."""

    first: str
    last: str
    group: str

    def prefixes(self) -> Iterator[str]:
        """Every text of the bounds' length between them; bounds that differ are digits, or single letters."""
        if len(self.first) == 1:
            return (chr(one) for one in range(ord(self.first), ord(self.last) + 1))
        if self.first == self.last:
            return iter((self.first,))
        return (f"{number:0{len(self.first)}}" for number in range(int(self.first), int(self.last) + 1))


@functools.cache
def group_ranges(by: CodeGrouping) -> tuple[GroupRange, ...]:
    """The ranges of a grouping, those with the longest bounds first.

    Examples
    --------
    >>> [(one.first, one.last) for one in group_ranges("cpt_section")][:2]
    [('99100', '99140'), ('992', '994')]
    """
    rows = [GroupRange(row["first"], row["last"], row["group"]) for row in read_table("code_groups.csv") if row["by"] == by]
    return tuple(sorted(rows, key=lambda row: (-len(row.first), row.first)))


def group_prefixes(by: CodeGrouping) -> dict[str, str]:
    """First characters of codes -> group, the longest first: the first that a code begins with has its group.

    Examples
    --------
    >>> found = group_prefixes("cpt_section")
    >>> found["99140"], found["9"], found["J"]
    ('anesthesia', 'medicine', 'HCPCS level II')
    """
    return {prefix: row.group for row in group_ranges(by) for prefix in row.prefixes()}


def group_names(by: CodeGrouping) -> tuple[str, ...]:
    """The groups, in the order of their ranges.

    Examples
    --------
    >>> group_names("cpt_section")[:2]
    ('anesthesia', 'evaluation and management')
    """
    return tuple(dict.fromkeys(row.group for row in group_ranges(by)))

"""The primary condition groups of ICD-10-CM, by the General Equivalence Mappings; methods#codes.

`icd10cm.csv` has the 74,044 codes of fiscal year 2024, each with one group, where it comes from, and a note:

* `one group`: every code of ICD-9-CM that the mapping of 2018 names is of this group; the note lists them;
* `several groups`: they are of several. The group is that of the first code of the first choice list of scenario 1, and of the
  first code listed where there are no scenarios; the note lists the codes with their groups;
* `parent`: the code is newer than the mapping, and everything that the codes below its longest shorter parent map to is of this
  group; the note names the parent;
* `completion`: ours. The mapping names no code, or the codes below the parent are of several groups: the most frequent group of
  the codes below the longest beginning of at least three characters under which codes map, else of its block, else of its
  chapter, the first in the alphabet if several are as frequent; the note names which. The chapter of codes for special purposes
  has no code that maps: the note names the code whose group is taken.

Sources: Centers for Medicare and Medicaid Services, General Equivalence Mappings 2018 (2018_I10gem.txt); Centers for Disease
Control and Prevention, ICD-10-CM codes of 2024.
"""

import bisect
import csv
import functools
import re
from collections import Counter
from importlib import resources

ORIGINS = ("one group", "several groups", "parent", "completion")

_LONGEST = 7
# What other years add to a code: a digit or two, such as E66.81, or a letter, such as C81.0A; and to injuries, the encounter.
_NEWER = re.compile("[0-9]{1,2}|[0-9]?[A-Z]|[A-Z][0-9]")
_NEWER_INJURY = re.compile("[0-9X]{0,3}[A-Z]")


def group_of(code: str) -> str | None:
    """Return the primary condition group of a code of ICD-10-CM.

    A code that is not listed has the group of the longest beginning of it, of at least three characters, that is listed or has
    listed codes below it: it is a category or another header, or a code of another year. Codes below it count by their most
    frequent group, the first in the alphabet if several are as frequent. What follows that beginning must be as short as what
    distinguishes codes of other years; otherwise the text is no code, but two (I10B20), or one with something behind it.

    Parameters
    ----------
    code
        Without prefix and dots, in upper case.

    Returns
    -------
    str or None
        None if not even the code's category is known, or if the text is no code.

    Examples
    --------
    >>> group_of("E119"), group_of("E11"), group_of("E6681"), group_of("E99"), group_of("E119B20")
    ('METAB3', 'METAB3', 'METAB3', None, None)
    """
    groups, _ = _listed()
    for length in range(len(code), 2, -1):
        below = codes_below(code[:length])
        if below:
            rest = code[length:]
            if rest and not _NEWER.fullmatch(rest) and not (len(code) == _LONGEST and _NEWER_INJURY.fullmatch(rest)):
                return None
            return groups.get(code[:length]) or most_frequent_group(Counter(groups[one] for one in below))
    return None


def is_complete(code: str) -> bool:
    """Say whether a code is in the list of 2024, which has no headers.

    Examples
    --------
    >>> is_complete("E119"), is_complete("E11")
    (True, False)
    """
    return code in _listed()[0]


def codes_below(code: str) -> list[str]:
    """Return the listed codes that begin with a code, itself included.

    Examples
    --------
    >>> codes_below("B20"), codes_below("F170")
    (['B20'], [])
    """
    _, codes = _listed()
    return codes[bisect.bisect_left(codes, code) : bisect.bisect_left(codes, code + "~")]


def most_frequent_group(groups: Counter[str]) -> str:
    """Return the most frequent group; the first in the alphabet if several are as frequent.

    Examples
    --------
    >>> most_frequent_group(Counter(["MISCHRT", "CHF", "AMI", "CHF", "AMI"]))
    'AMI'
    """
    return min(groups, key=lambda group: (-groups[group], group))


@functools.cache
def _listed() -> tuple[dict[str, str], list[str]]:
    """Return the groups by code, and the codes in order."""
    with resources.files(__package__).joinpath("icd10cm.csv").open(encoding="utf-8") as lines:
        rows = csv.reader(lines, strict=True)
        next(rows)
        groups = {row[0]: row[1] for row in rows}
    return groups, sorted(groups)

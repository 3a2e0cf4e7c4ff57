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
from collections import Counter
from importlib import resources

ORIGINS = ("one group", "several groups", "parent", "completion")


def group_of(code: str) -> str | None:
    """Return the primary condition group of a code of ICD-10-CM.

    A code that is not listed has the group of the longest beginning of it, of at least three characters, that is listed or has
    listed codes below it: it is a category or another header, or a code of another year. Codes below it count by their most
    frequent group, the first in the alphabet if several are as frequent.

    Parameters
    ----------
    code
        Without prefix and dots, in upper case.

    Returns
    -------
    str or None
        None if not even the code's category is known.

    Examples
    --------
    >>> group_of("E119"), group_of("E11"), group_of("E119X"), group_of("E99")
    ('METAB3', 'METAB3', 'METAB3', None)
    """
    groups, codes = _listed()
    for length in range(len(code), 2, -1):
        beginning = code[:length]
        if beginning in groups:
            return groups[beginning]
        below = codes[bisect.bisect_left(codes, beginning) : bisect.bisect_left(codes, beginning + "~")]
        if below:
            return most_frequent(Counter(groups[one] for one in below))
    return None


def is_listed(code: str) -> bool:
    """Say whether a code, or a code below it, is in the list of 2024.

    Examples
    --------
    >>> is_listed("E119"), is_listed("E11"), is_listed("V5789")
    (True, True, False)
    """
    _, codes = _listed()
    place = bisect.bisect_left(codes, code)
    return place < len(codes) and codes[place].startswith(code)


def most_frequent(groups: Counter[str]) -> str:
    """Return the most frequent group; the first in the alphabet if several are as frequent.

    Examples
    --------
    >>> most_frequent(Counter(["MISCHRT", "CHF", "AMI", "CHF", "AMI"]))
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

"""Parts of a long selection of tests: continuous integration runs one of them with each commit, and all of them in turn."""

from collections import Counter
from collections.abc import Iterable, Mapping

import pytest


class Part:
    """One of several parts, such as 0/3.

    Parameters
    ----------
    text
        Its number, from 0, and the number of parts.
    """

    def __init__(self, text: str) -> None:
        number, _, of = text.partition("/")
        if not (number.isdecimal() and of.isdecimal() and 0 <= int(number) < int(of)):
            raise pytest.UsageError(f"PART={text}: a part is its number from 0 and the number of parts, such as 0/3")
        self.number, self.of = int(number), int(of)


def parts_of(files: Iterable[str], of: int) -> Mapping[str, int]:
    """Assign files to parts with about as many tests each; the same files always give the same parts.

    Parameters
    ----------
    files
        The file of each test; tests of one file share what they prepare.
    of
        Number of parts.

    Examples
    --------
    >>> parts_of(["a", "b", "b", "c"], 2)
    {'b': 0, 'a': 1, 'c': 1}
    """
    sizes, load = Counter(files), [0] * of
    parts = {}
    for file in sorted(sizes, key=lambda one: (-sizes[one], one)):
        parts[file] = load.index(min(load))
        load[parts[file]] += sizes[file]
    return parts

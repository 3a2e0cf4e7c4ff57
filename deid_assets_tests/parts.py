"""Parts of a long selection of tests: continuous integration runs one of them with each commit, and all of them in turn."""

import csv
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import MappingProxyType

import pytest

USUAL = 3.0
"""Seconds that a test takes, if nothing is known of its file."""


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


def parts_of(files: Iterable[str], of: int, seconds: Mapping[str, float] = MappingProxyType({})) -> Mapping[str, int]:
    """Assign files to parts that take about as long; the same files always give the same parts.

    Parameters
    ----------
    files
        The file of each test; tests of one file share what they prepare.
    of
        Number of parts.
    seconds
        What the tests take of files that are known to take long, by the names of these files with blanks between them: files
        of one entry share what they prepare, too. The tests of other files are taken to be `USUAL` long.

    Examples
    --------
    >>> parts_of(["a", "b", "b", "c"], 2)
    {'b': 0, 'a': 1, 'c': 1}
    >>> parts_of(["a", "b", "b", "c"], 2, {"a c": 90})
    {'a': 0, 'c': 0, 'b': 1}
    """
    sizes, load, parts = Counter(files), [0.0] * of, {}
    known = {tuple(file for file in names.split() if file in sizes): size for names, size in seconds.items()}
    told = {file for names in known for file in names}
    units = known | {(file,): USUAL * number for file, number in sizes.items() if file not in told}
    for names in sorted(filter(None, units), key=lambda one: (-units[one], one)):
        part = load.index(min(load))
        parts.update(dict.fromkeys(names, part))
        load[part] += units[names]
    return parts


def measured_seconds() -> dict[str, float]:
    """About how many seconds of an idle processor the tests of long files take; the column `how` tells which are estimates."""
    with (Path(__file__).parent / "seconds.csv").open(newline="") as file:
        return {row["files"]: float(row["seconds"]) for row in csv.DictReader(file)}

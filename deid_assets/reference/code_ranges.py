"""Ranges of codes, and the one rule that decides when several ranges match the same code.

A range is written with its first and last bound, both of the same length: `410` to `414`, `275.2` to `276.9`, `V22` to
`V28`, or with one bound twice: a whole chapter, `V`, or a code of ICD-10-CM with letters after the first, `O9A.3`. A code
matches when its first characters, as many as the bounds have, lie between them: 410-414 takes 411.81, and 275.2-276.9 takes
276.51 but not the bare category 276.

Precedence (methods#codes) is total and does not depend on the order of the rows. Among the matching ranges wins

1. the longest bound (five characters before four before three before a chapter's letter),
2. then the narrower range,
3. then, at the same level, ours over the printed one: a completion exists to settle what the printed table leaves open.

Two ranges that this does not separate are an error of the table, found when it is read.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from deid_assets.reference.codes import plain_code

COMPLETION = "completion"
ORIGINS = ("printed", "precedence answer", COMPLETION)


@dataclass(frozen=True)
class CodeRange:
    """One row of a code table.

    Parameters
    ----------
    first, last
        Bounds without dots, of the same length and with the same letter, if any, in front; both included. Bounds that differ
        have no other letter.
    group
        What a code within the bounds is assigned to.
    origin
        One of `ORIGINS`.

    Raises
    ------
    ValueError
        If the bounds do not make a range.
    """

    first: str
    last: str
    group: str
    origin: str = "printed"

    def __post_init__(self) -> None:
        letter = self.letter
        digits = self.first[len(letter) :], self.last[len(letter) :]
        well_formed = self.first.isalnum() and (
            self.first == self.last
            or (
                len(self.first) == len(self.last)
                and self.last.startswith(letter)
                and all(part.isdecimal() for part in digits)
                and self.first <= self.last
            )
        )
        if not well_formed or self.origin not in ORIGINS:
            raise ValueError(f"code table: {self.first!r} to {self.last!r} ({self.origin}) is not a range of codes")

    @classmethod
    def from_row(cls, row: Mapping[str, str]) -> "CodeRange":
        """Return the range of a table's row with the columns first, last, group and origin."""
        return cls(plain_code(row["first"]), plain_code(row["last"]), row["group"], row["origin"])

    @property
    def letter(self) -> str:
        """The letter in front of the digits, or nothing."""
        return self.first[:1] if self.first[:1].isalpha() else ""

    @property
    def width(self) -> int:
        """Number of codes of the bounds' length within the bounds."""
        if self.first == self.last:
            return 1
        return int(self.last[len(self.letter) :]) - int(self.first[len(self.letter) :]) + 1

    @property
    def rank(self) -> tuple[int, bool]:
        """Order among ranges whose bounds are equally long: the smallest wins."""
        return self.width, self.origin != COMPLETION

    def prefixes(self) -> Iterable[str]:
        """Yield every code of the bounds' length within the bounds."""
        if self.first == self.last:
            return iter((self.first,))
        letter = self.letter
        first = self.first[len(letter) :]
        return (f"{letter}{number:0{len(first)}d}" for number in range(int(first), int(first) + self.width))


class PrefixTable:
    """Ranges of codes as one dictionary of prefixes, so that a look-up is a handful of dictionary reads.

    Parameters
    ----------
    ranges
        The rows of a table, in any order.

    Raises
    ------
    ValueError
        If two ranges of different groups tie for the same codes.

    Examples
    --------
    >>> table = PrefixTable([CodeRange("990", "999", "MISCL1"), CodeRange("9952", "9952", "ODaBNCA")])
    >>> table.group("99522"), table.group("9951"), table.group("25000")
    ('ODaBNCA', 'MISCL1', None)
    """

    def __init__(self, ranges: Iterable[CodeRange]) -> None:
        self._best: dict[str, CodeRange] = {}
        for candidate in ranges:
            for prefix in candidate.prefixes():
                holder = self._best.get(prefix)
                if holder is not None and holder.rank == candidate.rank and holder.group != candidate.group:
                    raise ValueError(f"code table: {holder.group} and {candidate.group} tie for {prefix}")
                if holder is None or candidate.rank < holder.rank:
                    self._best[prefix] = candidate
        self._lengths = sorted({len(prefix) for prefix in self._best}, reverse=True)

    def match(self, code: str) -> CodeRange | None:
        """Return the range that takes a code (no dots, upper case), or None."""
        for length in self._lengths:
            if length <= len(code):
                found = self._best.get(code[:length])
                if found is not None:
                    return found
        return None

    def group(self, code: str) -> str | None:
        """Return the group that takes a code (no dots, upper case), or None."""
        found = self.match(code)
        return found.group if found else None

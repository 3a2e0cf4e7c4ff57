"""A matrix: many cases of one kind of harm, each with what should come of it and what did.

`python -m deid_assets_tests.matrices NAME` prints one; the tests marked `matrix` demand that every row is as it should
be and that none was lost.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Outcome:
    """One row of a matrix.

    Attributes
    ----------
    case
        What was done, unique in its matrix.
    expected
        What should come of it, in a few words.
    seen
        What came of it, in a few words; holds no value of a person.
    ok
        Whether what was seen is what was expected.
    """

    case: str
    expected: str
    seen: str
    ok: bool


@dataclass(frozen=True)
class Matrix:
    """A kind of harm.

    Attributes
    ----------
    name
        As it is given on the command line.
    title
        What is tried, in one sentence.
    at_least
        Rows that it must have.
    outcomes
        Given an empty folder to work in, tries one case after the other.
    """

    name: str
    title: str
    at_least: int
    outcomes: Callable[[Path], Iterator[Outcome]]


def render(outcomes: list[Outcome]) -> str:
    """The table as text, one line a case, and a line that counts them."""
    width = max((len(outcome.case) for outcome in outcomes), default=0)
    lines = [
        f"{'ok ' if outcome.ok else 'NOT'}  {outcome.case:{width}}  {outcome.seen}"
        + ("" if outcome.ok else f"  (expected: {outcome.expected})")
        for outcome in outcomes
    ]
    wrong = sum(not outcome.ok for outcome in outcomes)
    return "\n".join([*lines, f"{len(outcomes)} cases, {len(outcomes) - wrong} as they should be, {wrong} not"])

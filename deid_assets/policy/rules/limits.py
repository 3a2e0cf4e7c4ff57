"""Ranges of the numbers that decide: beyond them, a gate could not refuse what it exists to refuse.

A field's type says which numbers are possible: a share is between 0 and 1. That is not enough: at .999 a gate compares
and passes everything. So every number that decides has a range in `limits.csv`, with a reason. They all follow one rule:
each gate alone must refuse a release that discloses half its members (`assessments/registry.py` compares the gate's own
numbers with such a release), and no limit is laxer than those used in the literature or in practice.

Thresholds in use range from .05 to .33, class sizes from 20 to 3: El Emam & Arbuckle, Anonymizing Health Data (2013),
ch. 2. EMA Policy 0070 and Health Canada require .09.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

from pydantic import BaseModel

from deid_assets.policy.problems import Problem
from deid_assets.reference.tables import read_table

THIRD = Fraction(1, 3)


@dataclass(frozen=True)
class NumberRange:
    """The range of one number of a policy.

    Attributes
    ----------
    field
        Its path: keys from the top, joined by dots.
    least, most
        Smallest and largest allowed value; None: the field's type bounds it.
    reason
        Why, as stated in the refusal.
    """

    field: str
    reason: str
    least: float | Fraction | None = None
    most: float | Fraction | None = None

    def problem(self, value: float) -> str | None:
        """What is wrong with a value; None if it is in the range."""
        if self.most is not None and value > self.most:
            return f"{value:.12g} is not allowed: it must be at most {float(self.most):.4g}: {self.reason}"
        if self.least is not None and value < self.least:
            return f"{value:.12g} is not allowed: it must be at least {float(self.least):.4g}: {self.reason}"
        return None


def _number(text: str) -> float | Fraction | None:
    """A limit as the table writes it: a whole number, a decimal number, or a fraction."""
    if not text:
        return None
    return Fraction(text) if "/" in text else int(text) if text.isdecimal() else float(text)


_ROWS = tuple(read_table("limits.csv", __package__))
"""Every number of a policy: the kinds of policies that it has a range in, and that range; or no kind, and why it needs none."""


def _of_kind(kind: str) -> tuple[NumberRange, ...]:
    own = (row for row in _ROWS if kind in row["kinds"].split())
    return tuple(NumberRange(row["field"], row["reason"], _number(row["at_least"]), _number(row["at_most"])) for row in own)


LONGITUDINAL, FLAT, COHORT = _of_kind("longitudinal"), _of_kind("flat"), _of_kind("cohort")

NO_LIMIT = {row["field"]: row["reason"] for row in _ROWS if not row["kinds"]}
"""Numbers without a range of their own, each with the reason why it needs none."""


def limits_of_kind(kind: str | None) -> tuple[NumberRange, ...]:
    """The ranges for a kind of policy, as its text states it."""
    return {"flat": FLAT, "cohort": COHORT}.get(kind or "", LONGITUDINAL)


def limit_problems(policy: BaseModel) -> Iterator[Problem]:
    """Yield a problem for each number of a policy outside its range; null or missing numbers are not checked."""
    for limit in limits_of_kind(getattr(policy, "kind", None)):
        path = tuple(limit.field.split("."))
        value = value_at(policy, path)
        if value is not None and (message := limit.problem(value)):
            yield Problem(path, message)


def value_at(policy: BaseModel, path: tuple[str, ...]) -> float | None:
    """The number at a path; None if it, or a section on the way, is null."""
    value: object = policy
    for part in path:
        value = getattr(value, part, None)
    if value is None or isinstance(value, int | float):
        return value
    raise TypeError(f"{'.'.join(path)} is no number, so that its range cannot be checked")

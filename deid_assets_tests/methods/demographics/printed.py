"""Tables as they are printed, and printed risks that cannot all be true (methods#demographics-risk).

Published tables hold rounded numbers. Each stands for a range; two of them contradict each other only if no numbers in their
ranges agree.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations

import pandas as pd

from deid_assets.methods.demographics.attributes import CohortAttributes, DemographicPolicy
from deid_assets.methods.demographics.measures import Measure
from deid_assets.methods.demographics.risk import verdicts


@dataclass(frozen=True)
class PrintedPercent:
    """The range of percentages that a printed number stands for; both ends are included.

    Examples
    --------
    >>> PrintedPercent.of("0.25*"), PrintedPercent.of("<0.01")
    (PrintedPercent(low=0.245, high=0.255), PrintedPercent(low=0.0, high=0.01))
    """

    low: float
    high: float

    @classmethod
    def of(cls, text: str) -> "PrintedPercent":
        """Return the range of a number as printed, perhaps with an asterisk; '0' and '100' are taken to be exact."""
        number = text.strip().rstrip("*")
        if number.startswith("<"):
            return cls(0.0, float(number[1:]))
        decimals = len(number.partition(".")[2])
        half = 0.5 * 10.0**-decimals if decimals else 0.0
        return cls(round(max(float(number) - half, 0.0), 12), round(float(number) + half, 12))

    def holds_a_count(self, records: int) -> bool:
        """Whether a whole number of these records is such a percentage.

        Examples
        --------
        >>> PrintedPercent.of("1.94").holds_a_count(3616), PrintedPercent.of("26.369").holds_a_count(3383)
        (True, False)
        """
        return math.ceil(self.low * records / 100 - 1e-9) <= math.floor(self.high * records / 100 + 1e-9)


def impossible_risks(
    printed: pd.DataFrame,
    records: Mapping[str, int],
    policies: Sequence[DemographicPolicy],
    measures: Sequence[Measure],
    demographics: CohortAttributes,
) -> pd.DataFrame:
    """Return the printed risks that contradict each other or themselves.

    A policy cannot be riskier than one that refines it. A graduated risk cannot exceed the total risk, the non-graduated risk
    at the same threshold, or that at a higher threshold. Non-graduated risk counts records.

    Parameters
    ----------
    printed
        policy | group | measure: names | percent: as printed, such as '<0.01'.
    records
        Number of records of each group.

    Returns
    -------
    pd.DataFrame
        group | policy | measure | against: the policy or measure that it contradicts, or 'whole records'. No rows if there is
        no contradiction.
    """
    risks = {(row.group, row.policy, row.measure): PrintedPercent.of(row.percent) for row in printed.itertuples(index=False)}
    refining = {(a.name, b.name) for a, b in permutations(policies, 2) if refines(a, b, demographics)}
    exceeding = {(a.name, b.name) for a, b in permutations(measures, 2) if _at_most(a, b)}
    counted = {measure.name for measure in measures if measure.kind == "non-graduated"}

    def contradictions() -> Iterator[tuple[str, str, str, str]]:
        for (group, policy, measure), risk in risks.items():
            if measure in counted and not risk.holds_a_count(records[group]):
                yield group, policy, measure, "whole records"
            for finer, coarser in sorted(refining):
                other = risks.get((group, finer, measure))
                if coarser == policy and other is not None and risk.low > other.high:
                    yield group, policy, measure, finer
            for less, more in sorted(exceeding):
                other = risks.get((group, policy, more))
                if less == measure and other is not None and risk.low > other.high:
                    yield group, policy, measure, more

    return pd.DataFrame(contradictions(), columns=["group", "policy", "measure", "against"])


def _at_most(less: Measure, more: Measure) -> bool:
    """Whether the risk by one measure never exceeds that by the other."""
    if "largest" in (less.kind, more.kind):
        return False
    if more.kind == "total":
        return less.kind == "graduated" and less.exponent == more.exponent
    if less.kind == "total" or less.at_most is None or more.at_most is None:
        return False
    alike = less.kind == more.kind and (less.kind == "non-graduated" or less.exponent == more.exponent)
    return less.at_most <= more.at_most and (alike or (less.kind, more.kind) == ("graduated", "non-graduated"))


def reference_table(risks: pd.DataFrame, reference: str = "Safe Harbor") -> pd.DataFrame:
    """Return the risk of the reference by measure and group in per cent, as text (Table 3)."""
    own = risks[risks["policy"] == reference]
    shown = own.assign(shown=[_in_per_cent(value, (3, 3, 3)) for value in own["percent"]])
    return _wide(shown, ["measure"])


def alternatives_table(risks: pd.DataFrame, reference: str = "Safe Harbor", at_upper_bound: bool = False) -> pd.DataFrame:
    """Return the risk of all other policies by measure, policy and group in per cent, as text (Table 4).

    A policy that is riskier than the reference is marked with an asterisk. The verdict compares exact risks, not those shown.
    """
    found = verdicts(risks, reference, at_upper_bound)
    others = found[found["policy"] != reference]
    marks = others["riskier"].map({True: "*", False: ""})
    shown = [_in_per_cent(value, (2, 1, 0)) + mark for value, mark in zip(others["percent"], marks, strict=True)]
    return _wide(others.assign(shown=shown), ["measure", "policy"])


def _wide(shown: pd.DataFrame, index: list[str]) -> pd.DataFrame:
    """Spread groups over columns, with rows and columns in the order in which they come."""
    wide = shown.set_index([*index, "group"])["shown"].unstack("group", sort=False)
    return wide.rename_axis(columns=None)


def _in_per_cent(value: float, decimals: tuple[int, int, int]) -> str:
    """Return a percentage with the decimals for numbers below 10, below 100, and of 100.

    0 is exactly 0; what would be rounded to it is shown as less than the smallest number.
    """
    if value == 0:
        return "0"
    below_ten, below_hundred, hundred = decimals
    shown = f"{value:.{hundred if value >= 99.95 else below_hundred if value >= 9.995 else below_ten}f}"
    return f"<{10**-below_ten:.{below_ten}f}" if float(shown) == 0 else shown


def refines(finer: DemographicPolicy, coarser: DemographicPolicy, demographics: CohortAttributes) -> bool:
    """Whether each level of a policy refines that of another, so that the other can only be as risky or less."""
    nodes = zip(demographics.attributes, finer.node(demographics), coarser.node(demographics), strict=True)
    return all(attribute.refines[low, high] for attribute, low, high in nodes)

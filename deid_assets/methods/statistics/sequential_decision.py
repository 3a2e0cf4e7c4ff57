"""Sequential test of whether a node's high-risk share is above or below MaxSup (methods#sequential-decision).

These are steps 4 and 5 in section 5 of Multimedia Appendix 1 to El Emam et al. 2012. The appendix repeats 10,000 draws a
thousand times 'or until the stopping criterion is met' without stating the criterion. The one used here is a pair of test
martingales with a Beta mixture, valid at any stopping time by Ville's inequality: for every true share, the probabilities of a
wrong rejection and of a wrong acceptance are each at most the stated error.
"""

import math
from dataclasses import dataclass
from typing import Literal

from scipy import special

Decision = Literal["candidate", "not_candidate", "undecided"]


@dataclass(frozen=True)
class SequentialRule:
    """The rule that decides one node.

    Parameters
    ----------
    threshold
        m: the node is a candidate if its share is below m.
    error
        delta: bound on the probability of each wrong decision. For a lattice of L nodes, use delta / L for each.
    a, b
        Parameters of the Beta mixture. The default puts its mass near the small shares around MaxSup.

    Examples
    --------
    >>> rule = SequentialRule(threshold=0.008, error=0.001)
    >>> rule.decide(0, 1000), rule.decide(0, 3000), rule.decide(100, 3000)
    ('undecided', 'candidate', 'not_candidate')
    """

    threshold: float
    error: float
    a: float = 1.0
    b: float = 100.0

    def __post_init__(self) -> None:
        if not 0 < self.threshold < 1:
            raise ValueError("the threshold must lie between 0 and 1")
        if not 0 < self.error < 1:
            raise ValueError("the error probability must lie between 0 and 1")
        if self.a <= 0 or self.b <= 0:
            raise ValueError("a and b must be positive")

    def log_evidence(self, flagged: int, draws: int) -> tuple[float, float]:
        """Return the logarithms of E_up, evidence that the share is above m, and of E_low, evidence that it is below.

        E_up is the mixture, over the Beta restricted to q > m, of the likelihood ratio of q to m; E_low over q < m:

            log E_up = log B(a+S, b+t-S) + log sf(m; a+S, b+t-S) - log B(a, b) - log sf(m; a, b)
                       - S log m - (t-S) log(1-m)

        and E_low with the distribution function in place of the survival function sf.
        """
        a, b, m = self.a, self.b, self.threshold
        after = a + flagged, b + draws - flagged
        ratio = special.betaln(*after) - special.betaln(a, b)
        ratio -= flagged * math.log(m) + (draws - flagged) * math.log1p(-m)
        up = ratio + _log(float(special.betaincc(*after, m))) - _log(float(special.betaincc(a, b, m)))
        low = ratio + _log(float(special.betainc(*after, m))) - _log(float(special.betainc(a, b, m)))
        return float(up), float(low)

    def decide(self, flagged: int, draws: int) -> Decision:
        """Return the decision after `draws` draws; 'undecided' if more are needed."""
        up, low = self.log_evidence(flagged, draws)
        needed = -math.log(self.error)
        if up >= needed:
            return "not_candidate"
        return "candidate" if low >= needed else "undecided"


def rule_of_number(threshold: float, error: float, number: int) -> SequentialRule:
    """Return the rule for a node where the number of nodes to be measured is not known before.

    Parameters
    ----------
    error
        Bound on the probability of any wrong decision of each kind, whatever the number of nodes.
    number
        How many nodes were measured up to this one, from 1: the j-th has the error `error / (j (j + 1))`.

    Raises
    ------
    ValueError
        If the number is less than 1.

    Examples
    --------
    >>> round(sum(rule_of_number(0.05, 0.001, number).error for number in range(1, 1000)), 6)
    0.000999
    """
    if number < 1:
        raise ValueError("nodes are counted from 1")
    return SequentialRule(threshold, error / (number * (number + 1)))


def _log(probability: float) -> float:
    # If a tail underflows, its side has no evidence.
    return math.log(probability) if probability > 0 else -math.inf

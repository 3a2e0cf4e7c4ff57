"""When a run will end: what its steps took before, or typically take, and how fast this run has been so far.

Durations are in seconds, points in time in seconds of any one clock.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

LONG = 5.0
"""A step that is expected to take longer than this is announced in the run's log."""
_SHORT = 0.15
"""What a step takes that TYPICAL does not name: hardly more than Dagster itself."""
_CAUTION = 5.0
"""So many seconds of work say that a run is as fast as expected, before any of its steps was measured."""
_ENOUGH = 45.0
"""After so many seconds an estimate is better than none, although no step has ended."""

SYNTHETIC_DELIVERY = "synthetic_delivery"
"""In TYPICAL: the making of the delivery, which is no step of the run."""

_SECONDS = {
    "synthetic_delivery": 8.8, "intake": 23.9, "claims_checks": 3.2, "pseudonym_crosswalk": 2.5,
    "eligible_claims": 9.4, "grouped_claims": 9.1, "exclusion_comparison": 6.7,
    "grouped_claims_checks": 4.0, "claim_support_scores": 3.9, "truncated_claims": 16.4,
    "value_diversity": 1.1, "truncated_claims_checks": 2.7, "member_profiles": 1.7,
    "reachable_risk": 21.2, "generalization_lattice": 37.2, "generalization_choice": 33.5, "release_claims": 8.2,
    "why_ledger": 26.3, "analyst_questions": 7.0, "attack_sensitivity": 20.2, "attribute_disclosure": 1.2,
    "demographic_risk": 3.2, "inference_channels": 98.7, "inpatient_attack": 3.1, "longitudinal_risk": 7.3,
    "membership_disclosure": 5.9, "neighbor_attack": 3.4, "provider_graph_attack": 13.5, "voter_list_attack": 2.7,
    "worst_classes": 13.6, "utility": 69.5, "release": 113.3,
}  # fmt: skip
TYPICAL: Mapping[str, float] = MappingProxyType(_SECONDS)
"""Steps of a run of the default policy on its default delivery.

`python -m deid_assets_tests.benchmarks.step_times` prints them; docs/benchmarks.md says how these were measured. Only their
ratios matter: a run multiplies them by its speed.
"""


class Forecast:
    """How far a run is, and when it will end.

    Parameters
    ----------
    steps
        The keys of the run's steps.
    before
        What some of them took in an earlier run on a delivery of about this size.
    """

    def __init__(self, steps: Iterable[str], before: Mapping[str, float] = MappingProxyType({})):
        self.before = before
        typical = {step: TYPICAL.get(operation(step), _SHORT) for step in steps}
        # An earlier run may have ended early: what it has not reached is as much larger or smaller as what it has.
        known = sum(typical[step] for step in typical if step in before)
        ratio = sum(before[step] for step in typical if step in before) / known if known else 1.0
        self.expected = {step: before.get(step, ratio * seconds) for step, seconds in typical.items()}
        self._began: dict[str, float] = {}
        self._took: dict[str, float] = {}
        self._done = self._worked = 0.0
        self._first: float | None = None

    def worked(self, what: str, seconds: float) -> None:
        """Something of TYPICAL took so long that is no step of the run."""
        self._done += TYPICAL.get(what, 0.0)
        self._worked += seconds

    def began(self, step: str, at: float) -> None:
        """A step begins."""
        self._first = at if self._first is None else self._first
        self._began[step] = at

    def ended(self, step: str, at: float) -> None:
        """A step ends, however it ended."""
        if step in self._began:
            self._took[step] = at - self._began[step]

    def speed(self, at: float) -> float:
        """How many times as long as expected this run takes, by what has ended, and what already takes longer."""
        expected, took = self._done + _CAUTION, self._worked + _CAUTION
        for step, began in self._began.items():
            seconds = self._took.get(step, at - began)
            if step in self._took or seconds > self.expected.get(step, _SHORT):
                expected, took = expected + self.expected.get(step, _SHORT), took + seconds
        return took / expected

    def remaining(self, at: float) -> float | None:
        """Seconds until the run ends, if each step that is left takes its time; None as long as nothing is known."""
        ended = self._done + sum(self.expected.get(step, _SHORT) for step in self._took)
        since = self._worked + (0.0 if self._first is None else at - self._first)
        if not self.before and ended < _CAUTION and since < _ENOUGH:
            return None
        speed, left = self.speed(at), 0.0
        for step, expected in self.expected.items():
            if step not in self._took:
                # A delivery may be small: what Dagster itself takes does not shrink with it.
                needs = max(speed * expected, min(expected, _SHORT))
                left += max(needs - (at - self._began[step]), 0.0) if step in self._began else needs
        return left

    def position(self, step: str) -> str:
        """Which of how many steps one is that has begun, in the order in which they begin."""
        return f"step {list(self._began).index(step) + 1} of {len(self.expected)}"

    def last_time(self, step: str) -> str | None:
        """What the step took in the earlier run; None if there is none."""
        return f"last time {duration_in_words(self.before[step])}" if step in self.before else None

    def end(self, at: float) -> str | None:
        """When the run will end, in words; None as long as nothing is known."""
        left = self.remaining(at)
        return None if left is None else f"ends in about {duration_in_words(left)}"


ANNOUNCED = "forecast: "
"""How a line of a run's log begins that says how far the run is."""


def announcement(forecast: Forecast, step: str, at: float) -> str:
    """The line of the run's log at the beginning of a long step."""
    said = (forecast.position(step), forecast.last_time(step), forecast.end(at))
    return ANNOUNCED + ", ".join(one for one in said if one is not None)


def operation(step: str) -> str:
    """A step without its policy: what it has in common with the step of another policy.

    Examples
    --------
    >>> operation("heritage_public__why_ledger")
    'why_ledger'
    """
    return step.rsplit("__", 1)[-1]


def duration_in_words(seconds: float) -> str:
    """A duration as people say it.

    Examples
    --------
    >>> duration_in_words(3.4), duration_in_words(47), duration_in_words(200), duration_in_words(4000)
    ('3 s', '50 s', '3.5 min', '67 min')
    """
    if seconds < 20:
        return f"{seconds:.0f} s"
    if seconds < 115:
        return f"{10 * round(seconds / 10)} s"
    minutes = round(seconds / 30) / 2 if seconds < 600 else round(seconds / 60)
    return f"{minutes:g} min"

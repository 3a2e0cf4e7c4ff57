"""What absence from a release would disclose, and what would help, before a release is made."""

from deid_assets.assessments.absence import ABSENCE, absence_tells_too_much, what_helps_against_absence
from deid_assets.policy.loading import policy_from
from deid_assets_tests.scenarios.policies import SMALL, changed


class TestAbsence:
    """100 members, 20 removed for a sensitive condition, a sample of 8; the limit is .3."""

    @staticmethod
    def told(before: int, at_most: float = 0.3):
        policy = policy_from(changed(SMALL, removal__absence_posterior_at_most=at_most))
        return absence_tells_too_much(policy, (20, 80), 8, before, ("ours/0001",) if before else ())

    def test_within_the_limit_nothing_stands_against_a_change(self):
        assert self.told(before=0) == ("", "")

    def test_where_the_sample_alone_tells_too_much_no_release_is_named(self):
        """.2 / (.2 + .8 * .9) = .217, whatever was released before."""
        gate, because = self.told(before=40, at_most=0.21)
        assert gate == ABSENCE and "ours/0001" not in because
        assert because.startswith(
            "20 of 100 members were removed for what their claims disclose, which is too many however few"
        )

    def test_what_helps_is_a_number_that_holds(self):
        """1,000 removed of 10,000: .1 / (.1 + .9 * (1 - 3333 / 9000)) = .15.

        The number that is told lies four standard deviations of a sample's size below.
        """
        assert what_helps_against_absence(1_000, 9_000, 0, 0.15).startswith("at most about 3,200 of 9,000 eligible members")
        assert what_helps_against_absence(1_000, 9_000, 3_000, 0.15).startswith("at most about 290 of 9,000")
        assert what_helps_against_absence(1_000, 9_000, 3_300, 0.15).startswith("1,000 of 10,000 members were removed")

    def test_where_earlier_releases_are_why_they_are_named(self):
        gate, because = self.told(before=40)
        assert gate == ABSENCE and "and are in ours/0001;" in because

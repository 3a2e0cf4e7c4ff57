"""Which claims are cut depends on what is released, and on nothing else."""

import pytest

from deid_assets_tests.scenarios.conftest import KEY


@pytest.mark.matrix
def test_a_claim_scores_by_the_rarest_of_its_released_values(published):
    """The small policy releases places only: the score is that of the place, whatever the diagnosis."""
    scores = published.pipeline.table(KEY, "claim_support_scores")
    wrong = scores.query(
        f"""WITH claims AS (FROM preparation.grouped_claims),
            support AS (SELECT place, count(DISTINCT member_id) AS members FROM claims GROUP BY place),
            everybody AS (SELECT count(DISTINCT member_id) AS members FROM claims)
            SELECT count(*) AS wrong, count(DISTINCT c.place) AS places
            FROM {scores.sql} JOIN claims c USING (claim_id) JOIN support s ON s.place IS NOT DISTINCT FROM c.place
            CROSS JOIN everybody e
            WHERE abs(score - (1 - (CASE WHEN c.place IS NULL THEN e.members ELSE s.members END - 1) / e.members)) > 1e-12"""
    ).iloc[0]
    assert wrong["wrong"] == 0

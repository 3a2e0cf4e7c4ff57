"""A rule that cannot apply refuses the delivery before anybody is drawn; the gate counts again and refuses too."""

from collections.abc import Iterator

import duckdb
import pytest

from deid_assets.assessments import rule_needs
from deid_assets.errors import ERROR, REFUSED
from deid_assets.methods.preparation.rule_figures import Figure, rule_figures
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.tables_delivery import TABLES, tables_of_synthetic
from deid_assets_tests.stages import STAGES

pytestmark = pytest.mark.matrix

BEFORE_THE_DRAW = (*STAGES["intake"], "code_book", "removed_members", "eligible_claims", "eligible_members", "rule_needs")


@pytest.fixture(params=["", "'X' || coalesce(dx, '1')"], ids=["none", "unknown ones"])
def blanked(request, tmp_path) -> Iterator[Pipeline]:
    """A delivery without diagnoses, or with codes that nobody knows, under a policy that blanks what it does not know."""
    diagnoses = request.param or "NULL::VARCHAR"
    write_delivery(tmp_path / "made", 1_000, 1)
    folder = tables_of_synthetic(tmp_path / "made", tmp_path / "tables")
    with duckdb.connect() as connection:
        file = folder / "claims.csv"
        connection.execute(
            f"CREATE TABLE c AS SELECT * REPLACE ({diagnoses} AS dx) FROM read_csv('{file}', all_varchar = true)"
        )
        connection.execute(f"COPY c TO '{file}' (HEADER)")
    with pipeline_in(tmp_path / "deid", "tables") as pipeline:
        write_policy(pipeline.home.policies, changed(TABLES, source__unknown_codes="blank"))
        pipeline.register("blanked", "tables", folder)
        yield pipeline


def test_diagnoses_that_were_blanked_are_not_passed_over(blanked):
    summary = blanked.run("blanked", [*BEFORE_THE_DRAW, "released_sample"])
    (reason,) = summary.reasons
    assert "released_sample" not in summary.rows, "nobody is drawn"
    if "of dx are codes of ICD-10-CM" in reason:  # codes of another system are refused before anything is taken in
        assert summary.exit_code == ERROR and "members" not in summary.rows
        return
    assert summary.exit_code == REFUSED, summary
    assert "rules of the policy cannot apply to this delivery" in reason
    assert "removal.code_list needs at least 0.5 of the claims with a readable diagnosis code" in reason
    assert "removal.coded_claims_at_least.diagnosis: null" in reason


def test_the_gate_counts_again_and_trusts_no_table_of_needs(pipeline, monkeypatch):
    def unreadable(*given) -> dict[str, Figure]:
        return rule_figures(*given) | {"readable_codes/diagnosis_1": Figure(1, 1_790)}

    monkeypatch.setattr(rule_needs, "rule_figures", unreadable)
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and summary.release is None, summary
    assert summary.reasons[0].startswith("refused by the gate for 1 reason: removal.code_list needs at least 0.99")
    assert "1790" not in summary.reasons[0] and pipeline.published_bytes() == before

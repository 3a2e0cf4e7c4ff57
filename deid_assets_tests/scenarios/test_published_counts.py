"""Counts that are published with a release: protected, audited together with earlier ones, and within their budget."""

import json
import re
import shutil
from dataclasses import replace

import duckdb
import numpy as np
import pandas as pd
import pytest

from deid_assets.assets import counts as counts_asset
from deid_assets.errors import PUBLISHED, REFUSED
from deid_assets.methods.counts.budget import NoisyCell
from deid_assets.methods.counts.estimates import ConsistentNoise
from deid_assets.methods.counts.tables import CellName
from deid_assets.policy.sections.counts import CountNoise, NoiseBudget
from deid_assets.release.counts import published as protection
from deid_assets.release.registry.chain import NoiseCharge
from deid_assets.release.registry.noise_charges import NoisyPublication
from deid_assets_tests.release.making import releases_in
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_gate_refuses import refused
from deid_assets_tests.stages import STAGES

pytestmark = pytest.mark.matrix

COUNTS = STAGES["counts"]


def spend(pipeline: Pipeline, rho: float) -> None:
    """Charge a cost as an earlier release would."""
    section = CountNoise(budget=NoiseBudget(rho=100.0))
    cell = NoisyCell(CellName("another", "table", "cell"), "another noise", (1 / (2 * rho)) ** 0.5)
    releases_in(pipeline.home.root).charge(NoisyPublication(section, (cell,), ()))


def charges(pipeline: Pipeline) -> list[NoiseCharge]:
    return [line for line in pipeline.registry.chain().lines if isinstance(line, NoiseCharge)]


def shown(pipeline: Pipeline) -> dict[tuple, int]:
    frame = pipeline.table(KEY, "published_counts").frame()
    return {tuple(row[:3]): row[3] for row in frame[["table", "row", "column", "count"]].itertuples(index=False)}


def test_the_files_the_manifest_and_the_report_show_the_same_noisy_counts_which_are_charged_once(pipeline):
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == PUBLISHED, summary
    steps = pd.read_csv(summary.release / "data/Attrition.csv")
    published = shown(pipeline)
    told = {("attrition", row.Stage, row.Counted): row.Count for row in steps.itertuples()}
    assert told == {name: count for name, count in published.items() if name[0] == "attrition"}
    manifest = json.loads((summary.release / "manifest.json").read_text())
    assert {step["stage"]: step["rows_out"] for step in manifest["attrition"] if step["unit"] == "members"} == {
        stage: count for (table, stage, counted), count in published.items() if (table, counted) == ("attrition", "remaining")
    }
    dictionary = json.loads((summary.release / "data/dictionary.json").read_text())["tables"]
    assert {"Attrition", "Characteristics", "Distributions"} <= set(dictionary)
    exact = pipeline.table(KEY, "cohort_counts").frame()
    noise = np.array(
        [published[row[:3]] - row[3] for row in exact[["table", "row", "column", "count"]].itertuples(index=False)]
    )
    assert 1.5 < noise.std() < 4
    page = (summary.release / "report.html").read_text()
    assert "Who the eligible members are" in page and "guesses that right with a probability of at most" in page
    (charge,) = charges(pipeline)
    assert len(charge.cells) > len(published) and manifest["counts"]["budget"]["spent_rho"] == charge.billionths / 1e9
    assert pipeline.run(KEY, ["release"]).exit_code == PUBLISHED
    assert charges(pipeline) == [charge], "the same delivery repeats its numbers at no cost"


def test_a_spent_budget_refuses_the_tables_before_a_number_is_drawn(pipeline, monkeypatch):
    spend(pipeline, 49.5)
    monkeypatch.setattr(ConsistentNoise, "draw", lambda *args: pytest.fail("a number was drawn"))
    before = shown(pipeline)
    summary = pipeline.run(KEY, ["published_counts"])
    assert summary.exit_code == REFUSED and "refused by the budget of noise" in " ".join(summary.reasons), summary
    assert shown(pipeline) == before
    refused(pipeline, "refused by the budget of noise: these counts cost .* of zCDP, but only 0.5 of the total of 50 are left")


def test_a_budget_that_covers_the_tables_but_not_the_manifest_refuses_before_any_number_is_drawn(pipeline, monkeypatch):
    """The tables cost .8 and the manifest 2: with 1.5 left, not even a table of the restricted store gets its noise."""
    spend(pipeline, 48.5)
    monkeypatch.setattr(ConsistentNoise, "draw", lambda *args: pytest.fail("a number was drawn"))
    pipeline.edit_store(KEY, "DROP TABLE counts.published_counts")
    summary = pipeline.run(KEY, ["published_counts"])
    reasons = " ".join(summary.reasons)
    assert summary.exit_code == REFUSED and re.search(r"cost 2\.\d+ of zCDP, but only 1.5 of the total of 50 are left", reasons)
    with pytest.raises(duckdb.Error):
        pipeline.table(KEY, "published_counts").frame()


def test_what_is_charged_was_planned_before_anything_was_drawn_and_nothing_else(pipeline, monkeypatch):
    planned = []
    original = counts_asset.require_budget
    monkeypatch.setattr(
        counts_asset, "require_budget", lambda *args: planned.append({cell.draw for cell in args[1]}) or original(*args)
    )
    assert pipeline.run(KEY, ["published_counts", "count_disclosure_audit", "release"]).exit_code == PUBLISHED
    (charge,) = charges(pipeline)
    assert set(charge.draws) <= planned[0], "every noisy number of the release was in the plan of its tables"
    assert len(planned[0] - set(charge.draws)) <= 1, "the share in both releases has no value in a first release"
    assert charge.billionths / 1e9 < 3


def test_who_removes_registry_and_releases_does_not_get_the_budget_back(pipeline):
    assert pipeline.run(KEY, ["release"]).exit_code == PUBLISHED
    shutil.rmtree(pipeline.home.releases)
    summary = pipeline.run(KEY, ["cross_release_risk", "release"])
    assert summary.exit_code != PUBLISHED and "lacks the last" in " ".join(summary.reasons), summary
    assert summary.release is None and not pipeline.registry.chain().lines


def test_a_cell_that_was_published_as_often_as_allowed_is_locked_out(pipeline):
    section = CountNoise(budget=NoiseBudget(rho=100.0))
    cell = CellName("attrition", "delivered_members", "remaining")
    for delivery in range(10):
        releases_in(pipeline.home.root).charge(NoisyPublication(section, (NoisyCell(cell, f"noise {delivery}", 2.5),), ()))
    refused(pipeline, "1 cell was published 10 times with noise of their own")


def test_noise_that_was_narrower_before_is_averaged_as_it_was_and_refused(pipeline):
    """Eight draws of 1.5 before one of 2.5 tell .66; eight of 2.5 would have told .46, and passed."""
    section = CountNoise(budget=NoiseBudget(rho=100.0))
    cell = CellName("attrition", "members_not_removed", "excluded")
    for delivery in range(8):
        releases_in(pipeline.home.root).charge(NoisyPublication(section, (NoisyCell(cell, f"noise {delivery}", 1.5),), ()))
    refused(pipeline, "chance_of_exact_count is not at most its threshold .0.6")


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE counts.published_counts SET count = count + 1 WHERE \"row\" = 'sex'",
        "DELETE FROM counts.published_counts WHERE \"row\" = 'sex'",
    ],
)
def test_counts_that_were_changed_in_the_store_are_refused(pipeline, statement):
    pipeline.edit_store(KEY, statement)
    refused(
        pipeline,
        "published_counts: its table is not the one that was materialized",
        "Characteristics: the staged counts are not the protected counts of this delivery",
    )


def test_masked_tables_are_published_and_refused_where_masks_alone_give_counts_away(pipeline, monkeypatch):
    """Without complementary suppression, sums give away who was excluded."""
    write_policy(pipeline.home.policies, changed(SMALL, counts={"protection": "masked"}))
    original = protection.mask

    def without_complements(tables, key, rule, known):
        found = original(tables, key, rule, known)
        marks = [
            "T" if small else int(count) for count, small in zip(tables.counts, rule.is_small(tables.counts, 1), strict=True)
        ]
        return replace(found, shown=tuple(marks))

    with monkeypatch.context() as patch:
        patch.setattr(protection, "mask", without_complements)
        summary = pipeline.run(KEY, [*COUNTS, *STAGES["assessment"]])
        assert any("no_small_count_is_disclosed" in check for check in summary.failed_checks), summary
        refused(pipeline, "disclosed_small_counts is not at most its threshold")
    summary = pipeline.run(KEY, [*COUNTS, *STAGES["assessment"], "release"])
    assert summary.exit_code == PUBLISHED, summary
    classes = pd.read_csv(summary.release / "data/Characteristics.csv")
    assert set(classes["Mark"].dropna()) == {"T", "H"} and classes["SD"].isna().all()
    manifest = json.loads((summary.release / "manifest.json").read_text())
    assert manifest["counts"]["tables"] == "masked"

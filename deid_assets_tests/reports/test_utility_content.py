"""What a release is good for, in the report and in the table that `deid kept` prints."""

import json

import pytest

from deid_assets.assessments.utility import ledger_measurements
from deid_assets.command_line.kept import HEADINGS, kept_rows
from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import markdown_image
from deid_assets.figures.utility_figures import before_and_after_figure, waterfall_figure
from deid_assets.release.manifest.editions import editions
from deid_assets.reports.utility_content import in_words, kept_columns, measured_use, utility_figures, utility_tables
from deid_assets_tests.assessments.test_utility import ledger
from deid_assets_tests.release import making
from deid_assets_tests.release.test_manifest import PLACE

NUMBERS = {
    "score_as_delivered": ("log error", 0.42), "score_as_released": ("log error", 0.45),
    "score_of_constant": ("log error", 0.5),
    "score_of_age_and_sex": ("log error", 0.49), "score_loss": ("log error", 0.03), "PlaceSvc/distance": ("distance", 0.12),
    "largest_association_change": ("correlation", 0.25), "median_answer_error": ("standard errors", 0.7),
}  # fmt: skip


def manifest(asset: str = "utility") -> dict:
    measured = [
        making.measurement(name=name, unit=unit, value=value, bound=None, confidence=None, threshold=None, statistic="value",
                           gating=False)
        for name, (unit, value) in NUMBERS.items()
    ]  # fmt: skip
    item = making.evidence(*measured, *ledger_measurements(ledger(), 25_000), asset=asset)
    made = making.manifest(PLACE, evidence=(item,))
    return json.loads(editions(made, making.protect).public)


def tables() -> dict:
    return {table.name: table for table in utility_tables(manifest())}


def test_every_table_is_filled_and_every_row_has_its_columns():
    found = tables()
    assert list(found) == ["scores", "distributions", "kept", "ledger"]
    for table in found.values():
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert table.text.endswith(".")


def test_scores_stand_beside_what_knows_nothing():
    rows = dict(tables()["scores"].rows)
    assert rows["a model that learns from the delivery"] == "0.42" and rows["the best constant"] == "0.5"


def test_numbers_of_the_public_manifest_are_shown_and_none_is_protected_away():
    assert {one["name"]: one["value"] for one in measured_use(manifest()).values()}["score_loss"] == 0.03
    assert ("largest change of the association of two columns (Cramér's V)", "0.25") in tables()["distributions"].rows


def test_each_step_says_why_and_what_is_left():
    rows = tables()["ledger"].rows
    assert [row[0] for row in rows] == ["sample", "withheld", "grouping"]
    assert rows[0][1:] == ("the member was not drawn for the random sample", "73.3 %", "")
    assert rows[1][3] == "54.5 %" and rows[2][3] == "40.9 %"


def test_columns_that_are_withheld_come_last():
    place, cpt = kept_columns(measured_use(manifest()))
    assert (place.name, place.before, place.after, place.distance, place.displacement) == ("PlaceSvc", 2, 1.5, 0.12, None)
    assert (cpt.name, cpt.before, cpt.after) == ("cpt", 1, 0)


def test_figures_say_in_words_what_they_show():
    figures = {figure.title: figure for figure in utility_figures(manifest())}
    assert list(figures) == [
        "From the delivery to the sample",
        "From the sample to the release",
        "Each column, before and after",
    ]
    assert figures["From the delivery to the sample"].alt == "sample: 73.3 % left"
    assert "PlaceSvc: 2 delivered, 1.5 released" in figures["Each column, before and after"].alt


def test_a_policy_without_the_assessment_has_no_section():
    other = manifest("record_risk")
    assert utility_tables(other) == () and utility_figures(other) == ()
    with pytest.raises(ReleaseError, match="no measurements of what is kept"):
        kept_rows(other, {"tables": {}})


def with_shares(told: dict, **shares: float) -> dict:
    """A manifest with the gate's measurements of what columns keep."""
    measured = [{"name": f"{name}/information_kept", "value": share} for name, share in shares.items()]
    return told | {"evidence": [*told["evidence"], {"asset": "gate", "measurements": measured}]}


def test_the_table_of_what_is_kept_tells_levels_values_shares_and_bits():
    columns = [
        {"name": "PlaceSvc", "role": "quasi-identifier", "level": "groups", "levels_of_the_policy": ["codes", "groups"],
         "labels": ["A", "B", "C"]},
    ]  # fmt: skip
    rows = kept_rows(with_shares(manifest(), PlaceSvc=0.75), {"tables": {"Claims": {"columns": columns}}})
    assert rows == [
        ("PlaceSvc", "groups (2 of 2)", "3", "0.75", "2", "1.5", "0.12"),
        ("cpt", "withheld", "", "0", "1", "0", ""),
    ]
    assert all(len(row) == len(HEADINGS) for row in rows)


def test_flat_tables_tell_what_their_columns_keep_too():
    columns = [
        {"name": "Age", "role": "quasi-identifier", "level": "decade", "levels_of_the_policy": ["years", "decade"],
         "labels": ["20s", "30s"]},
        {"name": "Likes", "role": "other"},
    ]  # fmt: skip
    rows = kept_rows(with_shares({"evidence": []}, Age=0.571), {"tables": {"Records": {"columns": columns}}})
    assert rows == [("Age", "decade (2 of 2)", "2", "0.571", "", "", "")]


def test_pseudonyms_are_called_pseudonyms():
    described = {"tables": {"Claims": {"columns": [{"name": "PlaceSvc", "role": "pseudonym"}]}}}
    assert kept_rows(manifest(), described)[0][1] == "pseudonym"
    assert in_words("ProviderID") == "ProviderID (pseudonym)"


class TestFigures:
    def test_a_waterfall_names_steps_and_what_is_left(self):
        image = waterfall_figure([("sample", 0.25), ("long tail", 0.2)], "information [%]")
        assert b"25 %, less 75" in image and b"20 %, less 5" in image and b"long tail" in image
        assert len(markdown_image(image, "waterfall")) < 50_000

    def test_before_and_after_have_different_marks_and_names(self):
        image = before_and_after_figure([("Sex", 1.0, 1.0), ("Age", 6.5, 2.2)], "bits")
        assert b"delivered" in image and b"released" in image and b"Age" in image

    @pytest.mark.parametrize("draw", [waterfall_figure, before_and_after_figure])
    def test_nothing_cannot_be_drawn(self, draw):
        with pytest.raises(ValueError, match="at least one"):
            draw([], "nothing")

"""What a release is good for, in the report and in the table that `deid kept` prints."""

import json
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from deid_assets.assessments.gain_kept import KeptGain, Predicted, compared_frame, gain_measurements, node_measurements
from deid_assets.assessments.utility import ledger_measurements
from deid_assets.command_line.kept import HEADINGS, delivered_column_rows
from deid_assets.errors import ReleaseError
from deid_assets.figures.rendering import markdown_image
from deid_assets.figures.utility_figures import before_and_after_figure, gain_figure, waterfall_figure
from deid_assets.methods.utility.gains import Gain, Interval
from deid_assets.release.manifest.editions import editions
from deid_assets.reports import utility_content
from deid_assets_tests.assessments.test_utility import ledger
from deid_assets_tests.release import making
from deid_assets_tests.release.test_manifest import SLOT

NUMBERS = {
    "score_as_delivered": ("log error", 0.42), "score_as_released": ("log error", 0.45),
    "score_of_constant": ("log error", 0.5),
    "score_of_age_and_sex": ("log error", 0.49), "score_loss": ("log error", 0.03), "PlaceSvc/distance": ("distance", 0.12),
    "largest_association_change": ("correlation", 0.25), "median_answer_error": ("standard errors", 0.7),
}  # fmt: skip


GAIN = Gain(
    np.zeros(5), Interval(0.1234, 0.1111, 0.13), Interval(0.0567, -0.01, 0.09), Interval(0.7777, 0.7333, 0.8111), None, 0.44
)


def manifest(asset: str = "utility", gain: Predicted | None = None) -> dict:
    measured = [
        making.measurement(name=name, unit=unit, value=value, bound=None, confidence=None, threshold=None, statistic="value",
                           gating=False)
        for name, (unit, value) in NUMBERS.items()
    ]  # fmt: skip
    gained = gain_measurements({"rare_condition_group_AMI": gain}, 20_000, "c" * 64)
    measured += gained if gain else ()
    item = making.evidence(*measured, *ledger_measurements(ledger(), 25_000), asset=asset)
    made = making.manifest(SLOT, evidence=(item,))
    return json.loads(editions(made, making.protect).public)


def tables() -> dict:
    return {table.name: table for table in utility_content.utility_tables(manifest())}


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
    assert {one["name"]: one["value"] for one in utility_content.measured_use(manifest()).values()}["score_loss"] == 0.03
    assert ("largest change of the association of two columns (Cramér's V)", "0.25") in tables()["distributions"].rows


def test_what_can_be_predicted_is_a_row_for_each_target_and_a_figure():
    told = manifest(gain=Predicted(GAIN, None))
    assert utility_content.utility_tables(told)[0].rows == (
        ("rare group AMI", "12.2 %", "77 % (73 to 82)", "labels add nothing", "0.5"),
    )  # fmt: skip
    figure = utility_content.utility_figures(told)[0]
    assert figure.alt == "rare group AMI: kept of the gain: 77 % (73 to 82), of what labels of claims add: labels add nothing"
    assert b"rare group" in figure.image and b"AMI" in figure.image and b"labels add nothing" in figure.image
    assert utility_content.leaks(told) == ()


@pytest.mark.parametrize(("of_labels", "notes"), [(1.2, 0), (4.1, 1)])
def test_a_leak_of_labels_stands_beside_the_verdict_and_one_of_the_cut_in_the_table(of_labels, notes):
    told = manifest(gain=Predicted(replace(GAIN, leak=5.4), of_labels))
    assert utility_content.utility_tables(told)[0].rows[0][-1] == f"5.4 (labels {of_labels})"
    assert len(utility_content.leaks(told)) == notes and all(
        "rare group AMI" in note and "4.1 standard errors" in note for note in utility_content.leaks(told)
    )


def test_compared_nodes_are_a_table_and_a_figure_that_marks_the_published_one():
    nodes = [SimpleNamespace(node=node) for node in ((0, 2), (1, 1))]
    kept = KeptGain((0.5, 0.8), {0: Interval(0.5, 0.4, 0.6), 1: Interval(0.75, 0.7, 0.8)})
    compared = compared_frame(nodes, kept, {(0, 2): 0.2, (1, 1): 0.4}, 1)
    item = making.evidence(*node_measurements(compared, 20_000, "c" * 64), asset="utility")
    told = json.loads(editions(making.manifest(SLOT, evidence=(item,)), making.protect).public)
    table = utility_content.nodes_table(told, lambda node: f"levels {node}")
    assert table.rows == (
        ("levels (0, 2)", "0.2", "50 % (40 to 60)", ""), ("levels (1, 1)", "0.4", "75 % (70 to 80)", "published"),
    )  # fmt: skip
    assert "2 were compared" in table.text
    (figure,) = utility_content.nodes_figures(told, "Levels.")
    assert figure.alt == "0,2: loss 0.2, 50 % (40 to 60); 1,1 (published): loss 0.4, 75 % (70 to 80)"
    assert b"1,1" in figure.image
    assert utility_content.nodes_table(manifest(), str).rows == () and utility_content.nodes_figures(manifest(), "") == ()


def test_each_step_says_why_and_what_is_left():
    rows = tables()["ledger"].rows
    assert [row[0] for row in rows] == ["sample", "withheld", "grouping"]
    assert rows[0][1:] == ("the member was not drawn for the random sample", "73.3 %", "")
    assert rows[1][3] == "54.5 %" and rows[2][3] == "40.9 %"


def test_columns_that_are_withheld_come_last():
    place, cpt = utility_content.kept_columns(utility_content.measured_use(manifest()))
    assert (place.name, place.before, place.after, place.distance, place.displacement) == ("PlaceSvc", 2, 1.5, 0.12, None)
    assert (cpt.name, cpt.before, cpt.after) == ("cpt", 1, 0)


def test_figures_say_in_words_what_they_show():
    figures = {figure.title: figure for figure in utility_content.utility_figures(manifest())}
    assert list(figures) == [
        "From the delivery to the sample",
        "From the sample to the release",
        "Each column, before and after",
    ]
    assert figures["From the delivery to the sample"].alt == "sample: 73.3 % left"
    assert "PlaceSvc: 2 delivered, 1.5 released" in figures["Each column, before and after"].alt


def test_a_policy_without_the_assessment_has_no_section():
    other = manifest("record_risk")
    assert utility_content.utility_tables(other) == () and utility_content.utility_figures(other) == ()
    with pytest.raises(ReleaseError, match="no measurements of what is kept"):
        delivered_column_rows(other, {"tables": {}})


def with_shares(told: dict, **shares: float) -> dict:
    """A manifest with the gate's measurements of what columns keep."""
    measured = [{"name": f"{name}/information_kept", "value": share} for name, share in shares.items()]
    return told | {"evidence": [*told["evidence"], {"asset": "gate", "measurements": measured}]}


def test_the_table_of_what_is_kept_tells_levels_values_shares_and_bits():
    columns = [
        {"name": "PlaceSvc", "role": "quasi-identifier", "level": "groups", "levels_of_the_policy": ["codes", "groups"],
         "labels": ["A", "B", "C"]},
    ]  # fmt: skip
    rows = delivered_column_rows(with_shares(manifest(), PlaceSvc=0.75), {"tables": {"Claims": {"columns": columns}}})
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
    rows = delivered_column_rows(with_shares({"evidence": []}, Age=0.571), {"tables": {"Records": {"columns": columns}}})
    assert rows == [("Age", "decade (2 of 2)", "2", "0.571", "", "", "")]


def test_pseudonyms_are_called_pseudonyms():
    described = {"tables": {"Claims": {"columns": [{"name": "PlaceSvc", "role": "pseudonym"}]}}}
    assert delivered_column_rows(manifest(), described)[0][1] == "pseudonym"
    assert utility_content.in_words("ProviderID") == "ProviderID (pseudonym)"


class TestFigures:
    def test_a_waterfall_names_steps_and_what_is_left(self):
        image = waterfall_figure([("sample", 0.25), ("long tail", 0.2)], "information [%]")
        assert b"25 %, less 75" in image and b"20 %, less 5" in image and b"long tail" in image
        assert len(markdown_image(image, "waterfall")) < 50_000

    def test_before_and_after_have_different_marks_and_names(self):
        image = before_and_after_figure([("Sex", 1.0, 1.0), ("Age", 6.5, 2.2)], "bits")
        assert b"delivered" in image and b"released" in image and b"Age" in image

    def test_shares_of_gains_are_bars_that_differ_without_colour_and_words_where_there_is_none(self):
        image = gain_figure([("days", [(0.5, 0.4, 0.7), "labels add nothing"]), ("group", [(0.5, -3.0, 9.0), (1.0, 1.0, 1.0)])])
        assert b"labels add nothing" in image and b"of what labels of claims add" in image and b"<pattern" in image

"""The report's tables on disclosure, filled from a public edition; and the figure of dots."""

import json
import re

from deid_assets.assessments import inference_channels
from deid_assets.figures.disclosure_figures import dots_figure
from deid_assets.figures.rendering import markdown_image
from deid_assets.release.manifest.editions import editions
from deid_assets.reports.disclosure_content import disclosure_tables
from deid_assets_tests.release import making
from deid_assets_tests.release.test_disclosure_measures import POLICY, everything
from deid_assets_tests.release.test_manifest import SLOT

ASSETS = {
    "population_estimates": ("small_class", "unique_share", "demographic", "counted", "demographics/"),
    "attribute_disclosure": ("sensitive", "homogeneous", "least_div", "greatest_dist", "A/", "B/"),
    "membership_disclosure": ("greatest_presence", "least_presence", "membership"),
    "provider_graph_attack": ("provider", "vendor", "pcp"),
}


def public_manifest() -> dict:
    found = [
        making.evidence(*(one for one in everything(POLICY) if one.name.startswith(names)), asset=asset)
        for asset, names in ASSETS.items()
    ]
    assert sum(len(item.measurements) for item in found) == len(everything(POLICY))
    made = making.manifest(SLOT, evidence=tuple(found))
    return json.loads(editions(made, making.protect).public)


def tables() -> dict:
    return {table.name: table for table in disclosure_tables(public_manifest())}


def test_every_table_is_filled_and_every_row_has_its_columns():
    found = tables()
    assert list(found) == ["population", "attributes", "membership", "providers"]
    for table in found.values():
        assert all(len(row) == len(table.columns) for row in table.rows)
        assert all(cell for row in table.rows for cell in row), table.name


def test_attributes_and_their_numbers():
    rows = {row[0]: row[1:] for row in tables()["attributes"].rows}
    assert set(rows) == {"A", "B"}
    assert rows["B"][1:] == ("5", "4.2", "0.05", "0.02")


def test_a_release_without_a_sensitive_column_says_so():
    manifest = public_manifest()
    for item in manifest["evidence"]:
        item["measurements"] = [one for one in item["measurements"] if not one["name"].startswith(("A/", "B/"))]
    (row,) = {table.name: table for table in disclosure_tables(manifest)}["attributes"].rows
    assert row[0] == "no column is sensitive: nothing was measured" and set(row[1:]) == {"none"}


def test_a_channel_in_which_nothing_is_withheld_says_so():
    found = {"diagnosis_3/groups": {"value": 0, "unit": "groups"}, "condition/groups": {"value": 5, "unit": "groups"}}
    rows = inference_channels.report_table(found).rows
    assert [row[:2] for row in rows] == [("three-digit diagnosis code", "nothing to predict")] and set(rows[0][2:]) == {"none"}


def test_providers_are_told_by_kind_and_knowledge_before_and_after():
    rows = tables()["providers"].rows
    assert len(rows) == 3 * 4 and rows[0][0] == "ProviderID: one pattern of care" and rows[-1][0] == "PCP: shared patients"
    assert rows[0][3:] == ("4 %", "4 %")


def test_rows_in_which_no_number_may_be_shown_are_left_out():
    manifest = public_manifest()
    of_one_pattern = {f"pcp_{when}/{what}_one_pattern" for when in ("before", "after") for what in ("small_share", "success")}
    measured = [found for item in manifest["evidence"] for found in item["measurements"]]
    for found in measured:
        if found["name"] in of_one_pattern:
            found["value"] = None
    names = {row[0] for table in disclosure_tables(manifest) for row in table.rows}
    assert "PCP: one pattern of care" not in names and "PCP: shared patients" in names


def test_a_gain_that_is_estimated_shows_its_bound():
    rows = dict(tables()["membership"].rows)
    assert rows["advantage over a random guess, from demographics and claims"] == "20 % (up to 40 %)"


def test_without_evidence_there_is_no_table():
    assert disclosure_tables({"evidence": []}) == ()


class TestFigure:
    ROWS = [("provider", [0.4, 0.1]), ("vendor", [None, float("nan")])]

    def test_it_names_its_rows_and_series_and_fits(self):
        image = dots_figure(self.ROWS, ["before", "after"], "recognized [%]")
        texts = re.findall(r"<text[^>]*>([^<]*)</text>", image.decode())
        assert {"provider", "vendor", "before", "after", "recognized [%]"} <= set(texts)
        assert markdown_image(image, "providers")

    def test_a_figure_of_the_largest_size_fits(self):
        markdown_image(dots_figure([(f"a row with a long name {n}", [0.1, 0.2]) for n in range(24)], ["a", "b"], "x"), "alt")

"""The figure of risk against detail."""

import re

import pandas as pd
import pytest

from deid_assets.figures.demographics_figure import labels_of, risk_and_detail_figure

POLICIES = pd.DataFrame(
    {
        "percent": [0.5, 0.0, 0.1, 2.0, 0.3],
        "detail": [10.0, 1.0, 7.0, 12.0, 6.0],
        "on_frontier": [True, True, True, True, False],
        "name": ["Safe Harbor", "", "5 year", "GenEth", ""],
    }
)


@pytest.mark.matrix
def test_named_policies_are_numbered_by_risk_and_told_apart_without_colour():
    image = risk_and_detail_figure(POLICIES, "Safe Harbor", frozenset({"Safe Harbor", "5 year"}))
    told = re.findall(r"<text[^>]*>([^<]*)</text>", image.decode())
    assert labels_of(POLICIES) == ("5 year", "Safe Harbor", "GenEth")
    assert {"1", "2", "3", "Safe Harbor", "no riskier than Safe Harbor", "riskier than Safe Harbor", "frontier"} <= set(told)
    assert image == risk_and_detail_figure(POLICIES, "Safe Harbor", frozenset({"Safe Harbor", "5 year"}))
    assert image != risk_and_detail_figure(POLICIES, "Safe Harbor", frozenset({"Safe Harbor"}))


def test_the_reference_must_be_among_the_policies():
    with pytest.raises(ValueError, match="all are compared with"):
        risk_and_detail_figure(POLICIES, "another", frozenset())

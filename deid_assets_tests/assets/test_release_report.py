"""Figures of the report that not every release has."""

from deid_assets.assets.release_report import _inference_figures


def manifest(shares: dict[str, float]) -> dict:
    told = [{"name": name, "value": value, "bound": None, "threshold": None} for name, value in shares.items()]
    return {"evidence": [{"asset": "inference_channels", "measurements": told}]}


def test_inference_is_drawn_by_group_for_the_first_channel_with_groups():
    shares = {
        f"{channel}/{group}/{model}": 0.5
        for channel, groups in (
            ("age", ["all groups"]),
            ("diagnosis_3", ["all groups", "CHF"]),
            ("diagnosis_5", ["all groups", "CHF"]),
        )
        for group in groups
        for model in ("most_frequent", "naive_bayes")
    }
    (figure,) = _inference_figures(manifest(shares))
    assert "three-digit diagnosis code" in figure.caption and b"CHF" in figure.image


def test_without_groups_nothing_is_drawn():
    assert list(_inference_figures(manifest({"age/all groups/most_frequent": 0.5, "age/all groups/naive_bayes": 0.5}))) == []
    assert list(_inference_figures({"evidence": []})) == []

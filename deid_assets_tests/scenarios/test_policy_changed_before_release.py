"""Policies whose columns change between the candidate and the release: a sentence, not an error of the database."""

from pathlib import Path

import pytest

from deid_assets.errors import ERROR
from deid_assets_tests.scenarios.conftest import KEY as DELIVERED
from deid_assets_tests.scenarios.pipeline import copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, KEY, people, write_people

pytestmark = pytest.mark.matrix

Q = FLAT["quasi_identifiers"]
LIKES = {"kind": "fixed", "values": ["tea", "coffee"]}
CHANGES = {
    "removed": ({"attributes": []}, "(Likes): the policy was changed since; run the whole job again"),
    "renamed": (
        {"attributes": [{"column": "likes", "release_as": "likes"}]},
        "(Likes, likes): the policy was changed since; run the whole job again",
    ),
    "added": (
        {"attributes": [*FLAT["attributes"], {"column": "secret", "release_as": "More"}]},
        "(More): the policy was changed since; run the whole job again",
    ),
    "a quasi-identifier removed": ({"quasi_identifiers": Q[1:]}, "(Town): the policy was changed since"),
    "an attribute made a quasi-identifier": (
        {
            "attributes": [],
            "quasi_identifiers": [*Q, {"column": "likes", "release_as": "Likes", "hierarchy": "likes"}],
            "hierarchies": FLAT["hierarchies"] | {"likes": LIKES},
        },
        "with other columns or levels than the policy has now; run the whole job again",
    ),
}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory) -> Path:
    """A home with everything of a delivery done but its release."""
    folder = tmp_path_factory.mktemp("changed")
    with pipeline_in(folder / "deid", "flat_table") as pipeline:
        write_policy(pipeline.home.policies, FLAT)
        pipeline.register(KEY, "flat", write_people(folder / "in", people()))
        pipeline.run(KEY, [name for name in pipeline.every_asset if name != "release"])
    return folder / "deid"


@pytest.mark.parametrize("change", CHANGES)
def test_columns_that_change_before_the_release_are_named(prepared, tmp_path, change):
    sections, sentence = CHANGES[change]
    with copy_of(prepared, tmp_path / "deid", "flat_table") as pipeline:
        write_policy(pipeline.home.policies, changed(FLAT, **sections))
        summary = pipeline.run(KEY, ["release"])
        (reason,) = summary.reasons
        assert summary.exit_code == ERROR and summary.release is None
        assert sentence in reason


@pytest.mark.parametrize("removed", ["sex", "days_in_hospital_y2"])
def test_members_columns_that_are_removed_before_the_release_are_named(published, tmp_path, removed):
    kept = [one for one in SMALL["quasi_identifiers"]["members"] if one["column"] != removed]
    dimensions = [one for one in SMALL["dimensions"] if one["columns"] != [removed]]
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        write_policy(pipeline.home.policies, changed(SMALL, quasi_identifiers__members=kept, dimensions=dimensions))
        summary = pipeline.run(DELIVERED, ["release"])
        (reason,) = summary.reasons
        assert summary.exit_code == ERROR and summary.release is None
        assert "made under another policy, or an earlier text of it" in reason and "failed with" not in reason

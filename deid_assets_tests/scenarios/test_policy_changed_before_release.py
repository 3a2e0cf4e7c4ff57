"""Policies whose columns change between the candidate and the release: a sentence, not an error of the database."""

import pytest

from deid_assets.errors import ERROR
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, KEY, people, write_people


@pytest.mark.parametrize(
    "attributes", [[], [*FLAT["attributes"], {"column": "secret", "release_as": "More"}]], ids=["removed", "added"]
)
def test_attributes_that_change_before_the_release_are_named(tmp_path, attributes):
    with pipeline_in(tmp_path / "deid", "flat_table") as pipeline:
        write_policy(pipeline.home.policies, FLAT)
        pipeline.register(KEY, "flat", write_people(tmp_path / "in", people()))
        pipeline.run(KEY, [name for name in pipeline.every_asset if name != "release"])
        write_policy(pipeline.home.policies, changed(FLAT, attributes=attributes))
        summary = pipeline.run(KEY, ["release"])
        (reason,) = summary.reasons
        assert summary.exit_code == ERROR and summary.release is None
        name = "More" if attributes else FLAT["attributes"][0]["release_as"]
        assert f"({name}): the policy was changed since; run the whole job again" in reason

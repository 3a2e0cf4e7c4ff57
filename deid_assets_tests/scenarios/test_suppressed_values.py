"""A release in which single values are suppressed: published, explained, verified, and refused."""

import pandas as pd
import pytest

from deid_assets.methods.population.value_domains import NOT_TOLD
from deid_assets.schemas.preparation import SPECIALTY_GROUPS
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.conftest import MEMBERS
from deid_assets_tests.scenarios.pipeline import pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_recoding_by_class import PLACES

SPECIALTIES = {
    "kind": "codes",
    "level_names": ["groups of specialties", "any"],
    "values": {name: ["any"] for name in SPECIALTY_GROUPS},
}
WITH_VALUES = changed(
    SMALL,
    risk__suppression={"at_most": 0.0, "values_at_most": 0.3},
    quasi_identifiers__claims=[
        {"column": "place", "release_as": "PlaceSvc", "hierarchy": "place"},
        {"column": "specialty", "release_as": "Specialty", "hierarchy": "specialty"},
    ],
    hierarchies=SMALL["hierarchies"] | {"place": PLACES, "specialty": SPECIALTIES},
    dimensions=[
        *SMALL["dimensions"],
        {"name": "place", "columns": ["place"]},
        {"name": "specialty", "columns": ["specialty"]},
    ],
)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A home in which such a release was published."""
    root = tmp_path_factory.mktemp("values") / "deid"
    policy = write_policy(root.parent, WITH_VALUES)
    exit_code, printed = deid_here(root, "run", "--policy", root.parent / f"{policy.name}.yaml", "--members", MEMBERS)
    assert exit_code == PUBLISHED, printed
    with pipeline_in(root) as pipeline:
        yield pipeline


def folder_of(pipeline):
    return pipeline.home.releases / "small" / "0001"


def test_suppressed_and_missing_values_look_alike(released):
    claims = pd.read_parquet(folder_of(released) / "data" / "Claims.parquet")
    assert (claims["PlaceSvc"] == NOT_TOLD).any()
    assert claims["PlaceSvc"].notna().all()

"""A release in which every demographic class has its own level of the claims' columns: published, explained, and refused."""

import json

import pandas as pd
import pytest

from deid_assets.methods.population.value_domains import CLASS
from deid_assets.policy.hierarchies.hierarchy import BY_CLASS
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS
from deid_assets_tests.scenarios.pipeline import copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_gate_refuses import refused

PLACES = {
    "kind": "codes",
    "level_names": ["groups of places", "settings", "any"],
    "values": {
        name: [setting, "any"]
        for setting, names in {
            "Practice": ("Office", "Independent Lab", "Home", "Other"),
            "Hospital": ("Urgent Care", "Outpatient Hospital", "Inpatient Hospital", "Ambulance"),
        }.items()
        for name in names
    },
}
BY_CLASSES = changed(
    SMALL,
    recoding="by_class",
    hierarchies__place=PLACES,
    dimensions=[*SMALL["dimensions"], {"name": "place", "columns": ["place"]}],
)


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A home in which such a release was published."""
    root = tmp_path_factory.mktemp("by_class") / "deid"
    policy = write_policy(root.parent, BY_CLASSES)
    exit_code, printed = deid_here(root, "run", "--policy", root.parent / f"{policy.name}.yaml", "--members", MEMBERS)
    assert exit_code == PUBLISHED, printed
    with pipeline_in(root) as pipeline:
        yield pipeline


@pytest.fixture
def harmed(released, tmp_path):
    with copy_of(released.home.root, tmp_path / "deid") as pipeline:
        yield pipeline


def folder_of(pipeline):
    return pipeline.home.releases / "small" / "0001"


def verified(pipeline):
    """`deid verify` with the home's own key."""
    root = pipeline.home.root
    deid_here(root, "key", "export", "--output", root.parent / "key.pem")
    exit_code, printed = deid_here(root, "verify", folder_of(pipeline), "--key", root.parent / "key.pem")
    return exit_code, unwrapped(printed)


pytestmark = pytest.mark.matrix


def test_classes_have_different_levels_and_the_labels_are_theirs(released):
    levels = released.table(KEY, "class_levels").frame()
    assert levels["place"].nunique() > 1
    shown = released.table(KEY, "class_domains").frame()
    own = shown[(shown["quasi_identifier"] == "place") & (shown["level"] == 0)]
    published = pd.read_parquet(folder_of(released) / "data" / "Claims.parquet")["PlaceSvc"].dropna()
    assert set(published) <= set(own["label"])
    assert own.groupby(CLASS)["shown_level"].first().tolist() == levels["place"].tolist()


def test_the_dictionary_says_which_level_each_class_has(released):
    told = json.loads((folder_of(released) / "data" / "dictionary.json").read_text())
    (places,) = [one for one in told["tables"]["Claims"]["columns"] if one["name"] == "PlaceSvc"]
    assert places["level"] == BY_CLASS
    described = {"AgeAtFirstClaim", "Sex", "DaysInHospital_Y2"}
    assert all(set(one["class"]) == described for one in places["levels_by_class"])
    assert {one["level"] for one in places["levels_by_class"]} <= set(PLACES["level_names"])


def test_the_release_verifies_with_the_certificate_of_its_classes(released):
    exit_code, printed = verified(released)
    assert exit_code == PUBLISHED and "of the listed levels of classes, no choice within the risk loses less" in printed


def test_other_levels_in_the_certificate_are_found(harmed):
    file = folder_of(harmed) / "certificate.json"
    told = json.loads(file.read_text())
    told["by_class"]["bound"] /= 2
    file.chmod(0o600)
    file.write_text(json.dumps(told))
    exit_code, printed = verified(harmed)
    assert exit_code != PUBLISHED and "the bound is not that of the linear relaxation" in printed


def test_the_why_ledger_adds_up_and_the_audit_traces_the_claims(released):
    ledger = released.table(KEY, "why_ledger").frame()
    of_places = ledger[(ledger["released_as"] == "PlaceSvc") & (ledger["step"] == "generalization")]
    assert of_places["bits"].item() > 0 and not (ledger["step"] == "unaccounted").any()
    exit_code, _ = deid_here(released.home.root, "audit", "small/0001")
    assert exit_code == PUBLISHED


LABEL_OF_ANOTHER_CLASS = """
    UPDATE candidate.release_claims AS r SET "PlaceSvc" = 'any'
    WHERE rowid = (SELECT min(rowid) FROM candidate.release_claims WHERE "PlaceSvc" <> 'any')"""


def test_a_claim_with_the_level_of_another_class_is_refused(harmed):
    harmed.edit_store(KEY, LABEL_OF_ANOTHER_CLASS)
    refused(harmed, "release_claims: the staged rows differ from those that the restricted store gives")


def test_a_second_release_by_column_of_the_same_people_is_linked_at_the_meet(harmed, tmp_path):
    """What one release shows of a class and the other of everybody is known together."""
    by_column = changed(BY_CLASSES, recoding="by_column", policy="by_column")
    write_policy(tmp_path / "other", by_column)
    exit_code, printed = deid_here(
        harmed.home.root, "run", "--policy", tmp_path / "other" / "by_column.yaml", "--members", MEMBERS
    )
    assert exit_code in (PUBLISHED, REFUSED), printed
    with pipeline_in(harmed.home.root, "by_column") as pipeline:
        assert len(pipeline.table(KEY, "cross_release_risk").frame())

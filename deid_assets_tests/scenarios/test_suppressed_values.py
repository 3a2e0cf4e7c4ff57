"""A release in which single values are suppressed: published, explained, verified, and refused."""

import json

import pandas as pd
import pytest

from deid_assets.methods.population.value_domains import NOT_TOLD
from deid_assets.schemas.preparation import SPECIALTY_GROUPS
from deid_assets_tests.frozen_homes.make_levels_by_class import PLACES
from deid_assets_tests.scenarios.command_line import PUBLISHED, REFUSED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS
from deid_assets_tests.scenarios.pipeline import copy_of, folder_of, pipeline_in, verified
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_gate_refuses import refused

SPECIALTIES = {
    "kind": "codes",
    "level_names": ["groups of specialties", "any"],
    "values": {name: ["any"] for name in SPECIALTY_GROUPS},
}
WITH_VALUES = changed(
    SMALL,
    # Some values of some members single them out; what fewer know of is not told.
    risk__max_high_risk_share=0.0012,
    risk__suppression={"at_most": 0.0, "values_at_most": 0.3},
    quasi_identifiers={
        # Few members lack a value: only within large demographic classes are there enough to look like them.
        "members": [{"column": "sex", "release_as": "Sex", "hierarchy": "sex"}],
        "claims": [
            {"column": "place", "release_as": "PlaceSvc", "hierarchy": "place"},
            {"column": "specialty", "release_as": "Specialty", "hierarchy": "specialty"},
        ],
    },
    hierarchies={"sex": SMALL["hierarchies"]["sex"], "place": PLACES, "specialty": SPECIALTIES},
    dimensions=[{"name": "place", "columns": ["place"]}, {"name": "specialty", "columns": ["specialty"]}],
)
SHOWN = {"PlaceSvc": "place", "Specialty": "specialty"}


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    """A home in which such a release was published."""
    root = tmp_path_factory.mktemp("values") / "deid"
    policy = write_policy(root.parent, WITH_VALUES)
    exit_code, printed = deid_here(root, "run", "--policy", root.parent / f"{policy.name}.yaml", "--members", MEMBERS)
    assert exit_code == PUBLISHED, printed
    with pipeline_in(root) as pipeline:
        yield pipeline


@pytest.fixture
def harmed(released, tmp_path):
    with copy_of(released.home.root, tmp_path / "deid") as pipeline:
        yield pipeline


def claims_of(pipeline):
    return pd.read_parquet(folder_of(pipeline) / "data" / "Claims.parquet")


def test_suppressed_and_missing_values_look_alike(released):
    claims = claims_of(released)
    assert len(released.table(KEY, "suppressed_values").frame())
    for name in SHOWN:
        assert claims[name].notna().all()
        hidden = claims[claims[name] == NOT_TOLD]
        assert len(hidden) and hidden[["ProviderID", "Vendor", "PCP"]].isna().all(axis=None)


def test_no_claim_of_a_member_shows_a_suppressed_value_and_all_others_are_as_delivered(released):
    shown, known, held = (
        released.table(KEY, name).frame().set_index("claim_id")
        for name in ("shown_claims", "shown_known_claims", "truncated_claims")
    )
    gone = set(released.table(KEY, "suppressed_values").frame().itertuples(index=False, name=None))
    for column in SHOWN.values():
        rows = zip(held["member_id"], held[column], shown.loc[held.index, column], known.loc[held.index, column], strict=True)
        for member, value, seen, can_know in rows:
            if pd.isna(value):
                assert seen == NOT_TOLD and pd.isna(can_know)
            else:
                assert seen == can_know == (NOT_TOLD if (member, column, value) in gone else value)


@pytest.mark.matrix
def test_the_dictionary_says_what_is_not_told_and_never_why(released):
    told = json.loads((folder_of(released) / "data" / "dictionary.json").read_text())
    for name in SHOWN:
        (own,) = [one for one in told["tables"]["Claims"]["columns"] if one["name"] == name]
        assert f"'{NOT_TOLD}' where the value was not delivered, or would single members out" in own["meaning"]
        assert own["labels"][-1] == NOT_TOLD and not own["may_be_blank"]


@pytest.mark.matrix
def test_the_release_verifies(released):
    exit_code, printed = verified(released)
    assert exit_code == PUBLISHED, printed


@pytest.mark.matrix
def test_the_why_ledger_adds_up_and_the_audit_traces_the_claims(released):
    ledger = released.table(KEY, "why_ledger").frame()
    assert not (ledger["step"] == "unaccounted").any()
    steps = ledger[ledger["step"] == "value_suppression"].set_index("released_as")
    assert set(steps.index) == set(SHOWN) and (steps["bits"] >= 0).all() and (steps["bits"] > 0).any()
    exit_code, printed = deid_here(released.home.root, "audit", "small/0001")
    assert exit_code == PUBLISHED, printed


NOT_COMPARED = "check failed releases_not_compared_within_threshold: measured 1, threshold 0"


def runs(root, folder, values):
    write_policy(folder, values)
    exit_code, printed = deid_here(root, "run", "--policy", folder / f"{values['policy']}.yaml", "--members", MEMBERS)
    return exit_code, unwrapped(printed)


@pytest.mark.matrix
def test_a_second_release_of_the_same_people_that_shows_all_values_is_refused(harmed, tmp_path):
    every = changed(WITH_VALUES, policy="every", risk__suppression={"at_most": 0.0}, risk__max_high_risk_share=0.015)
    exit_code, printed = runs(harmed.home.root, tmp_path / "other", every)
    assert exit_code == REFUSED and NOT_COMPARED in printed
    assert not (harmed.home.releases / "every").exists()


@pytest.mark.matrix
def test_a_second_release_of_the_same_people_that_suppresses_others_is_refused(harmed, tmp_path):
    exit_code, printed = runs(harmed.home.root, tmp_path / "other", changed(WITH_VALUES, policy="others"))
    assert exit_code == REFUSED and NOT_COMPARED in printed
    assert not (harmed.home.releases / "others").exists()


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("table", "statement"),
    [
        ("shown_claims", "UPDATE generalization.shown_claims SET place = 'Office' WHERE claim_id IN"
         " (SELECT min(claim_id) FROM generalization.shown_claims WHERE place = 'suppressed or missing')"),
        ("shown_known_claims", "UPDATE generalization.shown_known_claims SET place = 'Office' WHERE claim_id IN"
         " (SELECT min(claim_id) FROM generalization.shown_known_claims WHERE place = 'suppressed or missing')"),
        ("shown_domains", "UPDATE generalization.shown_domains SET label = 'x' WHERE value = 'Office'"),
        ("suppressed_values", "DELETE FROM generalization.suppressed_values"),
        ("value_lattice", "UPDATE generalization.value_lattice SET loss = 0"),
    ],
    ids=lambda value: value if " " not in value else "",
)  # fmt: skip
def test_a_table_that_was_changed_is_found(harmed, table, statement):
    harmed.edit_store(KEY, statement)
    refused(harmed, f"{table}: its table is not the one that was materialized")


@pytest.mark.matrix
def test_a_value_that_is_put_back_into_the_release_is_found(harmed):
    harmed.edit_store(
        KEY,
        "UPDATE candidate.release_claims SET \"Specialty\" = 'Internal' WHERE rowid ="
        " (SELECT min(rowid) FROM candidate.release_claims WHERE \"Specialty\" = 'suppressed or missing')",
    )
    refused(harmed, "release_claims: the staged rows differ from those that the restricted store gives")

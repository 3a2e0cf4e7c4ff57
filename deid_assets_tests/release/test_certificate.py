"""The certificate in its two editions: what the public one tells, what it cannot tell, and what a forger gets."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.lattice.certificate import rounding_step
from deid_assets.release.manifest.certificate import (
    certificate_editions,
    certificate_problems,
    names_exact_edition,
)
from deid_assets.store.digests import canonical_json
from deid_assets_tests.release.making import PROOF

SALT = bytes(32)
EDITIONS = certificate_editions(PROOF, "heritage", 1, 50_000, True, SALT)


def changed(change, content=EDITIONS.public):
    """The certificate as somebody could write it."""
    value = json.loads(content)
    change(value)
    return canonical_json(value)


def test_both_editions_hold():
    for content in (EDITIONS.public, EDITIONS.exact):
        assert certificate_problems(content, "heritage", 1) == []
    assert names_exact_edition(EDITIONS.public, EDITIONS.exact)


def test_the_public_one_tells_no_count_of_people():
    told = json.loads(EDITIONS.public)
    nodes = [*told["failed"], *told["directly_below"]]
    assert nodes
    assert {(node["flagged"], node["of"]) for node in nodes} == {(None, None)}
    assert "salt" not in told
    for own in told["losses"]:
        assert all(loss == pytest.approx(round(loss, 3), abs=0) for loss in own)


def test_a_certificate_that_names_its_nodes_as_earlier_ones_do_holds_as_well():
    def earlier(told):
        told["passing"] = told.pop("no_better")

    assert certificate_problems(changed(earlier), "heritage", 1) == []


def test_counts_of_random_draws_may_be_told():
    told = json.loads(certificate_editions(PROOF, "heritage", 1, 50_000, False, SALT).public)
    assert [node["flagged"] for node in told["failed"]] == [40]


def test_in_a_small_table_losses_are_told_coarsely():
    assert json.loads(certificate_editions(PROOF, "heritage", 1, 100, True, SALT).public)["rounded_down_to"] == 0.25


@given(st.integers(1, 10**7))
def test_a_step_covers_25_people(people):
    step = rounding_step(people)
    assert step <= 1 and (step == 1 or step * people >= 25 * (1 - 1e-9))


def test_the_digest_of_the_exact_one_depends_on_the_salt():
    other = certificate_editions(PROOF, "heritage", 1, 50_000, True, b"\1" * 32)
    assert not names_exact_edition(EDITIONS.public, other.exact)


@pytest.mark.parametrize("place", [("heritage", 2), ("other", 1)])
def test_a_certificate_of_another_release_is_none(place):
    assert certificate_problems(EDITIONS.public, *place) == ["it belongs to another release"]


def test_a_proof_that_fails_is_found_out():
    forged = certificate_editions(replace(PROOF, failed=()), "heritage", 1, 50_000, True, SALT)
    for content in (forged.public, forged.exact):
        assert certificate_problems(content, "heritage", 1)


@pytest.mark.parametrize(
    "change",
    [
        lambda told: told.update(format="another"),
        lambda told: told.update(losses=[[0, 1]]),
        lambda told: told.update(losses="high"),
        lambda told: told.update(rounded_down_to=-1),
        lambda told: told.update(rounded_down_to=2),
        lambda told: told["chosen"].update(node=[1, True]),
        lambda told: told["chosen"].update(node=[1.0, 0]),
        lambda told: told["chosen"].update(node=None),
        lambda told: told["criterion"].update(kind="lenient"),
        lambda told: told["criterion"].update(threshold=1),
        lambda told: told["criterion"].update(kind="sequential"),
        lambda told: told["dimensions"][0].update(highest_level=2**24),
        lambda told: told["failed"][0].update(of=0, flagged=0),
        lambda told: told["failed"][0].update(of=3, flagged=5),
        lambda told: told["failed"][0].update(flagged=5),
        lambda told: told.pop("passed_over"),
    ],
)
def test_whatever_does_not_fit_is_a_problem_and_no_error(change):
    assert certificate_problems(changed(change), "heritage", 1)


@given(st.one_of(st.binary(max_size=50), st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["losses", "chosen", "failed"]), inner),
    max_leaves=8,
).map(lambda value: json.dumps(value).encode())))  # fmt: skip
def test_nothing_that_a_file_may_hold_is_an_error(content):
    assert certificate_problems(content, "heritage", 1)


@pytest.mark.parametrize("key", ["losses", "chosen", "failed", "criterion", "dimensions", "passed_over", "no_better"])
@pytest.mark.parametrize("value", [None, 0, "text", [], {}, [[]], [None], {"node": []}])
def test_a_replaced_part_is_a_problem_and_no_error(key, value):
    told = json.loads(EDITIONS.public)
    found = certificate_problems(changed(lambda told: told.update({key: value})), "heritage", 1)
    assert bool(found) == (told[key] != value), "an empty list that was empty is no problem"

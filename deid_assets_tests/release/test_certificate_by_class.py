"""The certificate of a release whose demographic classes have their own levels: told, read back, held against a policy."""

import json
from dataclasses import replace

import pytest

from deid_assets.methods.lattice.certificate import Criterion
from deid_assets.methods.recoding.class_certificate import ChoiceOfClass, ClassCandidate, ClassCertificate
from deid_assets.release.manifest.certificate import certificate_editions, certificate_problems
from deid_assets.release.manifest.certificate_policy import StatedLattice
from deid_assets.release.manifest.optimality import certificate_refusals
from deid_assets.release.publication.verification import _public_certificate
from deid_assets.store.digests import canonical_json
from deid_assets_tests.release.making import PROOF

PLACES = replace(PROOF, dimensions=("age", "place"))
FINER, COARSER = ClassCandidate((0,), 0.02, 0.0), ClassCandidate((1,), 0.0, 3.5)
LARGE = ChoiceOfClass((0,), (FINER, COARSER), 0, members=5_000)
SMALL = ChoiceOfClass((1,), (FINER, COARSER), 1, members=40)
CLASSES = ClassCertificate(("place",), (1,), (1, 0), 0.03, (LARGE, SMALL), 3.0, 0.0, 11.0, 0.0, 0.0).with_bound()
STATED = StatedLattice(
    (("age", 2), ("place", 1)), (Criterion("counted", 0.1),), class_dimensions=("place",), at_most=0.05
)  # fmt: skip


def editions(classes: ClassCertificate | None = CLASSES):
    return certificate_editions(PLACES, "by_class", 1, 50_000, False, bytes(32), classes)


def problems(change=lambda told: None, stated: StatedLattice = STATED) -> list[str]:
    told = json.loads(editions().public)
    change(told)
    return certificate_problems(canonical_json(told), "by_class", 1, stated)


def test_both_editions_hold_and_small_classes_are_told_without_numbers():
    for content in (editions().public, editions().exact):
        assert certificate_problems(content, "by_class", 1, STATED) == []
    large, small = json.loads(editions().public)["by_class"]["classes"]
    assert len(large["candidates"]) == 2 and large["members"] is None
    assert small["candidates"] == [{"levels": [1], "share": 0.0, "loss": 0.0}] and small["members"] is None


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda told: told["by_class"].update(bound=0.5), "the bound is not that of the linear relaxation"),
        (lambda told: told["by_class"].update(dimensions=None), "it cannot be read"),
        (lambda told: told["by_class"].update(member_node=[1, 1]), "the levels of members that its classes have"),
        (lambda told: told["by_class"].update(member_node=[3, 0]), "the levels of members that its classes have"),
        (lambda told: told["by_class"].update(member_node=[1]), "the levels of members that its classes have"),
        (lambda told: told["by_class"].update(at_least=[2]), "the levels below which no class stays"),
        (lambda told: told.pop("by_class") and None, "it is about levels by class where the policy has none"),
    ],
)
def test_what_was_changed_is_found(change, said):
    assert any(said in problem for problem in problems(change))


@pytest.mark.parametrize(
    ("stated", "said"),
    [
        (replace(STATED, class_dimensions=None), "it is about levels by class where the policy has none"),
        (replace(STATED, class_dimensions=("age",)), "the dimensions of its classes, or their levels, differ"),
        (replace(STATED, at_most=0.01), "chosen for more risk than the policy allows"),
    ],
)
def test_it_must_be_about_the_policy(stated, said):
    assert any(said in problem for problem in problems(stated=stated))


def test_verification_says_what_it_proves_and_whether_the_release_is_coarser():
    check = _public_certificate("holds", editions().public, "")
    assert check.outcome == "passed" and check.reason.startswith("of the listed levels of classes, no choice within the risk")
    assert "coarser" not in check.reason
    coarser = _public_certificate("holds", editions(replace(CLASSES, at_least=(1,))).public, "")
    assert "the release is coarser than it" in coarser.reason


def test_the_gate_refuses_one_that_does_not_hold():
    assert certificate_refusals(PLACES, CLASSES) == []
    (refusal,) = certificate_refusals(PLACES, replace(CLASSES, bound=0.0))
    assert refusal.rule == "broken_certificate"

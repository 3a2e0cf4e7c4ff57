"""The certificate of a choice by class: what it accepts, what it finds wrong, and what of it may be published."""

from dataclasses import replace
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.methods.recoding import class_certificate
from deid_assets.methods.recoding.class_certificate import ChoiceOfClass, ClassCandidate, ClassCertificate

HEIGHTS = (2, 1)


@st.composite
def proofs(draw):
    """A true certificate over some classes: losses rise and shares fall on the way up."""
    classes = []
    for number in range(draw(st.integers(1, 4))):
        rises = [draw(st.floats(0, 0.2)) for _ in HEIGHTS]
        falls = [draw(st.floats(0.3, 1)) for _ in HEIGHTS]
        whole = draw(st.floats(0, 0.01))
        nodes = draw(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=5, unique=True))
        candidates = tuple(
            ClassCandidate(
                node,
                whole * falls[0] ** node[0] * falls[1] ** node[1],
                rises[0] * node[0] + rises[1] * node[1],
            )
            for node in nodes
        )
        chosen = draw(st.integers(0, len(nodes) - 1))
        classes.append(ChoiceOfClass((number,), candidates, chosen, draw(st.integers(1, 1_000))))
    share = sum(own.choice.share for own in classes)
    budget = share + draw(st.floats(0, 0.01))
    made = ClassCertificate(
        ("stay", "place"), HEIGHTS, (1, 0, 0), budget, tuple(classes), draw(st.floats(0, 0.5)), 0.0, 2.0, 0.0, 0.0
    )
    return made.with_bound()


def least_loss(proof):
    """The least loss of any choice within the budget, by trying all."""
    losses = [
        sum(one.loss for one in choice)
        for choice in product(*(own.candidates for own in proof.classes))
        if sum(one.share for one in choice) <= proof.budget
    ]
    return proof.member_loss + min(losses)


@given(proofs())
def test_a_true_certificate_bounds_every_choice(proof):
    assert proof.problems() == []
    best = least_loss(proof)
    assert proof.bound <= best + 1e-9
    assert proof.loss - best <= proof.gap + 1e-9


@given(proofs(), st.sampled_from([0.001, 0.02, 0.3]), st.booleans())
def test_what_is_published_still_proves_within_its_tolerance(proof, step, hide_counts):
    public = proof.rounded(step, hide_counts)
    assert public.problems() == []
    # In parts of the largest loss.
    assert public.bound <= least_loss(proof) / 2.0 + public.tolerance / 2 + 1e-9
    assert abs(proof.loss / 2.0 - public.loss) <= public.tolerance / 2 + 1e-9
    assert (proof.loss - least_loss(proof)) / 2.0 <= public.gap + public.tolerance + 1e-9


@given(proofs(), st.sampled_from([0.001, 0.02]), st.booleans())
def test_what_is_published_tells_no_number_of_a_small_class_and_no_count(proof, step, hide_counts):
    public = proof.rounded(step, hide_counts)
    share_step = step if hide_counts else class_certificate.SHARE_STEP
    for own, told in zip(proof.classes, public.classes, strict=True):
        assert told.members is None
        assert told.choice.levels == own.choice.levels
        if own.members < class_certificate.MEMBERS_TO_TELL:
            assert told.candidates == (ClassCandidate(own.choice.levels, 0.0, 0.0),)
        for one in told.candidates:
            assert one.loss / step == pytest.approx(round(one.loss / step), abs=1e-6)
            assert one.share / share_step == pytest.approx(round(one.share / share_step), abs=1e-6)


def two_classes():
    finer, coarser = ClassCandidate((0, 0), 0.006, 0.0), ClassCandidate((2, 1), 0.001, 0.3)
    classes = ChoiceOfClass((0,), (finer, coarser), 0, 900), ChoiceOfClass((1,), (finer, coarser), 1, 900)
    return ClassCertificate(("stay", "place"), HEIGHTS, (1, 0, 0), 0.008, classes, 0.1, 0.0, 1.0, 0.0, 0.0).with_bound()


def with_candidate(proof, **changes):
    first = proof.classes[0]
    changed = replace(first, candidates=(replace(first.candidates[0], **changes), *first.candidates[1:]))
    return replace(proof, classes=(changed, *proof.classes[1:]))


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (lambda proof: replace(proof, loss=0.35), "the loss is not the sum of its parts"),
        (lambda proof: replace(proof, bound=0.39), "the bound is not that of the linear relaxation"),
        (lambda proof: replace(proof, budget=0.005), "the choice exceeds the budget"),
        (lambda proof: replace(proof, untold_loss=0.1), "the loss is not the sum of its parts"),
        (lambda proof: with_candidate(proof, loss=0.4), "shares and losses do not fit together in a class: 0"),
        (lambda proof: with_candidate(proof, share=0.0005), "shares and losses do not fit together in a class: 0"),
        (lambda proof: with_candidate(proof, levels=(3, 0)), "a candidate is listed twice, or does not lie in the lattice"),
        (lambda proof: with_candidate(proof, levels=(2, 1)), "a candidate is listed twice, or does not lie in the lattice"),
        (lambda proof: with_candidate(proof, levels=(0,)), "a candidate is listed twice, or does not lie in the lattice"),
        (lambda proof: with_candidate(proof, share=-0.1), "a number is out of range"),
        (lambda proof: with_candidate(proof, loss=float("nan")), "a number is out of range"),
        (lambda proof: replace(proof, budget=float("inf")), "a number is out of range"),
        (lambda proof: replace(proof, heights=(2,)), "each dimension needs its highest level"),
        (lambda proof: replace(proof, classes=()), "there is no class, or one is listed twice"),
        (lambda proof: replace(proof, classes=proof.classes[:1] * 2), "there is no class, or one is listed twice"),
        (
            lambda proof: replace(proof, classes=(replace(proof.classes[0], chosen=2), proof.classes[1])),
            "a class has no choice among its candidates",
        ),
    ],
)
def test_what_is_wrong_is_found(changed, said):
    assert two_classes().problems() == []
    assert said in changed(two_classes()).problems()


def test_a_bound_that_no_choice_reaches_is_wrong():
    """Larger shares than the budget even at the coarsest candidates: nothing bounds a loss."""
    proof = replace(two_classes(), budget=0.001)
    assert "the bound is not that of the linear relaxation" in proof.problems()
    with pytest.raises(ValueError, match="no choice among the candidates"):
        proof.with_bound()


def test_a_certificate_too_large_to_check(monkeypatch):
    monkeypatch.setattr(class_certificate, "CANDIDATES_AT_MOST", 3)
    assert two_classes().problems() == ["there are more than 3 candidates"]

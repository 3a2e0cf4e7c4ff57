"""The lattice that a policy's text states is the one that the policy has, for every kind of policy and hierarchy."""

import json
from dataclasses import replace

import pytest

from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.candidate_gates import COARSER, KEEPS_NO_MORE, PINNED, TOO_LITTLE
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate
from deid_assets.policy.loading import policies_in, policy_from, with_sections
from deid_assets.release.manifest.certificate import StatedLattice
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.release.making import POLICY, PROOF
from deid_assets_tests.scenarios.test_flat_release import FLAT
from deid_assets_tests.scenarios.wide import REVENUE, VAST

SHIPPED = policies_in()


def stated_by(policy) -> StatedLattice:
    return StatedLattice.of(json.dumps(policy.public_content()))


@pytest.mark.parametrize("policy", SHIPPED.values(), ids=SHIPPED)
def test_of_a_policy_that_ships(policy):
    stated, search = stated_by(policy), policy.risk.search
    names = tuple(dimension.name for dimension in policy.dimensions)
    heights = tuple(levels - 1 for levels in policy.dimension_levels)
    assert stated.dimensions == tuple(zip(names, heights, strict=True))
    assert stated.criteria == (
        Criterion(
            "sequential", search.aim * policy.risk.max_high_risk_share, search.error / policy.node_count, search.draws_at_most
        ),
        Criterion("lower_bound", policy.risk.max_high_risk_share + policy.risk.suppression.at_most),
    )


def test_where_detail_is_preferred_nodes_fail_that_need_more_suppressed_members():
    told = {"at_most": 0.02, "prefer": "detail"}
    stated = stated_by(policy_from(public_values(risk__suppression=told)))
    assert [criterion.kind for criterion in stated.criteria] == ["sequential", "suppression"]
    assert stated.criteria[1] == Criterion("suppression", 0.02)


def test_of_a_lattice_that_is_not_listed(tmp_path):
    (tmp_path / "revenue.csv").write_text(REVENUE)
    policy = policy_from(VAST, tmp_path)
    detail = with_sections(policy, detail_at_least={"Age": 0.1})
    assert stated_by(policy).keeping == frozenset() and stated_by(detail).keeping == {"age"}
    dimensions, heights = zip(*stated_by(policy).dimensions, strict=True)
    proof = OptimalityCertificate(
        dimensions, heights, tuple((0.0,) * (height + 1) for height in heights), 0.0, stated_by(policy).criteria[0],
        (0,) * len(heights), 0.0, (), passed_over={tuple(2 * (name == "county") for name in dimensions): TOO_LITTLE},
    )  # fmt: skip
    assert stated_by(detail).problems(proof) == ["levels of county are left out, though the policy requires no detail of it"]
    assert not policy.lists_lattice and stated_by(policy).criteria[0] == Criterion("best_first", 0.85 * 0.015, 0.001, 100_000)


def test_of_a_flat_policy():
    policy = policy_from(FLAT)
    expected = tuple((qi.release_as, policy.hierarchy(qi.hierarchy).levels - 1) for qi in policy.quasi_identifiers)
    assert stated_by(policy) == StatedLattice(expected, (Criterion("counted", policy.risk.max_suppressed),))


@pytest.mark.parametrize(
    ("kind", "levels"),
    [
        ({"kind": "intervals", "levels": [{}, {}]}, 2),
        ({"kind": "dates", "levels": ["day", "month", "year"]}, 3),
        ({"kind": "codes", "level_names": ["code", "group"], "values": {}}, 2),
        ({"kind": "prefixes", "lengths": [None, 3, 1, 0]}, 4),
        ({"kind": "csv", "rows": [["a", "b", "*"]]}, 3),
        ({"kind": "fixed"}, 1),
    ],
)
def test_every_kind_of_hierarchy_is_counted(kind, levels):
    told = POLICY | {"hierarchies": {"age": kind, "sex": kind}}
    assert dict(StatedLattice.of(json.dumps(told)).dimensions) == {"age": levels - 1, "sex": levels - 1}


def test_a_proof_about_something_else_is_none():
    stated = StatedLattice.of(json.dumps(POLICY))
    assert stated.problems(PROOF) == []
    assert stated.problems(replace(PROOF, dimensions=("sex", "age")))
    assert stated.problems(replace(PROOF, heights=(2, 2)))
    assert stated.problems(replace(PROOF, criterion=Criterion("counted", 0.2)))
    assert stated.problems(replace(PROOF, criterion=Criterion("lower_bound", 0.1)))


def test_a_proof_that_takes_every_loss_on_trust_needs_a_loss_that_depends_on_classes():
    """Losses by level cannot be called large at a fine node alone; losses that are listed by node can."""
    invented = OptimalityCertificate(
        ("age", "sex"), (2, 1), None, 0.0, Criterion("counted", 0.1), (2, 1), 9.0, (MeasuredNode((1, 1), 0.4, 40, 100),),
        no_better=(((2, 0), 9.0), ((2, 1), 9.0)), neighbors=(MeasuredNode((1, 1), 0.4, 40, 100),),
        passed_over={(2, 0): "share at high risk"}, rest_loss=9.0,
    )  # fmt: skip
    assert invented.problems() == []
    assert "losses of levels" in "; ".join(StatedLattice.of(json.dumps(POLICY)).problems(invented))
    by_classes = POLICY | {"risk": POLICY["risk"] | {"loss": "discernibility"}}
    assert StatedLattice.of(json.dumps(by_classes)).problems(invented) == []
    assert StatedLattice.of(json.dumps(by_classes)).problems(PROOF)


@pytest.mark.parametrize(
    ("reason", "section"),
    [(PINNED, {"releases": {"generalization": "pinned"}}), (TOO_LITTLE, {"detail_at_least": {"age": 0.5}})],
)
def test_a_policy_passes_nodes_over_only_for_reasons_that_it_has(reason, section):
    told = {key: value for key, value in SHIPPED["heritage"].public_content().items() if key not in section}
    stated, having = (StatedLattice.of(json.dumps(content)) for content in (told, told | section))
    names, heights = zip(*stated.dimensions, strict=True)
    proof = replace(
        PROOF, dimensions=names, heights=heights, criterion=stated.criteria[0], passed_over={(0,) * len(heights): reason}
    )
    assert stated.problems(proof) == [f"nodes are passed over for a reason that the policy does not have: {reason}"]
    assert having.problems(proof) == []


@pytest.mark.parametrize("reason", [KEEPS_NO_MORE, COARSER])
def test_only_a_policy_that_chooses_by_the_gain_passes_nodes_over_that_keep_no_more(reason):
    told = SHIPPED["heritage"].public_content()
    proofs = {}
    for mode in (None, "report", "choose"):
        stated = StatedLattice.of(json.dumps(told | {"risk": told["risk"] | ({"nodes_by_gain": mode} if mode else {})}))
        names, heights = zip(*stated.dimensions, strict=True)
        proof = replace(
            PROOF, dimensions=names, heights=heights, criterion=stated.criteria[0], passed_over={(0,) * len(heights): reason}
        )
        proofs[mode] = stated.problems(proof)
    refused = [f"nodes are passed over for a reason that the policy does not have: {reason}"]
    assert proofs == {None: refused, "report": refused, "choose": []}
    flat = StatedLattice.of(json.dumps(policy_from(FLAT).public_content()))
    assert reason in flat.never and reason in StatedLattice.of(json.dumps(SHIPPED["heritage"].public_content())).never


@pytest.mark.parametrize("text", ["", "opt_outs: withheld", "[]", "{}", '{"kind": "flat"}', '{"risk": 3}', '{"a": 1, "a": 2}'])
def test_what_is_no_policy_is_refused(text):
    with pytest.raises(ReleaseError):
        StatedLattice.of(text)


def test_a_part_about_levels_by_class_needs_a_policy_that_had_them():
    with_them = replace(StatedLattice.of(json.dumps(POLICY)), by_class=True)
    assert with_them.problems(PROOF, by_class=True) == []
    for stated, part in ((replace(with_them, by_class=False), True), (with_them, False)):
        assert stated.problems(PROOF, by_class=part) == [
            "it is about levels by class where the policy has none, or the other way round"
        ]


def test_the_text_of_an_earlier_policy_says_that_it_had_levels_by_class():
    assert stated_by(policy_from(public_values(recoding="by_class"))).by_class
    assert not stated_by(policy_from(public_values())).by_class

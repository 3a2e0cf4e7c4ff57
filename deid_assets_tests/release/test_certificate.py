"""The certificate in its two editions: what the public one tells, what it cannot tell, and what a forger gets."""

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deid_assets.errors import ReleaseError
from deid_assets.methods.lattice.candidate_gates import COARSER, KEEPS_NO_MORE, PINNED, TOO_LITTLE
from deid_assets.methods.lattice.certificate import Criterion, MeasuredNode, OptimalityCertificate, rounding_step
from deid_assets.policy.loading import policies_in, policy_from, with_sections
from deid_assets.release.manifest.certificate import (
    StatedLattice,
    certificate_editions,
    certificate_problems,
    names_exact_edition,
)
from deid_assets.store.digests import canonical_json
from deid_assets_tests.policy.policy_texts import public_values
from deid_assets_tests.release.making import POLICY, PROOF
from deid_assets_tests.scenarios.test_flat_release import FLAT
from deid_assets_tests.scenarios.wide import REVENUE, VAST

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

"""After a refusal by chance a coarser generalization is tried, at most three in all, whatever the policy is called then."""

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from deid_assets.assessments import neighbor_attack
from deid_assets.assessments.evidence import Evidence, from_frame
from deid_assets.assessments.longitudinal_risk import FIXED
from deid_assets.assessments.neighbor_attack import GIVEN_MEMBERSHIP
from deid_assets.assets import publishing
from deid_assets.assets.publishing import releases_of
from deid_assets.automation.ended_runs import RunSummary
from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.methods.attacks.neighbor_attack import Estimate
from deid_assets.release.gate import judgement
from deid_assets.release.keys import Secret
from deid_assets.release.publication.publish import Releases
from deid_assets.release.publication.verification import verify_release
from deid_assets.release.registry.chain import RefusedTry
from deid_assets.release.registry.tries import Tried
from deid_assets.resources import Workplace
from deid_assets.stages import STAGE_OF
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS, made_once
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.stages import STAGES

pytestmark = pytest.mark.matrix

AGES = [
    {"name": "years", "width": 1},
    {"name": "20 years", "width": 20, "top": 80},
    {"name": "40 years", "width": 40, "top": 80},
]
POLICY = changed(
    SMALL,
    # Recipients who are known better still: without suppression five of the six nodes are in question.
    risk__threshold=0.1,
    risk__max_high_risk_share=0.1,
    risk__suppression={"at_most": 0.0},
    hierarchies__age={"kind": "intervals", "from": 0, "to": 120, "levels": AGES},
    neighbor_attack__given_membership={"at_most": 0.3},
    attack_sensitivity={
        "trials": 500, "powers": [3], "variants": ["original"], "wrong_shares": [], "number_of_claims_widths": [5],
        "plausible": {"variants": ["original"], "powers": [3]},
    },
)  # fmt: skip
STRICTER = changed(POLICY, neighbor_attack__given_membership={"at_most": 0.12})
"""At the first node the neighbor succeeds less often than this, and its bound is above."""

CHOICE = ("lattice_diagnosis", "passed_over_nodes", "chosen_generalization", "suppressed_members")
AFTER = (*CHOICE, *STAGES["candidate"], *STAGES["accounting"], *STAGES["counts"], *STAGES["assessment"], "release")


@pytest.fixture(scope="module")
def judged(tmp_path_factory):
    """A home in which a generalization was chosen and its candidate made."""
    with made_once(tmp_path_factory, "retries") as (folder, missing):
        if missing:
            judge(folder / "deid")
    return folder / "deid"


def judge(root: Path) -> None:
    before = ("intake", "preparation", "adversary", "generalization", "candidate", "accounting", "counts")
    with pipeline_in(root) as pipeline:
        write_policy(pipeline.home.policies, POLICY)
        pipeline.synthetic(KEY, MEMBERS, seed=1)
        summary = pipeline.run(KEY, [name for name in pipeline.every_asset if STAGE_OF[name] in before])
        assert not summary.reasons and not summary.failed_checks, summary
        assert chosen(pipeline) == (1, 0), "there must be coarser ones"


@pytest.fixture
def pipeline(judged, tmp_path) -> Iterator[Pipeline]:
    with copy_of(judged, tmp_path / "deid") as pipeline:
        yield pipeline


@pytest.fixture(scope="module")
def passed(judged, tmp_path_factory) -> Path:
    """The same home, in which that candidate passed every assessment."""
    with made_once(tmp_path_factory, "retries_passed") as (folder, missing):
        if missing:
            with copy_of(judged, folder / "deid") as pipeline:
                assert not pipeline.run(KEY, STAGES["assessment"]).failed_checks
    return folder / "deid"


@pytest.fixture
def assessed(passed, tmp_path) -> Iterator[Pipeline]:
    with copy_of(passed, tmp_path / "deid") as pipeline:
        yield pipeline


def chosen(pipeline: Pipeline) -> tuple[int, ...]:
    return tuple(pipeline.table(KEY, "chosen_generalization").frame()["level"])


def refused_tries(pipeline: Pipeline) -> list[RefusedTry]:
    return [line for line in pipeline.registry.chain().lines if isinstance(line, RefusedTry)]


def evidence(pipeline: Pipeline, asset: str = "neighbor_attack") -> Evidence:
    (item,) = from_frame(pipeline.table(KEY, asset).frame())
    return item


def of_the_neighbor(pipeline: Pipeline):
    return next(found for found in evidence(pipeline).measurements if found.name == GIVEN_MEMBERSHIP)


def unlucky(monkeypatch, value: float = 0.29, high: float = 0.31) -> None:
    """From now on neighbors succeed so often given membership, where .3 is allowed."""
    honest = neighbor_attack.neighbor_attack

    def measured(*args):
        return replace(honest(*args), given_membership=Estimate(value, 0.0, high))

    monkeypatch.setattr(neighbor_attack, "neighbor_attack", measured)


def attacked(pipeline: Pipeline) -> RunSummary:
    """Choose, make the candidate and attack it."""
    return pipeline.run(KEY, [*CHOICE, *STAGES["candidate"], "neighbor_attack"])


def test_a_refusal_by_chance_is_counted_and_what_is_not_coarser_is_not_tried_again(prepared, tmp_path, monkeypatch):
    """In the home that all scenarios share, where nothing is coarser; the matrix has a policy with coarser ones."""
    with copy_of(prepared, tmp_path / "deid") as pipeline:
        before, refused = pipeline.published_bytes(), chosen(pipeline)
        with monkeypatch.context() as patch:
            unlucky(patch, value=0.11, high=0.13)
            summary = pipeline.run(KEY, ["neighbor_attack"])
            assert summary.exit_code == REFUSED and pipeline.published_bytes() == before
            assert summary.reasons == ("this may be chance; running again tries a coarser generalization, as try 2 of 3.",)
            (line,) = refused_tries(pipeline)
            assert (line.number, line.by_chance, evidence(pipeline).try_number) == (1, True, 1)
            assert pipeline.run(KEY, ["neighbor_attack"]).exit_code == REFUSED
            assert refused_tries(pipeline) == [line], "the same try, on the same draws"

        # From here on it would pass.
        summary = attacked(pipeline)
        (reason,) = summary.reasons
        assert summary.exit_code == REFUSED and "not coarser than what was refused by chance at 3 nodes" in reason
        passed_over = pipeline.table(KEY, "passed_over_nodes").frame().set_index("node")["gate"].to_dict()
        assert passed_over.pop(",".join(map(str, refused))) == "refused by chance before"
        assert list(passed_over.values()) == ["not coarser than what was refused by chance"] * 3
        assert refused_tries(pipeline) == [line] and pipeline.published_bytes() == before


def test_after_a_refusal_by_chance_a_coarser_generalization_is_published_as_the_second_try(pipeline, monkeypatch):
    write_policy(pipeline.home.policies, STRICTER)
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["neighbor_attack"])
    found = of_the_neighbor(pipeline)
    assert found.value <= found.threshold < found.bound and found.confidence == 0.995 and evidence(pipeline).try_number == 1
    assert summary.exit_code == REFUSED and summary.release is None and pipeline.published_bytes() == before
    assert summary.reasons == ("this may be chance; running again tries a coarser generalization, as try 2 of 3.",)
    (line,) = refused_tries(pipeline)
    assert (line.number, line.by_chance) == (1, True)

    again = pipeline.run(KEY, ["neighbor_attack"])
    assert again.exit_code == REFUSED and of_the_neighbor(pipeline) == found, "the same try, on the same draws"
    assert refused_tries(pipeline) == [line]

    purposes = set()
    derive = Secret.derive

    def noted(self, purpose, *context):
        if purpose == "stream":
            purposes.add(context[1:])
        return derive(self, purpose, *context)

    monkeypatch.setattr(Secret, "derive", noted)
    # Another threshold makes another text of the policy, from what can be foreseen on.
    summary = pipeline.run(KEY, [*STAGES["generalization"], *AFTER])
    assert summary.exit_code == PUBLISHED, (summary.reasons, summary.failed_checks)
    assert chosen(pipeline) == (2, 0)
    passed_over = pipeline.table(KEY, "passed_over_nodes").frame().set_index("node")["gate"].to_dict()
    assert passed_over == {
        "1,0": "refused by chance before", "0,0": "not coarser than what was refused by chance",
        "0,1": "not coarser than what was refused by chance",
    }  # fmt: skip
    for purpose in ("confirmation", "assessment", "neighbors", "membership and pick", "original 3"):
        assert (purpose, "try 2") in purposes and (purpose,) not in purposes, purpose
    assert ("other gates", "try 2") in purposes
    assert [kind[1:] for kind in purposes if kind[0].startswith("gate ")] == [("try 2",)]
    for asset in ("longitudinal_risk", "neighbor_attack", "attack_sensitivity"):
        item = evidence(pipeline, asset)
        drawn = [one for one in item.measurements if one.gating and one.confidence is not None]
        assert item.try_number == 2 and all(one.confidence == pytest.approx(0.9975, abs=1e-12) for one in drawn)

    release = summary.release
    manifest = json.loads((release / "manifest.json").read_text())
    assert manifest["try"] == {"number": 2, "at_most": 3}
    assert (
        "Judged as try 2 of at most 3. Each bound that decides holds with confidence 0.9975."
        in (release / "report.html").read_text()
    )
    key = releases_of(Workplace(root=str(pipeline.home.root))).key.public
    report = verify_release(release, key, pipeline.registry.path, pipeline.registry.head)
    assert report.ok, report.failures

    after = pipeline.registry.path.read_bytes()
    again = pipeline.run(KEY, AFTER)
    assert again.exit_code == PUBLISHED and pipeline.releases == ["small/0001"], (
        "the same is chosen, and judged as the try it was"
    )
    assert pipeline.registry.path.read_bytes() == after and evidence(pipeline).try_number == 2


def test_after_three_refused_tries_none_is_left_under_whatever_policy(pipeline, monkeypatch):
    before = pipeline.published_bytes()
    nodes = []
    with monkeypatch.context() as patch:
        unlucky(patch)
        for number in (1, 2, 3):
            # What is edited in between buys nothing.
            write_policy(
                pipeline.home.policies, changed(POLICY, title=f"Small releases, number {number}", owners=["team:others"])
            )
            summary = attacked(pipeline)
            nodes.append(chosen(pipeline))
            assert summary.exit_code == REFUSED and evidence(pipeline).try_number == number, summary
            assert [line.number for line in refused_tries(pipeline)] == list(range(1, number + 1))
            said = f"as try {number + 1} of 3" if number < 3 else "it was the last of 3 tries"
            assert len(summary.reasons) == 1 and said in summary.reasons[0], summary.reasons
    assert nodes == [(1, 0), (2, 0), (2, 1)], "each coarser than all before it"

    # From here on every measurement would pass.
    summary = pipeline.run(KEY, AFTER)
    assert summary.exit_code == REFUSED and summary.release is None, summary
    assert "refused 3 times" in summary.reasons[0] and "at most two fifths or at least two and a half" in summary.reasons[0]
    pipeline.run(KEY, STAGES["assessment"])
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and "this generalization was refused before" in " ".join(summary.reasons), summary
    assert len(refused_tries(pipeline)) == 3 and pipeline.published_bytes() == before

    values = changed(POLICY, policy="renamed", sample={"members": 601})
    write_policy(pipeline.home.policies, values)
    renamed = Pipeline(pipeline.home, pipeline.instance, "renamed")
    summary = renamed.run(KEY)
    assert summary.exit_code == REFUSED and "refused 3 times" in " ".join(summary.reasons), summary
    assert len(refused_tries(pipeline)) == 3 and pipeline.published_bytes() == before


def test_another_policy_with_one_member_more_gets_the_next_try_and_not_the_same_generalization(pipeline, monkeypatch):
    with monkeypatch.context() as patch:
        unlucky(patch)
        pipeline.run(KEY, ["neighbor_attack"])
    write_policy(pipeline.home.policies, changed(POLICY, policy="renamed", sample={"members": 601}))
    renamed = Pipeline(pipeline.home, pipeline.instance, "renamed")
    summary = renamed.run(KEY)
    assert summary.exit_code == PUBLISHED, (summary.reasons, summary.failed_checks)
    assert chosen(renamed) == (2, 0) and evidence(renamed).try_number == 2
    # It was published: the count begins anew, and what was refused stays refused.
    summary = attacked(pipeline)
    assert chosen(pipeline) == (2, 0) and evidence(pipeline).try_number == 2, summary


def test_a_refusal_for_more_than_chance_is_told_and_the_same_is_not_judged_again(pipeline, monkeypatch):
    with monkeypatch.context() as patch:
        unlucky(patch, value=0.301, high=0.31)
        summary = pipeline.run(KEY, ["neighbor_attack"])
    assert summary.exit_code == REFUSED and summary.reasons == (), "nothing is said of chance"
    (line,) = refused_tries(pipeline)
    assert not line.by_chance
    summary = pipeline.run(KEY, AFTER)
    assert summary.exit_code == REFUSED and summary.release is None
    (reason,) = summary.reasons
    assert "this generalization was refused before" in reason and "Change the policy" in reason
    assert refused_tries(pipeline) == [line]


def test_what_was_refused_and_is_then_measured_with_more_luck_is_refused_by_the_gate(assessed, monkeypatch):
    """All assessments pass, and all of them judged the very rows: what speaks against it is the registry alone."""
    with monkeypatch.context() as patch:
        unlucky(patch)
        assert assessed.run(KEY, ["neighbor_attack"]).exit_code == REFUSED
    assert not assessed.run(KEY, ["neighbor_attack"]).failed_checks
    before = assessed.published_bytes()
    summary = assessed.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and summary.release is None and assessed.published_bytes() == before
    (reason,) = summary.reasons
    assert reason.startswith("refused by the gate for 1 reason: this generalization was refused before"), reason
    assert reason.endswith("(this may be chance; running again tries a coarser generalization, as try 2 of 3)")


def test_evidence_of_an_earlier_try_does_not_count_for_a_later_one(assessed, monkeypatch):
    """Another policy's run was refused after the assessments of this one.

    It is the second try now, and they judged as the first.
    """
    another_refused(assessed, monkeypatch)()
    before = assessed.published_bytes()
    summary = assessed.run(KEY, ["release"])
    assert summary.exit_code == ERROR and summary.release is None and assessed.published_bytes() == before
    for asset in ("longitudinal_risk", "neighbor_attack", "attack_sensitivity"):
        assert f"{asset}: it was measured in another try than this one" in summary.reasons[0]
    assert (
        "longitudinal_risk/high_risk_share: its bound holds with less confidence than this try requires" in summary.reasons[0]
    )


def test_what_another_run_had_refused_while_the_gate_was_judging_makes_it_another_try(assessed, monkeypatch):
    note, honest = another_refused(assessed, monkeypatch), publishing.publish

    def published(*args, **kwargs):
        note()
        return honest(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr(publishing, "publish", published)
        before = assessed.published_bytes()
        summary = assessed.run(KEY, ["release"])
    assert summary.exit_code == ERROR and "another try of this delivery was refused" in summary.reasons[0], summary
    assert assessed.published_bytes() == before


def test_the_gates_own_draws_are_a_try_too(assessed, monkeypatch):
    honest = judgement.risk_measurements

    def by_chance(*args):
        found = honest(*args)
        return tuple(replace(one, value=0.0999, bound=0.1001) if one.name == FIXED else one for one in found)

    with monkeypatch.context() as patch:
        patch.setattr(judgement, "risk_measurements", by_chance)
        summary = assessed.run(KEY, ["release"])
    assert summary.exit_code == REFUSED, summary
    assert summary.reasons[0].endswith("(this may be chance; running again tries a coarser generalization, as try 2 of 3)")
    assert [(line.number, line.by_chance) for line in refused_tries(assessed)] == [(1, True)]


def test_nothing_is_told_of_what_draws_measured_while_the_registry_cannot_be_written(pipeline, monkeypatch):
    (pipeline.home.releases / "registry.jsonl").mkdir(parents=True)
    unlucky(monkeypatch)
    summary = pipeline.run(KEY, ["neighbor_attack"])
    assert summary.exit_code == ERROR and "neighbor_attack" not in summary.rows and not summary.failed_checks, summary


def another_refused(pipeline: Pipeline, monkeypatch) -> Callable[[], None]:
    """What puts into the registry that another generalization of this delivery and sample was refused, as by another policy."""
    releases = releases_of(Workplace(root=str(pipeline.home.root)))
    noted: list[Tried] = []
    with monkeypatch.context() as patch:
        patch.setattr(Releases, "note_refused", lambda self, tried, by_chance: noted.append(tried))
        unlucky(patch)
        pipeline.run(KEY, ["neighbor_attack"])
    assert not pipeline.run(KEY, ["neighbor_attack"]).failed_checks
    (tried,) = noted
    return lambda: releases.note_refused(replace(tried, node="f" * 64), True)

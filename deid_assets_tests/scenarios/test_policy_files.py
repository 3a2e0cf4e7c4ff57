"""The files of a policy, from `deid run --policy FILE` to the gate: whose list counts, and what a change of it stops."""

import re
from pathlib import Path

import pytest

from deid_assets.adoption import adopt
from deid_assets.policy.loading import load_policy
from deid_assets.release.publication import Staging
from deid_assets.running_summary import ERROR, PUBLISHED, REFUSED
from deid_assets.stages import STAGES
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import Pipeline
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

AFTER_INTAKE = [name for stage, names in STAGES.items() if stage not in ("intake", "release") for name in names]


def bring(pipeline: Pipeline, folder: Path, members: list[str], **changes) -> None:
    """Adopt the small policy with a list of members who opted out, from a folder elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "opt_outs.txt").write_text("".join(f"{member}\n" for member in members))
    values = changed(SMALL, **{"opt_outs": {"file": "opt_outs.txt"}} | changes)
    write_policy(folder, values)
    (pipeline.home.policies / "small.yaml").unlink(missing_ok=True)
    file = folder / f"{values['policy']}.yaml"
    adopt(pipeline.home, load_policy(file), file)


@pytest.fixture
def delivered(pipeline) -> list[str]:
    """Members who could be released."""
    return pipeline.table(KEY, "eligible_members").frame()["member_id"].tolist()


def refused(pipeline: Pipeline, because: str, exit_code: int = REFUSED) -> None:
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.release is None and pipeline.published_bytes() == before
    assert summary.exit_code == exit_code and re.search(because, " ".join(summary.reasons)), summary.reasons


@pytest.fixture
def judged(pipeline, tmp_path, delivered) -> Pipeline:
    """The adopted policy with all but its release made."""
    bring(pipeline, tmp_path / "one", delivered[:60])
    summary = pipeline.run(KEY, AFTER_INTAKE)
    assert not summary.reasons and not summary.failed_checks, summary
    return pipeline


def test_another_policy_with_a_list_of_the_same_name_changes_nothing(judged, tmp_path, delivered):
    bring(judged, tmp_path / "two", delivered[500:560], policy="another", title="Another")
    removed = judged.table(KEY, "removed_members").frame()
    assert set(delivered[:60]) <= set(removed.loc[removed["reason"] == "opted out", "member_id"])
    summary = judged.run(KEY, ["removed_members", "eligible_members", "released_sample", "member_profiles"])
    assert not summary.reasons, summary.reasons
    assert not set(delivered[:60]) & set(judged.table(KEY, "eligible_members").frame()["member_id"])
    summary = judged.run(KEY, [*AFTER_INTAKE, "release"])
    assert summary.exit_code == PUBLISHED, summary.reasons


def test_a_list_edited_between_two_materializations_refuses(judged, tmp_path, delivered):
    bring(judged, tmp_path / "one", delivered[:61])
    refused(judged, "removed_members: it was made under another policy.*longitudinal_risk: it was measured under another")


def test_a_comment_in_the_text_or_a_blank_line_in_the_list_has_to_be_judged_anew(judged, tmp_path, delivered):
    bring(judged, tmp_path / "one", [*delivered[:60], ""])
    refused(judged, "removed_members: it was made under another.*risk: it was measured under another text of the policy")
    summary = judged.run(KEY, [*AFTER_INTAKE, "release"])
    assert summary.exit_code == PUBLISHED, summary.reasons


@pytest.mark.parametrize("name", ["opt_outs.txt", "policy.yaml"])
def test_what_was_adopted_and_changed_in_place_is_an_error(judged, name):
    (file,) = judged.home.policies.glob(f"small/content/*/{name}")
    file.write_text(file.read_text() + "\n")
    refused(judged, "not the one that was adopted", ERROR)


def test_a_list_that_changes_while_the_gate_judges_refuses(judged, tmp_path, delivered, monkeypatch):
    stage = Staging.write_table

    def changing(self, *arguments, **keywords):
        bring(judged, tmp_path / "one", delivered[:61])
        return stage(self, *arguments, **keywords)

    monkeypatch.setattr(Staging, "write_table", changing)
    refused(judged, "changed while the release was judged")


def test_a_list_that_changes_between_the_judgement_and_the_publication_is_an_error(judged, tmp_path, delivered, monkeypatch):
    publish = Staging.publish

    def changing(self, *arguments, **keywords):
        bring(judged, tmp_path / "one", delivered[:61])
        return publish(self, *arguments, **keywords)

    monkeypatch.setattr(Staging, "publish", changing)
    refused(judged, "changed while the release was judged", ERROR)


def test_a_policy_that_changes_while_a_table_is_made_leaves_no_table(pipeline, tmp_path, delivered, monkeypatch):
    """The table would be stamped with a text that it was not made by."""
    from deid_assets.assets import preparation

    bring(pipeline, tmp_path / "one", delivered[:60])
    made = preparation.removed_members_query

    def changing(*arguments):
        bring(pipeline, tmp_path / "one", delivered[:61])
        return made(*arguments)

    monkeypatch.setattr(preparation, "removed_members_query", changing)
    summary = pipeline.run(KEY, ["removed_members"])
    assert summary.exit_code == ERROR and "changed while removed_members was made" in " ".join(summary.reasons)

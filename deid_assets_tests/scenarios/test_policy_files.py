"""The files of a policy, from its adoption to the gate: whose list counts, and what a change of it stops."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from deid_assets.assets import preparation
from deid_assets.errors import ERROR, PUBLISHED, REFUSED, PolicyError
from deid_assets.policy.adoption import adopt
from deid_assets.policy.loading import load_policy
from deid_assets.release.publication.publish import Staging
from deid_assets.stages import STAGE_OF
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy

pytestmark = pytest.mark.matrix

KEY = "synthetic-3000-1"


def bring(pipeline: Pipeline, folder: Path, members: list[str], **changes) -> None:
    """Adopt the small policy with a list of members who opted out, from a folder elsewhere."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "opt_outs.txt").write_text("".join(f"{member}\n" for member in members))
    values = changed(SMALL, **{"opt_outs": {"file": "opt_outs.txt"}} | changes)
    write_policy(folder, values)
    file = folder / f"{values['policy']}.yaml"
    adopt(pipeline.home, load_policy(file), file)


@pytest.fixture(scope="module")
def home(tmp_path_factory) -> tuple[Path, list[str]]:
    """A home with two adopted policies whose lists have one name, and with everything made but the release of one."""
    root, elsewhere = tmp_path_factory.mktemp("adopted") / "deid", tmp_path_factory.mktemp("elsewhere")
    with pipeline_in(root) as pipeline:
        pipeline.synthetic(KEY, 3_000, seed=1)
        bring(pipeline, elsewhere, ["nobody yet"], opt_outs={"file": "opt_outs.txt", "matched_at_least": 0})
        pipeline.run(KEY, ["members", "claims", "quarantined_rows", "delivered_codes"])
        opted_out = pipeline.table(KEY, "members").frame()["member_id"].tolist()[:60]
        bring(pipeline, elsewhere / "one", opted_out)
        bring(pipeline, elsewhere / "two", ["somebody else"], policy="another")
        summary = pipeline.run(KEY, [name for name in pipeline.every_asset if STAGE_OF[name] not in ("intake", "release")])
        assert not summary.reasons and not summary.failed_checks, summary
    return root, opted_out


@pytest.fixture
def judged(home, tmp_path) -> Iterator[Pipeline]:
    with copy_of(home[0], tmp_path / "deid") as pipeline:
        yield pipeline


def published(pipeline: Pipeline) -> tuple[object, object]:
    """The releases and their entries. What the registry keeps besides, the budget that was charged, may grow."""
    files = {path: content for path, content in pipeline.published_bytes().items() if path != "registry.jsonl"}
    return files, pipeline.registry.chain().entries


@pytest.fixture
def opted_out(home) -> list[str]:
    return home[1]


def refused(pipeline: Pipeline, because: str, exit_code: int = REFUSED, only=("release",)) -> None:
    before = published(pipeline)
    summary = pipeline.run(KEY, only)
    assert summary.release is None and published(pipeline) == before
    assert summary.exit_code == exit_code and re.search(because, " ".join(summary.reasons)), summary.reasons


def test_nobody_who_opted_out_is_published_though_another_policy_has_a_list_of_the_same_name(judged, opted_out):
    summary = judged.run(KEY, ["release"])
    assert summary.exit_code == PUBLISHED, summary.reasons
    removed = judged.table(KEY, "removed_members").frame()
    assert set(removed.loc[removed["reason"] == "opted out", "member_id"]) == set(opted_out)
    crosswalk = judged.table(KEY, "pseudonym_crosswalk").frame()
    theirs = set(crosswalk.loc[crosswalk["original_id"].isin(opted_out), "pseudonym"])
    published = set(judged.table(KEY, "release_members").frame()["MemberID"])
    assert len(theirs) == 60 and published and not theirs & published


def test_a_blank_line_more_in_the_list_has_to_be_judged_anew(judged, tmp_path, opted_out):
    bring(judged, tmp_path / "one", [*opted_out, ""])
    refused(judged, "removed_members: it was made under another.*risk: it was measured under another text of the policy", ERROR)


@pytest.mark.parametrize("name", ["opt_outs.txt", "policy.yaml"])
def test_what_was_adopted_and_changed_in_place_is_an_error(judged, name):
    for file in judged.home.policies.glob(f"small/content/*/{name}"):
        file.write_text(file.read_text() + "\n")
    with pytest.raises(PolicyError, match="not the one that was adopted"):
        judged.run(KEY, ["release"])


@pytest.mark.parametrize("what", ["write_table", "publish"], ids=["while the gate judges", "after it"])
def test_a_list_that_changes_before_the_release_is_published(judged, tmp_path, opted_out, monkeypatch, what):
    original = getattr(Staging, what)

    def changing(self, *arguments, **keywords):
        bring(judged, tmp_path / "one", opted_out[:59])
        return original(self, *arguments, **keywords)

    monkeypatch.setattr(Staging, what, changing)
    refused(judged, "changed while the release was judged", ERROR)


def test_a_policy_that_changes_while_a_table_is_made_leaves_no_stamp(judged, tmp_path, opted_out, monkeypatch):
    """The table would be stamped with a text that it was not made by."""
    original = preparation.eligibility.removed_members_query

    def changing(*arguments):
        bring(judged, tmp_path / "one", opted_out[:59])
        return original(*arguments)

    monkeypatch.setattr(preparation.eligibility, "removed_members_query", changing)
    refused(judged, "changed while removed_members was made", ERROR, ["removed_members"])


@pytest.mark.parametrize("share", [0.5, 0])
def test_a_list_that_is_written_differently_refuses_at_preparation_and_at_the_gate(judged, tmp_path, opted_out, share):
    section = {"file": "opt_outs.txt", "matched_at_least": share}
    bring(judged, tmp_path / "one", [f"00{member}" for member in opted_out], opt_outs=section)
    for only in (["removed_members"], ["release"]):
        refused(judged, "opt_outs: among 60 identifiers listed are some that match no delivered member", REFUSED, only)


def test_a_list_of_another_delivery_refuses_unless_the_policy_says_so(judged, tmp_path):
    bring(judged, tmp_path / "one", [f"X-{number}" for number in range(60)])
    for only in (["removed_members"], ["release"]):
        refused(judged, r"of 60 identifiers listed fewer than the share 0\.5", REFUSED, only)
    section = {"file": "opt_outs.txt", "matched_at_least": 0}
    bring(judged, tmp_path / "one", [f"X-{number}" for number in range(60)], opt_outs=section)
    assert not judged.run(KEY, ["removed_members"]).reasons

"""A later delivery of the same members: the same are drawn again, and who is in one release only tells little.

That two releases tell too much together is in `test_operated_home.py`.
"""

from pathlib import Path

import duckdb
import numpy as np
import pytest

from deid_assets.assessments.cross_release_risk import KEPT_FROM, write_kept_rows
from deid_assets.assessments.kernel_input import Candidate
from deid_assets.errors import ERROR, PUBLISHED, REFUSED
from deid_assets.methods.disclosure.membership_changes import NOT_RELEASED, REMOVED, Roll
from deid_assets.policy.loading import policy_called
from deid_assets.release.cumulative import removal_digest, tags_in_order
from deid_assets.release.kept_file import parquet_of
from deid_assets.release.keys import load_secret
from deid_assets.release.registry.chain import NoiseCharge
from deid_assets.resources import Workplace
from deid_assets.stages import asset_of
from deid_assets_tests.scenarios.conftest import KEY, RELEASED
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, publish_earlier_release
from deid_assets_tests.stages import STAGES

LATER = "later"
"""The key of the second delivery."""


def deliver_again(pipeline: Pipeline, key: str, *statements: str) -> None:
    """Register a copy of the delivery, changed by statements on its tables `members` and `claims`."""
    source, folder = pipeline.home.deliveries / KEY, pipeline.home.deliveries / key
    folder.mkdir()
    with duckdb.connect() as connection:
        for name in ("members", "claims"):
            connection.execute(f"CREATE TABLE {name} AS FROM read_parquet('{source / name}.parquet')")
        for statement in statements:
            connection.execute(statement)
        for name in ("members", "claims"):
            connection.execute(f"COPY {name} TO '{folder / name}.parquet' (FORMAT parquet)")
    pipeline.register(key, members=3_000, seed=1)


def released(pipeline: Pipeline, delivery: str) -> set[str]:
    """Identifiers of the members in the candidate of a delivery."""
    crosswalk, members = pipeline.table(delivery, "pseudonym_crosswalk"), pipeline.table(delivery, "release_members")
    return set(
        crosswalk.query(
            f"SELECT original_id FROM {crosswalk.sql} WHERE kind = 'member'"
            f' AND pseudonym IN (SELECT "MemberID" FROM {members.sql})'
        )["original_id"]
    )


@pytest.mark.matrix
def test_the_next_delivery_of_the_same_members_is_published_with_nearly_the_same_of_them(published, tmp_path):
    """A tenth of the members left since. Of other people drawn, one in five would have been released before."""
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        deliver_again(
            pipeline, LATER,
            "CREATE TABLE gone AS SELECT member_id FROM members WHERE hash(member_id) % 10 = 0",
            "DELETE FROM members WHERE member_id IN (FROM gone)", "DELETE FROM claims WHERE member_id IN (FROM gone)",
        )  # fmt: skip
        summary = pipeline.run(LATER)
        assert summary.exit_code == PUBLISHED, summary
        before, now = released(pipeline, KEY), released(pipeline, LATER)
        first, second = (line for line in pipeline.registry.chain().lines if isinstance(line, NoiseCharge))
        assert set(first.cells) == set(second.cells) and not set(first.draws) & set(second.draws), "every cell is drawn anew"
    left = {member for member in before if member not in set(pipeline.table(LATER, "members").frame()["member_id"])}
    assert len(before) > 0.8 * RELEASED and len(left) > 0.05 * len(before)
    assert len(now & before) > 0.75 * len(before - left), "members are drawn in a secret order"


@pytest.mark.matrix
def test_a_delivery_in_which_members_newly_have_a_sensitive_condition_and_nobody_left_is_refused(published, tmp_path):
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        ids = ", ".join(f"'{member}'" for member in sorted(released(pipeline, KEY))[:60])
        deliver_again(pipeline, LATER, f"UPDATE claims SET diagnosis_1 = '042' WHERE member_id IN ({ids})")
        before = pipeline.published_bytes()
        summary = pipeline.run(LATER)
        assert summary.exit_code == REFUSED and pipeline.published_bytes() == before, summary
        assert any("disappearance_posterior_within_threshold" in check for check in summary.failed_checks), summary
        (reason,) = summary.reasons
        assert "small/0001: too many of its members who are missing from this release" in reason
        again = pipeline.run(LATER, ["release"])
    assert again.exit_code == REFUSED and "small/0001: too many of its members who are missing from this release" in " ".join(
        again.reasons
    )


def roll_of(classes: dict[str, int], pipeline: Pipeline) -> bytes:
    secret = load_secret(pipeline.home.keys)
    tags, first = np.unique(tags_in_order(list(classes), secret), return_index=True)
    return Roll(tags, np.array(list(classes.values()), dtype=np.int32)[first]).to_bytes()


def delivered(pipeline: Pipeline) -> dict[str, int]:
    """Everybody in the delivery, as a release of one class of those in the candidate has them on its roll."""
    held = released(pipeline, KEY)
    ids = pipeline.table(KEY, "members").frame()["member_id"]
    return {member: 0 if member in held else NOT_RELEASED for member in ids}


def kept_rows_of(pipeline: Pipeline) -> bytes:
    """What the candidate shows of every member, as a release of it keeps it."""
    policy = policy_called(pipeline.policy, pipeline.home.policies)
    tables = {name: pipeline.table(KEY, asset_of(policy, name)) for name in (*KEPT_FROM, "chosen_generalization")}
    return parquet_of(write_kept_rows(Candidate.of(policy, tables), Workplace(root=str(pipeline.home.root)).tags_in_order))


def sensitive(pipeline: Pipeline) -> list[str]:
    removed = pipeline.table(KEY, "removed_members")
    return removed.query(f"SELECT DISTINCT member_id FROM {removed.sql} WHERE sensitive ORDER BY 1")["member_id"].tolist()


def judged(pipeline: Pipeline, classes: dict[str, int], **told) -> str:
    """Publish an earlier release with this roll, see that the one prepared is refused, and return why."""
    members = [member for member, own in classes.items() if own >= 0]
    digest = told.pop("removal_digest", removal_digest(member for member, own in classes.items() if own == REMOVED))
    publish_earlier_release(pipeline.home, members, roll=roll_of(classes, pipeline), removal_digest=digest, **told)
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and pipeline.published_bytes() == before, summary
    (reason,) = summary.reasons
    return reason


def test_who_is_gone_from_an_earlier_release_for_a_sensitive_condition_refuses(pipeline):
    """All assessments passed before it was published: the gate holds the files against it itself."""
    newly = sensitive(pipeline)[:30]
    reason = judged(pipeline, delivered(pipeline) | dict.fromkeys(newly, 0))
    assert "small/0002: too many of its members who are missing from this release" in reason
    assert (
        "gate: disappearance_posterior is not at most its threshold" in reason
        and "appearance_posterior is" not in reason.replace("disappearance", "")
    )
    assert not any(member in reason for member in newly) and "30" not in reason


@pytest.mark.matrix
def test_who_comes_after_a_removal_refuses(pipeline):
    came = sorted(released(pipeline, KEY))[:30]
    reason = judged(pipeline, delivered(pipeline) | dict.fromkeys(came, REMOVED))
    assert "small/0002: too many members of this release who are not in it" in reason


@pytest.mark.matrix
def test_a_few_newcomers_refuse(pipeline):
    classes = delivered(pipeline)
    for member in sorted(released(pipeline, KEY))[:3]:
        del classes[member]
    assert "members of their class are new" in judged(pipeline, classes)


@pytest.mark.matrix
def test_an_earlier_release_with_common_members_that_kept_no_rows_refuses(pipeline):
    """As one made by an earlier version of the product: it is not known what both disclose together."""
    members = sorted(released(pipeline, KEY))[:5]
    publish_earlier_release(pipeline.home, members)
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["cross_release_risk", "release"])
    assert summary.exit_code == REFUSED and pipeline.published_bytes() == before, summary
    assert "releases_not_compared_within_threshold: measured 1, threshold 0" in summary.failed_checks, summary


@pytest.mark.matrix
def test_newcomers_who_would_stand_out_are_left_out(pipeline):
    """The same as before, but the earlier release was there when members were suppressed."""
    classes = delivered(pipeline)
    new = sorted(released(pipeline, KEY))[:3]
    for member in new:
        del classes[member]
    publish_earlier_release(
        pipeline.home, [member for member, own in classes.items() if own >= 0], roll=roll_of(classes, pipeline),
        removal_digest=removal_digest([]),
    )  # fmt: skip
    pipeline.run(KEY, STAGES["generalization"])
    assert set(new) <= set(pipeline.table(KEY, "suppressed_members").frame()["member_id"])


@pytest.mark.matrix
def test_two_releases_of_one_delivery_have_one_removal_list(pipeline):
    """One member more or less, and the difference of the two would be that member."""
    digest = Workplace(root=str(pipeline.home.root)).delivery(KEY).digest()
    classes, removed = delivered(pipeline), sensitive(pipeline)
    with_all = classes | dict.fromkeys(removed, REMOVED)
    reason = judged(pipeline, with_all, removal_digest=removal_digest(removed[1:]), delivery_digest=digest)
    assert "small/0002 is a release of the same delivery, and not the same members were removed" in reason


@pytest.mark.matrix
def test_the_same_list_and_members_tell_nothing(pipeline):
    digest = Workplace(root=str(pipeline.home.root)).delivery(KEY).digest()
    classes, removed = delivered(pipeline), sensitive(pipeline)
    classes |= dict.fromkeys(removed, REMOVED)
    publish_earlier_release(
        pipeline.home, released(pipeline, KEY), roll=roll_of(classes, pipeline), removal_digest=removal_digest(removed),
        delivery_digest=digest, rows=kept_rows_of(pipeline),
    )  # fmt: skip
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert "measured beside other earlier releases than there are now" in " ".join(summary.reasons), summary
    assert pipeline.published_bytes() == before
    summary = pipeline.run(KEY, ["cross_release_risk", "release"])
    assert summary.exit_code == PUBLISHED, summary
    measured = pipeline.materialization("cross_release_risk", KEY).metadata["linked_releases"].md_str
    assert "small/0002" in measured and "linkable share" in measured


@pytest.mark.matrix
def test_a_release_of_the_same_delivery_whose_list_is_not_known_refuses(pipeline):
    """As one made by a version of the product that kept none."""
    digest = Workplace(root=str(pipeline.home.root)).delivery(KEY).digest()
    publish_earlier_release(pipeline.home, ["somebody"], delivery_digest=digest)
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == REFUSED and "it is not known which members were removed" in " ".join(summary.reasons), summary


@pytest.mark.matrix
@pytest.mark.parametrize("harm", ["edited", *(pytest.param(harm, marks=pytest.mark.matrix) for harm in ("dropped", "emptied"))])
def test_a_roll_that_is_not_the_one_that_was_kept_lets_nothing_pass(pipeline, harm):
    newly = sensitive(pipeline)[:30]
    classes = delivered(pipeline) | dict.fromkeys(newly, 0)
    publish_earlier_release(
        pipeline.home, [member for member, own in classes.items() if own == 0], roll=roll_of(classes, pipeline),
        removal_digest=removal_digest([]),
    )  # fmt: skip
    file: Path = pipeline.home.store / "manifests" / "small" / "0002.roll"
    if harm == "dropped":
        file.unlink()
    else:
        file.write_bytes(b"" if harm == "emptied" else roll_of(delivered(pipeline), pipeline))
    before = pipeline.published_bytes()
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == ERROR and "0002.json, or the file of its members next to it, or its roll" in " ".join(
        summary.reasons
    )
    assert pipeline.published_bytes() == before

"""Rules of a home stand above its policies: one that is laxer publishes nothing."""

from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from deid_assets.store.home import Home
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.scenarios.test_approval import ANNA, BEN, NAME, POLICY, staged
from deid_assets_tests.scenarios.test_cohort_release import SAFE_HARBOR
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people

__all__ = ["staged"]

RULES = f"""approvers: [{ANNA}, {BEN}]
recipient_classes: [named researchers]
kinds: [flat]
laxest:
  named researchers: {{risk.k: {{at_least: 2}}}}
"""


@pytest.fixture
def pipeline(staged, tmp_path) -> Iterator[Pipeline]:
    """A home with rules, in which a release waits."""
    with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
        code, printed = changed(pipeline, tmp_path, RULES)
        assert code == PUBLISHED, printed
        yield pipeline


def changed(pipeline: Pipeline, folder: Path, text: str, by: str = ANNA) -> tuple[int, str]:
    (folder / "rules.yaml").write_text(text)
    code, printed = deid_here(pipeline.home.root, "rules", "set", folder / "rules.yaml", "--by", by)
    return code, unwrapped(printed)


def refused(pipeline: Pipeline, tmp_path: Path, policy: dict, said: str) -> None:
    for file in pipeline.home.policies.glob("*.yaml"):
        file.unlink()
    write_policy(pipeline.home.policies, policy)
    delivered = write_people(tmp_path / "next", people(seed=3))
    code, printed = deid_here(pipeline.home.root, "run", "--policy", policy["policy"], "--delivery", delivered)
    assert code == ERROR and said in unwrapped(printed) and "is laxer than the rules of this home" in unwrapped(printed), (
        printed
    )
    assert pipeline.releases == []


def test_a_policy_without_approval_does_not_publish_under_the_name_of_one_that_needs_it(pipeline, tmp_path):
    without = {key: value for key, value in POLICY.items() if key != "approval"}
    refused(pipeline, tmp_path, without, "every release needs the approval of a person")


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"approval": {"by": ["Carl Other"]}}, "approval.by: only Anna Muster, Ben Example may approve"),
        ({"recipients": {"recipient_class": "public", "terms_of_use": "none"}}, "'public' is not allowed"),
    ],
)
def test_a_policy_that_is_laxer_is_refused(pipeline, tmp_path, change, said):
    refused(pipeline, tmp_path, POLICY | change, said)


def test_numbers_and_kinds_are_compared(pipeline, tmp_path):
    stricter = RULES.replace("at_least: 2", "at_least: 1000").replace("kinds: [flat]", "kinds: [cohort]")
    assert changed(pipeline, tmp_path, stricter)[0] == PUBLISHED
    refused(pipeline, tmp_path, POLICY, "policies of the kind flat are not allowed (kinds: cohort)")
    refused(pipeline, tmp_path, POLICY, "is less than 1000")
    code, printed = deid_here(pipeline.home.root, "approve", NAME, "--by", ANNA)
    assert code == ERROR and "is laxer than the rules of this home" in unwrapped(printed), printed


def test_a_release_within_the_rules_is_approved(pipeline):
    assert deid_here(pipeline.home.root, "approve", NAME, "--by", BEN)[0] == PUBLISHED


def test_only_an_approver_changes_or_drops_them(pipeline, tmp_path):
    code, printed = changed(pipeline, tmp_path, "kinds: [flat]", by="Carl Other")
    assert code == ERROR and "may be changed only by Anna Muster, Ben Example" in printed
    code, printed = deid_here(pipeline.home.root, "rules", "drop", "--by", "Carl Other")
    assert code == ERROR and "may be changed only by" in printed
    assert deid_here(pipeline.home.root, "rules", "show")[1].strip() == RULES.strip()
    assert deid_here(pipeline.home.root, "rules", "drop", "--by", BEN)[0] == PUBLISHED
    assert "has no rules" in deid_here(pipeline.home.root, "rules", "show")[1]


def test_a_class_of_recipients_without_limits_is_refused_where_others_have_some(pipeline, tmp_path):
    assert changed(pipeline, tmp_path, "laxest:\n  Named Researchers: {risk.k: {at_least: 1000}}\n")[0] == PUBLISHED
    refused(pipeline, tmp_path, POLICY, "the rules state limits for Named Researchers, and none for 'named researchers'")
    assert changed(pipeline, tmp_path, RULES)[0] == PUBLISHED


def test_a_laxer_policy_is_not_taken_into_use(pipeline, tmp_path):
    laxer = {key: value for key, value in POLICY.items() if key != "approval"} | {"policy": "laxer"}
    write_policy(tmp_path / "elsewhere", laxer)
    code, printed = deid_here(pipeline.home.root, "policy", "adopt", tmp_path / "elsewhere" / "laxer.yaml")
    assert code == ERROR and "every release needs the approval of a person" in unwrapped(printed), printed
    assert not (pipeline.home.policies / "laxer").exists()


@pytest.mark.matrix
def test_without_rules_too_nothing_is_published_past_a_release_that_waits(staged, tmp_path):
    without = {key: value for key, value in POLICY.items() if key != "approval"}
    with copy_of(staged, tmp_path / "deid", "flat_table") as pipeline:
        home = pipeline.home
        write_policy(home.policies, without)
        run = ("run", "--policy", "flat_table", "--delivery", write_people(tmp_path / "next", people(seed=3)))
        said = f"asks for no approval, and release {NAME} of the policy of that name waits for one"
        for command in (run, ("policy", "adopt", "flat_table")):
            code, printed = deid_here(home.root, *command)
            assert code == ERROR and said in unwrapped(printed), printed
        assert pipeline.releases == []
        assert deid_here(home.root, "reject", NAME, "--by", ANNA, "--reason", "the policy changed")[0] == PUBLISHED
        assert deid_here(home.root, *run)[0] == PUBLISHED and pipeline.releases == ["flat_table/0002"]


LIMITS = {
    "longitudinal": {"risk.threshold": {"at_most": 0.01}},
    "flat": {"risk.k": {"at_least": 1000}},
    "cohort": {"releases.differing_at_least": {"at_least": 50}},
}


@pytest.mark.parametrize("values", [SMALL, FLAT, SAFE_HARBOR], ids=LIMITS)
def test_a_laxer_policy_of_each_kind_is_neither_run_nor_adopted(values, tmp_path):
    home = Home(tmp_path / "deid").create()
    policy = write_policy(tmp_path / "new", values)
    write_policy(home.policies, values)
    kind, recipients = getattr(policy, "kind", "longitudinal"), policy.recipients.recipient_class
    others = [one for one in LIMITS if one != kind]
    for rules, said in (
        ({"approvers": [ANNA]}, "every release needs the approval of a person"),
        ({"recipient_classes": ["students"]}, f"recipients.recipient_class: {recipients!r} is not allowed (students)"),
        ({"kinds": others}, f"policies of the kind {kind} are not allowed"),
        ({"laxest": {recipients: LIMITS[kind]}}, f"{next(iter(LIMITS[kind]))}: "),
        ({"laxest": {"*": LIMITS[kind]}}, f"{next(iter(LIMITS[kind]))}: "),
        ({"laxest": {"students": LIMITS[kind]}}, f"the rules state limits for students, and none for {recipients!r}"),
    ):
        (tmp_path / "rules.yaml").write_text(yaml.safe_dump(rules))
        assert deid_here(home.root, "rules", "set", tmp_path / "rules.yaml", "--by", ANNA)[0] == PUBLISHED
        for command in (("run", "--policy", policy.name), ("policy", "adopt", tmp_path / "new" / f"{policy.name}.yaml")):
            code, printed = deid_here(home.root, *command)
            assert code == ERROR and said in unwrapped(printed) and "is laxer than" in unwrapped(printed), printed
    assert not (home.policies / policy.name).exists() and not list(home.releases.glob("*/0*"))


@pytest.mark.parametrize("harm", ["changed", "removed"])
def test_rules_changed_by_hand_stop_every_decision(pipeline, harm):
    file = pipeline.home.store / "rules.yaml"
    file.unlink() if harm == "removed" else file.write_text("kinds: [flat]\n")
    code, printed = deid_here(pipeline.home.root, "approve", NAME, "--by", ANNA)
    assert (
        code == ERROR
        and "the rules of the home (store/rules.yaml) are not those that the home's journal knows" in unwrapped(printed)
    )
    assert pipeline.releases == []


@pytest.mark.parametrize(
    "text",
    ["", "- a", "approver: [x]", "laxest: {public: {risk.k: 3}}", "kinds: [tables]", "a: [", "laxest: {public: {risk.k: {}}}"],
)
def test_what_is_no_rule_is_an_error(pipeline, tmp_path, text):
    code, printed = changed(pipeline, tmp_path, text)
    assert code == ERROR and "rules.yaml" in printed
    assert deid_here(pipeline.home.root, "rules", "show")[1].strip() == RULES.strip()

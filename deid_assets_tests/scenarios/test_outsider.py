"""What an outsider can derive from all public files of a release: no exact count that the data files do not tell.

Noise is made huge here: a number that is near an exact count all the same was told without noise.
"""

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

from deid_assets.assets import release_report
from deid_assets.assets.step import shapes_of
from deid_assets.errors import PUBLISHED
from deid_assets.methods.counts.estimates import ConsistentNoise
from deid_assets.policy.loading import policy_from
from deid_assets.release.counts.published import FILES as COUNTS
from deid_assets.release.public_cells import shape
from deid_assets.release.publication.verification import verify_release
from deid_assets.sources.delivery import Delivery
from deid_assets.sources.synthetic.delivery import write_delivery
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.outsider import derived, numbers_in, restricted_counts
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_flat_release import FLAT, people, write_people

NAME = "john_smith"
"""In the key and in file names: it may be that of a person."""

MEMBERS, OPTED_OUT = 2_987, 57
TOLD_BY_FILES = {
    **dict.fromkeys(
        ("size: pcp_before/", "part: pcp_before/small_share_shared_patients"),
        "where no identifier is suppressed, those before are those in the released claims",
    ),
}
"""Counts that may be found, by the beginning of their name, each with the reason."""

DRAWN: dict[str, list] = {}
"""What figures of the longitudinal report were given."""


def huge_noise(self: ConsistentNoise, cell, sd) -> int:
    key = repr((self.secret, self.delivery, self.shape, cell, sd))
    return 1_000_003 + int(hashlib.sha256(key.encode()).hexdigest()[:6], 16)


@pytest.fixture(scope="module")
def loud() -> Iterator[None]:
    """Huge noise, and figures that are looked at."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ConsistentNoise, "draw", huge_noise)
        for name in ("frontier_figure", "neighbor_attack_figure", "sensitivity_figure"):
            original = getattr(release_report, name)
            patch.setattr(
                release_report, name,
                lambda rows, *args, _name=name, _original=original, **kwargs: DRAWN.update({_name: rows})
                or _original(rows, *args, **kwargs),
            )  # fmt: skip
        yield


@pytest.fixture(scope="module")
def longitudinal(loud, tmp_path_factory) -> Iterator[Pipeline]:
    root = tmp_path_factory.mktemp("outsider") / "deid"
    home = Home(root).create()
    folder = home.deliveries / NAME
    write_delivery(folder, MEMBERS, 20240101)
    found = duckdb.sql(f"SELECT member_id FROM '{folder}/members.parquet' ORDER BY member_id LIMIT {OPTED_OUT}").fetchall()
    out = {"members": [member for (member,) in found]}
    write_policy(home.policies, changed(SMALL, sample__members=667, neighbor_attack__trials=3_001, opt_outs=out))
    with pipeline_in(root) as pipeline:
        pipeline.register(NAME, members=MEMBERS, seed=20240101)
        summary = pipeline.run(NAME)
        assert summary.exit_code == PUBLISHED, summary
        yield pipeline


@pytest.fixture(scope="module")
def flat(loud, tmp_path_factory) -> Iterator[Pipeline]:
    root = tmp_path_factory.mktemp("outsider_flat") / "deid"
    policy = changed(FLAT, source__file=f"{NAME}.csv")
    with pipeline_in(root, "flat_table") as pipeline:
        write_policy(pipeline.home.policies, policy)
        pipeline.register(NAME, "flat", write_people(root.parent / "in", people(1_607), f"{NAME}.csv"))
        summary = pipeline.run(NAME)
        assert summary.exit_code == PUBLISHED, summary
        yield pipeline


@pytest.fixture(params=[pytest.param("longitudinal", marks=pytest.mark.matrix), "flat"])
def release(request) -> tuple[Pipeline, Path]:
    pipeline = request.getfixturevalue(request.param)
    return pipeline, pipeline.home.releases / pipeline.policy / "0001"


def rows_of(folder: Path) -> set[int]:
    """Rows of the files about people in a release; those of tables of counts are numbers of cells."""
    files = json.loads((folder / "manifest.json").read_text())["files"]
    return {file["rows"] for file in files if file["rows"] is not None and Path(file["path"]).stem not in COUNTS}


def restricted_of(pipeline: Pipeline) -> dict:
    return json.loads((pipeline.home.store / "manifests" / pipeline.policy / "0001.json").read_text())


class TestOneRelease:
    @pytest.mark.matrix
    def test_no_exact_count_follows_from_the_public_files(self, release):
        pipeline, folder = release
        rows = rows_of(folder)
        secrets = restricted_counts(restricted_of(pipeline), rows)
        assert len([count for count in secrets.values() if count >= 100]) >= 1, "there must be something to find"
        registry = pipeline.home.releases / "registry.jsonl"
        hits = derived(numbers_in(folder, registry), rows, secrets)
        assert {hit for hit in hits if not hit[0].startswith(tuple(TOLD_BY_FILES))} == set()

    def test_the_search_finds_what_is_there(self, release):
        pipeline, folder = release
        rows, restricted = rows_of(folder), restricted_of(pipeline)
        secrets = restricted_counts(restricted, rows)
        steps = restricted["attrition"]
        suppressed = next(name for name in secrets if name in ("left out: released_members", "left out: released_records"))
        before = next(step["rows_in"] for step in steps if f"left out: {step['stage']}" == suppressed)
        for told in (float(before), secrets[suppressed] / before):
            assert (suppressed, "somewhere") in derived({"somewhere": {told}}, rows, secrets)

    def test_neither_key_nor_names_of_files_are_public(self, release):
        pipeline, folder = release
        for path in [*folder.rglob("*"), pipeline.home.releases / "registry.jsonl"]:
            assert NAME not in path.name and (path.is_dir() or NAME.encode() not in path.read_bytes()), path.name

    @pytest.mark.matrix
    def test_who_has_the_home_finds_the_delivery_again(self, release):
        pipeline, folder = release
        (entry,) = pipeline.registry.chain().entries
        restricted = restricted_of(pipeline)
        assert restricted["delivery"]["key"] == NAME and restricted["delivery"]["key_digest"] == entry.delivery
        assert json.loads((folder / "manifest.json").read_text())["delivery"] == {"key_digest": entry.delivery}
        assert len(entry.delivery) == 16
        report = verify_release(folder, None, pipeline.home.releases / "registry.jsonl")
        assert [check.name for check in report.failures] == ["the signer is trusted"]

    @pytest.mark.matrix
    def test_what_the_files_tell_is_told_once_and_exactly(self, release):
        _, folder = release
        manifest = json.loads((folder / "manifest.json").read_text())
        exact = {step["stage"]: step["rows_out"] for step in manifest["attrition"] if not step["protected"]}
        assert exact and set(exact) <= {"released_members", "released_claims", "released_records"}
        assert set(exact.values()) <= rows_of(folder)
        told = {
            one["name"]: one for item in manifest["evidence"] for one in item["measurements"]
            if one["unit"].startswith(("published", "share of published", "share of released members"))
        }  # fmt: skip
        released = next(count for stage, count in exact.items() if stage != "released_claims")
        # Cells that are not blank can be counted in the files, too; they are no number of people.
        others = ("providers", "published values")
        of_people = [one for one in told.values() if not one["unit"].endswith(others) and one["sample_size"] is not None]
        # Shares of released inpatients are of those whom the released claims show, which another measurement counts.
        counted = {one["value"] for one in told.values() if one["unit"] == "published members"}
        sizes = {one["sample_size"] for one in of_people}
        assert released in sizes and sizes <= {released} | counted


@pytest.mark.matrix
def test_figures_are_drawn_of_public_numbers(longitudinal):
    """Coordinates can be measured: the ratio of two exact attacks is alpha, and exact losses are functions of all rows."""
    folder = longitudinal.home.releases / "small" / "0001"
    manifest = json.loads((folder / "manifest.json").read_text())
    certificate = json.loads((folder / "certificate.json").read_text())
    public = {
        number for item in manifest["evidence"] for one in item["measurements"] for number in (one["value"], one["bound"])
    }  # fmt: skip
    attack = {number for _, value, bound, _ in DRAWN["neighbor_attack_figure"] for number in (value, bound)}
    cells = {number for *_, found in DRAWN["sensitivity_figure"] for pair in found.values() for number in pair}
    assert attack and cells and attack | cells <= public
    losses = certificate["losses"]
    sums = {round(a + b, 9) for a in losses[0] for b in losses[1]}
    assert {round(loss, 9) for loss in DRAWN["frontier_figure"]["loss"]} <= sums


class TestTwoPoliciesOverOneDelivery:
    """Same thing, same number: or noise is averaged. Another thing, other noise: or the difference is exact."""

    DELIVERY = Delivery("key", "synthetic", (Path("in"),))
    BASE = policy_from(SMALL)

    def of(self, *sections: str, **changes) -> bool:
        """Whether a changed policy shares the noise of what these sections shape."""
        return shape(self.BASE, *sections) == shape(policy_from(changed(SMALL, **changes)), *sections)

    def test_what_was_delivered_depends_on_the_source_only(self):
        assert self.of("source", opt_outs={"members": ["m1"]}, sample__members=500, title="Another")

    def test_thresholds_that_only_refuse_are_no_second_look(self):
        for changes in (
            {"removal__readable_codes_at_least": 0.97},
            {"removal__absence_posterior_at_most": 0.25},
            {"removal__absence_factor_at_most": 1.5, "removal__disappearance_posterior_at_most": 0.2},
            {"opt_outs": {"matched_at_least": 0.7}},
        ):
            assert self.of("source", "opt_outs", "removal", "sample", **changes)
        assert not self.of("source", "opt_outs", "removal", removal__newborn_days=27)

    def test_a_step_depends_on_what_comes_before_it(self):
        assert not self.of("source", "opt_outs", opt_outs={"members": ["m1"]})
        assert self.of("source", "opt_outs", "removal", sample__members=500, title="Another")
        assert not self.of("source", "opt_outs", "removal", "sample", sample__members=500)

    def shapes(self, delivery: Delivery = DELIVERY, levels=(("age", 1),), **changes) -> dict[str, str]:
        return shapes_of(policy_from(changed(SMALL, **changes)), delivery, dict(levels))

    def test_title_terms_and_thresholds_that_only_refuse_do_not_redraw_a_measurement(self):
        texts = {"title": "Another", "recipients__terms_of_use": "Other terms.", "owners": ["team:other"]}
        for changes, redrawn in ((texts, set()), ({"provider_graph": {"draws": 5_000}}, {"", "provider_graph"})):
            same, other = self.shapes(), self.shapes(**changes)
            assert {name for name in same if same[name] != other[name]} == redrawn

    @pytest.mark.parametrize(
        "changes",
        [{"sample__members": 500}, {"opt_outs": {"members": ["m1"]}}, {"adversary__power": 2}, {"policy": "other"}],
        ids=lambda changes: next(iter(changes)),
    )
    def test_another_sample_or_search_redraws_what_is_measured_on_it(self, changes):
        same, other = self.shapes(), self.shapes(**changes)
        assert all(same[name] != other[name] for name in same if name != "counted_uniques")
        assert same["counted_uniques"] == other["counted_uniques"]

    def test_detail_that_is_asked_for_is_no_second_look_unless_it_chooses_other_levels(self):
        asked = {"detail_at_least": {"AgeAtFirstClaim": 0.1}}
        assert self.shapes() == self.shapes(**asked)
        same, other = self.shapes(), self.shapes(levels=(("age", 0),), **asked)
        assert all(same[name] != other[name] for name in same)

    def test_the_whole_delivery_at_other_levels_is_another_thing(self):
        assert self.shapes()["counted_uniques"] != self.shapes(levels=(("age", 0),))["counted_uniques"]

    def test_the_same_content_under_another_key_is_another_sample(self):
        other = Delivery("another", "synthetic", (Path("in"),))
        assert self.shapes()["demographic_risk"] != self.shapes(other)["demographic_risk"]
        assert self.shapes()["counted_uniques"] == self.shapes(other)["counted_uniques"]

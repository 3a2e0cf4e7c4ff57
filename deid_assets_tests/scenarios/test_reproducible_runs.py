"""One secret, one result: data files do not depend on where, when or how often a release is made."""

import json
from collections import Counter
from pathlib import Path

import pandas as pd
import pytest

from deid_assets.cluster import executors
from deid_assets.errors import PUBLISHED
from deid_assets.stages import WORK_OF, Work
from deid_assets_tests.clusters import local_cluster, needs_dask
from deid_assets_tests.scenarios.conftest import KEY, MEMBERS
from deid_assets_tests.scenarios.pipeline import Pipeline, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, write_policy
from deid_assets_tests.stages import STAGES

pytestmark = pytest.mark.matrix

SAMPLED = (
    "members", "claims", "quarantined_rows", "delivered_codes", "code_book", "pseudonym_crosswalk", "removed_members",
    "eligible_claims", "eligible_members", "rule_needs", "released_sample",
)  # fmt: skip


def data_files(release: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted((release / "data").iterdir())}


def test_two_runs_with_one_secret_are_byte_identical_and_the_same_inputs_are_released_once(published, pipeline):
    """One run by `deid run` in a process of its own, one asset by asset in another home; there the release, twice."""
    summary = pipeline.run(KEY, ["release"])
    assert summary.exit_code == PUBLISHED and pipeline.releases == ["small/0001", "small/0002"]
    assert [entry.number for entry in pipeline.registry.chain().entries] == [1, 2]
    first, second = data_files(published.release), data_files(summary.release)
    assert first.keys() == second.keys() and len(first) >= 6
    assert [name for name in first if first[name] != second[name]] == []

    before = pipeline.published_bytes()
    again = pipeline.run(KEY, ["release"])
    assert pipeline.published_bytes() == before and pipeline.releases == ["small/0001", "small/0002"]
    assert again.exit_code == PUBLISHED, "nothing is wrong: the release stands, and was judged once more"
    assert again.release == summary.release
    assert pipeline.materialization("release", KEY).metadata["unchanged"].value is True


MEASURED = (*STAGES["generalization"], "longitudinal_risk")
"""Assets that measure draws, and those they are made with; the gate of `release` does too."""


@needs_dask
def test_a_cluster_gives_the_same_tables(pipeline, monkeypatch):
    """The workers are threads of this process, so that nothing is compiled again; they have addresses like others."""
    calls = Counter()
    called = executors.ClusterExecutor._called

    def counted(executor, owner, method, *arguments):
        calls[method] += 1
        return called(executor, owner, method, *arguments)

    before = {name: pipeline.table(KEY, name).frame() for name in MEASURED}
    monkeypatch.setattr(executors.ClusterExecutor, "_called", counted)
    with local_cluster(2, processes=False, protocol="tcp://") as cluster:
        monkeypatch.setenv(executors.VARIABLE, cluster.scheduler_address)
        summary = pipeline.run(KEY, [name for name in pipeline.every_asset if name in MEASURED])
        assert not summary.reasons and not summary.failed_checks, summary
        assert calls["begin"] > 10
        for name, frame in before.items():
            pd.testing.assert_frame_equal(pipeline.table(KEY, name).frame(), frame, check_exact=True)


def contents(pipeline: Pipeline) -> dict[str, str]:
    """The fingerprint of every table before the release: of its rows, whatever their order."""
    made = (name for name in pipeline.every_asset if name != "release")
    return {name: str(pipeline.materialization(name, KEY).metadata["content"].value) for name in made}


def evidence_of(release: Path) -> dict:
    return json.loads((release / "manifest.json").read_text())["evidence"]


@pytest.mark.parametrize("parts", ["4", "16"])
def test_parts_change_no_byte_of_data_and_evidence_and_no_table(published, parts, tmp_path, monkeypatch):
    """Against a run that was made at once, in a process of its own."""
    monkeypatch.setenv(executors.PARTS, parts)
    with pipeline_in(tmp_path) as other:
        write_policy(other.home.policies, SMALL)
        other.synthetic(KEY, MEMBERS, seed=1)
        summary = other.run(KEY)
        assert summary.exit_code == PUBLISHED, summary
        assert data_files(summary.release) == data_files(published.release)
        assert evidence_of(summary.release) == evidence_of(published.release) and len(evidence_of(summary.release)) > 10
        assert contents(other) == contents(published.pipeline)
        for name in MEASURED:
            one, by_parts = (of.table(KEY, name).frame() for of in (published.pipeline, other))
            order = list(one.columns) if WORK_OF[name] is Work.PER_PERSON else []
            one, by_parts = ((frame.sort_values(order, ignore_index=True) if order else frame) for frame in (one, by_parts))
            pd.testing.assert_frame_equal(by_parts, one, check_exact=True)


@needs_dask
def test_a_cluster_that_is_not_there_stops_the_run(pipeline, monkeypatch):
    monkeypatch.setattr(executors, "CONNECT_SECONDS", 1.0)
    monkeypatch.setenv(executors.VARIABLE, "tcp://127.0.0.1:1")
    summary = pipeline.run(KEY, ["generalization_lattice"])
    assert summary.exit_code == 1
    assert "no Dask scheduler answers there within 1 s" in str(summary.reasons)


def test_another_secret_gives_other_pseudonyms_and_another_sample(published, tmp_path, monkeypatch):
    monkeypatch.setenv("DEID_SECRET", "another secret of the scenarios, as long as it takes")
    with pipeline_in(tmp_path / "deid") as other:
        write_policy(other.home.policies, SMALL)
        other.synthetic(KEY, 3_000, seed=1)
        assert not other.run(KEY, SAMPLED, checks=False, stages=False).reasons
        pseudonyms, samples = (
            [set(p.table(KEY, name).frame()[column]) for p in (published.pipeline, other)]
            for name, column in (("pseudonym_crosswalk", "pseudonym"), ("released_sample", "member_id"))
        )
    assert pseudonyms[0].isdisjoint(pseudonyms[1])
    assert samples[0] != samples[1] and all(abs(len(sample) - 600) <= 60 for sample in samples)

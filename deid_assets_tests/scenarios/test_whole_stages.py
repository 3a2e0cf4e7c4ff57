"""A release depends on the assets of its stages; the gate still asks for every table and every check behind them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import duckdb
import pytest

from deid_assets.automation.ended_runs import RunSummary
from deid_assets.policy.loading import policies_in
from deid_assets.release.counts.published import FILES
from deid_assets.release.lineage.columns import COUNTED
from deid_assets.release.lineage.published import published_release
from deid_assets.release.published_tables import published_tables
from deid_assets.resources import Keys
from deid_assets.stages import STAGE_OF, stages_of
from deid_assets_tests.scenarios import conftest, test_cohort_release, test_flat_release
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of

pytestmark = pytest.mark.matrix


@dataclass(frozen=True)
class Kind:
    """A kind of policy: how its home is prepared up to the release, its delivery, and one of its assessments."""

    policy: str
    folder: str
    prepare: Callable[[Path], None]
    key: str
    assessment: str
    candidate: str


KINDS = (
    Kind("flat_table", "flat", test_flat_release.prepare, test_flat_release.KEY, "record_risk", "release_records"),
    Kind("small", "prepared", conftest.prepare, conftest.KEY, "demographic_risk", "release_members"),
    Kind("cohort", "cohort", test_cohort_release.prepare, test_cohort_release.KEY, "cohort_risk", "release_people"),
)


@pytest.fixture(
    params=[KINDS[0], *(pytest.param(kind, marks=pytest.mark.matrix) for kind in KINDS[1:])], ids=lambda kind: kind.policy
)
def home(request, tmp_path_factory, tmp_path) -> Iterator[tuple[Kind, Pipeline]]:
    """A copy of a home with everything of a delivery done but its release."""
    kind = request.param
    with conftest.made_once(tmp_path_factory, kind.folder) as (folder, missing):
        if missing:
            kind.prepare(folder / "deid")
    with copy_of(folder / "deid", tmp_path / "deid", kind.policy) as pipeline:
        yield kind, pipeline


def events_of(pipeline: Pipeline, key: dg.AssetKey) -> list[dg.EventLogRecord]:
    """The materializations of an asset, newest first."""
    return list(pipeline.instance.fetch_materializations(key, limit=100).records)


def tables_made(kind: Kind, pipeline: Pipeline) -> dict[str, int]:
    """How often each published table was made."""
    names = published_tables(policies_in(pipeline.home.policies)[kind.policy])
    return {name: len(events_of(pipeline, Keys(kind.policy).published(name))) for name in names}


def refused(kind: Kind, pipeline: Pipeline, *because: str) -> RunSummary:
    """Materialize the release alone: it is refused for these reasons, and neither it nor a table of it is there."""
    before = pipeline.published_bytes()
    summary = pipeline.run(kind.key, ["release"])
    assert summary.release is None and summary.exit_code == ERROR, summary
    assert pipeline.published_bytes() == before
    assert not any(tables_made(kind, pipeline).values()) and not events_of(pipeline, Keys(kind.policy).asset("release"))
    for text in because:
        assert text in " ".join(summary.reasons), summary.reasons
    return summary


def test_a_release_is_published_only_from_stages_of_checked_and_current_tables(home):
    """The attacks one after another: each is refused, and the next begins where the one before left off."""
    kind, pipeline = home
    # A table made again after its stage, with its checks: the stage is another's.
    assert not pipeline.run(kind.key, [kind.assessment], stages=False).failed_checks
    stale = f"assessment: this stage was not made from the current {kind.assessment}; materialize the stage again"
    refused(kind, pipeline, stale)
    # The stage alone, over a table whose checks judged an earlier one: a stage judges nothing, and the gate is not fooled.
    pipeline.run(kind.key, [kind.assessment], checks=False, stages=False)
    pipeline.run(kind.key, ["assessment"])
    summary = refused(kind, pipeline, f"{kind.assessment}/{kind.assessment}_keeps_contract: the check judged an earlier")
    assert "this stage was not made" not in " ".join(summary.reasons)
    # A stage made again while a table behind it is stale: what was judged is not what would be published.
    pipeline.run(kind.key, [kind.candidate], stages=False)
    pipeline.run(kind.key, ["candidate"])
    refused(kind, pipeline, f"{kind.assessment}: it was made from an earlier {kind.candidate}; materialize it again")
    # All of it in order.
    stages = stages_of(policies_in(pipeline.home.policies)[kind.policy])
    after = [name for stage in ("candidate", "accounting", "counts", "assessment") for name in stages.get(stage, ())]
    summary = pipeline.run(kind.key, [*after, "release"])
    assert summary.exit_code == PUBLISHED, summary
    assert set(tables_made(kind, pipeline).values()) == {1}
    check_published(kind, pipeline, summary)


def check_published(kind: Kind, pipeline: Pipeline, summary: RunSummary) -> None:
    """Every published table says where it is, what is in it, and what it derives from; all of it is so."""
    published = published_release(pipeline.home, summary.release)
    files = {file["path"]: file for file in published.public["files"]}
    for name in tables_made(kind, pipeline):
        (record,) = events_of(pipeline, Keys(kind.policy).published(name))
        made = record.asset_materialization
        metadata = made.metadata
        path = Path(metadata["path"].value)
        assert path == summary.release / "data" / f"{name}.parquet" and metadata["number"].value == published.number
        assert metadata["sha256"].value == files[f"data/{name}.parquet"]["sha256"] == made.tags["dagster/data_version"]
        assert metadata["sha256_csv"].value == files[f"data/{name}.csv"]["sha256"]
        described = duckdb.sql(f"DESCRIBE FROM '{path}'").fetchall()
        assert [column.name for column in metadata["dagster/column_schema"].value.columns] == [row[0] for row in described]
        assert duckdb.sql(f"SELECT count(*) FROM '{path}'").fetchall() == [(metadata["dagster/row_count"].value,)]
        assert record.partition_key == kind.key
    candidate = Keys(kind.policy).asset(kind.candidate)
    lineage = metadata_of(pipeline, kind, next(iter(tables_made(kind, pipeline))))["dagster/column_lineage"].value
    for column, sources in lineage.deps_by_column.items():
        assert dg.TableColumnDep(candidate, column) in sources
        taken_in = [source for source in sources if STAGE_OF[source.asset_key.path[-1]] == "intake"]
        assert taken_in or kind.policy == "cohort", "a cohort's levels are made of several columns in one step"
    # A number that is counted derives from no column.
    for name in {*FILES} & {*tables_made(kind, pipeline)}:
        assert "dagster/column_lineage" not in metadata_of(pipeline, kind, name)
    # The lineage of the release leads through its stages to the tables that the manifest names.
    told = published.public["lineage"]
    assert set(told) == {*pipeline.every_asset, *pipeline.stages} - {"release"} and COUNTED in told


def metadata_of(pipeline: Pipeline, kind: Kind, table: str) -> dict[str, dg.MetadataValue]:
    return events_of(pipeline, Keys(kind.policy).published(table))[0].asset_materialization.metadata


def test_a_failed_check_leaves_its_stage_and_the_release_unmade(home, monkeypatch):
    kind, pipeline = home
    stage = Keys(kind.policy).asset("candidate")
    before = events_of(pipeline, stage)[0].storage_id
    broken = "deid_assets.checks.of_assets.violations"
    monkeypatch.setattr(broken, lambda table, contract: {"rows": 3} if table.name == kind.candidate else {})
    summary = pipeline.run(kind.key, [kind.candidate, "release"])
    (failed,) = summary.failed_checks
    assert failed.startswith(f"{kind.candidate}_keeps_contract") and summary.release is None
    assert events_of(pipeline, stage)[0].storage_id == before
    assert not any(tables_made(kind, pipeline).values())
    monkeypatch.undo()
    refused(kind, pipeline, f"{kind.candidate}/{kind.candidate}_keeps_contract: the check did not pass")

"""A step that is declared per person makes for the people of one part after the other what it makes for everybody at once.

The declarations are proven, not believed: each of these steps is run as the product runs it, on parts of a delivery.
"""

import shutil
from collections import Counter
from pathlib import Path

import duckdb
import pytest

from deid_assets import resources
from deid_assets.cluster import executors
from deid_assets.methods.preparation import eligibility
from deid_assets.stages import WORK_OF, Work
from deid_assets.store.tables import either_way
from deid_assets_tests.scenarios.conftest import KEY, made_once
from deid_assets_tests.scenarios.fills_delivery import FILLS, TABLE_OF_DRUGS, delivery_with_fills
from deid_assets_tests.scenarios.pipeline import Pipeline, copy_of, pipeline_in
from deid_assets_tests.scenarios.policies import SMALL, changed, write_policy
from deid_assets_tests.scenarios.test_dates import connected_policy, dated_policy
from deid_assets_tests.stages import STAGES_WITH_DATES

pytestmark = pytest.mark.matrix

PER_PERSON = [name for name, work in WORK_OF.items() if work is Work.PER_PERSON]
REFERENCE = {"age": "20 years", "days_in_hospital": "none or any"}

POLICIES = {
    "claims": SMALL,
    "claims cut twice": changed(SMALL, number_of_claims={"per": "member_year", "width": 10, "reference": REFERENCE}),
    "dates": dated_policy(in_order=True),
    "connected dates": connected_policy(),
    "claims and fills": changed(
        FILLS,
        number_of_claims={
            "of": ["fills"], "per": "member", "width": 1, "reference": {"age": "any", "days_in_hospital": "none or any"}
        },
    ),
}  # fmt: skip
"""Every way in which these steps are asked to work: one or two cuts of the long tail, with dates and without, two tables."""


def at_once(root: Path, name: str) -> None:
    """A home in which the steps up to the coded histories were run on everybody at once."""
    values = POLICIES[name]
    with pipeline_in(root, values["policy"]) as pipeline:
        (pipeline.home.policies / "drugs.csv").write_text(TABLE_OF_DRUGS)
        write_policy(pipeline.home.policies, values)
        if name == "claims and fills":
            pipeline.register(KEY, "tables", delivery_with_fills(root.parent / "fills", 2_000))
        else:
            pipeline.synthetic(KEY, 2_000, seed=1)
        steps = pipeline.every_asset[: pipeline.every_asset.index("coded_histories") + 1]
        summary = pipeline.run(KEY, steps, checks=False, stages=False)
        assert not summary.reasons, summary


@pytest.fixture(params=POLICIES)
def pipeline(request, tmp_path_factory, tmp_path):
    """A copy of such a home for each kind of policy."""
    with made_once(tmp_path_factory, f"at once {request.param}") as (folder, missing):
        if missing:
            at_once(folder / "deid", request.param)
    with copy_of(folder / "deid", tmp_path / "deid", POLICIES[request.param]["policy"]) as pipeline:
        yield pipeline


@pytest.fixture
def made_by_parts(monkeypatch) -> Counter:
    """How many parts each table was made by."""
    found: Counter = Counter()
    write = resources.write_by_person

    def noted(table, rows):
        found[table.name] += rows.parts.number
        return write(table, rows)

    monkeypatch.setattr(resources, "write_by_person", noted)
    return found


def differing(pipeline: Pipeline, names: list[str]) -> dict[str, int]:
    """By step: of how many rows the table that it makes now differs from the one that is there, whatever the order of rows."""
    store = pipeline.store_file(KEY)
    before = shutil.copy(store, store.with_suffix(".before"))
    summary = pipeline.run(KEY, names, checks=False, stages=False)
    assert not summary.reasons, summary
    found = {}
    with duckdb.connect(str(store)) as connection:
        connection.execute(f"ATTACH '{before}' AS before (READ_ONLY)")
        for name in names:
            sql = pipeline.table(KEY, name).sql
            one, other = f"SELECT * FROM before.{sql}", f"SELECT * FROM {sql}"
            assert min(connection.execute(f"SELECT count(*) FROM ({rows})").fetchone()[0] for rows in (one, other)) > 100
            (found[name],) = connection.execute(either_way(one, other)).fetchone()
    return found


def test_every_one_of_them_makes_by_parts_what_it_makes_at_once(pipeline, monkeypatch, made_by_parts):
    monkeypatch.setenv(executors.PARTS, "5")
    steps = [name for name in PER_PERSON if name in pipeline.every_asset]
    assert differing(pipeline, steps) == dict.fromkeys(steps, 0)
    assert made_by_parts == dict.fromkeys(steps, 5)


def test_all_of_them_are_run_here():
    """Those of the policy with dates are all that any policy has."""
    assert set(PER_PERSON) <= {name for names in STAGES_WITH_DATES.values() for name in names}


@pytest.fixture
def of_claims(tmp_path_factory, tmp_path):
    with made_once(tmp_path_factory, "at once claims") as (folder, missing):
        if missing:
            at_once(folder / "deid", "claims")
    with copy_of(folder / "deid", tmp_path / "deid") as pipeline:
        yield pipeline


def test_of_a_step_that_is_not_one_of_them_other_rows_come_of_parts(of_claims, monkeypatch):
    """Planted: it leaves out the first 100 members, of everybody at once or of each part."""
    real = eligibility.eligible_members_query
    monkeypatch.setattr(eligibility, "eligible_members_query", lambda *tables: f"{real(*tables)} OFFSET 100")
    assert differing(of_claims, ["eligible_members"]) == {"eligible_members": 100}
    assert differing(of_claims, ["eligible_members"]) == {"eligible_members": 0}, "at once it is always the same"
    monkeypatch.setenv(executors.PARTS, "3")
    assert differing(of_claims, ["eligible_members"]) == {"eligible_members": 200}


def test_a_step_that_asks_all_tables_of_everybody_gives_rows_again_and_again(of_claims, monkeypatch):
    """Planted: it does not read the rows that it is given."""
    real = eligibility.eligible_members_query
    tables = [of_claims.table(KEY, name) for name in ("members", "removed_members", "eligible_claims")]
    monkeypatch.setattr(eligibility, "eligible_members_query", lambda *_: real(*tables))
    monkeypatch.setenv(executors.PARTS, "3")
    people = of_claims.table(KEY, "eligible_members").count()
    assert differing(of_claims, ["eligible_members"]) == {"eligible_members": 2 * people}


@pytest.mark.parametrize(("work", "said"), [(Work.AGGREGATE, "is declared as aggregate"), (Work.PER_PERSON, None)])
def test_a_step_is_run_as_it_is_declared_or_not_at_all(of_claims, monkeypatch, work, said):
    monkeypatch.setitem(WORK_OF, "grouped_claims", work)
    summary = of_claims.run(KEY, ["grouped_claims"], checks=False, stages=False)
    assert (said is None) == (not summary.reasons) and (said is None or said in str(summary.reasons)), summary


def test_a_step_of_everybody_cannot_be_declared_per_person(of_claims, monkeypatch):
    monkeypatch.setitem(WORK_OF, "claim_support_scores", Work.PER_PERSON)
    summary = of_claims.run(KEY, ["claim_support_scores"], checks=False, stages=False)
    assert "but its rows are made of everybody at once; declare what it is" in str(summary.reasons)

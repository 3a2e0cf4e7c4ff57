"""`deid lineage`, and what a run says of an endpoint: the event names nobody, and no release depends on it."""

import io
import json
import logging

import pytest
from rich.console import Console

from deid_assets.automation.ended_runs import outcome_of
from deid_assets.command_line.audit import tell_approved
from deid_assets.command_line.progress import Detail, Progress
from deid_assets.command_line.run import _say
from deid_assets.release.lineage import openlineage
from deid_assets.release.lineage.openlineage import SENT, TOLD
from deid_assets_tests.lineage_endpoint import listening
from deid_assets_tests.scenarios import test_flat_release
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY, made_once
from deid_assets_tests.scenarios.pipeline import copy_of

NOWHERE = "http://127.0.0.1:1"


def test_the_event_holds_columns_and_their_origins_and_nothing_restricted(home, monkeypatch):
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    before = home.published_bytes()
    code, printed = deid_here(home.home.root, "lineage", "small/0001")
    assert code == PUBLISHED and "Sent" not in printed, printed
    assert home.published_bytes() == before
    text = (home.home.store / "manifests" / "small" / "0001.openlineage.json").read_text()
    event = json.loads(text)
    fields = {out["name"]: out["facets"]["columnLineage"]["fields"] for out in event["outputs"]}
    (source,) = fields["small/0001/Claims"]["PlaceSvc"]["inputFields"]
    assert source["field"] == "place" and source["name"].endswith("/claims")
    assert event["run"]["runId"] == home.instance.get_run_records()[0].dagster_run.run_id
    assert str(home.home.root) not in text and KEY not in text and "/" + "tmp" not in text
    restricted = json.loads((home.home.store / "manifests" / "small" / "0001.json").read_text())
    assert restricted["delivery"]["digest"] not in text
    originals = home.table(KEY, "pseudonym_crosswalk").frame()["original_id"].astype(str)
    assert not any(f'"{one}"' in text for one in originals)


def test_an_endpoint_that_is_not_there_is_an_error_of_the_command_only(home, monkeypatch):
    monkeypatch.setenv("OPENLINEAGE_URL", NOWHERE)
    before = home.published_bytes()
    code, printed = deid_here(home.home.root, "lineage", "small/0001")
    assert code == ERROR and "did not take the event: it cannot be reached" in unwrapped(printed)
    assert (home.home.store / "manifests" / "small" / "0001.openlineage.json").exists()
    assert home.published_bytes() == before


@pytest.mark.matrix
def test_an_approval_says_what_came_of_it_and_goes_on(home, monkeypatch):
    said = io.StringIO()
    console = Console(file=said, width=300)
    release = home.home.releases / "small" / "0001"
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    tell_approved(home.home, release, console)
    assert said.getvalue() == "", "nothing is sent without an endpoint"
    monkeypatch.setenv("OPENLINEAGE_URL", NOWHERE)
    tell_approved(home.home, release, console)
    assert "Lineage was not sent; `deid lineage small/0001`" in said.getvalue() and "it cannot be reached" in said.getvalue()
    monkeypatch.setattr(openlineage, "send", lambda event, url, key: None)
    tell_approved(home.home, release, console)
    assert SENT in said.getvalue()
    (release / "data" / "dictionary.json").chmod(0o644)
    (release / "data" / "dictionary.json").write_text("no JSON")
    tell_approved(home.home, release, console)
    assert "dictionary.json cannot be read" in said.getvalue()


@pytest.fixture
def before_release(tmp_path_factory, tmp_path):
    """A copy of a home with everything of a delivery done but its release."""
    with made_once(tmp_path_factory, "flat") as (folder, missing):
        if missing:
            test_flat_release.prepare(folder / "deid")
    with copy_of(folder / "deid", tmp_path / "deid", "flat_table") as pipeline:
        yield pipeline


@pytest.mark.matrix
def test_whatever_starts_a_run_one_event_is_sent_for_the_release_that_it_publishes(before_release, monkeypatch):
    pipeline = before_release
    event = pipeline.home.store / "manifests" / "flat_table" / "0001.openlineage.json"
    with listening() as (url, endpoint):
        monkeypatch.setenv("OPENLINEAGE_URL", url)
        monkeypatch.setenv("OPENLINEAGE_API_KEY", "a key")
        assert pipeline.run(test_flat_release.KEY, ["release"]).exit_code == PUBLISHED
        assert endpoint.got == [("/api/v1/lineage", "Bearer a key", json.loads(event.read_text()))]
        made = pipeline.materialization("release", test_flat_release.KEY).metadata
        assert made[TOLD].value == SENT
        (fields,) = [
            out["facets"]["columnLineage"]["fields"] for out in endpoint.got[0][2]["outputs"] if "/Records" in out["name"]
        ]
        assert fields["Sex"]["inputFields"]
        # The same again is unchanged, and no release of its own.
        assert pipeline.run(test_flat_release.KEY, ["release"]).exit_code == PUBLISHED
        # Nor is what is made again to be compared.
        code, printed = deid_here(pipeline.home.root, "reproduce", "-q", "flat_table/0001")
        assert code == PUBLISHED and len(endpoint.got) == 1, printed
        monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    # What the event log has of the release later is what was sent.
    sent = event.read_bytes()
    event.unlink()
    code, printed = deid_here(pipeline.home.root, "lineage", "flat_table/0001")
    assert code == PUBLISHED and event.read_bytes() == sent, printed


@pytest.mark.matrix
def test_an_endpoint_that_fails_fails_no_release_and_the_run_says_so(before_release, monkeypatch):
    pipeline = before_release
    monkeypatch.setenv("OPENLINEAGE_URL", NOWHERE)
    events = pipeline.events(test_flat_release.KEY, ["release"])
    assert outcome_of(events).exit_code == PUBLISHED and pipeline.releases == ["flat_table/0001"]
    (problem,) = {event.step_materialization_data.materialization.metadata[TOLD].value for event in events
                  if event.is_step_materialization and event.asset_key.path[-1] == "release"}  # fmt: skip
    assert problem.startswith("Lineage was not sent; `deid lineage flat_table/0001` sends it again") and NOWHERE not in problem
    logged = pipeline.instance.all_logs(pipeline.instance.get_runs(limit=1)[0].run_id)
    assert [entry.level for entry in logged if entry.user_message == problem] == [logging.WARNING]
    said = io.StringIO()
    progress = Progress(Console(file=said, width=300), Detail.NORMAL)
    for event in events:
        _say(progress, event)
    assert said.getvalue().count(problem) == 1


def test_without_an_event_log_there_is_no_lineage(home):
    import shutil

    shutil.rmtree(home.home.dagster / "history")
    code, printed = deid_here(home.home.root, "lineage", "small/0001")
    assert code == ERROR and "the event log has no materialization of release small/0001" in unwrapped(printed)

"""`deid lineage`, and what `deid run` says of an endpoint: the event names nobody, and no release depends on it."""

import io
import json

import pytest
from rich.console import Console

from deid_assets.command_line import lineage
from deid_assets.command_line.lineage import tell_lineage
from deid_assets_tests.scenarios.command_line import ERROR, PUBLISHED, deid_here, unwrapped
from deid_assets_tests.scenarios.conftest import KEY
from deid_assets_tests.scenarios.pipeline import copy_of

NOWHERE = "http://127.0.0.1:1"


@pytest.fixture
def home(published, tmp_path):
    with copy_of(published.pipeline.home.root, tmp_path / "deid") as pipeline:
        yield pipeline


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


def test_a_run_says_what_came_of_it_and_goes_on(home, monkeypatch):
    said = io.StringIO()
    console = Console(file=said, width=300)
    release = home.home.releases / "small" / "0001"
    monkeypatch.delenv("OPENLINEAGE_URL", raising=False)
    tell_lineage(home.home, release, console)
    monkeypatch.setenv("OPENLINEAGE_URL", NOWHERE)
    tell_lineage(home.home, None, console)
    assert said.getvalue() == "", "nothing is sent without an endpoint or a release"
    tell_lineage(home.home, release, console)
    assert "Lineage was not sent" in said.getvalue() and "it cannot be reached" in said.getvalue()
    monkeypatch.setattr(lineage, "send", lambda event, url, key: None)
    tell_lineage(home.home, release, console)
    assert "Lineage was sent to the endpoint." in said.getvalue()
    (release / "data" / "dictionary.json").chmod(0o644)
    (release / "data" / "dictionary.json").write_text("no JSON")
    tell_lineage(home.home, release, console)
    assert "dictionary.json cannot be read" in said.getvalue()


def test_without_an_event_log_there_is_no_lineage(home):
    import shutil

    shutil.rmtree(home.home.dagster / "history")
    code, printed = deid_here(home.home.root, "lineage", "small/0001")
    assert code == ERROR and "the event log has no materialization of release small/0001" in unwrapped(printed)

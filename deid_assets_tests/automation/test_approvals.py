"""What the event log records of an approved release, also after a crash left it to be recorded later."""

import json
from dataclasses import replace

import dagster as dg

from deid_assets.automation.approvals import record_published
from deid_assets.release.event_log import recorded_releases
from deid_assets.release.publication.approval import approve_waiting
from deid_assets_tests.release.making import APPROVERS, READING, releases_in, wait

ANNA = APPROVERS[0]
EVENT = {"asset": ["heritage", "release"], "partition": "2024", "run": "a run that is gone", "tags": {}, "tables": {}}


def approved(tmp_path):
    """A release that was approved, of which the event log knows nothing yet."""
    releases = releases_in(tmp_path)
    waiting = wait(releases)
    published = approve_waiting(releases, "heritage", 1, ANNA, lambda: READING)
    dictionary = tmp_path / "data" / "dictionary.json"
    dictionary.parent.mkdir()
    dictionary.write_text(json.dumps({"tables": {}}))
    (tmp_path / "manifest.json").write_bytes((published.folder / "manifest.json").read_bytes())
    return replace(waiting, terms=replace(waiting.terms, event=EVENT)), replace(published, folder=tmp_path)


def own(instance):
    return [one for one in recorded_releases(instance) if one.made.asset == "heritage/release"]


def test_a_release_is_recorded_once(tmp_path):
    waiting, published = approved(tmp_path)
    with dg.DagsterInstance.ephemeral() as instance:
        for _ in range(2):
            record_published(instance, waiting, published, ANNA, "f" * 64)
        (made,) = own(instance)
        assert (made.head, made.number, made.made.partition) == (published.entry.hash, 1, "2024")
        assert made.journal == "f" * 64


def test_a_run_that_found_another_release_unchanged_meanwhile_is_no_record_of_it(tmp_path):
    waiting, published = approved(tmp_path)
    with dg.DagsterInstance.ephemeral() as instance:
        instance.report_runless_asset_event(
            dg.AssetMaterialization(
                ["other", "release"], metadata={"number": 4, "registry_head": published.entry.hash, "unchanged": True}
            )
        )
        record_published(instance, waiting, published, ANNA, "f" * 64)
        assert [made.number for made in own(instance)] == [1]

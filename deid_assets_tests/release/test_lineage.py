"""What a release was made from: the graph, its columns, and every way in which log and manifest may disagree."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from deid_assets.assessments.evidence import Evidence
from deid_assets.errors import ReleaseError
from deid_assets.release.lineage import audit
from deid_assets.release.lineage.columns import derived_columns
from deid_assets.release.lineage.graph import Evaluated, Lineage, Materialized, RecordedRelease, lineage_of
from deid_assets.release.lineage.published import published_release, release_folder
from deid_assets.store.home import Home
from deid_assets_tests.release import making
from deid_assets_tests.release.making import evidence, measurement

TOLD = evidence(measurement())


def made(name: str, event: int, *inputs: Materialized, columns=(), sources=None, **changes) -> Materialized:
    fields = {
        "asset": f"policy/{name}", "event": event, "run": "run", "made": "2026-01-01T00:00:00Z", "partition": "2024",
        "data_version": f"version {event}", "code_version": "1", "inputs": {one.asset: one.event for one in inputs},
        "columns": tuple(columns), "sources": sources or {},
    }  # fmt: skip
    return Materialized(**fields | changes)


CLAIMS = made("claims", 1, columns=["place", "member_id"])
GROUPED = made("grouped_claims", 2, CLAIMS, columns=["place"], sources={"place": (("policy/claims", "place"),)})
CANDIDATE = made(
    "release_claims", 3, GROUPED, CLAIMS, columns=["PlaceSvc"], sources={"PlaceSvc": (("policy/grouped_claims", "place"),)}
)
ATTACK = made("neighbor_attack", 4, CANDIDATE, evidence_digest=TOLD.digest())
RELEASE = made("release", 5, ATTACK, CANDIDATE, CLAIMS)
EVERY = (CLAIMS, GROUPED, CANDIDATE, ATTACK, RELEASE)
CHECKED = Evaluated(ATTACK.asset, "within", ATTACK.event, True, True, True, 0.0047, 0.008, "run", "")


def fetched(*kept: Materialized):
    known = {(one.asset, one.event): one for one in kept}
    return lambda asset, event: known.get((asset, event))


def whole() -> Lineage:
    return lineage_of(RELEASE, fetched(*EVERY))


def keyed(name: str, version: str) -> str:
    return f"{name} {version}"


MANIFEST = {one.name: keyed(one.name, str(one.data_version)) for one in EVERY if one is not RELEASE}


def digests(*evidence: Evidence) -> dict[str, str]:
    return audit.evidence_digests({"evidence": [item.to_json() for item in evidence]})


class TestGraph:
    def test_every_input_is_followed_to_the_event_that_was_read(self):
        newer = made("claims", 9)
        lineage = lineage_of(RELEASE, fetched(*EVERY, newer))
        assert lineage.before == {one.asset: one for one in EVERY if one is not RELEASE}
        assert not lineage.lost and not lineage.differing and lineage.named("claims") is CLAIMS

    def test_arrows_that_a_longer_path_shows_are_left_out(self):
        assert whole().arrows() == [
            ("policy/claims", "policy/grouped_claims"),
            ("policy/grouped_claims", "policy/release_claims"),
            ("policy/release_claims", "policy/neighbor_attack"),
            ("policy/neighbor_attack", "policy/release"),
        ]
        assert [whole().depths[one.asset] for one in EVERY] == [0, 1, 2, 3, 4]

    def test_an_event_that_the_log_lost_is_named(self):
        assert lineage_of(RELEASE, fetched(GROUPED, CANDIDATE, ATTACK)).lost == (
            ("policy/grouped_claims", "policy/claims"),
            ("policy/release", "policy/claims"),
            ("policy/release_claims", "policy/claims"),
        )

    def test_two_versions_of_one_input_are_named(self):
        older = replace(GROUPED, inputs={"policy/claims": 0})
        assert lineage_of(RELEASE, fetched(CLAIMS, older, CANDIDATE, ATTACK)).differing == ("policy/claims",)

    def test_a_table_of_another_system_has_no_event_and_is_not_lost(self):
        reading = replace(CLAIMS, inputs={"warehouse/claims": None})
        lineage = lineage_of(RELEASE, fetched(reading, GROUPED, CANDIDATE, ATTACK))
        assert lineage.outside == ("warehouse/claims",) and not lineage.lost
        own = replace(CLAIMS, inputs={"policy/members": None})
        assert lineage_of(RELEASE, fetched(own, GROUPED, CANDIDATE, ATTACK)).lost == (("policy/claims", "policy/members"),)


class TestColumns:
    DICTIONARY = {"tables": {"Claims": {"columns": [{"name": "PlaceSvc"}]}}}

    def test_a_column_is_traced_to_the_name_in_the_delivery(self):
        policy = {"source": {"kind": "tables", "claims": {"columns": {"place": "POS"}}}}
        (column,) = derived_columns(whole(), self.DICTIONARY, policy)
        assert column.candidate == "release_claims" and column.delivered == ("claims.POS",)
        assert column.steps == ("release_claims.PlaceSvc", "grouped_claims.place", "claims.place")

    @pytest.mark.parametrize("claims", [None, {"unit": "line"}])
    def test_a_column_of_the_generator_has_its_own_name_there(self, claims):
        policy = {"source": {"kind": "synthetic", "claims": claims, "events": {"fills": {}}}}
        (column,) = derived_columns(whole(), self.DICTIONARY, policy)
        assert column.delivered == ("claims.place",)

    def test_a_column_that_is_computed_at_intake_names_its_ingredients(self):
        pays = {"place": "x", "service_date": "FROM", "paid_date": "PAID"}
        policy = {"source": {"kind": "tables", "claims": {"columns": pays}}}
        renamed = replace(CANDIDATE, sources={"PlaceSvc": (("policy/claims", "pay_delay"),)})
        lineage = lineage_of(RELEASE, fetched(CLAIMS, GROUPED, renamed, ATTACK))
        (column,) = derived_columns(lineage, self.DICTIONARY, policy)
        assert column.delivered == ("claims.FROM", "claims.PAID")

    def test_counts_derive_from_no_column_and_unknown_tables_from_no_asset(self):
        counted = made("published_counts", 4, CLAIMS, columns=["count"])
        lineage = lineage_of(made("release", 5, counted), fetched(CLAIMS, counted))
        dictionary = {"tables": {"Attrition": {"columns": [{"name": "Count"}]}, "Odd": {"columns": [{"name": "x"}]}}}
        counts, odd = derived_columns(lineage, dictionary, {"source": {"kind": "synthetic"}})
        assert (counts.candidate, counts.steps) == ("published_counts", ())
        assert (odd.candidate, odd.delivered) == (None, ())

    def test_columns_of_flat_tables_and_cohorts_are_those_that_the_policy_names(self):
        records = made("records", 1, columns=["Age"])
        candidate = made("release_records", 2, records, columns=["Age"], sources={"Age": (("policy/records", "Age"),)})
        lineage = lineage_of(made("release", 3, candidate), fetched(records, candidate))
        dictionary = {"tables": {"Records": {"columns": [{"name": "Age"}]}}}
        flat = {"kind": "flat", "quasi_identifiers": [{"column": "age_y", "release_as": "Age"}], "attributes": []}
        assert derived_columns(lineage, dictionary, flat)[0].delivered == ("age_y",)
        own = {"age": {"age": None, "birth_date": "born", "release_as": "Age"}, "race": None, "format": "%Y"}
        cohort = {"kind": "cohort", "columns": own, "attributes": []}
        assert derived_columns(lineage, dictionary, cohort)[0].delivered == ("born",)


class TestWitness:
    def test_agreement_is_silent(self):
        lineage = whole()
        assert audit.lineage_problems(lineage, MANIFEST, keyed) == []
        assert audit.delivery_problems(lineage, "2024", "version 1") == []
        assert audit.evidence_problems(lineage, digests(TOLD, evidence(asset="gate"))) == []
        assert audit.check_problems(lineage, [CHECKED], [TOLD]) == []
        assert audit.registry_problems([RecordedRelease(RELEASE, "h", 1, False)], ["h"]) == []

    @pytest.mark.parametrize(
        ("told", "sentence"),
        [
            (MANIFEST | {"claims": "other"}, "claims: the manifest states another data version than the event log"),
            (MANIFEST | {"members": "x"}, "the manifest names members, but the event log has no materialization"),
            (
                {name: one for name, one in MANIFEST.items() if name != "claims"},
                "claims: the release was made from it, but the manifest does not name it",
            ),
        ],
    )
    def test_another_lineage_in_the_manifest(self, told, sentence):
        (found,) = audit.lineage_problems(whole(), told, keyed)
        assert found.startswith(sentence)

    def test_lost_events_and_two_versions_and_another_secret(self):
        lost = lineage_of(RELEASE, fetched(GROUPED, CANDIDATE, ATTACK))
        assert "the event log has no materialization of policy/release's input policy/claims" in str(
            audit.lineage_problems(lost, MANIFEST, keyed)
        )
        mixed = replace(whole(), differing=("policy/claims",))
        assert "made from two versions of it" in str(audit.lineage_problems(mixed, MANIFEST, keyed))
        assert "another secret" in str(audit.lineage_problems(whole(), MANIFEST, None)), "nothing is passed unseen"

    def test_an_asset_without_a_data_version_does_not_pass(self):
        bare = replace(CLAIMS, data_version=None)
        lineage = lineage_of(RELEASE, fetched(bare, GROUPED, CANDIDATE, ATTACK))
        assert audit.lineage_problems(lineage, MANIFEST, keyed) == [
            "claims: the manifest states another data version than the event log"
        ]

    def test_another_delivery(self):
        assert len(audit.delivery_problems(whole(), "2025", "another version")) == 2

    def test_other_measurements_in_the_manifest_and_an_assessment_without_record(self):
        better = evidence(measurement(value=0.001, bound=0.002))
        assert "states other measurements" in str(audit.evidence_problems(whole(), digests(better)))
        assert "no record of what it measured" in str(audit.evidence_problems(whole(), digests(evidence(asset="other_attack"))))

    def test_a_check_that_failed(self):
        assert "its check within did not pass" in str(
            audit.check_problems(whole(), [CHECKED, replace(CHECKED, passed=False)], [])
        )
        on_another = replace(CHECKED, passed=False, event=99)
        assert audit.check_problems(whole(), [on_another], []) == [], "it judged another materialization"
        warned = replace(CHECKED, passed=False, blocking=False)
        assert audit.check_problems(whole(), [warned], []) == []

    @pytest.mark.parametrize(
        "changes", [{"measured": 0.004}, {"threshold": 0.9}, {"measured": None}, {"gating": False}, {"event": 3}]
    )
    def test_a_gate_that_no_check_compared_alike(self, changes):
        (found,) = audit.check_problems(whole(), [replace(CHECKED, **changes)], [TOLD])
        assert found.startswith("neighbor_attack/high_risk_share: no check of the event log")

    def test_a_registry_without_a_recorded_entry(self):
        (found,) = audit.registry_problems([RecordedRelease(RELEASE, "gone", 1, False)], ["h"])
        assert found == (
            "the registry lacks the entry that the event log recorded with policy/release 0001: it was cut off or changed"
        )

    def test_evidence_of_a_manifest_is_read_or_refused(self):
        assert audit.evidence_in({"evidence": [TOLD.to_json()]}) == (TOLD,)
        assert isinstance(audit.evidence_in({"evidence": [TOLD.to_json()]})[0], Evidence)
        for broken in ({}, {"evidence": 3}, {"evidence": [{}]}):
            with pytest.raises(ReleaseError, match="evidence"):
                audit.evidence_in(broken)


class TestPublished:
    @pytest.fixture
    def home(self, tmp_path) -> Home:
        making.publish(making.releases_in(tmp_path), "first")
        return Home(tmp_path)

    def test_a_release_is_found_by_path_or_name(self, home):
        folder = home.releases / "heritage" / "0001"
        assert release_folder(home, folder) == release_folder(home, Path("heritage/0001")) == folder
        with pytest.raises(ReleaseError, match="is not a release"):
            release_folder(home, Path("heritage/0002"))

    def test_both_editions_belong_together(self, home):
        found = published_release(home, home.releases / "heritage" / "0001")
        assert found.name == "heritage/0001" and not found.problems
        assert found.required()["edition"] == "restricted"

    @pytest.mark.parametrize(("ending", "sentence"), [("json", "one of them was changed"), ("members", "it was changed or is")])
    def test_a_changed_restricted_file_is_named(self, home, ending, sentence):
        file = home.store / "manifests" / "heritage" / f"0001.{ending}"
        file.write_bytes(file.read_bytes() + b" ")
        found = published_release(home, home.releases / "heritage" / "0001")
        assert sentence in str(found.problems) and file.name in str(found.problems)

    def test_without_its_restricted_edition_nothing_more_is_said(self, home):
        (home.store / "manifests" / "heritage" / "0001.json").unlink()
        found = published_release(home, home.releases / "heritage" / "0001")
        with pytest.raises(ReleaseError, match=r"heritage/0001: .*0001.json, cannot be read: it is missing"):
            found.required()

    @pytest.mark.parametrize("content", [b"", b"{}", b'{"edition": "public"}', b"[]"])
    def test_a_manifest_that_cannot_be_read_is_an_error_with_what_verify_says(self, home, content):
        file = home.releases / "heritage" / "0001" / "manifest.json"
        file.chmod(0o644)
        file.write_bytes(content)
        with pytest.raises(ReleaseError, match="its manifest cannot be read"):
            published_release(home, file.parent)

    def test_the_restricted_edition_taken_for_the_public_one(self, home):
        file = home.releases / "heritage" / "0001" / "manifest.json"
        told = json.loads(file.read_bytes())
        file.chmod(0o644)
        file.write_text(json.dumps(told | {"edition": "restricted"}))
        with pytest.raises(ReleaseError, match="its manifest cannot be read"):
            published_release(home, file.parent)

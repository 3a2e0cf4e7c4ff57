"""The draft of an expert determination: every number is one of the manifest, and nothing is left out or determined."""

import copy
import html
import json
from typing import Any

import pytest

from deid_assets.assessments.registry import ASSESSMENTS
from deid_assets.errors import ReleaseError
from deid_assets.release.publication.publish import Published
from deid_assets.reports.determination import OPEN, dossier_html, dossier_markdown, dossier_of
from deid_assets.reports.determination_texts import ADVERSARIES, GATE, OWNERS_DECIDE, precedent_of
from deid_assets_tests.release import making
from deid_assets_tests.reports.numbers_shown import numbers_in, without_sources
from deid_assets_tests.scenarios.policies import SMALL, write_policy

DIGEST = "ab" * 32


@pytest.fixture(scope="module")
def manifest(tmp_path_factory) -> dict[str, Any]:
    """A public manifest with a measurement of every unit that people care about, under a policy that loads."""
    folder = tmp_path_factory.mktemp("determined")
    policy = write_policy(folder / "policies", SMALL)
    releases = making.releases_in(folder)
    published: Published = making.publish(releases, "inputs")
    told = json.loads((published.folder / "manifest.json").read_bytes())
    told["policy"] = {"name": "small", "hash": "c" * 64, "text": json.dumps(policy.public_content())}
    noisy = making.measurement(name="absence_posterior", unit="share of members", value=0.17, bound=None, statistic="value",
                               confidence=None, threshold=0.3).to_json() | {"protected": True, "value": None}  # fmt: skip
    shown = noisy | {"name": "demographic_high_risk_share", "value": 0.0034}
    told["evidence"].append({"asset": "demographic_risk", "measurements": [noisy, shown]})
    told["evidence"].append({"asset": "gate", "measurements": [making.measurement(name="Year/singled_out").to_json()]})
    return told


def test_every_number_in_the_text_occurs_in_the_manifest(manifest):
    text = without_sources(dossier_html(dossier_of(manifest, DIGEST)))
    numbers, known = numbers_in(text), numbers_in(json.dumps(manifest))
    assert {"0.0041", "0.0047", "0.008", "0.0034", "3"} <= numbers
    assert numbers <= known, numbers - known


def test_numbers_follow_the_manifest(manifest):
    other = copy.deepcopy(manifest)
    other["evidence"][0]["measurements"][0] |= {"value": 0.00123, "bound": 0.00234, "threshold": 0.00345}
    other["number"] = 77
    text = without_sources(dossier_html(dossier_of(other, DIGEST)))
    assert all(number in text for number in ("0.00123", "0.00234", "0.00345", "number 77"))


def test_sources_do_not_depend_on_what_was_measured(manifest):
    other = copy.deepcopy(manifest)
    other["evidence"][0]["measurements"][0] |= {"value": 0.00123, "bound": 0.00234}
    cited = [
        [passage.text for section in dossier_of(one, DIGEST).sections for passage in section.passages if passage.source]
        for one in (manifest, other)
    ]
    assert cited[0] == cited[1] and any("164.514(b)(1)" in text for text in cited[0])


def test_it_has_all_parts_that_an_expert_needs(manifest):
    dossier = dossier_of(manifest, DIGEST)
    assert [section.name for section in dossier.sections] == [
        "rule", "verdict", "worst", "population", "recipients", "adversaries", "thresholds", "measurements", "limits",
        "expiry", "signature",
    ]  # fmt: skip
    page, text = dossier_html(dossier).decode(), dossier_markdown(dossier).decode()
    for part in (
        "nothing is determined until a person",
        DIGEST,
        "Signature:",
        "without knowing that the person is in the release",
    ):
        assert part in html.unescape(page) and part in text
    assert page.count(OPEN) == text.count(OPEN) == 6
    assert 'http-equiv="Content-Security-Policy"' in page and "<script" not in page and "src=" not in page


def test_a_number_with_noise_says_so_and_one_that_is_not_published_too(manifest):
    rows = {row[0]: row for row in dossier_of(manifest, DIGEST).sections[7].table.rows}
    assert rows["demographic high risk share"][3] == "0.0034 (with noise)"
    assert rows["absence posterior"][3] == "not published"
    assert rows["high risk share"][3:7] == ("0.0041", "0.0047", "0.99", "0.008")


def test_what_a_person_overruled_stands_before_the_numbers(manifest):
    other = copy.deepcopy(manifest)
    policy = json.loads(other["policy"]["text"]) | {"reviewed_attributes": {"PayDelay": "A study of delays needs them."}}
    other["policy"]["text"] = json.dumps(policy)
    gate = next(item for item in other["evidence"] if item["asset"] == "gate")
    found = {"name": "PayDelay/singled_out", "value": 0.31, "threshold": 0.01, "gating": False, "passed": False}
    gate["measurements"].append(gate["measurements"][0] | found)
    said = "A person overruled: PayDelay: 31 % of its values single people out by themselves"
    dossier = dossier_of(other, DIGEST)
    assert dossier.sections[1].points[0].text.startswith(said)
    assert said in html.unescape(dossier_html(dossier).decode()) and said in dossier_markdown(dossier).decode()


def test_each_adversary_is_told_with_the_worst_number_gated_or_not(manifest):
    other = copy.deepcopy(manifest)
    item = next(item for item in other["evidence"] if item["asset"] == "demographic_risk")
    more = {"name": "ungated", "value": 0.91, "unit": "probability", "gating": False, "threshold": None}
    item["measurements"].append(item["measurements"][0] | more)
    (section,) = [one for one in dossier_of(other, DIGEST).sections if one.name == "worst"]
    first = section.table.rows[0]
    assert first[1] == "ungated" and first[3:5] == ("0.91", "none") and "nobody" in first[5]


def test_the_date_of_expiry_is_left_open_or_given(manifest):
    assert f"expires on: {OPEN}" in dossier_html(dossier_of(manifest, DIGEST)).decode()
    given = dossier_html(dossier_of(manifest, DIGEST, "2027-06-30")).decode()
    assert "expires on: 2027-06-30" in given and "2027" not in without_sources(given.encode())


def test_every_assessment_has_its_adversary_and_precedent():
    assert set(ADVERSARIES) == {*ASSESSMENTS, GATE}
    for text in ADVERSARIES.values():
        assert text.who and text.why and text.precedent
        assert not numbers_in(text.who + text.why)


def test_a_gate_has_the_precedent_of_what_it_repeats():
    assert precedent_of(GATE, "neighbor_success") == precedent_of("neighbor_attack", "neighbor_success")
    assert precedent_of(GATE, "absence_posterior") == precedent_of("demographic_risk", "absence_posterior") == OWNERS_DECIDE
    assert "Opinion 05/2014" in precedent_of(GATE, "Year/singled_out")
    assert "proves nothing" in precedent_of("neighbor_attack", "canaries_found")
    assert precedent_of(GATE, "something_new") == OWNERS_DECIDE


def test_the_population_is_told_as_the_policy_takes_it(manifest):
    def said(change) -> str:
        other = copy.deepcopy(manifest)
        policy = json.loads(other["policy"]["text"])
        change(policy)
        other["policy"]["text"] = json.dumps(policy)
        return dossier_of(other, DIGEST).sections[3].passages[0].text

    assert "taken as the population" in said(lambda policy: None)
    extract = said(lambda policy: policy["risk"].update(class_size="truncated_poisson", population_size=1_200_000))
    assert "extract of a population of about 1200000 members" in extract and "truncated poisson" in extract
    assert "among the delivered records" in said(
        lambda policy: policy.update(kind="flat", population=None, quasi_identifiers=[])
    )
    flat = said(lambda policy: policy.update(kind="flat", population={"file": "x"}, quasi_identifiers=[]))
    assert "table of the population that the policy names" in flat
    assert "of the cohort's time and place" in said(lambda policy: policy.update(kind="cohort"))


def test_what_the_policy_calls_a_high_risk_is_told_as_it_says(manifest):
    def said(risk, **changes) -> list[str]:
        other = copy.deepcopy(manifest)
        policy = json.loads(other["policy"]["text"]) | changes
        policy["risk"] = risk
        other["policy"]["text"] = json.dumps(policy)
        section = dossier_of(other, DIGEST).sections[6]
        return [passage.text for passage in section.passages if not passage.source]

    high = said({"threshold": 0.07, "class_size": "counted"})
    assert high == ["A member is at high risk above this probability of re-identification: 0.07"]
    flat = said({"k": 7}, kind="flat", population=None, quasi_identifiers=[])
    assert flat == ["Smallest class that the policy accepts, in records: 7"]
    assert said({}, kind="cohort") == []


def test_another_edition_or_unknown_evidence_is_refused(manifest):
    with pytest.raises(ReleaseError, match="public edition"):
        dossier_of(manifest | {"edition": "restricted"}, DIGEST)
    unknown = manifest | {"evidence": [{"asset": "a_new_attack", "measurements": []}]}
    with pytest.raises(ReleaseError, match="a_new_attack"):
        dossier_of(unknown, DIGEST)


def test_texts_of_a_policy_stay_texts(manifest):
    other = copy.deepcopy(manifest)
    other["recipients"] = {"recipient_class": "<script>x</script>", "terms_of_use": "*a*\n# b | c"}
    dossier = dossier_of(other, DIGEST)
    assert "<script>" not in dossier_html(dossier).decode()
    text = dossier_markdown(dossier).decode()
    assert "\\<script>" in text and "\\*a\\* \\# b" in text

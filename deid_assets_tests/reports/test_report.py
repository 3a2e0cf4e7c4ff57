"""The report: self-contained, accessible, escaped, and without an exact count of people."""

import dataclasses
import json
import re
from html.parser import HTMLParser
from itertools import pairwise

import pytest

from deid_assets.assessments.identified_files import INPATIENT
from deid_assets.assessments.longitudinal_risk import counted_with_suppressed, exposure_measurements, high_risk_measurements
from deid_assets.errors import ReleaseError
from deid_assets.figures.figures import neighbor_attack_figure
from deid_assets.figures.heritage import GENERALIZATIONS, HIERARCHIES, exposure_comparison, heritage_comparison
from deid_assets.figures.rendering import ReportTable, shown, shown_bound
from deid_assets.methods.attacks.neighbor_attack import expected_reidentified_share
from deid_assets.methods.kernel.node_computation import NodeMeasurement
from deid_assets.policy.loading import policy_by_name
from deid_assets.release.manifest.editions import Editions, ReleasedFile, Slot, editions
from deid_assets.release.manifest.public_numbers import AttritionStep
from deid_assets.reports import report
from deid_assets.reports.manifest_content import content_from_manifest
from deid_assets_tests.release import making
from deid_assets_tests.release.test_manifest import SLOT

HOSTILE = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' onmouseover='alert(1)",
    "{{ 7 * 7 }}{% for x in y %}",
    "</style><style>body{display:none}</style>",
    "</title><base href=//evil>",
    "<!-- ]]> &lt; &#60;b&#62;",
    "javascript:alert(1)",
    "half a pair \ud800 and \u202eleft",
)
IMAGE = neighbor_attack_figure([("neighbor_success", 0.0031, 0.0042, 0.05)])


def content(text: str = "text", **changed) -> report.ReportContent:
    """A report whose every text is the given one."""
    whole = report.ReportContent(
        title=text,
        release_number=7,
        policy_name=text,
        policy_title=text,
        delivery=text,
        created=text,
        recipient_class=text,
        terms_of_use=text,
        verdict="published",
        summary=text,
        gates=(
            report.ReportedGate(text, text, 0.00412, 0.0043401, 0.008, True, "share of draws"),
            report.ReportedGate(text, text, 0.0, None, 0, True, "disagreements"),
            report.ReportedGate(text, text, "T", None, 20, True, "members", "at_least"),
        ),
        generalization=(report.GeneralizationRow(text, text),),
        attrition=(
            report.AttritionRow(text, "members", None, 200_003),
            report.AttritionRow(text, "members", 200_003, -2, text),
        ),
        figures=(report.ReportFigure(text, text, IMAGE, text),),
        certificate=(
            report.CertificateRow("1,2", 0.0071, 0.0069, 0.0073, "candidate", chosen=True),
            report.CertificateRow("0,2", 0.0102, 0.0099, 0.0105, "not_candidate"),
        ),
        comparison=heritage_comparison(0.003, 0.008, 0.0576),
        disclosure=(ReportTable("table", text, text, (("What", "name"), ("Share", "number")), ((text, text),)),),
        files=({"path": text, "sha256": "ab" * 32, "bytes": 123_456, "rows": 19_998},),
    )
    return dataclasses.replace(whole, **changed)


class Page(HTMLParser):
    """Tags with their attributes, and the texts between them; raises nothing, as browsers do."""

    VOID = frozenset({"meta", "img", "br", "link", "base", "input"})

    def __init__(self, html: bytes):
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(html.decode())

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag, f"{tag} is closed where it is not open"

    def handle_data(self, data):
        if "style" not in self.open and data.strip():
            self.texts.append(data.strip())

    def named(self, tag: str) -> list[dict]:
        return [attributes for name, attributes in self.tags if name == tag]


def test_every_section_is_told() -> None:
    texts = Page(report.render_report(content())).texts
    for expected in (
        "0.412 %", "0.435 %", "at most 0.8 %", "at least 20", "T", "✓ yes", "200,003", "1,2",
        "0.71 %", "0.69 % to 0.73 %", "too risky", "0.84 %", "5.8 %",
        "ab" * 32, "19,998", "123,456",
        "deid verify --key PUBLIC_KEY RELEASE",
    ):  # fmt: skip
        assert expected in texts, expected
    assert any("Bounds cover only Monte Carlo error" in text for text in texts)


@pytest.mark.parametrize("text", HOSTILE)
def test_texts_of_a_policy_are_only_texts(text: str) -> None:
    """The page has the same elements and attributes whatever the policy's texts say, and shows them as they are."""
    harmless, page = Page(report.render_report(content())), Page(report.render_report(content(text)))
    told = text.replace("\ud800", "?")
    assert [name for name, _ in page.tags] == [name for name, _ in harmless.tags]
    assert [set(attributes) for _, attributes in page.tags] == [set(attributes) for _, attributes in harmless.tags]
    assert page.texts.count(told) >= 10
    assert page.named("img")[0]["alt"] == told


def test_the_file_needs_nothing_else_and_runs_nothing() -> None:
    html = report.render_report(content())
    page = Page(html)
    assert not {"script", "link", "iframe", "object", "form", "base", "a"} & {name for name, _ in page.tags}
    assert all(image["src"].startswith("data:image/") for image in page.named("img"))
    assert b"@import" not in html and b"url(" not in html
    policy = next(meta["content"] for meta in page.named("meta") if meta.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy and "script-src" not in policy
    assert not any(name.startswith("on") for _, attributes in page.tags for name in attributes)


def test_it_is_accessible_without_sight_colour_or_a_wide_screen() -> None:
    html = report.render_report(content())
    page = Page(html)
    assert page.named("html") == [{"lang": "en"}]
    assert all(image["alt"] for image in page.named("img"))
    assert {header["scope"] for header in page.named("th")} == {"col", "row"}
    names = {attributes["id"] for _, attributes in page.tags if "id" in attributes}
    assert all(table["aria-labelledby"] in names for table in page.named("table"))
    headings = [int(name[1]) for name, _ in page.tags if re.fullmatch("h[1-6]", name)]
    assert headings[0] == 1 and headings.count(1) == 1
    assert all(after - before <= 1 for before, after in pairwise(headings))
    for rule in (b"prefers-color-scheme: dark", b"@media print", b"max-width: 42rem"):
        assert rule in html
    assert not page.open


def test_a_figure_without_alternative_text_is_told_by_its_title() -> None:
    page = Page(report.render_report(content(figures=(report.ReportFigure("Attack 1", "", IMAGE),))))
    assert page.named("img")[0]["alt"] == "Attack 1"


def test_sections_without_rows_are_left_out() -> None:
    empty = content(
        generalization=(), attrition=(), figures=(), certificate=(), comparison=(), disclosure=(), files=(), limits=()
    )
    headings = [name for name, _ in Page(report.render_report(empty)).tags if name == "h2"]
    assert len(headings) == 3  # about this release, gates, how to verify


@pytest.mark.parametrize(("decision", "told"), [("candidate", False), ("not_candidate", True)])
def test_a_node_that_holds_only_without_flagged_members_is_told_as_such(decision: str, told: bool) -> None:
    chosen = report.CertificateRow("1,2", 0.0189, 0.0161, 0.0222, decision, chosen=True)
    html = report.render_report(content(certificate=(chosen,))).decode()
    assert ("members who were flagged most often" in html) is told


def test_same_content_same_bytes() -> None:
    assert report.render_report(content()) == report.render_report(content())


def test_a_refusal_says_which_gate_failed() -> None:
    gate = report.ReportedGate("high risk share", "", 0.012, 0.0125, 0.008, False, "share of draws")
    page = Page(report.render_report(content(verdict="refused", release_number=None, gates=(gate,))))
    assert "refused" in page.texts and "✗ no" in page.texts


def test_gates_of_many_alike_are_one_row_where_all_passed_and_each_its_own_where_one_failed() -> None:
    alike = tuple(
        report.ReportedGate(f"canaries {n}", "planted", 1.0, None, 1.0, True, "ratio", "at_least", "canaries") for n in range(3)
    )
    texts = Page(report.render_report(content(gates=alike))).texts
    assert "canaries found" in texts and "✓ all 3" in texts and "canaries 1" not in texts
    failed = (*alike[:2], dataclasses.replace(alike[2], passed=False))
    texts = Page(report.render_report(content(gates=failed, verdict="refused", release_number=None))).texts
    assert {"canaries 0", "canaries 1", "canaries 2", "✗ no"} <= set(texts)


def test_what_is_not_shown_is_explained_where_it_stands() -> None:
    gates = (
        report.ReportedGate("absence", "How surely.", None, None, 0.3, True, "share of members"),
        report.ReportedGate("few", "Some.", "T", None, 0.3, True),
    )
    claims = report.AttritionRow("eligible_claims", "claims", None, None, "newborns")
    texts = Page(report.render_report(content(gates=gates, attrition=(claims,)))).texts
    assert "How surely. The number is not shown, because it would disclose exactly how many people there are." in texts
    assert "Some. T: a share among fewer than 11 people." in texts
    assert "newborns; not shown: noise that hides one person does not hide all of their claims" in texts


def test_a_refusal_says_why_and_is_no_release() -> None:
    refused = content(
        verdict="refused", release_number=None, reasons=("no node holds",),
        diagnosis=ReportTable("diagnosis", "Where the risk comes from", "x", (("Change", "name"),), (("without sex",),)),
    )  # fmt: skip
    texts = Page(report.render_report(refused)).texts
    assert {"Why it was refused", "no node holds", "Where the risk comes from", "without sex"} <= set(texts)
    assert "How to verify" not in texts and not any("release 7" in text for text in texts)
    with pytest.raises(ReleaseError, match="and a refused one has none"):
        content(verdict="refused")


def test_what_is_left_of_each_column_stands_beside_the_verdict() -> None:
    row = report.GeneralizationRow("DSFS", "months", "12 of 367", "34.4 %", "4 weeks")
    page = Page(
        report.render_report(
            content(generalization=(row,), notes=("The 2 columns keep 31 % of their information on average.",))
        )
    )
    assert {
        "12 of 367",
        "34.4 %",
        "4 weeks",
        "The 2 columns keep 31 % of their information on average.",
        "Information kept",
    } <= set(page.texts)
    assert page.texts.index("The 2 columns keep 31 % of their information on average.") < page.texts.index("Gates")


def test_a_match_that_no_gate_holds_down_stands_beside_the_verdict() -> None:
    match = making.measurement(
        name=INPATIENT, unit="probability", value=0.66, bound=None, threshold=None, statistic="value", confidence=None,
        gating=False,
    )  # fmt: skip
    evidence = (making.evidence(making.measurement()), making.evidence(match, asset="inpatient_attack"))
    made = editions(making.manifest(SLOT, evidence=evidence), making.protect)
    (note,) = content_from_manifest(made.public, "t", "p").notes
    assert "66 % of the released inpatients correctly by all of their visits; no gate of the policy limits this." in note


@pytest.mark.parametrize("gates", [(), (report.ReportedGate("a", "", 1.0, None, 0.5, False),)])
def test_published_without_passed_gates_is_a_contradiction(gates: tuple) -> None:
    with pytest.raises(ReleaseError, match="a gate did not pass or there are no gates"):
        content(gates=gates)


@pytest.mark.parametrize("count", [11.5, True, "about 20"])
def test_counts_that_cannot_be_protected_are_refused_without_being_told(count: object) -> None:
    with pytest.raises(ReleaseError, match="a count is not protected") as refused:
        report.AttritionRow("eligible_members", "members", 20_000, count)
    assert not re.search(rf"(?<!\w){re.escape(str(count))}(?!\w)", str(refused.value))


def test_numbers_never_flatter() -> None:
    assert shown_bound(0.0080000001, "probability") == "0.801 %"
    assert shown_bound(0.008, "probability") == "0.8 %"
    assert shown_bound(0.00999, "probability", upper=False) == "0.999 %"
    assert shown_bound("T", "members") == "T" and shown_bound(0.0, "probability") == "0 %"
    assert shown(float("nan"), "probability") == "not measured" and shown(None) == "not shown"


def test_the_published_heritage_numbers() -> None:
    """El Emam et al. 2012: .84 % by attack 1, MaxSup .8 %, at most 5.8 % expected; Table 5."""
    rows = heritage_comparison(None, 0.008, expected_reidentified_share(0.008, 0.05))
    assert [(row.heritage, row.here) for row in rows] == [
        ("0.8 %", "0.8 %"),
        ("0.84 %", "not measured"),
        ("5.8 %", "5.8 %"),
    ]
    assert GENERALIZATIONS["AgeAtFirstClaim"] == "10 years, 80+" and GENERALIZATIONS["DSFS"] == "4 weeks"
    assert set(GENERALIZATIONS) == set(HIERARCHIES)


def test_what_the_share_at_high_risk_comes_to_stands_beside_the_published_numbers() -> None:
    policy = policy_by_name("heritage_public")
    shares = high_risk_measurements(
        policy, NodeMeasurement(4_000, 0, 1_000_000), NodeMeasurement(5_000, 0, 1_000_000), "c" * 64, 1
    )
    evidence = (making.evidence(*shares, *exposure_measurements(policy, shares), asset="longitudinal_risk"),)
    public = editions(making.manifest(SLOT, evidence=evidence), making.protect).public
    rows = [(row.heritage, row.here) for row in exposure_comparison(public)]
    assert rows == [("5.8 %", "5.5 % (up to 5.5 %)"), ("0.04 %", "0.025 % (up to 0.026 %)"), ("0.8 %", "0.8 %")]
    nothing = json.dumps({"evidence": []}).encode()
    assert {row.here for row in exposure_comparison(nothing)} == {"not measured"}


@pytest.mark.parametrize("extract", [True, False])
def test_of_an_extract_the_report_tells_both_shares(extract: bool) -> None:
    """The one that gates counts published members; beside it stands what it would be if suppressed ones counted."""
    policy = policy_by_name("desynpuf" if extract else "heritage_public")
    shares = high_risk_measurements(
        policy, NodeMeasurement(7_700, 0, 1_000_000), NodeMeasurement(6_900, 0, 1_000_000), "c" * 64, 1
    )
    of_all = (counted_with_suppressed(NodeMeasurement(6_500, 0, 1_000_000), "c" * 64),) if extract else ()
    evidence = (making.evidence(*shares, *of_all, asset="longitudinal_risk"),)
    public = editions(making.manifest(SLOT, evidence=evidence), making.protect).public
    said = [
        text
        for text in content_from_manifest(public, "Release report", policy.title).limits
        if "counts only the published members" in text
    ]
    if extract:
        (text,) = said
        assert "0.7700%" in text and "0.6500%" in text
    else:
        assert said == []


@pytest.fixture
def both_editions() -> Editions:
    """A manifest as the release makes it."""
    files = (ReleasedFile("data/Claims.csv", "ab" * 32, 1_234, 60, "cd" * 32),)
    slot = Slot("heritage", 7, "0" * 64, "1" * 64, "2024", "2" * 64, "2024-01-01T00:00:07Z", files, "3" * 64)
    of_people = {"unit": "share of members", "value": 0.0013, "bound": 0.0013, "statistic": "value"}
    found = (
        making.evidence(making.measurement(), making.measurement(name="not_gating", gating=False), asset="longitudinal_risk"),
        making.evidence(
            making.measurement(), making.measurement(name="demographic_high_risk_share", **of_people), asset="gate"
        ),
    )
    attrition = (
        AttritionStep("delivered_members", "members", 20_011, shape="a"),
        AttritionStep("members_after_opt_outs", "members", 3, "delivered_members", "opted out", shape="a"),
        AttritionStep("delivered_claims", "claims", 81_234),
    )
    made = making.manifest(slot, evidence=found, attrition=attrition)
    return editions(made, making.protect)


def test_the_public_manifest_fills_the_report(both_editions: Editions) -> None:
    filled = content_from_manifest(both_editions.public, "Release report", "Heritage, public")
    assert [gate.name for gate in filled.gates] == [
        "high risk share",
        "high risk share (on the published files)",
        "demographic high risk share (on the published files)",
    ]
    assert filled.summary.startswith("All 3 measurements")
    assert filled.attrition[1].rows_in == filled.attrition[0].rows_out and filled.attrition[2].rows_out is None
    texts = Page(report.render_report(filled)).texts
    assert {"0.47 %", "data/Claims.csv", "60", "opted out", "no attempt to identify"} <= set(texts)


def test_the_report_holds_no_exact_count_of_people(both_editions: Editions) -> None:
    """Only what the public edition tells: not the exact attrition, nor the exact share of members."""
    page = Page(report.render_report(content_from_manifest(both_editions.public, "Release report", "Heritage, public")))
    assert b"20011" in both_editions.restricted and b"20011" not in both_editions.public
    assert b"81234" in both_editions.restricted and b"81234" not in both_editions.public
    assert not {"20,011", "3", "81,234"} & set(page.texts) and "not shown" in page.texts
    told = json.loads(both_editions.public)["evidence"][1]["measurements"][1]
    assert f"about {shown(told['value'], told['unit'])}" in page.texts, "it has noise"


def test_the_restricted_manifest_does_not_fill_the_report(both_editions: Editions) -> None:
    with pytest.raises(ReleaseError, match="public edition"):
        content_from_manifest(both_editions.restricted, "Release report", "Heritage, public")


class TestOneScreenToDecideOn:
    """What is seen before anything is opened: remarks, and the worst numbers as bars; everything else is folded."""

    ROWS = tuple(
        report.AdversaryRow(f"attack {place}", "Somebody.", "success", f"{90 - place} %", "none", "nobody", 0.9 - place / 100,
                     None if place else 0.95)
        for place in range(7)
    )  # fmt: skip

    def page(self, **changed) -> str:
        return report.render_report(content(adversaries=self.ROWS, **changed)).decode()

    def test_remarks_stand_before_the_sentence_about_the_gates(self):
        page = self.page(remarks=("A person overruled: all.",), summary="The other 2 are within.")
        assert page.index("A person overruled: all.") < page.index("The other 2 are within.") < page.index('id="worst"')

    def test_five_adversaries_are_open_and_the_others_folded(self):
        page = self.page()
        shown, folded = page.split("<details>", 1)
        assert [f"attack {place}<" in shown for place in range(7)] == [True] * 5 + [False] * 2
        assert "The other 2 adversaries: at most 85 %" in folded

    def test_a_bar_is_as_long_as_the_number_and_hatched_without_a_limit(self):
        page = self.page()
        assert '<span class="bar" aria-hidden="true"><span style="width:90.0%"></span><i style="left:95.0%"></i>' in page
        assert '<span class="bar open" aria-hidden="true"><span style="width:89.0%"></span></span>' in page

    def test_nothing_else_is_open(self):
        assert "<details open" not in self.page()


def test_gates_nearest_to_their_limits_come_first_and_many_are_left_to_the_table():
    gates = [
        *(report.ReportedGate(f"gate {place}", "", place / 100, None, 1.0, True) for place in range(1, 20)),
        report.ReportedGate("by its bound", "", 0.1, 0.97, 1.0, True),
        report.ReportedGate("at least", "", 40, None, 20, True, "members", "at_least"),
        report.ReportedGate("nothing", "", 0.0, None, 1.0, True),
        report.ReportedGate("hidden", "", "T", None, 20, True),
        report.ReportedGate("canaries", "", 1.0, None, 1.0, True, comparison="at_least", group="canaries"),
    ]
    found = report.nearest_gates(gates)
    assert len(found) == report.NEAREST and [gate.name for gate, _ in found[:3]] == ["by its bound", "at least", "gate 19"]
    assert [used for _, used in found[:3]] == [0.97, 0.5, 0.19]

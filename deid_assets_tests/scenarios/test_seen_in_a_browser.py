"""The pages that people look at, in headless Chromium: what they show, that they fit, and that the browser has no complaint.

Screenshots lie in the temporary folder of the test run, for people to look at.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import expect

from deid_assets.automation.instance import dagster_instance
from deid_assets.policy.loading import policy_called
from deid_assets.release.published_tables import published_tables
from deid_assets.resources import STORE_TAG
from deid_assets.stages import stages_of
from deid_assets.store.home import Home
from deid_assets_tests.scenarios.browser import DESKTOP, NEEDS_CHROMIUM, PHONE, WAIT_MS, Seen, a_page, chromium
from deid_assets_tests.scenarios.command_line import PUBLISHED, deid_here
from deid_assets_tests.scenarios.operated import FIRST, SECOND, THIRD, Operated
from deid_assets_tests.webserver import Ui, opened

pytestmark = [pytest.mark.matrix, NEEDS_CHROMIUM]
SIZES = {"desktop": DESKTOP, "phone": PHONE}


@pytest.fixture(scope="module")
def browser():
    with chromium() as started:
        yield started


@pytest.fixture(scope="module")
def screenshots(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("screenshots")


@pytest.fixture
def seen(browser, screenshots, request) -> Iterator[Seen]:
    """An empty page; whatever the browser complained about fails the test."""
    size = SIZES[request.node.callspec.params["size"]] if hasattr(request.node, "callspec") else DESKTOP
    with a_page(browser, screenshots, size) as page:
        yield page
        assert page.complaints == []


@pytest.mark.parametrize("size", SIZES)
def test_the_report_shows_its_verdict_first_fits_and_describes_its_figures(published, seen, size):
    seen.opens((published.release / "report.html").as_uri())
    seen.shows("Release under the policy small", "published")
    assert seen.page.get_by_text("measurements that could refuse").bounding_box()["y"] < SIZES[size][1] / 2
    seen.keeps(f"report-{size}")
    assert seen.wider_than_the_window == 0
    figures = seen.page.locator("img").all()
    assert len(figures) >= 3
    for figure in figures:
        assert len(figure.get_attribute("alt")) > 5
        assert figure.evaluate("image => image.complete && image.naturalWidth > 0")
    headings = seen.page.locator("h1, h2, h3").all_inner_texts()
    assert headings[0] == "Release under the policy small" and "Gates" in headings


@pytest.fixture(scope="module")
def ui(operated: Operated, tmp_path_factory) -> Iterator[Ui]:
    """`deid ui` on a copy of the home that was operated for three deliveries: its daemon works on."""
    with opened(operated.copied_to(tmp_path_factory.mktemp("seen") / "deid")) as running:
        yield running


class TestTheUi:
    def test_the_catalog_shows_the_assets_of_the_policy_in_use_and_no_others(self, ui, seen):
        seen.opens(f"{ui.url}/assets")
        seen.shows("small / adversary_power", "small/adversary", "3 partitions")
        assert "heritage_public" not in seen.text()
        seen.keeps("catalog")

    def test_the_release_shows_what_it_is_and_what_happens_to_it_by_itself(self, ui, seen):
        seen.opens(f"{ui.url}/assets/small/release")
        seen.shows("The published release: staged, measured again, judged", "privacy", "Latest check results", "registry_head")
        seen.shows("release_small", "At 06:00 AM UTC, only on Monday")
        seen.keeps("release")
        seen.page.get_by_role("button", name="2 sensors").click()
        seen.shows("deliveries_of_small", "overtaken_runs")

    def test_the_lineage_of_the_release_shows_its_stages_and_the_tables_that_it_publishes(self, ui, seen):
        policy = policy_called("small", Home(ui.root).policies)
        shown = {*stages_of(policy), *published_tables(policy)}
        seen.opens(f"{ui.url}/assets/small/release?view=lineage")
        nodes = seen.page.locator("svg foreignObject")
        for name in shown:
            expect(nodes.get_by_text(name, exact=True).last).to_be_visible(timeout=WAIT_MS)
        assert {*nodes.all_text_contents()} - {""} == {"small", *shown}, "a release has no other neighbors"
        seen.shows("Nearest Neighbors")
        seen.keeps("lineage")

    def test_a_blocked_release_shows_the_refused_checks_with_their_numbers(self, ui, seen, operated: Operated):
        with dagster_instance(operated.home) as instance:
            runs = instance.get_runs()
        (refused,) = [run for run in runs if run.tags.get(STORE_TAG) == f"small/{SECOND}" and run.status.value == "FAILURE"]
        seen.opens(f"{ui.url}/runs")
        seen.shows(refused.run_id[:8], "Failure", "refused for privacy", "published")
        seen.keeps("runs")
        check = "linked_high_risk_share_within_threshold"
        seen.opens(f"{ui.url}/runs/{refused.run_id}?logs=step%3Asmall__cross_release_risk_checks")
        seen.shows(check)
        seen.keeps("blocked-run")
        path = f"assets/small/cross_release_risk?view=checks&checkDetail={check}"
        seen.opens(f"{ui.url}/{path}")
        seen.shows(check, "blocking", "measured", "threshold", "0.015")
        seen.keeps("check")

    def test_the_history_of_a_check_shows_every_delivery_and_the_refusal(self, ui, seen):
        check = "linked_high_risk_share_within_threshold"
        seen.opens(f"{ui.url}/assets/small/cross_release_risk?view=checks&checkDetail={check}")
        seen.page.get_by_role("tab", name="Execution history").click()
        seen.shows(FIRST, SECOND, THIRD, "Failed", "Passed")
        seen.keeps("check-history")
        seen.page.locator("tr", has_text="Failed").get_by_role("button").last.click()
        seen.shows("upper_bound", "measured", "threshold", "0.015")
        seen.keeps("refused-check")

    def test_the_automation_page_shows_sensors_and_schedules_with_their_states(self, ui, seen):
        seen.opens(f"{ui.url}/automation")
        seen.shows("deliveries_of_small", "rerelease_small", "freshness_small", "refusal_report", "overtaken_runs")
        seen.shows("Standard sensor", "Run status sensor", "At 06:00 AM UTC, only on Monday", "At 05:00 AM UTC")
        switches = seen.page.get_by_role("switch")
        assert switches.count() == 0 or all(switch.is_checked() for switch in switches.all())
        seen.keeps("automation")

    def test_the_schedule_says_why_it_did_what_it_did(self, ui, seen):
        seen.opens(f"{ui.url}/locations/deid_assets/schedules/rerelease_small")
        seen.shows("Releases the newest delivery of small again if its policy, its methods or the delivery changed")
        seen.shows("1 run requested")
        seen.keeps("schedule")


@pytest.mark.parametrize("size", SIZES)
def test_the_audit_shows_that_the_release_is_in_order_and_the_refusal_before_it(operated: Operated, seen, size):
    code, _ = deid_here(operated.root, "audit", "small/0002")
    assert code == PUBLISHED
    seen.opens((operated.home.store / "manifests" / "small" / "0002.audit.html").as_uri())
    seen.shows("RESTRICTED", "Audit of release small/0002", "in order", "Earlier runs of this policy and delivery")
    assert "linked high risk share within threshold: " in seen.text() and "against 0.015" in seen.text()
    seen.keeps(f"audit-{size}")
    assert seen.wider_than_the_window == 0
    (graph,) = seen.page.locator("img").all()
    assert "release" in graph.get_attribute("alt")


@pytest.mark.parametrize("size", SIZES)
def test_the_report_of_a_refusal_shows_its_verdict_and_fits(operated: Operated, seen, size):
    seen.opens(operated.refused_report.as_uri())
    seen.shows("Refused under the policy small", "refused")
    seen.keeps(f"refused-{size}")
    assert seen.wider_than_the_window == 0

"""Pages as a person sees them: headless Chromium, what it shows, and what it complains about."""

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from deid_assets_tests.processes import WAIT

CHROMIUM = next((found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None)
NEEDS_CHROMIUM = pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: `apt-get install chromium`")

DESKTOP, PHONE = (1400, 1000), (390, 844)
WAIT_MS = WAIT * 1_000
"""How long a page may take to show something; on two idle cores it is a second or two."""

_FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
)  # fmt: skip


@dataclass
class Seen:
    """A page that is open, and what the browser complained about.

    Attributes
    ----------
    complaints
        Errors on the console, uncaught exceptions, and requests that failed.
    """

    page: Page
    screenshots: Path
    complaints: list[str] = field(default_factory=list)

    def opens(self, url: str) -> None:
        self.page.goto(url, timeout=WAIT_MS)

    def shows(self, *texts: str) -> None:
        """Wait until every text is visible."""
        for text in texts:
            expect(self.page.get_by_text(text).filter(visible=True).first).to_be_visible(timeout=WAIT_MS)

    def text(self) -> str:
        """All that is visible."""
        return self.page.locator("body").inner_text()

    def keeps(self, name: str) -> None:
        """Keep a screenshot, for people to look at."""
        self.page.screenshot(path=self.screenshots / f"{name}.png", full_page=True)

    @property
    def wider_than_the_window(self) -> float:
        """By how many pixels the page scrolls sideways."""
        return self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=list(_FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def a_page(browser: Browser, screenshots: Path, size: tuple[int, int] = DESKTOP) -> Iterator[Seen]:
    """An empty page in a session of its own."""
    context = browser.new_context(viewport={"width": size[0], "height": size[1]})
    context.set_default_timeout(WAIT_MS)
    page = context.new_page()
    seen = Seen(page, screenshots)
    page.on("console", lambda said: seen.complaints.append(said.text) if said.type == "error" else None)
    page.on("pageerror", lambda error: seen.complaints.append(str(error)))
    # What was asked for when the page was left is no failure.
    page.on(
        "requestfailed",
        lambda request: (
            None if "ERR_ABORTED" in str(request.failure) else seen.complaints.append(f"{request.url}: {request.failure}")
        ),
    )
    try:
        yield seen
    finally:
        context.close()

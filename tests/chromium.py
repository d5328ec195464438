"""Chromium for tests: one browser, in which each test has profiles of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from playwright.sync_api import Browser, BrowserContext, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from tests.programs import require_program

FLAGS: Final = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync"
)
SETTLED: Final = 5_000
"""Milliseconds for which a page that is still loading is waited for at the end of a test."""


@contextmanager
def running_chromium() -> Iterator[Browser]:
    """A browser. While Playwright runs, no asynchronous test can."""
    program = require_program("chromium", package="chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=FLAGS.split())
        yield browser
        browser.close()


def close_pages(context: BrowserContext) -> None:
    """Close what the test opened; the empty profile ends with the browser.

    Closed in the middle of a navigation, pages and profiles were seen never to end.
    """
    for page in context.pages:
        with suppress(PlaywrightError):
            page.wait_for_load_state(timeout=SETTLED)
            page.goto("about:blank", timeout=SETTLED)
        page.close()

"""Chromium for tests: one browser for each worker, in which each test has profiles of its own."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Timer
from typing import Any, Final

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, Playwright, expect, sync_playwright
from playwright.sync_api import Error as PlaywrightError

from tests.programs import require_npm_package, require_program

PROGRAM: Final = os.environ.get("CHROMIUM") or "chromium-headless-shell"
"""The program, which is also the name of its Debian package; CHROMIUM=chromium for the whole one.

It shows a page in a quarter of the processor time that the whole one needs.
"""
MARK: Final = f"--tests-of={os.getpid()}"
"""On the command lines of this worker's browser, which does not know this flag."""
FLAGS: Final = (
    "--no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    f"--disable-component-update --disable-sync {MARK}"
)
PATIENCE: Final = 30_000
"""Milliseconds for what a page is expected to show: a busy computer is no fault of the page."""
LONGEST_END: Final = 30.0
"""Seconds for a browser to close a page or a profile, which Playwright waits for without limit."""

# Neither the selector of each element nor the rules that hold, which nobody looks at.
VIOLATIONS: Final = """axe.run({ resultTypes: ["violations"], selectors: false, preload: false })
  .then(({ violations }) => violations)"""


class Chromium:
    """The browser of one worker, started when a test needs it and after it has crashed."""

    def __init__(self, playwright: Playwright) -> None:
        self._playwright = playwright
        self._loop = asyncio.get_running_loop()
        self._browser: Browser | None = None
        asyncio.events._set_running_loop(None)

    @contextmanager
    def used(self) -> Iterator[Browser]:
        """The browser. What the block leaves open is closed.

        Playwright's loop runs on this thread from its start to its end. Between two blocks it
        stands still, and asynchronous tests have loops of their own.
        """
        asyncio.events._set_running_loop(self._loop)
        try:
            browser = self._connected()
            yield browser
            for context in browser.contexts:
                close_context(context)
        finally:
            asyncio.events._set_running_loop(None)

    def close(self) -> None:
        """Ends the browser; afterwards Playwright can end."""
        asyncio.events._set_running_loop(self._loop)
        if self._browser is not None:
            with ending():
                self._browser.close()

    def _connected(self) -> Browser:
        if self._browser is None or not self._browser.is_connected():
            program = require_program(PROGRAM, package=PROGRAM)
            launch = self._playwright.chromium.launch
            self._browser = launch(executable_path=program, args=FLAGS.split())
        return self._browser


@contextmanager
def chromium_of_worker() -> Iterator[Chromium]:
    """A browser that several files use one after the other."""
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        chromium = Chromium(playwright)
        yield chromium
        chromium.close()


@contextmanager
def profile(browser: Browser, **options: Any) -> Iterator[BrowserContext]:
    """A profile for the block."""
    context = browser.new_context(**options)
    try:
        yield context
    finally:
        close_context(context)


def close_context(context: BrowserContext) -> None:
    """Close what a test opened, all at once.

    A page that is closed by itself in the middle of a navigation was seen never to end.
    """
    with ending():
        context.close()


@contextmanager
def ending() -> Iterator[None]:
    """Fails the test and kills the browser, which the next file starts anew, if the block waits."""
    killed: list[int] = []

    def kill() -> None:
        killed.extend(browser_processes())
        for process in killed:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)

    limit = Timer(LONGEST_END, kill)
    limit.start()
    try:
        yield
    except PlaywrightError:  # of the end of the browser
        if not killed:
            raise
    finally:
        limit.cancel()
        limit.join()
    if killed:
        pytest.fail(f"Chromium did not close a page or a profile within {LONGEST_END} s")


def browser_processes() -> Iterator[int]:
    """The processes of this worker's browser that have its command line; they end the others."""
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # it has ended
            if MARK.encode() in (process / "cmdline").read_bytes().split(b"\0"):
                yield int(process.name)


def violations(page: Page) -> list[str]:
    """The rules of axe that the page breaks, each with the elements that do."""
    if not page.evaluate("'axe' in window"):
        page.evaluate((require_npm_package("axe-core") / "axe.min.js").read_text())
    found = page.evaluate(VIOLATIONS)
    return [f"{rule['id']}: {[node['html'] for node in rule['nodes']]}" for rule in found]

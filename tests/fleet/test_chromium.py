"""The page of the fleet in Chromium: what it shows while parts are ended and started."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect

from examples.fleet.fleet import Fleet
from tests.chromium import close_context

PATIENCE = 60_000
"""Milliseconds: a busy computer is no fault of the page."""


@pytest.fixture
def page(fleet: Fleet, chromium: Browser) -> Iterator[Page]:
    page = chromium.new_page(ignore_https_errors=True)
    faults: list[str] = []
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.set_default_timeout(PATIENCE)
    page.goto(f"{fleet.url}/fleet")
    yield page
    close_context(page.context)
    assert faults == []


def told(page: Page, what: str) -> None:
    expect(page.locator("#news")).to_contain_text(what, timeout=PATIENCE)


def test_the_page_tells_what_happens(fleet: Fleet, page: Page) -> None:
    told(page, "Nobody is signed in.")
    page.get_by_role("link", name="Sign in").click()
    page.get_by_role("button", name="Alice").click()
    told(page, "session of alice, refreshed")
    expect(page.get_by_role("link", name="Sign in")).to_be_hidden(timeout=PATIENCE)
    for worker in fleet.workers:
        told(page, f"{worker.name} answers (process {worker.pid})")

    worker = fleet.workers[0]
    worker.restart()
    told(page, f"{worker.name} was started again (process {worker.pid})")

    fleet.redis.kill()
    told(page, "Redis does not answer")
    told(page, "No session can be read: 503, again after")
    fleet.redis.start()
    expect(page.locator("#workers")).not_to_contain_text("does not answer", timeout=PATIENCE)
    expect(page.locator("#session")).to_contain_text("Alice Admin (alice)", timeout=PATIENCE)

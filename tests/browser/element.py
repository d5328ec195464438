"""What tests ask a page about its `<oidc-context>`."""

import time
from collections.abc import Callable
from typing import Final

from playwright.sync_api import Page, expect

from tests.browser.site import Site

PATIENCE: Final = 30.0
"""Seconds: a busy computer is no fault of the element."""

SESSION_ASKED: Final = "GET /auth/session"

EVENTS = ["oidc-change", "oidc-expired", "oidc-idle", "oidc-revoked"]
RECORD_EVENTS = f"""
window.seen = []
for (const type of {EVENTS}) {{
  addEventListener(type, ({{ detail }}) => seen.push({{ type, ...detail }}))
}}
"""

HIDE: Final = """hidden => {
  Object.defineProperty(document, 'hidden', { value: hidden, configurable: true })
  document.dispatchEvent(new Event('visibilitychange', { bubbles: true }))
}"""


def opened(page: Page, site: Site, attributes: str = "", *, status: str = "authenticated") -> Page:
    """The page with an element of these attributes, once the element has `status`."""
    site.attributes = attributes
    page.goto(site.origin)
    expect_status(page, status)
    return page


def expect_status(page: Page, status: str) -> None:
    """Waits until the element has `status`."""
    expect(page.locator("oidc-context")).to_have_attribute("status", status)


def member(page: Page, name: str) -> object:
    """A property of the element."""
    value: object = page.locator("oidc-context").evaluate("(element, name) => element[name]", name)
    return value


def eventually(page: Page, holds: Callable[[], bool], *, seconds: float = PATIENCE) -> None:
    """Waits until `holds`; the page's strict policy forbids Playwright's own way to wait."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "it never came true"
        page.wait_for_timeout(20)


def standing_still(page: Page) -> None:
    """From now on the page's clock goes only as far as a test lets it run."""
    page.clock.install()
    page.clock.pause_at(time.time() + 60)


def revalidate(page: Page) -> object:
    """The status after the element has asked the server."""
    status: object = page.locator("oidc-context").evaluate("element => element.revalidate()")
    return status


def events(page: Page, kind: str = "") -> list[dict[str, object]]:
    """The events so far on this page, all or those of one kind."""
    seen: list[dict[str, object]] = page.evaluate("seen")
    return [event for event in seen if kind in ("", event["type"])]

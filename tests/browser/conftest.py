"""Chromium, and pages that fail a test when they complain."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext, Page

from tests.browser.element import RECORD_EVENTS
from tests.browser.site import Site
from tests.chromium import close_context
from tests.oidc.real_op.serving import free_socket, serving


@pytest.fixture
def site() -> Iterator[Site]:
    """A site on a socket of its own."""
    site = Site()
    with free_socket() as (listener, site.origin), serving(site.app, listener):
        yield site


@pytest.fixture
def tolerated() -> list[str]:
    """Patterns of complaints that the test causes on purpose, whenever they come."""
    return []


@pytest.fixture
def context(chromium: Browser, tolerated: list[str], site: object) -> Iterator[BrowserContext]:
    """An empty profile, closed before `site` ends.

    What its pages complain about fails the test, unless it is tolerated: errors in the console,
    uncaught exceptions and violations of their policy.
    """
    complaints: list[str] = []
    context = chromium.new_context()
    context.add_init_script(RECORD_EVENTS)
    context.on("weberror", lambda error: complaints.append(str(error.error)))
    context.on(
        "console",
        lambda message: complaints.append(message.text) if message.type == "error" else None,
    )
    yield context
    found = list(complaints)
    close_context(context)
    wanted = re.compile("|".join(tolerated) or "(?!)")
    assert [text for text in found if not wanted.search(text)] == []


@pytest.fixture
def tolerate(tolerated: list[str]) -> Callable[[str], None]:
    """Lets complaints that match a pattern pass."""
    return tolerated.append


@pytest.fixture
def page(context: BrowserContext) -> Page:
    """An empty page."""
    return context.new_page()

"""How often the provider's iframe is believed when it says `changed`."""

from collections.abc import Callable, Iterator
from functools import partial

import pytest
from playwright.sync_api import Frame, Page

from tests.browser.element import (
    PATIENCE,
    eventually,
    expect_status,
    member,
    opened,
    standing_still,
)
from tests.browser.site import Site, signed_in
from tests.browser.watched_provider import SILENT_LOGIN, answering, asked, monitored, say, watched


@pytest.fixture(autouse=True)
def provider(site: Site) -> Iterator[None]:
    """A provider that says `unchanged` until told otherwise."""
    with watched(site):
        yield


def test_a_browser_that_begins_to_block_them_loses_one_session_at_most(
    page: Page, site: Site
) -> None:
    site.silent = "authorization.refused"
    say(monitored(page, site), "changed")
    expect_status(page, "revoked")
    site.session = signed_in(session_state="state.2", expires_at=2**31)
    answering(site, "changed")
    opened(page, site)
    eventually(page, lambda: member(page, "monitoring") == "stopped")
    assert site.asked(SILENT_LOGIN) == 1
    assert member(page, "isAuthenticated") is True


def test_changed_does_not_hurry_a_server_that_is_down(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    tolerate("status of 503")
    standing_still(page)
    frame = monitored(page, site, "revalidate-interval=0")
    site.session_status = 503
    say(frame, "changed")
    requests = site.asked("GET /auth/session")
    polls = len(asked(frame)) + 12
    eventually(page, partial(was_asked, page, frame, polls), seconds=3 * PATIENCE)
    assert site.asked("GET /auth/session") - requests <= 6
    assert site.asked(SILENT_LOGIN) == 0


def was_asked(page: Page, frame: Frame, times: int) -> bool:
    """Whether the provider was asked so often; lets time go by unless an answer is on its way."""
    if member(page, "monitoring") == "watching":
        page.clock.run_for(1000)
    return len(asked(frame)) >= times

"""The application's own endpoint, which may say that the session is over."""

import time
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.browser.element import events, expect_status, member, opened, revalidate, standing_still
from tests.browser.site import EIGHT_HOURS, NOBODY, Site, signed_in

HEARTBEAT = 'heartbeat-url="/heartbeat"'


def beating(page: Page, site: Site, attributes: str = HEARTBEAT) -> None:
    """The page, when no heartbeat is under way that a next check would wait for and not repeat.

    Its clock stands still: it asks when it is told to.
    """
    standing_still(page)
    opened(page, site, attributes)
    revalidate(page)


def test_it_carries_the_newest_csrf_token(page: Page, site: Site) -> None:
    beating(page, site)
    assert set(site.csrf_tokens) == {"token-1"}
    site.session = {**site.session, "csrf_token": "token-2"}
    revalidate(page)
    assert site.csrf_tokens[-1] == "token-2"


def test_a_refusal_ends_the_local_session(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    tolerate("status of 40[13]")
    beating(page, site)
    for count, status in enumerate((401, 403), start=1):
        site.session = signed_in(sub=f"alice {count}")
        site.heartbeat_status = 204
        assert revalidate(page) == "authenticated"
        site.heartbeat_status = status
        assert revalidate(page) == "revoked"
        assert site.forms == [{"local": ["1"]}] * count
        ended = [{"type": "oidc-revoked", "reason": "heartbeat"}]
        assert events(page, "oidc-revoked") == ended * count


def test_the_page_goes_where_the_attribute_says_after_the_session_ended(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    site.heartbeat_status = 401
    site.attributes = f'{HEARTBEAT} redirect-on-revoked="/bye"'
    page.goto(site.origin)
    expect(page).to_have_url(site.origin + "/bye")
    expect_status(page, "anonymous")
    assert site.asked("POST /auth/logout") == 1
    tolerate("status of 401")


def test_any_other_failure_changes_nothing_and_an_endpoint_that_is_not_there_is_told(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    tolerate("status of (40[45]|500|503)")
    tolerate("oidc-context: ")
    told: list[str] = []
    page.on("console", lambda message: told.append(message.text))
    beating(page, site)
    for status in (404, 405, 500, 503):
        site.heartbeat_status = status
        beats = site.asked("POST /heartbeat")
        assert revalidate(page) == "authenticated"
        assert site.asked("POST /heartbeat") == beats + 1
        assert site.forms == []
    assert "oidc-context: POST /heartbeat is answered with 405" in told


def test_nobody_has_no_heartbeat(page: Page, site: Site) -> None:
    site.session = NOBODY
    opened(page, site, HEARTBEAT, status="anonymous")
    revalidate(page)
    assert site.asked("POST /heartbeat") == 0


def test_a_session_that_the_server_could_not_end_does_not_come_back(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    site.logout_status = 503
    beating(page, site, f'{HEARTBEAT} redirect-on-revoked="reload"')
    site.heartbeat_status = 403
    assert revalidate(page) == "revoked"
    assert revalidate(page) == "revoked"
    assert site.session != NOBODY
    site.logout_status = 303
    assert revalidate(page) == "revoked"
    assert site.session == NOBODY
    assert site.asked("GET /") == 1
    tolerate("status of (403|503)")


@pytest.mark.parametrize("sub", ["alice", "bob"])
def test_who_signs_in_in_another_tab_meanwhile_stays_signed_in(
    page: Page, site: Site, sub: str, tolerate: Callable[[str], None]
) -> None:
    site.logout_status = 503
    beating(page, site)
    site.heartbeat_status = 403
    assert revalidate(page) == "revoked"
    site.logout_status, site.heartbeat_status = 303, 204
    site.session = signed_in(sub=sub, expires_at=int(time.time()) + 2 * EIGHT_HOURS)
    assert revalidate(page) == "authenticated"
    assert revalidate(page) == "authenticated"
    assert len(site.forms) == 1, "the one that failed"
    tolerate("status of (403|503)")


def test_no_heartbeat_goes_to_another_origin(
    page: Page, site: Site, tolerate: Callable[[str], None]
) -> None:
    elsewhere = site.origin.replace("127.0.0.1", "localhost")
    opened(page, site, f'heartbeat-url="{elsewhere}/heartbeat"')
    revalidate(page)
    assert site.asked("POST /heartbeat") == 0
    assert member(page, "isAuthenticated") is True
    tolerate("heartbeat")

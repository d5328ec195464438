"""Watching the provider's iframe, and the silent login when it says `changed`."""

import time
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Page

from tests.browser.element import events, eventually, expect_status, member, opened, revalidate
from tests.browser.site import NOBODY, Site, signed_in
from tests.browser.watched_provider import (
    SILENT_LOGIN,
    answering,
    asked,
    monitored,
    provider_frame,
    say,
    wait_for_checks,
    watched,
)


@pytest.fixture(autouse=True)
def provider(site: Site) -> Iterator[None]:
    """A provider that says `unchanged` until told otherwise."""
    with watched(site):
        yield


def test_the_provider_is_asked_with_client_id_and_session_state_while_the_element_is_there(
    page: Page, site: Site
) -> None:
    frame = monitored(page, site)
    assert frame.evaluate("received[0]") == ["app state.1", site.origin]
    eventually(page, lambda: len(asked(frame)) > 1)
    assert member(page, "monitoring") == "watching"
    assert site.asked(SILENT_LOGIN) == 0
    page.evaluate("document.querySelector('oidc-context').remove()")
    eventually(page, lambda: len(page.frames) == 1)


def test_changed_with_the_same_user_takes_the_new_session_state(page: Page, site: Site) -> None:
    site.session_after_check = {**site.session, "session_state": "state.2"}
    frame = monitored(page, site)
    say(frame, "changed")
    eventually(page, lambda: "app state.2" in asked(frame))
    say(frame, "unchanged")
    page.wait_for_timeout(1500)
    assert site.asked(SILENT_LOGIN) == 1
    assert member(page, "isAuthenticated") is True
    assert member(page, "monitoring") == "watching"
    assert [event["status"] for event in events(page, "oidc-change")] == ["authenticated"] * 2


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        ("authorization.other_user", "other_user"),
        ("authorization.refused", "provider"),
    ],
)
def test_changed_with_another_user_or_a_refusal_ends_the_local_session(
    page: Page, site: Site, answer: str, reason: str
) -> None:
    site.silent = answer
    say(monitored(page, site), "changed")
    expect_status(page, "revoked")
    eventually(page, lambda: events(page, "oidc-revoked") != [])
    assert events(page, "oidc-revoked") == [{"type": "oidc-revoked", "reason": reason}]
    assert site.forms == [{"local": ["1"]}]
    assert site.session == NOBODY
    eventually(page, lambda: len(page.frames) == 1)


def test_a_failure_that_says_nothing_keeps_the_session(page: Page, site: Site) -> None:
    site.silent = "provider.unreachable"
    frame = monitored(page, site)
    say(frame, "changed")
    wait_for_checks(page, site, 1)
    questions = len(asked(frame))
    eventually(page, lambda: len(asked(frame)) > questions + 1)
    assert site.asked(SILENT_LOGIN) == 1
    assert member(page, "isAuthenticated") is True
    assert member(page, "monitoring") == "watching"


def test_a_silent_login_without_an_answer_is_given_up(page: Page, site: Site) -> None:
    page.clock.install()
    site.silent = None
    say(monitored(page, site), "changed")
    page.clock.run_for(1000)
    eventually(page, lambda: site.asked(SILENT_LOGIN) == 1)
    assert member(page, "monitoring") == "checking"
    page.clock.run_for(16_000)
    eventually(page, lambda: member(page, "monitoring") == "watching")
    assert member(page, "isAuthenticated") is True
    eventually(page, lambda: len(page.frames) == 2)


def test_error_stops_the_monitoring_until_the_next_login(page: Page, site: Site) -> None:
    say(monitored(page, site), "error")
    eventually(page, lambda: member(page, "monitoring") == "stopped")
    eventually(page, lambda: len(page.frames) == 1)
    assert site.asked(SILENT_LOGIN) == 0
    assert member(page, "isAuthenticated") is True
    site.session = signed_in(session_state="state.2", expires_at=2**31)
    assert revalidate(page) == "authenticated"
    frame = provider_frame(page, site)
    eventually(page, lambda: "app state.2" in asked(frame))


@pytest.mark.parametrize(("path", "answer"), [("/check", ""), ("/unframed", "unchanged")])
def test_a_provider_that_never_answers_is_not_watched(
    page: Page, site: Site, tolerate: Callable[[str], None], path: str, answer: str
) -> None:
    tolerate("X-Frame-Options")
    answering(site, answer, path=path)
    page.clock.install()
    opened(page, site)
    eventually(page, lambda: member(page, "monitoring") == "watching")
    eventually(page, lambda: run_for_a_second(page) == "stopped")
    assert len(page.frames) == 1
    assert site.asked(SILENT_LOGIN) == 0
    assert member(page, "isAuthenticated") is True


def test_one_answer_in_three_is_enough(page: Page, site: Site) -> None:
    page.clock.install()
    frame = monitored(page, site)
    page.clock.pause_at(time.time() + 60)  # a slow computer must not count as silence
    for _ in range(4):
        say(frame, "")
        page.clock.run_for(2000)
        page.wait_for_timeout(100)
        say(frame, "unchanged")
        page.clock.run_for(1000)
        page.wait_for_timeout(100)
    assert member(page, "monitoring") == "watching"


def run_for_a_second(page: Page) -> object:
    page.clock.run_for(1000)
    return member(page, "monitoring")


def test_messages_from_elsewhere_are_ignored(page: Page, site: Site) -> None:
    frame = monitored(page, site)
    page.evaluate("postMessage('changed', location.origin)")
    frame.evaluate("parent.postMessage({ type: 'oidc-silent', outcome: 'other_user' }, '*')")
    page.evaluate(
        """async origin => {
          const frame = document.createElement('iframe')
          frame.src = origin + '/check'
          document.body.append(frame)
          await new Promise(resolve => frame.addEventListener('load', resolve))
        }""",
        site.provider_origin,
    )
    page.frames[-1].evaluate("parent.postMessage('changed', '*')")
    page.wait_for_timeout(500)
    assert site.asked(SILENT_LOGIN) == 0
    assert member(page, "monitoring") == "watching"


def test_a_page_cannot_answer_for_the_silent_login(page: Page, site: Site) -> None:
    site.silent = None
    frame = monitored(page, site)
    say(frame, "changed")
    eventually(page, lambda: member(page, "monitoring") == "checking")
    page.wait_for_timeout(300)
    for speaker in (page.main_frame, frame):
        speaker.evaluate("parent.postMessage({ type: 'oidc-silent', outcome: 'other_user' }, '*')")
    page.wait_for_timeout(300)
    assert member(page, "monitoring") == "checking"
    assert member(page, "isAuthenticated") is True


def test_two_tabs_check_once(page: Page, site: Site) -> None:
    site.session_after_check = {**site.session, "session_state": "state.2"}
    other = page.context.new_page()
    frames = [monitored(page, site), monitored(other, site)]
    for frame in frames:
        say(frame, "changed")
    eventually(page, lambda: all("app state.2" in asked(frame) for frame in frames))
    assert site.asked(SILENT_LOGIN) == 1


def test_without_a_session_state_nobody_asks_for_the_configuration(page: Page, site: Site) -> None:
    site.session = signed_in()
    opened(page, site)
    page.wait_for_timeout(300)
    assert site.asked("GET /auth/session-management") == 0

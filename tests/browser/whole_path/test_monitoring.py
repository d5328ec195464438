"""What happens here when something happens at the provider: its own iframe, its own answers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Page

from fastapi_oidc.testing import SignedIn
from tests.browser.element import PATIENCE, events, eventually, expect_status, member
from tests.browser.watched_provider import has_stopped, is_believed, poll
from tests.browser.whole_path.world import World, running_world

CHANGED_FROM_THEN_ON = """<!doctype html><title>Cookies that are blocked</title><script>
let answer = 'unchanged'
addEventListener('message', ({ source, origin }) => {
  source.postMessage(answer, origin)
  answer = 'changed'
})
</script>"""


@pytest.fixture
def site() -> Iterator[World]:
    """A provider that tells the app nothing by itself: only the iframe can."""
    with running_world(back_channel=False) as world:
        yield world


def signed_in_and_watched(page: Page, world: World) -> None:
    page.clock.install()
    world.sign_in(page)
    eventually(page, lambda: is_believed(page))


def logins(world: World) -> list[str]:
    """Who signed in at the app, oldest first."""
    return [login.sub for login in world.provider.record.of(SignedIn) if login.client_id == "app"]


def test_only_changed_refreshes_the_session_of_the_same_user(page: Page, world: World) -> None:
    signed_in_and_watched(page, world)
    poll(page)
    assert logins(world) == ["alice"]
    assert member(page, "monitoring") == "watching"
    before = member(page, "session")
    world.forget_browser_state(page)
    poll(page)
    eventually(page, lambda: logins(world) == ["alice", "alice"])
    eventually(page, lambda: member(page, "monitoring") == "watching")
    after = member(page, "session")
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    assert after["session_state"] != before["session_state"]
    assert after["expires_at"] == before["expires_at"]
    poll(page)
    assert logins(world) == ["alice", "alice"]
    assert member(page, "monitoring") == "watching"


def test_another_user_at_the_provider_ends_the_local_session(page: Page, world: World) -> None:
    signed_in_and_watched(page, world)
    world.sign_in_elsewhere(page, "Bob")
    poll(page)
    expect_status(page, "revoked")
    world.open(page, status="anonymous")


def test_a_provider_that_confirms_another_user_ends_the_local_session(
    page: Page, world: World
) -> None:
    signed_in_and_watched(page, world)
    world.provider.edits.put("id_token", lambda claims: claims | {"sub": "bob"})
    world.provider.edits.put("userinfo", lambda claims: claims | {"sub": "bob"})
    world.sign_in_elsewhere(page, "Alice")
    world.forget_browser_state(page)
    poll(page)
    expect_status(page, "revoked")
    eventually(page, lambda: events(page, "oidc-revoked") != [])
    assert events(page, "oidc-revoked")[0]["reason"] == "other_user"
    world.open(page, status="anonymous")


def test_a_logout_at_the_provider_ends_the_local_session(page: Page, world: World) -> None:
    signed_in_and_watched(page, world)
    world.sign_out_at_provider(page)
    poll(page)
    expect_status(page, "revoked")
    eventually(page, lambda: events(page, "oidc-revoked") != [])
    assert events(page, "oidc-revoked")[0]["reason"] == "provider"
    world.open(page, status="anonymous")


def test_endless_changed_is_checked_three_times_and_then_no_more(page: Page, world: World) -> None:
    page.route(
        world.address("check_session_iframe"),
        lambda route: route.fulfill(body=CHANGED_FROM_THEN_ON, content_type="text/html"),
    )
    signed_in_and_watched(page, world)
    eventually(page, lambda: has_stopped(page), seconds=3 * PATIENCE)
    assert logins(world) == ["alice"] * 4
    assert member(page, "isAuthenticated") is True


def test_a_logout_during_the_check_is_not_undone(page: Page, world: World) -> None:
    signed_in_and_watched(page, world)
    page.context.clear_cookies(name="oidc_session")
    page.evaluate(
        """async () => {
          const frame = document.createElement('iframe')
          frame.src = '/auth/login?silent=1'
          document.body.append(frame)
          const heard = new Promise(resolve => addEventListener('message', resolve))
          window.answer = (await heard).data
        }"""
    )
    assert page.evaluate("answer") == {
        "type": "oidc-silent",
        "outcome": "error",
        "code": "session.required",
    }
    assert logins(world) == ["alice"]

"""Each event is one log line and one call of `on_event`, with when, to whom and why.

What is set up wrongly, and shows only in use, is one warning that names the setting.
"""

import logging
import secrets
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import httpx
import pytest

from fastapi_oidc import Code, Event, EventName, OIDCSettings, SessionError
from fastapi_oidc.clock import Clock
from fastapi_oidc.events import Announcer
from fastapi_oidc.testing import ServerError, sign_in
from tests.oidc.interleaving import another_process
from tests.oidc.world import LOGIN_URL, Time, World, make_world, signed_in_world

AT = 1_800_000_000
WARNINGS = {
    *("login.refused", "front_channel_logout.refused", "session.refresh_postponed"),
    *("session.identity_not_updated", "session.not_removed", "session.removal_given_up"),
    *("session.cookie_withheld", "logout.return_refused", "logout.revocation_failed"),
    *("back_channel_logout.refused", "request.refused"),
}


@pytest.mark.parametrize("name", EventName)
def test_event_is_one_record_in_the_logger_of_its_area(
    name: EventName, caplog: pytest.LogCaptureFixture
) -> None:
    event = Event(name, AT)
    with caplog.at_level(logging.INFO, logger="fastapi_oidc"):
        Announcer(Clock())(event)
    [record] = caplog.records
    assert record.getMessage() == str(name)
    assert record.name == f"fastapi_oidc.{name.split('.')[0]}"
    assert record.levelname == ("WARNING" if name in WARNINGS else "INFO")
    assert vars(record)["oidc_event"] is event


def test_line_of_the_log_has_no_line_break(caplog: pytest.LogCaptureFixture) -> None:
    event = Event(
        EventName.LOGIN_REFUSED,
        AT,
        sub="alice\nlogin.succeeded",
        session_id="session-1",
        sid="op-1",
        code=Code.TOKEN_REFUSED,
        explanation="it's over",
    )
    with caplog.at_level(logging.INFO, logger="fastapi_oidc"):
        Announcer(Clock()).of("acme")(event)
    assert caplog.messages == [
        "login.refused registration='acme' sub='alice\\nlogin.succeeded' session='session-1'"
        " sid='op-1' code='token.refused' because=\"it's over\""
        f" see='{Code.TOKEN_REFUSED.link}'"
    ]


def test_refusal_has_what_its_error_says() -> None:
    error = SessionError(Code.SESSION_EXPIRED, "it is over", seconds=7)
    events: list[Event] = []
    Announcer(Clock(read=lambda: AT), events.append).announce(EventName.SESSION_ENDED, error)
    assert [(event.at, event.code, event.explanation) for event in events] == [
        (AT, Code.SESSION_EXPIRED, "it is over (seconds=7)")
    ]
    assert error.is_announced


async def test_back_channel_logout_names_user_and_sid() -> None:
    world = make_world()
    await world.signed_in()
    began = world.events[-1]
    world.time.advance(5)
    await world.op.log_out("alice")
    event = world.events[-1]
    assert (event.name, event.at) == ("back_channel_logout.accepted", world.time.now)
    assert (event.sub, event.sid) == ("alice", began.sid)


def advice(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The settings that were named, in order."""
    records = [each for each in caplog.records if each.name == "fastapi_oidc.configuration"]
    return [record.getMessage().partition(":")[0] for record in records]


async def visit(world: World, cookies: dict[str, str]) -> int:
    """Ask another process, or another application, with the browser's cookies."""
    async with world.browser() as other:
        other.cookies.update(cookies)
        return (await other.get("/me")).status_code


@pytest.mark.parametrize("store", [None, "memory"])
async def test_a_changed_secret_is_named_once(caplog: pytest.LogCaptureFixture, store: Any) -> None:
    browser = await make_world(session_store=store).signed_in()
    changed = make_world(session_store=store)
    cookies = dict(browser.cookies)
    assert [await visit(changed, cookies) for _ in range(3)] == [401, 401, 401]
    assert advice(caplog) == ["cookie_secret"]
    assert browser.cookies["__Host-oidc_session"] not in caplog.text
    assert "__Host-oidc_session" in caplog.text


async def test_a_grant_in_another_process_is_named(caplog: pytest.LogCaptureFixture) -> None:
    world, browser = await signed_in_world(session_store="memory")
    (session,) = await world.oidc.sessions_of("alice")
    other = another_process(world, session_store="memory")
    for process, named in ((world, []), (other, ["session_store"])):
        with suppress(SessionError):
            await process.oidc.grant(session.id)
        assert advice(caplog) == named
    await browser.post("/auth/logout")
    with pytest.raises(SessionError):
        await world.oidc.grant(session.id)
    assert advice(caplog) == ["session_store"]


async def ended(world: World, browser: httpx.AsyncClient) -> World:
    await browser.post("/auth/logout")
    return world


async def expired(world: World, browser: httpx.AsyncClient) -> World:
    world.time.advance(9 * 3600)
    return another_process(world, session_store="memory")


async def rotated(world: World, browser: httpx.AsyncClient) -> World:
    known: dict[str, Any] = dict(world.oidc.settings)
    both = [secrets.token_urlsafe(32), *known["cookie_secret"]]
    settings = OIDCSettings.model_validate(known | {"cookie_secret": both})
    store = world.oidc.registrations.engine.store
    return another_process(world, settings=settings, session_store=store)


@pytest.mark.parametrize(("happened", "status"), [(ended, 401), (expired, 401), (rotated, 200)])
async def test_a_session_that_is_over_and_a_secret_that_is_rotated_are_no_mistake(
    caplog: pytest.LogCaptureFixture, happened: Callable[..., Any], status: int
) -> None:
    world, browser = await signed_in_world(session_store="memory")
    cookies = dict(browser.cookies)
    asked = await happened(world, browser)
    assert await visit(asked, cookies) == status
    assert advice(caplog) == []


@pytest.mark.parametrize(
    ("scope", "has_token", "offered", "named"),
    [
        (["openid"], False, True, ["scope"]),
        (["openid"], False, False, []),
        (["openid"], True, True, []),
        (["openid", "offline_access"], False, True, []),
    ],
)
async def test_a_missing_offline_access_is_named_once(
    caplog: pytest.LogCaptureFixture,
    scope: list[str],
    has_token: bool,
    offered: bool,
    named: list[str],
) -> None:
    world = make_world(settings={"scope": scope}, client={"issue_refresh_tokens": has_token})
    if not offered:
        world.op.edits.put("metadata", lambda document: document | {"scopes_supported": ["openid"]})
    for _ in range(2):
        await world.signed_in()
    assert advice(caplog) == named


async def test_advice_keeps_nobody_from_signing_in(caplog: pytest.LogCaptureFixture) -> None:
    """The metadata have expired by the time the tokens come, and cannot be had again."""
    time = Time()
    world = make_world(
        settings={"scope": ["openid"], "fetch_userinfo": False},
        client={"issue_refresh_tokens": False},
        time=time,
    )
    await world.signed_in()
    time.advance(3 * 24 * 3600)
    async with world.browser() as browser:

        def no_metadata(message: dict[str, Any]) -> dict[str, Any]:
            world.op.faults.put("metadata", ServerError(503), times=10)
            return message

        world.op.edits.put("token_response", no_metadata)
        assert (await sign_in(browser, LOGIN_URL, user="alice")).status_code == 200

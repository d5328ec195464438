"""Signing out: here first, then at the provider, and from this site alone; events."""

import logging
import secrets
from collections.abc import Callable
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx
import pytest

from fastapi_oidc import Code, Event, EventName, OIDCSettings, SessionError
from fastapi_oidc.clock import Clock
from fastapi_oidc.events import Announcer
from fastapi_oidc.flows.revocation import TOKEN_REVOCATION_SECONDS
from fastapi_oidc.testing import AnswerLost, SignedOut, TokenRevoked
from tests.oidc.flows.steps import LOCAL, signed_out, user
from tests.oidc.interleaving import Held, another_process
from tests.oidc.world import BASE_URL, World, make_world, signed_in_world

BACK = f"{BASE_URL}/auth/logged-out"


def sent(answer: httpx.Response) -> dict[str, str]:
    """The end-session request that the browser is sent on with."""
    return dict(parse_qsl(urlsplit(answer.headers["location"]).query))


async def test_sign_out_goes_to_the_provider_and_back(world: World) -> None:
    browser = await world.signed_in()
    answer = await signed_out(browser)
    assert answer.status_code == 302
    assert await user(browser) is None
    request = sent(answer)
    assert request.keys() == {"id_token_hint", "client_id", "post_logout_redirect_uri", "state"}
    assert (request["client_id"], request["post_logout_redirect_uri"]) == ("app", BACK)
    [revoked] = world.op.record.of(TokenRevoked)
    assert revoked.token_type_hint == "refresh_token"

    back = await browser.get(answer.headers["location"], follow_redirects=False)
    home = await browser.get(back.headers["location"], follow_redirects=False)
    assert (home.status_code, home.headers["location"]) == (302, "/me")
    assert len(world.op.record.of(SignedOut)) == 1
    assert world.event_names()[-1] == "logout.returned"


@pytest.mark.parametrize(
    "query", ["", "?state=another", "?state={}&state={}", "?state=%ED%A0%80", "?state={}A"]
)
async def test_return_with_another_state_goes_home(query: str) -> None:
    world, browser = await signed_in_world()
    state = sent(await signed_out(browser))["state"]
    query = query.replace("{}", state)
    home = await browser.get(f"/auth/logged-out{query}", follow_redirects=False)
    assert (home.status_code, home.headers["location"]) == (302, "/")
    assert world.event_names()[-1] == "logout.return_refused"


@pytest.mark.parametrize("form", [{}, LOCAL])
async def test_sign_out_without_a_session_asks_the_provider_nothing(
    world: World, form: dict[str, str]
) -> None:
    answer = await signed_out(world.browser(), **form)
    assert answer.headers["location"] == "/me"
    assert sum(world.op.record.calls.values()) == 0
    assert "logout.started" not in world.event_names()


async def test_local_sign_out_leaves_the_session_at_the_provider(world: World) -> None:
    browser = await world.signed_in()
    answer = await signed_out(browser, return_to="//evil.test", **LOCAL)
    assert (answer.status_code, answer.headers["location"]) == (302, "/")
    assert await user(browser) is None
    assert world.op.record.of(SignedOut) == []
    assert len(world.op.record.of(TokenRevoked)) == 1, "nobody has a use for the refresh token"


async def test_local_sign_out_keeps_the_refresh_token_where_settings_say_so() -> None:
    world, browser = await signed_in_world(settings={"revoke_on_local_logout": False})
    await signed_out(browser, **LOCAL)
    assert await user(browser) is None
    assert world.op.record.of(TokenRevoked) == []


async def test_provider_without_end_session_endpoint_gets_the_refresh_token_alone() -> None:
    world = make_world()
    world.op.edits.put("metadata", lambda said: said | {"end_session_endpoint": None})
    assert (await signed_out(await world.signed_in())).headers["location"] == "/me"
    assert len(world.op.record.of(TokenRevoked)) == 1


@pytest.mark.parametrize(
    ("setting", "expected"), [("none", None), ("https://app.test/bye", "https://app.test/bye")]
)
async def test_post_logout_redirect_uri_is_that_of_the_settings(
    setting: str, expected: str | None
) -> None:
    world = make_world(
        settings={"post_logout_redirect_uri": setting},
        client={"post_logout_redirect_uris": ["https://app.test/bye"]},
    )
    request = sent(await signed_out(await world.signed_in()))
    assert request.get("post_logout_redirect_uri") == expected


async def test_session_whose_id_token_was_left_out_gives_no_hint() -> None:
    def strip(context: Any) -> Any:
        tokens = context.session.tokens.model_copy(update={"id_token": ""})
        return context.session.model_copy(update={"tokens": tokens})

    world = make_world(before_session_persist=strip)
    assert "id_token_hint" not in sent(await signed_out(await world.signed_in()))


@pytest.mark.parametrize(
    ("headers", "is_allowed"),
    [
        ({"origin": BASE_URL}, True),
        ({"sec-fetch-site": "same-origin"}, True),
        # A page with `Referrer-Policy: no-referrer` hides its origin.
        ({"origin": "null", "sec-fetch-site": "same-origin"}, True),
        # The development server of a front end passes requests on.
        ({"origin": "http://localhost:5173", "sec-fetch-site": "same-origin"}, True),
        ({}, True),
        ({"origin": "https://evil.test"}, False),
        ({"origin": "null"}, False),
        ({"origin": "null", "sec-fetch-site": "cross-site"}, False),
        ({"origin": "http://app.test"}, False),
        ({"origin": f"{BASE_URL}.evil.test"}, False),
        ({"sec-fetch-site": "cross-site"}, False),
        ({"sec-fetch-site": "same-site"}, False),
    ],
)
async def test_only_this_site_may_sign_out(headers: dict[str, str], is_allowed: bool) -> None:
    browser = await make_world().signed_in()
    answer = await browser.post("/auth/logout", headers=headers, follow_redirects=False)
    if not is_allowed:
        assert (answer.status_code, answer.json()["code"]) == (403, Code.SESSION_CROSS_SITE)
    assert (await user(browser) is None) is is_allowed


@pytest.mark.parametrize(
    ("content", "content_type"),
    [(b"{}", "application/json"), (b"a=1", "text/plain"), (b"a=" + b"x" * 70_000, None)],
)
async def test_unreadable_form_is_refused(content: bytes, content_type: str | None) -> None:
    browser = await make_world().signed_in()
    headers = {"content-type": content_type or "application/x-www-form-urlencoded"}
    answer = await browser.post("/auth/logout", content=content, headers=headers)
    assert answer.status_code == 400


async def test_sign_out_goes_on_without_the_provider() -> None:
    world, browser = await signed_in_world()
    for endpoint in ("metadata", "revocation", "jwks", "end_session"):
        world.op.faults.put(endpoint, AnswerLost(), times=99)
    answer = await signed_out(browser)
    assert answer.headers["location"] == "/me"
    assert await user(browser) is None
    failed = [event for event in world.events if event.name == "logout.revocation_failed"][-1]
    started = next(event for event in world.events if event.name == "logout.started")
    assert (failed.code, failed.session_id) == (Code.PROVIDER_UNREACHABLE, started.session_id)
    assert started.sub == "alice"


async def test_sign_out_waits_for_the_provider_for_two_seconds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert TOKEN_REVOCATION_SECONDS == 2
    world, browser = await signed_in_world()
    monkeypatch.setattr("fastapi_oidc.flows.revocation.TOKEN_REVOCATION_SECONDS", 0.05)
    world.op.faults.put("revocation", Held())
    answer = await signed_out(browser)
    assert answer.headers["location"] == "/me", "a browser sent to it would wait as well"


async def test_bug_on_the_way_to_the_provider_keeps_nobody_signed_in(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world, browser = await signed_in_world()

    async def broken() -> None:
        raise LookupError("a bug")

    monkeypatch.setattr(world.oidc.runtime.party.provider, "metadata", broken)
    assert (await signed_out(browser)).headers["location"] == "/me"
    assert "sign-out continues without the provider" in caplog.messages
    monkeypatch.undo()
    assert await user(browser) is None


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


def advice(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The settings that were named, in order."""
    records = [each for each in caplog.records if each.name == "fastapi_oidc.configuration"]
    return [record.getMessage().partition(":")[0] for record in records]


async def visit(world: World, cookies: dict[str, str]) -> int:
    """Ask another process, or another application, with the browser's cookies."""
    async with world.browser() as other:
        other.cookies.update(cookies)
        return (await other.get("/me")).status_code


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
        (["openid", "email", "offline_access"], False, True, []),
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

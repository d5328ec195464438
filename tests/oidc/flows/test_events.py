"""A refusal is one event and one line, with all that the operator needs."""

from __future__ import annotations

import asyncio
import logging
from http import HTTPStatus
from typing import Any

import pytest

from fastapi_oidc.testing import OAuthError, sign_in
from tests.oidc.flows.test_endings import copy_of
from tests.oidc.flows.test_refresh import generation
from tests.oidc.world import LOGIN_URL, make_world


async def test_a_refused_login_is_one_line_that_says_why(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world()
    fault = OAuthError("invalid_scope", description="this client\nmay not")
    world.op.faults.put("token", fault)
    with caplog.at_level(logging.WARNING, logger="fastapi_oidc"):
        async with world.browser() as browser:
            answer = await sign_in(browser, LOGIN_URL, user="alice")
    assert answer.status_code == 502
    assert caplog.messages == [
        "login.refused code='token.refused' because='the provider answered invalid_scope"
        " (this client\\\\nmay not) (url=https://op.test/token, status=400)'"
    ]
    assert world.event_names() == ["login.started", "login.refused"]


async def test_a_login_that_cannot_begin_is_one_line_too(caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(settings={"issuer": "https://op.test/"})
    with caplog.at_level(logging.WARNING, logger="fastapi_oidc"):
        async with world.browser() as browser:
            await browser.get(LOGIN_URL)
    [message] = caplog.messages
    assert (
        "the document's issuer is 'https://op.test', the configured 'https://op.test/'" in message
    )


async def test_the_end_of_a_session_is_told_with_the_words_of_the_provider(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world()
    async with world.browser() as browser:
        await sign_in(browser, LOGIN_URL, user="alice")
        world.time.now += 290
        fault = OAuthError("invalid_grant", description="the user left")
        world.op.faults.put("token", fault)
        with caplog.at_level(logging.INFO, logger="fastapi_oidc.session"):
            await browser.get("/me")
    [message] = caplog.messages
    assert message.startswith("session.ended sub='alice' session=")
    assert message.endswith(
        "code='token.invalid_grant' because='the provider answered invalid_grant"
        " (the user left) (url=https://op.test/token, status=400)'"
    )


async def test_a_request_that_needs_a_refresh_is_refused_with_the_cause(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = make_world()
    async with world.browser() as browser:
        await sign_in(browser, LOGIN_URL, user="alice")
        world.time.now += 400
        world.op.faults.put("token", OAuthError("invalid_client", HTTPStatus.UNAUTHORIZED))
        with caplog.at_level(logging.WARNING, logger="fastapi_oidc"):
            assert [(await browser.get("/me")).status_code for _ in range(2)] == [503, 503]
    attempted, waited = caplog.messages
    assert attempted.startswith("session.refresh_postponed sub='alice'")
    assert waited == (
        "request.refused code='session.refresh_postponed' because='the access token has expired"
        " and cannot be refreshed right now: the provider answered invalid_client"
        " (refused on demand) (url=https://op.test/token, status=401, setting=client_id,"
        " client_auth_method and what belongs to it) (retry_after=5)'"
    )


@pytest.mark.parametrize("store", [None, "memory"], ids=["cookie", "store"])
async def test_the_end_of_a_session_is_told_once_however_many_ask(store: Any) -> None:
    world = make_world(session_store=store)
    browser = await world.signed_in()
    world.time.now += 400
    world.op.faults.put("token", OAuthError("invalid_grant"), times=9)
    tabs = [copy_of(browser, world) for _ in range(5)]
    assert await asyncio.gather(*map(generation, tabs)) == [None] * 5
    assert await generation(tabs[0]) is None
    assert world.event_names().count("session.ended") == 1

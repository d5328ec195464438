"""Nothing that gives access to anything is in a log line, an event or an answer."""

import logging
from typing import Any

import pytest

from fastapi_oidc import Event, OIDCSession, PersistContext
from fastapi_oidc.testing import AuthorizationRequested, OAuthError, ServerError
from tests.oidc.world import signed_in_world


async def test_known_secrets_are_in_no_output(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, logger="fastapi_oidc")
    sessions: list[OIDCSession[Any]] = []

    def before_session_persist(context: PersistContext[Any]) -> None:
        sessions.append(context.session)

    world, browser = await signed_in_world(
        before_session_persist=before_session_persist, settings={"dpop": True}
    )
    cookies = [value for name, value in browser.cookies.items() if "oidc" in name]
    world.time.advance(400)
    await browser.get("/me")
    cookies += [value for name, value in browser.cookies.items() if "oidc" in name]
    world.op.faults.put("token", ServerError())
    world.time.advance(400)
    await browser.get("/me")
    world.op.faults.put("token", OAuthError("invalid_grant"))
    world.time.advance(60)
    answers = [await browser.get("/me")]
    answers.append(await browser.get("/auth/callback?state=s&code=secret-code"))
    browser = await world.signed_in()
    world.op.edits.put("logout_token", lambda said: said | {"nonce": "n"})
    await world.op.log_out("alice")
    await browser.post("/auth/logout", headers={"origin": "https://evil.test"})

    settings: Any = world.oidc.settings
    sent = [event.parameters for event in world.op.record.of(AuthorizationRequested)]
    secrets = [
        *cookies,
        "secret-code",
        settings.client_secret.get_secret_value(),
        *(secret.get_secret_value() for secret in settings.cookie_secret),
        *(parameters[name] for parameters in sent for name in ("state", "nonce")),
        *(session.tokens.id_token for session in sessions),
        *(session.tokens.access_token for session in sessions),
        *(session.tokens.refresh_token or "" for session in sessions),
        *(str(session.tokens.dpop_key) for session in sessions),
    ]
    output = caplog.text + repr(world.events) + repr(sessions) + str(sessions)
    output += "".join(answer.text + repr(answer.headers) for answer in answers)
    assert len(secrets) > 10
    assert [secret for secret in secrets if secret and secret in output] == []
    assert len(caplog.records) >= len(world.events) > 5


async def test_a_listener_that_raises_changes_nothing(caplog: pytest.LogCaptureFixture) -> None:
    def on_event(_event: Event) -> None:
        raise RuntimeError("listener")

    _, browser = await signed_in_world(on_event=on_event)
    assert (await browser.get("/me")).status_code == 200
    assert "on_event raised for login.succeeded" in caplog.text

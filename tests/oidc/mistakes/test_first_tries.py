"""What people write first, and what it says: the option, the reason and the remedy."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from fastapi import Depends, FastAPI

from fastapi_oidc import (
    OIDC,
    ConfigurationError,
    MemoryStore,
    OIDCSettings,
    StandaloneAPI,
    StandardIdentity,
)
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, ServerError, session_for
from tests.oidc.settings.examples import options
from tests.oidc.world import make_world

ALICE = DevUser("alice")


def settings(**changes: Any) -> OIDCSettings:
    return OIDCSettings(**options(**changes))


def unchecked(function: Any) -> Any:
    """`function` for a call that a type checker would refuse."""
    return function


async def tools(scope: Any, receive: Any, send: Any) -> None: ...


def api(world: Any) -> Any:
    return world.oidc.api("https://app.test/api")


SETTINGS: list[tuple[dict[str, Any], str]] = [
    ({"client_secret": "from-a-file-with-a-line-break\n"}, "client_secret: begins or ends with a"),
    ({"client_id": " app"}, "client_id: begins or ends with a space"),
    ({"session_lifetime": "8h"}, "session_lifetime: must be a whole number, in seconds"),
    ({"idle_timeout": timedelta(hours=1)}, "idle_timeout: must be a whole number, in seconds"),
    ({"idle_timeout": 99_999}, "idle_timeout: must be shorter than session_lifetime, which is 28"),
    ({"scope": ["openid profile"]}, "scope: .* each value is one word"),
    ({"cookie_secret": b"bytes" * 8}, "cookie_secret: must be a text or a list of texts"),
    ({"issuer": object()}, "issuer: must be a text"),
]


@pytest.mark.parametrize(("changes", "said"), SETTINGS)
def test_a_setting(changes: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigurationError, match=said) as caught:
        settings(**changes)
    assert "from-a-file" not in str(caught.value)


CALLS: list[tuple[Callable[[Any], object], str]] = [
    (lambda _: setattr(settings(), "client_secret", "new"), r"settings\.model_copy"),
    (lambda w: Depends(w.oidc.require_auth()), r"Depends\(guard\), without a call"),
    (lambda w: w.oidc.require_auth(tools), "not function. A guard is a dependency"),
    (lambda w: Depends(api(w).require_user()), r"Depends\(guard\), without a call"),
    (lambda w: api(w).require(["read"]), "not list; several are several arguments"),
    (lambda w: api(w).protected("read", tools), "takes the ASGI application first"),
    (lambda w: w.op.faults.put("tokens", ServerError()), "'tokens' is not one of metadata"),
    (lambda w: w.op.faults.put("token", 503), "a fault is ServerError"),
    (lambda w: w.op.edits.put("idtoken", dict), "'idtoken' is not one of"),
    (lambda w: w.op.record.of("TokensIssued"), "takes a class of events"),
    (lambda _: unchecked(DevProvider)(users=["alice"], clients=[]), "must be DevUser, not str"),
    (lambda _: unchecked(DevProvider)(users=[ALICE], clients=[{}]), "must be DevClient, not dict"),
    (
        lambda _: unchecked(DevClient)(client_id="a", redirect_uris="https://a.test"),
        "is a list of URLs",
    ),
    (lambda _: session_for(StandardIdentity), "an identity, not the class StandardIdentity"),
    (
        lambda _: unchecked(OIDC)(settings(), session_store=MemoryStore),
        "class MemoryStore, not",
    ),
    (lambda _: StandaloneAPI("https://op.test", "api://x"), "needs the URL of the API"),
    (
        lambda _: unchecked(OIDC)(settings(), transport=DevProvider(users=[], clients=[]).app),
        "ASGITransport",
    ),
]


@pytest.mark.parametrize(("call", "said"), CALLS)
def test_a_call(call: Callable[[Any], object], said: str) -> None:
    with pytest.raises((ConfigurationError, TypeError, ValueError), match=said):
        call(make_world())


async def test_a_token_without_a_scheme(caplog: pytest.LogCaptureFixture) -> None:
    def mount(app: FastAPI, oidc: OIDC) -> None:
        app.get("/api", dependencies=[Depends(oidc.api("https://app.test/api").require())])(
            lambda: 1
        )

    async with make_world(mount=mount).browser() as client:
        answer = await client.get("/api", headers={"Authorization": "eyJh.eyJz.c2ln"})
    assert answer.json()["code"] == "access_token.request"
    assert "has no scheme: Authorization: Bearer TOKEN" in caplog.text
    assert "eyJh" not in caplog.text


async def test_a_database_without_tables(tmp_path: Any, caplog: pytest.LogCaptureFixture) -> None:
    world = make_world(session_store=f"sqlite+aiosqlite:///{tmp_path}/sessions.db")
    with pytest.raises(AssertionError):
        await world.signed_in()
    await world.oidc.aclose()
    assert "no such table: fastapi_oidc_values; await SQLStore(...).create_tables()" in caplog.text

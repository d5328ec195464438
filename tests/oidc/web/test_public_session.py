"""What a browser is told of its session: never a token."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    MemoryStore,
    PublicSessionContext,
    RequestDataContext,
)
from fastapi_oidc.testing import ServerError, TokensIssued
from tests.oidc.world import World, make_world


class Watched(MemoryStore):
    """A store that counts its reads."""

    reads = 0

    async def read(self, keys: Any, /) -> Any:
        self.reads += 1
        return await super().read(keys)


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/public")
    async def public(request: Request) -> object:
        return await oidc.get_public_session(request)

    @app.get("/projected")
    async def projected(request: Request) -> object:
        return await oidc.to_public_session(request.state.oidc)


async def test_no_token_material_anywhere_in_it() -> None:
    world = make_world(mount=mount, session_store="memory")
    browser = await world.signed_in()
    tokens = (await world.oidc.sessions_of("alice"))[0].tokens
    secrets = [tokens.id_token, tokens.access_token, tokens.refresh_token or "", *browser.cookies]
    secrets += [part for token in secrets[:3] for part in token.split(".")]
    for path in ("/auth/session", "/public", "/projected"):
        text = (await browser.get(path)).text
        assert "alice" in text
        assert not [secret for secret in secrets if len(secret) > 8 and secret in text]


async def test_projecting_loaded_locals_asks_nobody() -> None:
    loads: list[int] = []

    def load_request_data(_context: RequestDataContext[Any]) -> int:
        loads.append(1)
        return len(loads)

    store = Watched()
    world = make_world(mount=mount, session_store=store, load_request_data=load_request_data)
    browser = await world.signed_in()
    store.reads, loads[:] = 0, []
    world.op.record.clear()
    assert (await browser.get("/projected")).json()["sub"] == "alice"
    assert (store.reads, loads) == (1, [1]), "the middleware's own, and no other"
    assert world.op.record.of(TokensIssued) == []


async def test_the_application_decides_what_is_shown() -> None:
    async def create_public_session(context: PublicSessionContext[Any, Any]) -> object:
        return {"who": context.base.sub, "plan": context.data}

    world = make_world(
        mount=mount,
        create_public_session=create_public_session,
        load_request_data=lambda _context: "free",
    )
    browser = await world.signed_in()
    assert (await browser.get("/public")).json() == {"who": "alice", "plan": "free"}
    document = (await browser.get("/auth/session")).json()
    assert set(document) == {
        "who",
        "plan",
        "is_authenticated",
        "expires_at",
        "session_state",
        "csrf_token",
    }


@pytest.mark.parametrize("reason", ["down", "no iframe"])
async def test_session_management_is_unsupported(reason: str) -> None:
    world: World = make_world()
    if reason == "down":
        world.op.faults.put("metadata", ServerError(), times=9)
    else:
        world.op.edits.put("metadata", lambda said: said | {"check_session_iframe": None})
    config = await world.oidc.get_session_management_config()
    assert config.supported is False


async def test_the_script_is_kept_by_its_version() -> None:
    urls: list[str] = []

    def with_url(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/url")
        async def url(request: Request) -> None:
            urls.append(oidc.script_url(request))

    world = make_world(mount=with_url)
    async with world.browser() as browser:
        await browser.get("/url")
        versioned = await browser.get(urls[0])
        assert versioned.headers["cache-control"] == "public, max-age=31536000, immutable"
        assert versioned.headers["content-type"].startswith("text/javascript")
        etag = versioned.headers["etag"]
        plain = await browser.get("/auth/oidc-context.js", headers={"if-none-match": etag})
        assert (plain.status_code, plain.headers["cache-control"]) == (304, "no-cache")

"""What a browser is told of its session: never a token."""

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import OIDC, PublicSessionContext
from fastapi_oidc.testing import ServerError
from fastapi_oidc.web.pages import SCRIPT
from tests.oidc.world import World, make_world, signed_in_world


def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    @app.get("/public")
    async def public(request: Request) -> object:
        return await oidc.get_public_session(request)

    @app.get("/projected")
    async def projected(request: Request) -> object:
        return await oidc.to_public_session(request.state.oidc)


async def test_no_token_material_anywhere_in_it() -> None:
    world, browser = await signed_in_world(mount=mount, session_store="memory")
    tokens = (await world.oidc.sessions_of("alice"))[0].tokens
    secrets = [tokens.id_token, tokens.access_token, tokens.refresh_token or "", *browser.cookies]
    secrets += [part for token in secrets[:3] for part in token.split(".")]
    for path in ("/auth/session", "/public", "/projected"):
        text = (await browser.get(path)).text
        assert "alice" in text
        assert not [secret for secret in secrets if len(secret) > 8 and secret in text]


async def test_the_application_decides_what_is_shown() -> None:
    async def create_public_session(context: PublicSessionContext[Any, Any]) -> object:
        return {"who": context.base.sub, "plan": context.data}

    _, browser = await signed_in_world(
        mount=mount,
        create_public_session=create_public_session,
        load_request_data=lambda _context: "free",
    )
    assert (await browser.get("/public")).json() == {"who": "alice", "plan": "free"}
    document = (await browser.get("/auth/session")).json()
    assert set(document) == {
        *("who", "plan", "is_authenticated", "expires_at", "session_state", "csrf_token")
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


async def test_the_url_of_the_script_names_its_version() -> None:
    def with_url(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/url")
        async def url(request: Request) -> str:
            return oidc.script_url(request)

    answer = await make_world(mount=with_url).browser().get("/url")
    assert answer.json() == f"/auth/oidc-context.js?v={SCRIPT.version}"


async def ended(world: World, browser: Any) -> tuple[object, object]:
    document = (await browser.get("/auth/session")).json()
    return document["is_authenticated"], document.get("ended")


async def test_the_page_is_told_why_the_session_is_over() -> None:
    world, browser = await signed_in_world(session_store="memory")
    assert await ended(world, browser) == (True, None)
    await world.oidc.revoke(sub="alice")
    assert await ended(world, browser) == (False, "revoked")
    assert await ended(world, browser) == (False, None), "the cookie is gone"


async def test_asking_for_the_session_is_no_activity_unless_somebody_is_there() -> None:
    world, browser = await signed_in_world(settings={"idle_timeout": 600})
    first = (await browser.get("/auth/session")).json()["idle_expires_at"]
    assert first == world.time.now + 600
    world.time.advance(300)
    assert (await browser.get("/auth/session")).json()["idle_expires_at"] == first
    moved = (await browser.get("/auth/session?active=1")).json()["idle_expires_at"]
    assert moved == first + 300
    world.time.advance(599)
    assert await ended(world, browser) == (True, None)
    world.time.advance(1)
    assert await ended(world, browser) == (False, "expired")

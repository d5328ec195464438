"""`GET /session`: what the page is told of its session."""

from __future__ import annotations

from typing import Any

from fastapi_oidc.testing import ServerError
from tests.oidc.world import World, make_world


async def ended(world: World, browser: Any) -> tuple[object, object]:
    document = (await browser.get("/auth/session")).json()
    return document["is_authenticated"], document.get("ended")


async def test_the_page_is_told_why_the_session_is_over() -> None:
    world = make_world(session_store="memory")
    browser = await world.signed_in()
    assert await ended(world, browser) == (True, None)
    await world.oidc.revoke(sub="alice")
    assert await ended(world, browser) == (False, "revoked")
    assert await ended(world, browser) == (False, None), "the cookie is gone"


async def test_asking_for_the_session_is_no_activity_unless_somebody_is_there() -> None:
    world = make_world(settings={"idle_timeout": 600})
    browser = await world.signed_in()
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


async def test_an_outage_does_not_look_like_a_sign_out_to_the_page() -> None:
    world = make_world()
    browser = await world.signed_in()
    world.time.advance(3600)
    world.op.faults.put("token", ServerError(), times=1)
    answer = await browser.get("/auth/session")
    assert (answer.status_code, "retry-after" in answer.headers) == (503, True)

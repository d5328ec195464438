"""An endpoint that accepts access tokens, from the request to the response."""

from __future__ import annotations

from tests.oidc.resource_server.api_world import make_api_world


async def test_a_token_with_the_scope_reaches_the_endpoint() -> None:
    world = make_api_world()
    answer = await world.get(await world.token())
    assert answer.json() == {
        "sub": "program",
        "client_id": "program",
        "scope": ["machines:read"],
    }


async def test_x() -> None:
    world = make_api_world(introspect=True, token_format="opaque")
    t = await world.token()
    answer = await world.get(t)
    print(answer.text, answer.headers)
    for r in (
        await world.get("x", "/machines"),
        await world.get("", "/machines"),
        await world.get(t, "/roles"),
        await world.get(t, "/either"),
        await world.get(t, "/openapi.json"),
    ):
        print(r.status_code, r.text, r.headers)
    async with world.world.browser() as b:
        for p in ("/machines", "/either", "/.well-known/oauth-protected-resource/machines"):
            r = await b.get(p)
            print(r.status_code, r.text, r.headers)
    print(world.world.events)

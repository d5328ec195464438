"""Opaque tokens: what the provider says of them, and for how long it is believed (RFC 7662)."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc import Code
from fastapi_oidc.testing import AnswerLost, OAuthError, ServerError, TokenIntrospected
from tests.oidc.interleaving import Held, begun
from tests.oidc.resource_server.api_world import APIWorld, make_api_world


def make() -> APIWorld:
    return make_api_world(token_format="opaque", introspect=True)


def questions(world: APIWorld) -> int:
    return len(world.world.op.record.of(TokenIntrospected))


async def test_the_provider_is_asked_once_a_minute() -> None:
    world = make()
    token = await world.token()
    for _ in range(3):
        assert (await world.get(token)).json()["scope"] == ["machines:read"]
    world.world.time.advance(59)
    assert (await world.get(token)).status_code == 200
    assert questions(world) == 1
    world.world.time.advance(1)
    assert (await world.get(token)).status_code == 200
    assert questions(world) == 2


async def test_requests_at_once_share_one_question() -> None:
    world = make()
    token, other = await world.token(), await world.token()
    answers = await asyncio.gather(*(world.get(each) for each in [token, other] * 10))
    assert {answer.status_code for answer in answers} == {200}
    assert questions(world) == 2


async def test_the_first_request_may_go_away() -> None:
    world = make()
    token, held = await world.token(), Held()
    world.world.op.faults.put("introspection", held)
    first = begun(world.get(token))
    await held.gate.until_reached()
    second = begun(world.get(token))
    first.cancel()
    await asyncio.wait([first])
    held.gate.opened.set()
    assert (await second).status_code == 200
    assert questions(world) == 1


async def test_a_revoked_token_is_refused_within_a_minute() -> None:
    world = make()
    token = await world.token()
    assert (await world.get(token)).status_code == 200
    await revoke(world, token)
    world.world.time.advance(60)
    assert (await world.get(token)).json()["code"] == Code.ACCESS_TOKEN_INACTIVE


async def test_lifetime_0_asks_each_time() -> None:
    world = make_api_world(token_format="opaque", introspect=True, introspection_lifetime=0)
    token = await world.token()
    assert (await world.get(token)).status_code == 200
    await revoke(world, token)
    assert (await world.get(token)).json()["code"] == Code.ACCESS_TOKEN_INACTIVE


async def test_no_response_is_used_beyond_exp() -> None:
    world = make()
    token = await world.token()
    world.world.op.edits.put("introspection", lambda said: said | {"exp": world.now + 10})
    await world.get(token)
    world.world.time.advance(9)
    await world.get(token)
    assert questions(world) == 1
    world.world.time.advance(1)
    await world.get(token)
    assert questions(world) == 2


async def test_a_response_that_comes_after_the_token_s_end_lets_nobody_in() -> None:
    world = make()
    token, held = await world.token(), Held(first=True)
    world.world.op.edits.put("introspection", lambda said: said | {"exp": world.now + 5})
    world.world.op.faults.put("introspection", held)
    asked = begun(world.get(token))
    await held.gate.until_reached()
    world.world.time.advance(40)
    held.gate.opened.set()
    assert (await asked).json()["code"] == Code.ACCESS_TOKEN_EXPIRED


async def test_a_dead_token_is_asked_about_every_five_seconds() -> None:
    world = make()
    for _ in range(3):
        assert (await world.get("dead")).json()["code"] == Code.ACCESS_TOKEN_INACTIVE
    assert questions(world) == 1
    world.world.time.advance(5)
    await world.get("dead")
    assert questions(world) == 2


async def test_the_api_authenticates_and_the_provider_s_refusal_lets_nobody_in() -> None:
    world = make()
    token = await world.token()
    world.world.op.faults.put("introspection", OAuthError("invalid_client"))
    answer = await world.get(token)
    assert (answer.status_code, answer.json()["code"]) == (503, "token.invalid_client")
    assert (await world.get(token)).status_code == 200


@pytest.mark.parametrize("fault", [ServerError(), AnswerLost()])
async def test_while_the_provider_is_down_nobody_gets_in_and_failures_are_not_cached(
    fault: ServerError | AnswerLost,
) -> None:
    world = make()
    token = await world.token()
    world.world.op.faults.put("introspection", fault)
    answer = await world.get(token)
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert token not in answer.text
    assert (await world.get(token)).status_code == 200


async def test_a_provider_without_introspection_is_an_outage_for_the_log() -> None:
    world = make()
    world.world.op.edits.put(
        "metadata",
        lambda said: {name: one for name, one in said.items() if name != "introspection_endpoint"},
    )
    answer = await world.get(await world.token())
    assert (answer.status_code, answer.json()["code"]) == (503, "provider.endpoint_missing")


@pytest.mark.parametrize("aud", ["https://other.test", None])
async def test_a_token_for_another_api_and_a_refresh_token_are_refused(aud: str | None) -> None:
    world = make()
    world.world.op.edits.put("introspection", lambda said: said | {"aud": aud})
    assert (await world.get(await world.token())).json()["code"] == Code.ACCESS_TOKEN_AUDIENCE


async def test_the_cache_has_no_tokens() -> None:
    world = make()
    token = await world.token()
    await world.get(token)
    introspections = world.api._server.introspections
    assert introspections is not None
    assert token not in repr(vars(introspections._responses))


async def revoke(world: APIWorld, token: str) -> None:
    async with world.world.browser() as program:
        answer = await program.post(
            f"{world.world.op.issuer}/revoke", data={"token": token}, auth=("program", world.secret)
        )
    assert answer.status_code == 200

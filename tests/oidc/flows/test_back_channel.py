"""The provider's word that a session is over."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.rsa import generate_private_key

from fastapi_oidc import Code, ConfigurationError, MemoryRevocationStore, RevocationRecord
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.testing import LogoutDelivered
from tests.oidc.world import World, make_world

EVENT = "http://schemas.openid.net/event/backchannel-logout"


async def is_signed_in(browser: httpx.AsyncClient) -> bool:
    return bool((await browser.get("/")).json()["is_authenticated"])


def statuses(world: World) -> list[int | None]:
    return [event.status for event in world.op.record.of(LogoutDelivered)]


async def test_the_session_is_over_at_the_next_request(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(5)
    await world.op.log_out("alice")
    assert statuses(world) == [200]
    answer = await browser.get("/me")
    assert answer.status_code == 401
    assert "session=; Max-Age=0" in answer.headers["set-cookie"]
    assert world.events[-1].code is Code.SESSION_REVOKED


async def test_a_later_login_of_the_same_user_is_unaffected(world: World) -> None:
    old = await world.signed_in()
    world.op.edits.put("logout_token", without("sid"))
    world.time.advance(5)
    await world.op.log_out("alice")
    world.time.advance(5)
    new = await world.signed_in()
    assert (await is_signed_in(old), await is_signed_in(new)) == (False, True)


async def test_a_sid_ends_that_session_alone(world: World) -> None:
    first = await world.signed_in()
    second = await world.signed_in()
    bob = await world.signed_in("bob")
    sid = world.events[1].sid
    world.op.edits.put("logout_token", lambda said: said | {"sid": sid})
    world.time.advance(1)
    await world.op.log_out("alice")
    assert [await is_signed_in(browser) for browser in (first, second, bob)] == [False, True, True]


async def test_a_sub_alone_ends_all_sessions_of_the_user(world: World) -> None:
    browsers = [await world.signed_in(), await world.signed_in(), await world.signed_in("bob")]
    world.op.edits.put("logout_token", without("sid"))
    world.time.advance(1)
    await world.op.log_out("alice")
    assert [await is_signed_in(browser) for browser in browsers] == [False, False, True]


async def test_the_logout_arrives_while_we_are_inside_end_session(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(1)
    answer = await browser.post("/auth/logout")
    assert answer.status_code == 200
    assert set(statuses(world)) == {200}


async def test_two_at_once_and_the_same_twice_are_fine(world: World) -> None:
    browser = await world.signed_in()
    world.time.advance(1)
    world.op.edits.put("logout_token", lambda said: said | {"jti": "the same"})
    await asyncio.gather(world.op.log_out("alice"), world.op.log_out("alice"))
    assert set(statuses(world)) == {200}
    assert not await is_signed_in(browser)


def without(name: str) -> Any:
    return lambda said: {key: value for key, value in said.items() if key != name}


async def test_a_token_without_exp_ends_the_session_where_the_option_says_so() -> None:
    world = make_world(settings={"logout_token_without_exp": True})
    browser = await world.signed_in()
    world.op.edits.put("logout_token", without("exp"))
    world.time.advance(5)
    await world.op.log_out("alice")
    assert statuses(world) == [200]
    assert not await is_signed_in(browser)


def with_members(**members: Any) -> Any:
    return lambda said: said | members


@pytest.mark.parametrize(
    ("edit", "code"),
    [
        (with_members(iss="https://evil.test"), Code.LOGOUT_TOKEN_ISSUER),
        (with_members(aud="another"), Code.LOGOUT_TOKEN_AUDIENCE),
        (with_members(nonce="n"), Code.LOGOUT_TOKEN_NONCE),
        (with_members(events={f"{EVENT}-2": {}}), Code.LOGOUT_TOKEN_EVENTS),
        (with_members(events=[EVENT]), Code.LOGOUT_TOKEN_EVENTS),
        (without("events"), Code.LOGOUT_TOKEN_EVENTS),
        (without("iat"), Code.LOGOUT_TOKEN_ISSUED_AT),
        (without("exp"), Code.LOGOUT_TOKEN_EXPIRY),
        (without("jti"), Code.LOGOUT_TOKEN_ID),
        (with_members(exp=1), Code.LOGOUT_TOKEN_EXPIRED),
        (lambda said: without("sid")(without("sub")(said)), Code.LOGOUT_TOKEN_SUBJECT),
    ],
)
async def test_one_wrong_claim_is_refused_with_400(world: World, edit: Any, code: Code) -> None:
    browser = await world.signed_in()
    world.time.advance(1)
    world.op.edits.put("logout_token", edit)
    await world.op.log_out("alice")
    assert statuses(world) == [400]
    assert world.events[-1].code is code
    assert await is_signed_in(browser)


async def test_a_token_of_another_type_is_none(world: World) -> None:
    """RFC 8725 3.11."""
    browser = await world.signed_in()
    world.op.edits.put("logout_token_header", lambda said: said | {"typ": "at+jwt"})
    await world.op.log_out("alice")
    assert statuses(world) == [400]
    assert world.events[-1].code is Code.JWS_TYPE
    assert await is_signed_in(browser)


@pytest.mark.parametrize(
    ("content", "content_type"),
    [
        (b"", "application/x-www-form-urlencoded"),
        (b"logout_token=a&logout_token=b", "application/x-www-form-urlencoded"),
        (b"logout_token=a.b.c", "application/x-www-form-urlencoded"),
        (b'{"logout_token": "a"}', "application/json"),
        (b"logout_token=" + b"x" * 70_000, "application/x-www-form-urlencoded"),
        (b"logout_token=\xff", "application/x-www-form-urlencoded"),
    ],
)
async def test_a_wrong_request_is_400_json_and_not_stored(
    world: World, content: bytes, content_type: str
) -> None:
    async with world.browser() as browser:
        answer = await browser.post(
            "/auth/backchannel-logout", content=content, headers={"content-type": content_type}
        )
    assert answer.status_code == 400
    assert answer.json()["error"] == "invalid_request"
    assert answer.headers["cache-control"] == "no-store"
    assert world.event_names() == ["back_channel_logout.refused"]


async def test_without_a_store_there_is_no_such_route() -> None:
    world = make_world(back_channel_logout_store=None)
    async with world.browser() as browser:
        assert (await browser.post("/auth/backchannel-logout")).status_code == 404
    with pytest.raises(ConfigurationError) as caught:
        world.oidc.back_channel_logout_handler()
    assert caught.value.code is Code.CONFIGURATION_STORE_MISSING


async def test_a_store_that_is_down_is_400_and_never_a_lost_logout() -> None:
    class Broken(MemoryRevocationStore):
        async def revoke(self, record: RevocationRecord, /) -> None:
            raise ConnectionError

    world = make_world(back_channel_logout_store=Broken())
    await world.signed_in()
    await world.op.log_out("alice")
    assert statuses(world) == [400]
    assert world.events[-1].code is Code.SESSION_REVOCATION_UNAVAILABLE


async def test_revocations_that_cannot_be_read_are_503_and_never_a_sign_in() -> None:
    class Broken(MemoryRevocationStore):
        async def is_revoked(self, session: Any, /) -> bool:
            raise ConnectionError

    world = make_world(back_channel_logout_store=Broken())
    async with world.browser() as browser:
        answer = await browser.get("/auth/login?return_to=/me&login_hint=alice")
        assert (answer.status_code, answer.json()["code"]) == (
            503,
            "session.revocation_unavailable",
        )


async def test_forged_logout_tokens_do_not_keep_a_login_from_the_newest_keys() -> None:
    world = make_world()
    browser = await world.signed_in()
    forger = Signer.of_private_key(generate_private_key(65537, 2048), key_id="invented")
    forged = {"logout_token": forger.sign({"sub": "alice"}, typ="logout+jwt")}
    assert (await browser.post("/auth/backchannel-logout", data=forged)).status_code == 400
    world.op.rotate_keys()
    assert await is_signed_in(await world.signed_in())

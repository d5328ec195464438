"""Tokens come from the one path: exchanged, bound to keys, with the machine as actor."""

import asyncio
import secrets
from contextlib import aclosing
from typing import Any
from unittest.mock import AsyncMock

import httpx
import pytest

from fastapi_oidc import ConfigurationError, DownstreamAPI
from fastapi_oidc.broker import Access, Broker, guest
from fastapi_oidc.protocol.downstream import ACCESS_TOKEN_TYPE, ActorToken
from fastapi_oidc.protocol.encoding import decode_base64url
from fastapi_oidc.testing import DevClient, ServerError
from tests.oidc.broker.apis import Api, Received, says
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import RESOURCE, TWO_HOURS, Rig, broker_world, rigged, route_to, store_of
from tests.oidc.interleaving import Held


def claims_of(rig: Rig, request: Received) -> Any:
    token = rig.world.op._state.credentials.access_token(request.token)
    assert token is not None
    return token.claims


async def test_a_call_reads_the_store_once_and_waits_for_no_write(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guest, "POLL_SECONDS", 1000)
    async with rigged() as rig:
        await rig.guest.get()
        store, read = store_of(rig), AsyncMock(wraps=store_of(rig).read)
        monkeypatch.setattr(store, "read", read)
        monkeypatch.setattr(store, "swap", None)
        assert (await rig.guest.get()).status_code == 200
        assert read.await_count == 1
        monkeypatch.undo()


async def test_a_refused_token_is_replaced() -> None:
    first: list[str] = []

    async def refuses_the_first(request: Received, writer: asyncio.StreamWriter) -> None:
        first.append(request.token)
        challenge = 'WWW-Authenticate: Bearer error="invalid_token"'
        refused = says(b"", "401 Unauthorized", challenge)
        await (refused if request.token == first[0] else says())(request, writer)

    async with rigged(api=Api(refuses_the_first)) as rig:
        api, judge = rig.broker.app(rig.access)._apis[NAME], rig.broker._accesses.judge
        tokens = list[Any]()

        async def judged(access: Any, known: Any = None) -> Any:
            tokens.append(api.token)
            if first:  # another call is given the refused one, which it has asked for before
                api.token = next(filter(None, tokens))
            return await judge(access, known)

        rig.broker._accesses.judge = judged  # type: ignore[method-assign]
        assert (await rig.guest.call("POST", content=b"twice")).status_code == 200
        assert [request.body for request in rig.api.received] == [b"twice", b"twice"]


async def test_a_key_of_a_vault_replaces_the_token_and_the_guest_needs_access_all_the_same() -> (
    None
):
    class Key(httpx.Auth):
        def auth_flow(self, request: httpx.Request) -> Any:
            request.headers["X-Api-Key"] = "of the vault"
            yield request

    async with rigged(auth=Key()) as rig:
        await rig.guest.get(headers={"X-Api-Key": "of the guest"})
        [request] = rig.api.received
        assert request.header("x-api-key") == "of the vault"
        assert request.token == ""
        await rig.browser.post("/auth/logout")
        assert (await rig.guest.get()).status_code == 401


async def test_a_key_for_which_a_large_body_is_needed_twice_fails_as_a_call() -> None:
    challenge = 'WWW-Authenticate: Digest realm="a", nonce="b", qop="auth"'
    refuses = says(b"", "401 Unauthorized", challenge)
    async with rigged(api=Api(refuses), auth=httpx.DigestAuth("m1", secrets.token_hex())) as rig:
        for size, status in ((10, 401), (100_000, 502)):
            assert (await rig.guest.call("POST", content=bytes(size))).status_code == status
            assert rig.trail[-1].status == status


async def test_bound_tokens_are_sent_with_a_proof_that_has_the_nonce_of_the_api() -> None:
    async def asks(request: Received, writer: asyncio.StreamWriter) -> None:
        if len(rig.api.received) == 1:
            challenge = ["DPoP-Nonce: fresh", 'WWW-Authenticate: DPoP error="use_dpop_nonce"']
            return await says(b"", "401 Unauthorized", *challenge)(request, writer)
        return await says()(request, writer)

    world = broker_world(settings={"dpop": True}, client={"dpop_bound_access_tokens": True})
    async with rigged(world, Api(asks)) as rig:
        lunch: Any = {"content": b"lunch", "headers": {"DPoP": "of the guest"}}
        assert (await rig.guest.call("POST", **lunch)).status_code == 200
        proofs = [request.header("dpop") or "" for request in rig.api.received]
        assert ["fresh" in str(decode_base64url(each.split(".")[1])) for each in proofs] == [0, 1]
        [_, request] = rig.api.received
        assert (request.header("authorization") or "").startswith("DPoP ")
        assert "cnf" in claims_of(rig, request)
        assert f"{rig.api.url}/events".encode() in decode_base64url(proofs[1].split(".")[1])


MACHINE_SECRET = secrets.token_urlsafe(32)


async def test_an_api_learns_that_the_machine_acts_for_the_person() -> None:
    world, asked = broker_world(), list[str]()

    async def machine_token(access: Access) -> ActorToken:
        asked.append(access.machine)
        form, auth = {"grant_type": "client_credentials"}, (access.machine, MACHINE_SECRET)
        async with httpx.AsyncClient(transport=httpx.ASGITransport(world.op.app)) as http:
            answer = await http.post(f"{world.op.issuer}/token", data=form, auth=auth)
        return ActorToken(answer.json()["access_token"], ACCESS_TOKEN_TYPE)

    for name in ("m1", "m2"):
        machine = DevClient(client_id=name, client_secret=MACHINE_SECRET)
        world.op._state.clients[name] = machine  # type: ignore[index]
    async with rigged(world, actor=machine_token) as rig:
        for _ in range(3):
            assert (await rig.guest.get()).status_code == 200
        claims = claims_of(rig, rig.api.received[0])
        assert (claims["sub"], claims["act"]) == ("alice", {"sub": "m1"})
        assert asked == ["m1"], "once for each token, not for each call"
        other = await rig.broker.give(rig.session, to="m2", routes=[NAME], until=TWO_HOURS)
        await called(rig.broker, other)
        assert claims_of(rig, rig.api.received[-1])["act"] == {"sub": "m2"}


async def called(broker: Broker, access: Access) -> int:
    """The status of a call by the application itself, without a socket."""
    async with aclosing(broker.app(access)) as app:
        client = httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url=f"http://{NAME}")
        return (await client.get("/events")).status_code


async def test_a_refusal_that_no_other_token_follows_is_not_left_open() -> None:
    ended = asyncio.Event()

    async def refuses(request: Received, writer: asyncio.StreamWriter) -> None:
        rig.world.op.faults.put("token", ServerError(), times=5)
        challenge = 'WWW-Authenticate: Bearer error="invalid_token"'
        head = f"HTTP/1.1 401 Unauthorized\r\n{challenge}\r\nContent-Length: 9\r\n\r\n"
        writer.write(head.encode())
        assert await request.after.read() == b""
        ended.set()

    async with rigged(api=Api(refuses)) as rig, asyncio.timeout(20):
        assert (await rig.guest.get()).status_code in (502, 503)
        await ended.wait()


async def asks_for_a_token(rig: Rig, held: Held) -> asyncio.Task[httpx.Response]:
    """A call whose token the provider holds back."""
    rig.world.op.faults.put("token", held)
    call = asyncio.create_task(rig.guest.get())
    await held.gate.until_reached()
    return call


@pytest.mark.parametrize("is_here", [True, False])
async def test_a_withdrawal_during_the_exchange_fails_the_call_and_not_the_persons_own(
    is_here: bool,
) -> None:
    async with rigged() as rig:
        call = await asks_for_a_token(rig, held := Held())
        grant = await rig.world.oidc.grant(rig.session.id, resource=RESOURCE)
        mine = asyncio.create_task(grant.access_token())
        await asyncio.sleep(0)
        elsewhere = Broker(rig.world.oidc, {NAME: route_to(rig.api)})
        await (rig.broker if is_here else elsewhere).withdraw(rig.access)
        held.gate.opened.set()
        assert (await mine).value
        assert (await call).status_code == 401
        assert not rig.api.received


@pytest.mark.parametrize("is_over", ["signed out", "revoked"])
async def test_a_refresh_that_is_under_way_at_the_end_revives_nothing(is_over: str) -> None:
    async with rigged(own_token=True) as rig:
        rig.world.time.advance(400)
        call = await asks_for_a_token(rig, held := Held(first=True))
        if is_over == "revoked":
            await rig.world.oidc.revoke(sub="alice")
        else:
            await rig.browser.post("/auth/logout")
        held.gate.opened.set()
        for answer in (await call, await rig.guest.get()):
            assert answer.text == "broker.signed_out: The access has ended.\n"
        assert not rig.api.received


def test_only_an_exchange_takes_an_actor() -> None:
    party, own = (world := broker_world()).oidc.runtime.party, {"own_token": True}
    apis = (DownstreamAPI(grant="refresh_token", resource=RESOURCE),)
    object.__setattr__(party, "downstream_apis", apis)
    for more in ({}, own):
        route = route_to(Api(port=443), actor=claims_of, **more)
        with pytest.raises(ConfigurationError, match="a DownstreamAPI with grant='token_exchange'"):
            Broker(world.oidc, {NAME: route})

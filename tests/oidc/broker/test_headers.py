"""Which headers pass, how bodies are framed, and what a hostile side can do with either."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.oidc.broker.apis import Api, Received, says
from tests.oidc.broker.guests import NAME, Guest
from tests.oidc.broker.rig import TWO_HOURS, rigged, session_of

MINE = (
    *("Authorization: Bearer of-the-guest", "Cookie: session=of-the-guest"),
    *("Proxy-Authorization: Basic x", "DPoP: proof", "X-HTTP-Method-Override: DELETE"),
    *("X-Original-URL: /secrets", "X-Forwarded-Host: evil.test", "Forwarded: host=evil.test"),
    *("Keep-Alive: timeout=9", "TE: trailers", "Trailer: Authorization", "Upgrade: websocket"),
    *("Expect: nothing", "Accept: text/x", "Connection: Accept, Upgrade"),
)


OF_API = (
    *("Set-Cookie: a=1", "Set-Cookie: b=2", 'WWW-Authenticate: Bearer error="insufficient_scope"'),
    *("DPoP-Nonce: n", "Authentication-Info: x", "Connection: X-Hop", "X-Hop: 1", "X-Kept: 1"),
    *("Keep-Alive: timeout=9", "Alt-Svc: h2=evil.test", "Trailer: Set-Cookie"),
)


async def test_what_could_choose_the_token_or_the_meaning_does_not_pass() -> None:
    async with rigged() as rig:
        assert await rig.guest.asks("/events", *MINE) == "200"
        [request] = rig.api.received
        assert sorted(name for name, _ in request.headers) == ["authorization", "host"]
        assert rig.world.op._state.credentials.access_token(request.token) is not None


async def test_ordinary_headers_pass_and_those_of_the_route() -> None:
    async with rigged(headers=["Anthropic-Version"]) as rig:
        mine = ("Anthropic-Version: 2023", "Range: bytes=0-1", "X-A: 1", "Accept: \xe4")
        assert await rig.guest.asks("/events", *mine) == "200"
        [request] = rig.api.received
        assert request.header("anthropic-version") == "2023"
        assert request.header("range") == "bytes=0-1"
        assert request.header("accept") == "\xe4"
        assert request.header("x-a") is None


async def test_an_answer_has_no_cookie_no_challenge_and_no_token() -> None:
    async def tells(request: Received, writer: asyncio.StreamWriter) -> None:
        echo = f"X-Echo: you sent {request.token}!", f"Location: https://evil.test/{request.token}"
        await says(b"ok", "200 OK", *OF_API, *echo)(request, writer)

    async with rigged(api=Api(tells)) as rig:
        answer = await rig.guest.get()
        assert sorted(answer.headers) == ["content-length", "x-kept"]
        await rig.guest.get()
        assert rig.api.received[1].header("cookie") is None


async def test_a_body_reaches_the_api_as_it_is() -> None:
    async def chunks() -> AsyncIterator[bytes]:
        yield b"in "
        yield b"chunks"

    async with rigged() as rig:
        for body in (b"", b"lunch", b"x" * 300_000):
            await rig.guest.call("POST", content=body)
            assert rig.api.received[-1].body == body
        await rig.guest.call("POST", content=chunks())
        assert rig.api.received[-1].body == b"in chunks"


SMUGGLED = b"GET /secrets HTTP/1.1\r\nHost: calendar.internal\r\n\r\n"
FRAMINGS = [
    ["Content-Length: 5", "Content-Length: 6"],
    ["Content-Length: 5, 6"],
    ["Transfer-Encoding: chunked, identity"],
    ["Transfer-Encoding : chunked"],
]


@pytest.mark.parametrize("lines", FRAMINGS, ids=" and ".join)
async def test_a_body_with_two_framings_is_refused(lines: list[str]) -> None:
    async with rigged() as rig:
        body = b"0\r\n\r\n" + SMUGGLED
        assert await rig.guest.asks("/events", *lines, method="POST", body=body) == "400"
        assert not rig.api.received


async def test_chunks_override_a_length_and_each_request_of_a_connection_is_judged() -> None:
    async with rigged(headers=["Content-Length"]) as rig:
        head = f"POST /events HTTP/1.1\r\nHost: {NAME}\r\nTransfer-Encoding: chunked\r\n"
        head += "Content-Length: 6\r\n\r\n"
        answer = await rig.guest.writes(head.encode() + b"0\r\n\r\n" + SMUGGLED)
        assert [part[:3] for part in answer.split(b"HTTP/1.1 ")[1:]] == [b"200", b"403"]
        [request] = rig.api.received
        assert (request.header("content-length"), request.body) == (None, b"")


async def test_what_follows_a_refused_body_is_no_request() -> None:
    async with rigged() as rig:
        head = f"POST /secrets HTTP/1.1\r\nHost: {NAME}\r\nContent-Length: 9999\r\n\r\n".encode()
        answer = await rig.guest.writes(head + b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n")
        assert answer.count(b"HTTP/1.1 ") == 1
        assert answer.startswith(b"HTTP/1.1 403")
        assert b"\r\nconnection: close\r\n" in answer


async def test_what_an_api_sends_after_an_answer_reaches_no_other_guest(tmp_path: Path) -> None:
    """A guest may bring an API to it, for example with a body that it counts in another way."""
    async with rigged() as rig:
        await rig.world.signed_in("bob")
        bob = await session_of(rig.world, "bob")
        access = await rig.broker.give(bob, to="m2", routes=[NAME], until=TWO_HOURS)
        async with rig.broker.serve(access, path := str(tmp_path / "m2")):
            rig.api.answer = says(b"okHTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", length=2)
            assert (await rig.guest.get()).text == "ok"
            rig.api.answer = says(b"Bob's")
            assert (await Guest(path).get()).text == "Bob's"


async def test_http_1_0_is_refused_because_a_broken_answer_ends_there_as_a_whole_one() -> None:
    async with rigged() as rig:
        answer = await rig.guest.writes(f"GET /events HTTP/1.0\r\nHost: {NAME}\r\n\r\n".encode())
        assert answer.startswith(b"HTTP/1.1 505 ")
        assert b"broker.version: Use HTTP/1.1." in answer
        assert not rig.api.received

"""Many logins at once: every one that counts has come to its page."""

from __future__ import annotations

import asyncio
import warnings

import httpx
import pytest
from starlette.types import ASGIApp, Message

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # of the peers
    from tools.benchmarks.oidc_login_apps import APPLICATIONS, BASE_URL, OURS, PEER, the_provider
    from tools.benchmarks.oidc_login_rate import Rate, a_browser, compared, one_login

ISSUER = "http://127.0.0.1:1"
ANSWER = b"HTTP/1.1 303 See Other\r\nLocation: /me\r\nContent-Length: 0\r\n\r\n"


async def end(app: ASGIApp) -> None:
    """Starts it and ends it, which closes its connections to the provider."""
    received = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> Message:
        return {"type": next(received)}

    async def send(message: Message) -> None:
        assert message["type"].endswith(".complete")

    await app({"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}, receive, send)


@pytest.mark.parametrize("name", [OURS, PEER])
async def test_a_browser_signs_in_again_and_again(name: str) -> None:
    with the_provider().serve() as issuer:
        app = APPLICATIONS[name](issuer)
        async with httpx.AsyncClient(
            base_url=BASE_URL,
            transport=httpx.ASGITransport(app),
            mounts={issuer: httpx.AsyncHTTPTransport()},
            follow_redirects=True,
        ) as browser:
            for _ in range(2):
                await one_login(browser)
            assert (await browser.get("/me")).json() == {"sub": "alice"}
        await end(app)


async def test_an_application_is_asked_at_its_port_as_by_a_proxy() -> None:
    asked: list[bytes] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        asked.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(ANSWER)
        writer.close()

    async with await asyncio.start_server(serve, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with a_browser(port, ISSUER) as browser:
            answer = await browser.get("/auth/login?return_to=/me", follow_redirects=False)
    (request,) = asked
    assert request.startswith(b"GET /auth/login?return_to=/me HTTP/1.1\r\n")
    assert b"\r\nHost: app.test\r\n" in request
    assert b"\r\nX-Forwarded-Proto: https\r\n" in request
    assert answer.next_request is not None
    assert str(answer.next_request.url) == f"{BASE_URL}/me"


def test_half_of_the_logins_in_a_second_is_twice_the_time() -> None:
    targets = list(compared({OURS: Rate(20, 5), PEER: Rate(10, 50)}))
    assert [target.figure for target in targets] == [0.5, 0.1]
    assert all(target.is_met for target in targets)

"""A guest calls an API as a person, and never holds a token."""

from __future__ import annotations

from collections.abc import AsyncIterator

from tests.oidc.broker.rig import rigged


async def test_a_guest_calls_as_the_person_and_sees_no_token() -> None:
    async with rigged() as rig:
        answer = await rig.guest.get("/events?week=12", headers={"Accept": "text/plain"})
        assert (answer.status_code, answer.text) == (200, "ok")
        [request] = rig.api.received
        assert (request.method, request.target) == ("GET", "/events?week=12")
        token = rig.world.op._state.credentials.access_token(request.token)
        assert token is not None
        assert token.claims["sub"] == "alice"
        assert token.claims["aud"] == "https://calendar.test"
        assert request.header("accept") == "text/plain"
        assert request.token not in str(answer.headers)


async def test_a_body_reaches_the_api_as_it_is() -> None:
    async with rigged() as rig:
        for body in (b"", b"lunch", b"x" * 300_000):
            await rig.guest.call("POST", content=body)
            assert rig.api.received[-1].body == body

        async def chunks() -> AsyncIterator[bytes]:
            yield b"in "
            yield b"chunks"

        await rig.guest.call("POST", content=chunks())
        assert rig.api.received[-1].body == b"in chunks"

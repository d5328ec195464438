"""One limit over everything that a call to the Provider needs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx
import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.client_auth import NoSecret
from fastapi_oidc.provider import Provider, Registration
from fastapi_oidc.provider.deadline import deadline
from tests.oidc.provider.op import ISSUER, OP, SigningKey


async def test_three_slow_requests_share_the_limit_of_one_call(op: OP) -> None:
    async def slow(request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0.15)
        return op.respond(request)

    op.publish([SigningKey("old")])
    provider = Provider(
        ISSUER,
        Registration(
            client_id="console",
            client_secret=None,
            authentication=NoSecret("console"),
            algorithms=frozenset({"EdDSA"}),
        ),
        clock=Clock(),
        timeout=0.25,
        transport=httpx.MockTransport(slow),
    )
    with pytest.raises(ProviderError) as caught:
        await provider.verify(SigningKey("new").sign({}))
    assert caught.value.code == Code.PROVIDER_TIMEOUT
    assert caught.value.account == (
        "no complete answer within 0.25 seconds (url=https://op.test/jwks,"
        " setting=provider_timeout)"
    )


async def ask(*, at_the_end: Awaitable[object]) -> None:
    async with deadline(0.01, url="all of it"):
        async with deadline(60, url="the first, which was done in time"):
            pass
        await at_the_end


async def the_second() -> None:
    async with deadline(60, url="the second"):
        await asyncio.Event().wait()


async def the_second_in_a_task() -> None:
    await asyncio.create_task(the_second())


async def nobody() -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize(
    ("last", "named"),
    [(the_second, "the second"), (the_second_in_a_task, "the second"), (nobody, "all of it")],
)
async def test_what_was_asked_last_is_named_when_the_time_is_over(
    last: Callable[[], Awaitable[object]], named: str
) -> None:
    with pytest.raises(ProviderError) as caught:
        await ask(at_the_end=last())
    assert caught.value.details == {"url": named}

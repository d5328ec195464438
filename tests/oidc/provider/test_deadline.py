"""One limit over everything that a call to the Provider needs."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.client_auth import NoSecret
from fastapi_oidc.provider import Provider, Registration
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

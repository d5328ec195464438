"""Before a code or refresh token is presented, everything that its answer needs is at hand."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
import pytest

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider import LONGEST_EXCHANGE, deadline
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import OP, SigningKey

DISCOVERY = "/tenant/.well-known/openid-configuration"


async def test_a_prepared_provider_verifies_without_asking(op: OP) -> None:
    key, provider = SigningKey("one"), op.provider()
    op.publish([key])
    await provider.prepare_refresh()
    asked = len(op.requests)
    await provider.prepare_refresh()
    await provider.verify(key.sign({"sub": "alice"}))
    assert len(op.requests) == asked == 2


async def test_a_provider_whose_tokens_are_signed_with_the_secret_needs_no_keys(op: OP) -> None:
    await op.provider(algorithms=["HS256"]).prepare_refresh()
    assert op.asked("/jwks") == 0


@pytest.mark.parametrize("path", [DISCOVERY, "/jwks"])
async def test_without_metadata_or_keys_it_is_not_prepared(op: OP, path: str) -> None:
    op.publish([SigningKey("one")])
    op.answer(path, {}, status=503)
    with refused(Code.PROVIDER_STATUS, ProviderError):
        await op.provider().prepare_refresh()


async def test_the_last_known_metadata_and_keys_prepare_it_for_a_day(op: OP) -> None:
    op.publish([SigningKey("one")])
    provider = op.provider()
    await provider.prepare_refresh()
    op.break_off(DISCOVERY)
    op.break_off("/jwks")
    op.now += 24 * 3600 - 1
    await provider.prepare_refresh()
    op.now += 1
    with pytest.raises(ProviderError):
        await provider.prepare_refresh()


async def test_a_refresh_token_that_was_sent_is_waited_for_longer_than_any_other_call(
    op: OP, monkeypatch: pytest.MonkeyPatch
) -> None:
    limits: dict[str, float] = {}

    @asynccontextmanager
    async def recorded(seconds: float, **details: object) -> AsyncIterator[None]:
        limits[httpx.URL(str(details["url"])).path] = seconds
        async with deadline(seconds, **details):
            yield

    monkeypatch.setattr("fastapi_oidc.provider.http.deadline", recorded)
    await op.provider().refresh("rt")
    assert limits == {DISCOVERY: 10.0, "/token": LONGEST_EXCHANGE}
    assert op.requests[-1].extensions["timeout"] == {
        "connect": 10.0,
        "pool": 10.0,
        "read": None,
        "write": None,
    }


@pytest.mark.parametrize("status", [200, 302, 404])
async def test_a_provider_that_answers_is_reachable(op: OP, status: int) -> None:
    op.answer(DISCOVERY, {}, status=status)
    assert await op.provider().is_reachable()


async def test_what_is_remembered_does_not_make_a_provider_reachable(op: OP) -> None:
    provider = op.provider()
    await provider.metadata()
    op.answer(DISCOVERY, {}, status=503)
    assert not await provider.is_reachable()
    op.break_off(DISCOVERY)
    assert not await provider.is_reachable()
    assert (await provider.metadata()).jwks_uri

"""Before a code or refresh token is presented, everything that its answer needs is at hand."""

from __future__ import annotations

import pytest

from tests.oidc.provider.op import OP

DISCOVERY = "/tenant/.well-known/openid-configuration"


async def test_a_provider_whose_tokens_are_signed_with_the_secret_needs_no_keys(op: OP) -> None:
    await op.provider(algorithms=["HS256"]).prepare_refresh()
    assert op.asked("/jwks") == 0


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

"""UserInfo as JSON and as a signed JWT (OpenID Connect Core 5.3)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fastapi_oidc.errors import Code, OIDCError
from tests.oidc.provider.op import ISSUER, OP, SigningKey

DISCOVERY = "/tenant/.well-known/openid-configuration"
SIGNED = {"sub": "alice", "iss": ISSUER, "aud": "console"}


def answer_signed(op: OP, claims: Mapping[str, object]) -> None:
    key = SigningKey("k")
    op.publish([key])
    op.answer_text("/userinfo", key.sign(claims), "application/jwt")


async def code_of(op: OP) -> Code:
    with pytest.raises(OIDCError) as caught:
        await op.provider().userinfo("at", sub="alice")
    return caught.value.code


async def test_a_signed_answer_is_verified(op: OP) -> None:
    answer_signed(op, SIGNED)
    assert await op.provider().userinfo("at", sub="alice") == SIGNED


async def test_a_refused_access_token_is_a_status_that_says_how_to_do_without(op: OP) -> None:
    op.answer("/userinfo", {"error": "invalid_token"}, status=401)
    with pytest.raises(OIDCError, match="fetch_userinfo=False") as caught:
        await op.provider().userinfo("at", sub="alice")
    assert caught.value.code == Code.PROVIDER_STATUS

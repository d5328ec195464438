"""UserInfo as JSON and as a signed JWT (OpenID Connect Core 5.3)."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import ISSUER, METADATA, NOW, OP, SigningKey

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


async def test_json_is_asked_for_with_the_access_token(op: OP) -> None:
    op.answer("/userinfo", {"sub": "alice", "name": "Alice"})
    claims = await op.provider().userinfo("at", sub="alice")
    assert claims == {"sub": "alice", "name": "Alice"}
    assert op.requests[-1].headers["Authorization"] == "Bearer at"
    assert op.requests[-1].method == "GET"


async def test_a_signed_answer_is_verified(op: OP) -> None:
    answer_signed(op, SIGNED)
    assert await op.provider().userinfo("at", sub="alice") == SIGNED


@pytest.mark.parametrize(
    ("change", "code", "kind"),
    [
        ({"iss": "https://op.test/tenant"}, Code.USERINFO_ISSUER, ProviderError),
        ({"aud": "another"}, Code.USERINFO_AUDIENCE, ProviderError),
        ({"exp": NOW - 30}, Code.USERINFO_EXPIRED, ProviderError),
        ({"sub": "bob"}, Code.USERINFO_SUBJECT, ProtocolViolation),
    ],
)
async def test_only_an_answer_about_somebody_else_is_a_violation(
    op: OP, change: Mapping[str, object], code: Code, kind: type[OIDCError]
) -> None:
    answer_signed(op, {**SIGNED, **change})
    with refused(code, kind):
        await op.provider().userinfo("at", sub="alice")


async def test_a_signature_by_another_key_is_refused(op: OP) -> None:
    answer_signed(op, SIGNED)
    op.publish([SigningKey("k")])
    assert await code_of(op) == Code.JWS_SIGNATURE


async def test_a_refused_access_token_is_a_status_that_says_how_to_do_without(op: OP) -> None:
    op.answer("/userinfo", {"error": "invalid_token"}, status=401)
    with pytest.raises(OIDCError, match="fetch_userinfo=False") as caught:
        await op.provider().userinfo("at", sub="alice")
    assert caught.value.code == Code.PROVIDER_STATUS


async def test_its_algorithms_may_differ_from_those_of_id_tokens(op: OP) -> None:
    answer_signed(op, SIGNED)
    provider = op.provider(algorithms=["RS256"], userinfo_algorithms=["EdDSA"])
    assert await provider.userinfo("at", sub="alice") == SIGNED
    with pytest.raises(OIDCError) as caught:
        await op.provider(userinfo_algorithms=["RS256"]).userinfo("at", sub="alice")
    assert caught.value.message == (
        "signed with 'EdDSA', pinned are ['RS256'] (setting=userinfo_signing_algorithms)"
    )


async def test_a_provider_without_the_endpoint_has_no_answer(op: OP) -> None:
    op.answer(DISCOVERY, {k: v for k, v in METADATA.items() if k != "userinfo_endpoint"})
    assert await op.provider().userinfo("at", sub="alice") is None

"""Verification with the OP's keys while they rotate (OpenID Connect Core 10.1)."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, OIDCError, ProtocolViolation, ProviderError
from fastapi_oidc.protocol.jose.sign import Signer
from fastapi_oidc.provider import Provider, Undecided
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import OP, SigningKey

CLAIMS = {"sub": "alice"}


@pytest.fixture
def old() -> SigningKey:
    return SigningKey("old")


@pytest.fixture
def new() -> SigningKey:
    return SigningKey("new")


async def code_of(provider: Provider, token: str) -> Code:
    with pytest.raises(OIDCError) as caught:
        await provider.verify(token)
    return caught.value.code


async def test_a_damaged_signature_is_final_and_many_read_the_keys_again_once_a_minute(
    op: OP, old: SigningKey
) -> None:
    op.publish([old])
    damaged, provider = old.sign(CLAIMS)[:-4] + "AAAA", op.provider()
    with refused(Code.JWS_SIGNATURE, ProtocolViolation):
        await provider.verify(damaged)
    assert op.asked("/jwks") == 2
    for _ in range(20):
        assert await code_of(provider, damaged) == Code.JWS_SIGNATURE
    assert op.asked("/jwks") == 2


async def test_a_key_that_was_replaced_under_its_name_is_found_at_once(op: OP) -> None:
    provider, first, second = op.provider(), SigningKey("same"), SigningKey("same")
    op.publish([first])
    await provider.verify(first.sign(CLAIMS))
    op.publish([second])
    assert (await provider.verify(second.sign(CLAIMS))).claims == CLAIMS
    assert op.asked("/jwks") == 2


async def test_keys_that_cannot_be_read_again_leave_a_token_undecided(
    op: OP, old: SigningKey, new: SigningKey
) -> None:
    provider = op.provider()
    op.publish([old])
    await provider.verify(old.sign(CLAIMS))
    op.answer("/jwks", {}, status=503)
    with refused(Code.PROVIDER_STATUS, ProviderError):
        await provider.verify(new.sign(CLAIMS))


async def test_a_token_by_a_new_key_that_names_the_old_one_is_verified(
    op: OP, old: SigningKey
) -> None:
    """Ory Hydra names the key of the login in refreshed ID tokens."""
    signer = SigningKey("old")
    published = SigningKey("new")
    published.jwk["x"] = signer.jwk["x"]
    provider = op.provider()
    op.publish([old])
    await provider.verify(old.sign(CLAIMS))
    op.publish([old, published])
    assert (await provider.verify(signer.sign(CLAIMS))).claims == CLAIMS
    assert op.asked("/jwks") == 2


async def test_a_flood_of_invented_keys_makes_no_flood_of_requests(op: OP, old: SigningKey) -> None:
    provider = op.provider()
    op.publish([old])
    for number in range(20):
        invented = SigningKey(f"invented-{number}").sign(CLAIMS)
        assert await code_of(provider, invented) == Code.JWS_KEY_MISSING
    assert op.asked("/jwks") == 2


async def test_a_withdrawn_key_is_forgotten_after_an_hour(
    op: OP, old: SigningKey, new: SigningKey
) -> None:
    provider = op.provider()
    op.publish([old])
    await provider.verify(old.sign(CLAIMS))
    op.publish([new])
    op.now += 3600
    assert await code_of(provider, old.sign(CLAIMS)) == Code.JWS_KEY_MISSING


async def test_a_secret_signature_needs_no_keys_of_the_provider(op: OP) -> None:
    token = Signer.of_secret("s" * 32, "HS256").sign(CLAIMS)
    provider = op.provider(algorithms=["HS256"])
    assert (await provider.verify(token)).claims == CLAIMS
    assert op.requests == []


async def test_a_key_that_is_not_published_yet_is_undecided(
    op: OP, old: SigningKey, new: SigningKey
) -> None:
    provider = op.provider()
    op.publish([old])
    with pytest.raises(Undecided) as first:
        await provider.verify(new.sign(CLAIMS))
    with pytest.raises(Undecided) as too_early:
        await provider.verify(new.sign(CLAIMS))
    assert (first.value.code, too_early.value.code) == (Code.JWS_KEY_MISSING, Code.JWS_KEY_MISSING)
    assert "were fetched again" in first.value.explanation
    assert "too early" in too_early.value.explanation
    op.publish([old, new])
    op.now += 60
    assert (await provider.verify(new.sign(CLAIMS))).claims == CLAIMS

"""Pushed authorization requests (RFC 9126) and token revocation (RFC 7009)."""

from __future__ import annotations

import pytest

from fastapi_oidc.errors import Code, ProviderError
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import METADATA, OP

DISCOVERY = "/tenant/.well-known/openid-configuration"
PARAMETERS = {"client_id": "console", "scope": "openid", "state": "s"}


def without(endpoint: str) -> dict[str, object]:
    return {name: value for name, value in METADATA.items() if name != endpoint}


@pytest.mark.parametrize("status", [200, 201])
async def test_a_pushed_request_has_a_uri(op: OP, status: int) -> None:
    op.answer("/par", {"request_uri": "urn:x:1", "expires_in": 60}, status=status)
    assert await op.provider().push_authorization_request(PARAMETERS) == "urn:x:1"
    assert op.last_form() == PARAMETERS
    assert op.requests[-1].headers["Authorization"].startswith("Basic ")


async def test_a_refused_push_is_named(op: OP) -> None:
    op.answer("/par", {"error": "invalid_client"}, status=401)
    with refused(Code.TOKEN_INVALID_CLIENT, ProviderError):
        await op.provider().push_authorization_request(PARAMETERS)


async def test_pushing_without_an_endpoint_is_refused(op: OP) -> None:
    op.answer(DISCOVERY, without("pushed_authorization_request_endpoint"))
    with refused(Code.PROVIDER_ENDPOINT_MISSING, ProviderError):
        await op.provider().push_authorization_request(PARAMETERS)


async def test_a_token_is_revoked(op: OP) -> None:
    op.answer_text("/revoke", "", "text/plain")
    await op.provider().revoke("rt", "refresh_token")
    assert op.last_form() == {"token": "rt", "token_type_hint": "refresh_token"}
    assert op.requests[-1].headers["Authorization"].startswith("Basic ")


async def test_the_body_of_a_successful_revocation_is_not_read(op: OP) -> None:
    """RFC 7009 2.2: the client must ignore it."""
    op.answer("/revoke", {"error": "invalid_request"})
    await op.provider().revoke("rt", "refresh_token")


async def test_a_failed_revocation_is_told(op: OP) -> None:
    op.answer_text("/revoke", "", "text/plain", status=503)
    with refused(Code.PROVIDER_STATUS, ProviderError):
        await op.provider().revoke("rt", "refresh_token")


async def test_revoking_without_an_endpoint_is_refused(op: OP) -> None:
    op.answer(DISCOVERY, without("revocation_endpoint"))
    with refused(Code.PROVIDER_ENDPOINT_MISSING, ProviderError):
        await op.provider().revoke("rt", "refresh_token")

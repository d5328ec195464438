"""Pushed authorization requests (RFC 9126) and token revocation (RFC 7009)."""

from __future__ import annotations

from fastapi_oidc.errors import Code, ProviderError
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.op import METADATA, OP

DISCOVERY = "/tenant/.well-known/openid-configuration"
PARAMETERS = {"client_id": "console", "scope": "openid", "state": "s"}


def without(endpoint: str) -> dict[str, object]:
    return {name: value for name, value in METADATA.items() if name != endpoint}


async def test_a_refused_push_is_named(op: OP) -> None:
    op.answer("/par", {"error": "invalid_client"}, status=401)
    with refused(Code.TOKEN_INVALID_CLIENT, ProviderError):
        await op.provider().push_authorization_request(PARAMETERS)

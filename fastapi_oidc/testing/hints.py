"""ID tokens that return as hints."""

from __future__ import annotations

from typing import NamedTuple

from fastapi_oidc.errors import OIDCError
from fastapi_oidc.protocol.encoding import Claims, CompactJWS
from fastapi_oidc.protocol.jose.keys import verified_claims
from fastapi_oidc.testing.registration import DevClient, DevUser
from fastapi_oidc.testing.state import ProviderState


class Hint(NamedTuple):
    """The client and the user of an ID token; the user is None if there is none of that `sub`."""

    client: DevClient
    user: DevUser | None


def verified_hint(op: ProviderState, id_token: str) -> Hint | None:
    """The hint in an ID token, expired or not; None if this provider did not sign it.

    A signature is enough (RP-Initiated Logout 1.0, 2), so tokens are hints after a restart too.
    """
    try:
        token = CompactJWS.parse(id_token)
        client = _audience(op, token.claims())
        if client is None:
            return None
        claims = verified_claims(
            token,
            op.keys.of_hints(),
            algorithms={client.id_token_signed_response_alg},
            client_secret=client.client_secret,
        )
    except OIDCError:
        return None
    return Hint(client, op.users.get(str(claims.get("sub"))))


def _audience(op: ProviderState, claims: Claims) -> DevClient | None:
    """The client in `aud`, which may be a list (Core 2)."""
    audience = claims.get("aud")
    names = audience if isinstance(audience, list) else [audience]
    return next((op.clients[str(name)] for name in names if str(name) in op.clients), None)

"""Sessions for tests that override a dependency in place of a login."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, TypeVar

from fastapi_oidc.peer_names import require_known
from fastapi_oidc.protocol.encoding import CompactJWS
from fastapi_oidc.session.model import OIDCSession, Tokens

Identity = TypeVar("Identity")

_NO_TOKEN = "made by session_for"  # noqa: S105 - no token
_LIFETIME = 8 * 3600


def session_for(
    identity: Identity, *, sub: str | None = None, **members: Any
) -> OIDCSession[Identity]:
    """A session with `identity` for tests, valid for eight hours.

    Return it from `app.dependency_overrides[oidc.require_auth]`. Without `sub` it is the `sub` of
    the identity, or "alice" if the identity has none. Sessions of one `sub` have the same `id`, so
    that `oidc.csrf_token(session)` is valid for each of them. `members` sets other members of
    `OIDCSession`. The tokens are placeholders, unless `tokens` are those of `provider.tokens(...)`.
    Raises TypeError for an unknown member.
    """
    if isinstance(identity, type):
        raise TypeError(f"session_for takes an identity, not the class {identity.__name__}")
    require_known("session_for", members, OIDCSession.model_fields)
    tokens: Tokens = members.get("tokens") or Tokens(id_token=_NO_TOKEN, access_token=_NO_TOKEN)
    sub = sub or _sub_of(identity)
    claims: dict[str, Any] = {"iss": "https://op.test", "aud": "test", "iat": int(time.time())}
    claims |= {"sub": sub} | _claims_in(tokens.id_token)
    usual = {
        "id": f"session-of-{sub}",
        "issuer": claims["iss"],
        "client_id": claims["aud"],
        "audiences": (claims["aud"],),
        "sid": claims.get("sid"),
        "auth_time": claims.get("auth_time"),
        "claims": claims,
        "tokens": tokens,
        "created_at": claims["iat"],
        "authenticated_at": claims["iat"],
        "expires_at": claims["iat"] + _LIFETIME,
    }
    return OIDCSession(sub=sub, identity=identity, **(usual | members))


def _claims_in(id_token: str) -> dict[str, Any]:
    """The claims of an ID token of a `DevProvider`; none of a placeholder."""
    return {} if id_token == _NO_TOKEN else dict(CompactJWS.parse(id_token).claims())


def _sub_of(identity: object) -> str:
    named = identity if isinstance(identity, Mapping) else {"sub": getattr(identity, "sub", None)}
    sub = named.get("sub")
    return sub if isinstance(sub, str) and sub else "alice"

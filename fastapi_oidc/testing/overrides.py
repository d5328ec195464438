"""Sessions for tests that override a dependency in place of a login."""

from __future__ import annotations

import secrets
import time
from typing import Any, TypeVar

from fastapi_oidc.session.model import OIDCSession, Tokens

Identity = TypeVar("Identity")

_NO_TOKEN = "made by session_for"  # noqa: S105 - no token
_LIFETIME = 8 * 3600


def session_for(identity: Identity, *, sub: str = "alice", **members: Any) -> OIDCSession[Identity]:
    """A session with `identity` for tests, valid for eight hours.

    Return it from `app.dependency_overrides[oidc.require_auth]`. `members` sets other members of
    `OIDCSession`. Its tokens are placeholders.
    """
    now = int(time.time())
    usual: dict[str, Any] = {
        "id": secrets.token_urlsafe(16),
        "issuer": "https://op.test",
        "client_id": "test",
        "claims": {"sub": sub},
        "tokens": Tokens(id_token=_NO_TOKEN, access_token=_NO_TOKEN),
        "created_at": now,
        "authenticated_at": now,
        "expires_at": now + _LIFETIME,
    }
    return OIDCSession(sub=sub, identity=identity, **(usual | members))

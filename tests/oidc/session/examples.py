"""Sessions that are valid, for tests that change one thing."""

from __future__ import annotations

import base64
import json
import secrets
from dataclasses import dataclass

from pydantic import JsonValue

from fastapi_oidc.session.endings import Maker, RevocationRecord
from fastapi_oidc.session.model import LoginTransaction, OIDCSession, PreviousSession, Tokens

SECRET = "0123456789abcdef0123456789abcdef"
OLD_SECRET = "fedcba9876543210fedcba9876543210"
NOW = 1_800_000_000
LIFETIME = 28_800


@dataclass(frozen=True)
class User:
    """An application's own identity."""

    sub: str
    name: str
    roles: tuple[str, ...] = ()


ALICE = User(sub="alice", name="Alice", roles=("admin",))


def a_session(
    *,
    id: str = "session-1",
    sub: str = "alice",
    sid: str | None = "op-session-1",
    issuer: str = "https://op.example.com",
    client_id: str = "app",
    authenticated_at: int = NOW,
    created_at: int | None = None,
    expires_at: int = NOW + LIFETIME,
    claims: dict[str, JsonValue] | None = None,
    tokens: Tokens | None = None,
) -> OIDCSession[User]:
    return OIDCSession(
        id=id,
        issuer=issuer,
        client_id=client_id,
        sub=sub,
        identity=ALICE,
        claims=claims or {"iss": issuer, "sub": sub, "amr": ["pwd"], "age": {"min": 18.5}},
        tokens=tokens or Tokens(id_token="id.to.ken", access_token="access", refresh_token="again"),
        sid=sid,
        nonce="nonce-1",
        audiences=(client_id,),
        created_at=authenticated_at if created_at is None else created_at,
        authenticated_at=authenticated_at,
        expires_at=expires_at,
    )


def a_transaction(
    *,
    state: str = "state-1",
    created_at: int = NOW,
    return_to: str = "/reports?year=2026",
    previous: PreviousSession | None = None,
) -> LoginTransaction:
    return LoginTransaction(
        state=state,
        nonce="nonce-1",
        code_verifier="verifier-1",
        redirect_uri="https://app.example.com/auth/callback",
        return_to=return_to,
        issuer="https://op.example.com",
        created_at=created_at,
        previous=previous,
    )


def a_record(
    *,
    sid: str | None = "op-session-1",
    sub: str | None = None,
    session_id: str | None = None,
    issuer: str = "https://op.example.com",
    client_id: str = "app",
    issued_at: int = NOW,
    expires_at: int = NOW + LIFETIME,
    made_by: Maker = "provider",
) -> RevocationRecord:
    return RevocationRecord(
        issuer=issuer,
        client_id=client_id,
        sid=sid,
        sub=sub,
        session_id=session_id,
        jti="logout-1",
        issued_at=issued_at,
        expires_at=expires_at,
        made_by=made_by,
    )


def keycloak_like_session() -> OIDCSession[User]:
    """The three JWTs of a default Keycloak realm, random where theirs are, and the claims."""
    common: dict[str, JsonValue] = {
        "exp": NOW + 300,
        "iat": NOW,
        "jti": _uuid(),
        "iss": "https://sso.example.com/realms/example",
        "sub": _uuid(),
        "sid": _uuid(),
        "azp": "console",
        "acr": "1",
    }
    profile: dict[str, JsonValue] = {
        "email_verified": True,
        "name": "Alice Example",
        "preferred_username": "alice",
        "given_name": "Alice",
        "family_name": "Example",
        "email": "alice@example.com",
    }
    roles: dict[str, JsonValue] = {
        "aud": "account",
        "allowed-origins": ["https://app.example.com"],
        "realm_access": {"roles": ["default-roles-example", "offline_access", "uma_authorization"]},
        "resource_access": {
            "account": {"roles": ["manage-account", "manage-account-links", "view-profile"]}
        },
        "scope": "openid email profile",
    }
    id_claims = (
        common
        | profile
        | {
            "aud": "console",
            "auth_time": NOW,
            "nonce": _random(32),
            "at_hash": _random(16),
            "typ": "ID",
        }
    )
    refresh = common | {"aud": common["iss"], "typ": "Refresh", "scope": roles["scope"]}
    tokens = Tokens(
        id_token=_jwt("RS256", id_claims, signature_bytes=256),
        access_token=_jwt("RS256", common | roles | profile, signature_bytes=256),
        refresh_token=_jwt("HS512", refresh, signature_bytes=64),
        expires_at=NOW + 300,
        scope=("openid", "email", "profile"),
    )
    return a_session(claims=id_claims, tokens=tokens)


def _jwt(algorithm: str, claims: dict[str, JsonValue], *, signature_bytes: int) -> str:
    header = {"alg": algorithm, "typ": "JWT", "kid": _random(32)}
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in (header, claims)]
    return ".".join(map(_base64url, [*parts, secrets.token_bytes(signature_bytes)]))


def _base64url(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).decode().rstrip("=")


def _random(byte_count: int) -> str:
    return _base64url(secrets.token_bytes(byte_count))


def _uuid() -> str:
    digits = secrets.token_hex(16)
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))

"""A session as a Keycloak 26 realm makes it: its claims and lengths, random where it is random."""

import json
import secrets
from uuid import uuid4

from pydantic import JsonValue

from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.session.model import OIDCSession, StandardIdentity, Tokens
from tests.oidc.session.examples import LIFETIME, NOW

ISSUER = "https://sso.example.com/realms/example"
TWENTY_LONG_ROLES = tuple(
    f"{department}-{application}-{right}"
    for department in ("finance", "logistics", "purchasing", "engineering", "administration")
    for application in ("reporting", "documents")
    for right in ("viewer", "administrator")
)


def keycloak_session() -> OIDCSession[StandardIdentity]:
    """The largest of the field: twenty long roles, also in the ID token, and an offline token."""
    scope = "openid profile email offline_access"
    common: dict[str, JsonValue] = {
        "exp": NOW + 300,
        "iat": NOW,
        "auth_time": NOW - 1,
        "jti": f"onrtac:{uuid4()}",
        "iss": ISSUER,
        "sub": str(uuid4()),
        "azp": "console",
        "sid": str(uuid4()),
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
    usual = ["offline_access", "default-roles-example", "uma_authorization"]
    granted: dict[str, JsonValue] = {
        "realm_access": {"roles": [*usual, *TWENTY_LONG_ROLES]},
        "resource_access": {
            "account": {"roles": ["manage-account", "manage-account-links", "view-profile"]}
        },
    }
    id_claims = common | {
        "jti": str(uuid4()),
        "aud": "console",
        "typ": "ID",
        "nonce": secrets.token_urlsafe(32),
        "at_hash": secrets.token_urlsafe(16),
        **granted,
        **profile,
    }
    access_claims = common | {
        "aud": "account",
        "typ": "Bearer",
        "allowed-origins": ["https://app.example.com"],
        **granted,
        "scope": scope,
        **profile,
    }
    refresh_claims = common | {
        "jti": str(uuid4()),
        "aud": ISSUER,
        "typ": "Offline",
        "scope": f"{scope} web-origins acr roles basic",
        "nonce": id_claims["nonce"],
    }
    tokens = Tokens(
        id_token=_jwt("RS256", id_claims, signature_bytes=256),
        access_token=_jwt("RS256", access_claims, signature_bytes=256),
        refresh_token=_jwt("HS512", refresh_claims, signature_bytes=64),
        expires_at=NOW + 300,
        scope=tuple(scope.split()),
    )
    return OIDCSession(
        id=secrets.token_urlsafe(16),
        issuer=ISSUER,
        client_id="console",
        sub=str(common["sub"]),
        identity=StandardIdentity.from_claims(str(common["sub"]), profile),
        claims=id_claims,
        tokens=tokens,
        sid=str(common["sid"]),
        session_state=str(common["sid"]),
        auth_time=NOW - 1,
        nonce=str(id_claims["nonce"]),
        audiences=("console",),
        azp="console",
        created_at=NOW,
        authenticated_at=NOW,
        expires_at=NOW + LIFETIME,
    )


def _jwt(algorithm: str, claims: dict[str, JsonValue], *, signature_bytes: int) -> str:
    header = {"alg": algorithm, "typ": "JWT", "kid": secrets.token_urlsafe(32)}
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in (header, claims)]
    return ".".join(map(encode_base64url, [*parts, secrets.token_bytes(signature_bytes)]))

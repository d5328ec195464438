"""A session with tokens like those of a Keycloak 26 realm, random where they are random."""

import json
import secrets
from uuid import uuid4

from pydantic import JsonValue

from fastapi_oidc.protocol.encoding import encode_base64url
from fastapi_oidc.session.model import OIDCSession, Tokens
from tests.oidc.session.examples import User, a_session

TWENTY_LONG_ROLES = tuple(
    f"{department}-{application}-{right}"
    for department in ("finance", "logistics", "purchasing", "engineering", "administration")
    for application in ("reporting", "documents")
    for right in ("viewer", "administrator")
)


def keycloak_session() -> OIDCSession[User]:
    """The largest of the field: twenty long roles in two tokens, and an offline token."""
    common: dict[str, JsonValue] = {name: str(uuid4()) for name in ("sub", "sid", "azp")}
    common["iss"] = "https://sso.example.com/realms/example"
    account = ["manage-account", "manage-account-links", "view-profile"]
    usual = ["offline_access", "default-roles-example", "uma_authorization"]
    granted: dict[str, JsonValue] = {
        "realm_access": {"roles": [*usual, *TWENTY_LONG_ROLES]},
        "resource_access": {"account": {"roles": [*account]}},
        "tenants": [str(uuid4()) for _ in range(12)],
        **dict.fromkeys(("name", "preferred_username", "email"), "alice@example.com"),
    }
    nonce, scope = secrets.token_urlsafe(32), "openid profile email offline_access"
    at_hash = secrets.token_urlsafe(16)
    claims = common | granted | {"jti": str(uuid4()), "nonce": nonce, "at_hash": at_hash}
    tokens = Tokens(
        id_token=_jwt("RS256", claims, 256),
        access_token=_jwt("RS256", common | granted | {"jti": str(uuid4()), "scope": scope}, 256),
        refresh_token=_jwt("HS512", common | {"typ": "Offline", "scope": scope}, 64),
    )
    return a_session(claims=claims, tokens=tokens)


def _jwt(algorithm: str, claims: dict[str, JsonValue], signature_bytes: int) -> str:
    header = {"alg": algorithm, "typ": "JWT", "kid": secrets.token_urlsafe(32)}
    parts = [json.dumps(part, separators=(",", ":")).encode() for part in (header, claims)]
    return ".".join(map(encode_base64url, [*parts, secrets.token_bytes(signature_bytes)]))

"""A valid ID token and what it is held against."""

from fastapi_oidc.protocol.encoding import JSON
from fastapi_oidc.protocol.id_token import Expected, access_token_hash
from tests.oidc.protocol.examples import CLIENT_ID, ISSUER, NOW, TRUSTED

ACCESS_TOKEN = "access-1"
API = "https://api.test"

VALID: dict[str, JSON] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": [CLIENT_ID, API],
    "azp": CLIENT_ID,
    "exp": NOW + 300,
    "iat": NOW,
    "nbf": NOW,
    "nonce": "nonce-1",
    "auth_time": NOW - 60,
    "at_hash": access_token_hash(ACCESS_TOKEN, "RS256"),
    "sid": "op-session-1",
    "acr": "urn:mace:incommon:iap:silver",
    "name": "Alice",
    "unknown": {"of": ["any", "kind"]},
}

EXPECTED = Expected(
    issuer=TRUSTED,
    client_id=CLIENT_ID,
    algorithm="RS256",
    nonce="nonce-1",
    access_token=ACCESS_TOKEN,
    trusted_audiences=frozenset({API}),
    max_age=3600,
)

"""Authentication of this client at the OP (OpenID Connect Core 9, RFC 6749 2.3, RFC 7523)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias
from urllib.parse import quote_plus

from fastapi_oidc.errors import misconfigured
from fastapi_oidc.protocol.jose.sign import Signer

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_LIFETIME = 60
"""Seconds for which a client assertion is valid."""


Parts: TypeAlias = tuple[Mapping[str, str], Mapping[str, str]]
"""The headers and the form of a request."""


@dataclass(frozen=True, slots=True)
class ClientAuthentication:
    """A client, and the authentication method of Core 9 by which it proves to be this client.

    `client_secret` also is the key of tokens that the OP signs with HS algorithms.
    """

    method: str
    client_id: str
    client_secret: str = field(default="", repr=False)
    signer: Signer | None = None

    def apply(self, form: Mapping[str, str], *, audience: str, now: int, jti: str) -> Parts:
        """`form` with the client's credentials, and the headers beside it.

        An assertion names the OP as its `audience`, the current second and a new random `jti`.
        """
        if self.method == "client_secret_basic":
            return {"Authorization": self._basic()}, form
        # Alone with `none`, or where a certificate proves it (RFC 8705 2).
        credentials = {"client_id": self.client_id}
        if self.method == "client_secret_post":
            credentials["client_secret"] = self.client_secret
        elif self.signer is not None:
            credentials["client_assertion_type"] = ASSERTION_TYPE
            credentials["client_assertion"] = self._assertion(self.signer, audience, now, jti)
        return {}, {**form, **credentials}

    def _basic(self) -> str:
        """Both parts are form-urlencoded before base64 (RFC 6749 2.3.1)."""
        credentials = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        return f"Basic {b64encode(credentials.encode('ascii')).decode('ascii')}"

    def _assertion(self, signer: Signer, audience: str, now: int, jti: str) -> str:
        """A JWT for `audience` alone, valid for 60 seconds (RFC 7523 3)."""
        claims = {
            "iss": self.client_id,
            "sub": self.client_id,
            "aud": audience,
            "jti": jti,
            "iat": now,
            "exp": now + ASSERTION_LIFETIME,
        }
        return signer.sign(claims, typ="client-authentication+jwt")


def client_authentication(
    method: str,
    *,
    client_id: str,
    client_secret: str | None,
    private_key: str | Mapping[str, object] | None,
    algorithm: str | None = None,
    key_id: str | None = None,
) -> ClientAuthentication:
    """The method of that name (Core 9), with what it needs.

    `algorithm` and `key_id` are for the two JWT methods. Raises ConfigurationError when the
    secret or key of the method is missing, too short or unusable.
    """
    if method.startswith("client_secret_") and not client_secret:
        raise misconfigured(f"{method} needs client_secret")
    if method == "private_key_jwt" and not private_key:
        raise misconfigured(f"{method} needs client_private_key")
    signer = None
    if method == "client_secret_jwt":
        signer = Signer.of_secret(client_secret, algorithm or "HS256")
    elif method == "private_key_jwt" and private_key:
        signer = Signer.of_private_key(private_key, algorithm=algorithm, key_id=key_id)
    return ClientAuthentication(method, client_id, client_secret or "", signer)

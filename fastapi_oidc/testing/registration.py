"""The users, clients and APIs of a `DevProvider`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import load_pem_public_key
from pydantic import JsonValue

from fastapi_oidc.errors import ConfigurationError, misconfigured
from fastapi_oidc.protocol.jose.keys import ALGORITHMS, PublicKey
from fastapi_oidc.testing.keys import HMAC_ALGORITHMS

AuthenticationMethod: TypeAlias = Literal[
    "none", "client_secret_basic", "client_secret_post", "client_secret_jwt", "private_key_jwt"
]
AUTHENTICATION_METHODS: tuple[AuthenticationMethod, ...] = (
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
    "none",
)

SECRET_METHODS = tuple(method for method in AUTHENTICATION_METHODS if method != "none")

AccessTokenFormat: TypeAlias = Literal["opaque", "jwt", "plain_jwt"]

_LOCAL_HOSTS = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class DevUser:
    """A user. `claims` are added to the ID token and to UserInfo.

    With a `tenant` (a GUID) the user's tokens are like those of Microsoft Entra: they have the
    tenant's own issuer, and the provider's issuer, with `/common` or `/organizations`, is shared.
    """

    sub: str
    name: str = ""
    email: str | None = None
    claims: Mapping[str, JsonValue] = field(default_factory=dict)
    tenant: str | None = None

    @property
    def display_name(self) -> str:
        """The user's name on the login page."""
        return self.name or self.sub

    def claims_for(self, scope: Sequence[str]) -> dict[str, JsonValue]:
        """The claims for `scope` (OpenID Connect Core 5.4)."""
        claims = dict(self.claims)
        if "profile" in scope:
            claims |= {"name": self.display_name, "preferred_username": self.sub}
        if "email" in scope and self.email is not None:
            claims |= {"email": self.email, "email_verified": True}
        return claims


@dataclass(frozen=True, slots=True)
class DevResource:
    """An API for which access tokens can be requested (RFC 8707); `identifier` is their `aud`.

    A token for another API never has the values of `scope`. The client `client_id` is the API
    itself, which may exchange the tokens that it receives.
    """

    identifier: str
    scope: Sequence[str] = ()
    client_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DevClient:
    """A registered application. Field names are those of Dynamic Client Registration 1.0.

    `token_endpoint_auth_method` defaults to `client_secret_basic` with a secret, else to `none`.
    `public_key` is the PEM text that verifies the assertions of `private_key_jwt`.
    `access_token_format` is `opaque`, `jwt` (RFC 9068) or `plain_jwt` (as from Keycloak).
    `audience` is the `aud` of tokens that are requested without `resource`; the default is the
    issuer. `any_local_uri` accepts every http redirect URI on this machine, for demos.
    """

    client_id: str
    client_secret: str | None = field(default=None, repr=False)
    redirect_uris: Sequence[str] = ()
    post_logout_redirect_uris: Sequence[str] = ()
    token_endpoint_auth_method: AuthenticationMethod | None = None
    public_key: str | None = None
    id_token_signed_response_alg: str = "RS256"  # noqa: S105 (an algorithm)
    userinfo_signed_response_alg: str | None = None
    access_token_format: AccessTokenFormat = "opaque"  # noqa: S105 (a format)
    audience: str | None = None
    dpop_bound_access_tokens: bool = False
    backchannel_logout_uri: str | None = None
    frontchannel_logout_uri: str | None = None
    frontchannel_logout_session_required: bool = False
    require_pushed_authorization_requests: bool = False
    issue_refresh_tokens: bool = True
    any_local_uri: bool = False

    def __post_init__(self) -> None:
        """Refuse a registration that cannot work."""
        for name in ("redirect_uris", "post_logout_redirect_uris"):
            if isinstance(getattr(self, name), str):
                raise _unusable(self, f"{name} is a list of URLs, not a text")
        if self.authentication_method.startswith("client_secret") and not self.client_secret:
            raise _unusable(self, f"{self.authentication_method} needs a client_secret")
        if self.authentication_method == "private_key_jwt" and self.verification_key is None:
            raise _unusable(self, "private_key_jwt needs a public_key")
        for algorithm in self.signing_algorithms:
            if algorithm not in ALGORITHMS:
                raise _unusable(self, f"unknown signing algorithm {algorithm}")
            if algorithm in HMAC_ALGORITHMS and not self.client_secret:
                raise _unusable(self, f"{algorithm} needs a client_secret")

    @property
    def authentication_method(self) -> AuthenticationMethod:
        """The only authentication method of this client."""
        if self.token_endpoint_auth_method is not None:
            return self.token_endpoint_auth_method
        return "client_secret_basic" if self.client_secret else "none"

    @property
    def verification_key(self) -> PublicKey | None:
        """The `public_key` as a key."""
        if self.public_key is None:
            return None
        try:
            key = load_pem_public_key(self.public_key.encode())
        except (ValueError, UnsupportedAlgorithm):
            key = None
        if not isinstance(key, PublicKey):
            raise _unusable(self, "public_key is not a PEM of an RSA, EC or Ed25519 key")
        return key

    @property
    def access_token_typ(self) -> str | None:
        """The `typ` of its access tokens (RFC 9068 2.1); None when they are not JWTs."""
        return {"jwt": "at+jwt", "plain_jwt": "JWT"}.get(self.access_token_format)

    @property
    def access_token_signing_alg(self) -> str:
        """The algorithm of ID tokens, or RS256 if that is HMAC: APIs have only public keys."""
        chosen = self.id_token_signed_response_alg
        return "RS256" if chosen in HMAC_ALGORITHMS else chosen

    @property
    def signing_algorithms(self) -> frozenset[str]:
        """The algorithms with which the provider signs for this client."""
        chosen = {self.id_token_signed_response_alg, self.userinfo_signed_response_alg}
        return frozenset(algorithm for algorithm in chosen if algorithm is not None)

    def may_return_to(self, redirect_uri: str) -> bool:
        """Whether `redirect_uri` is registered, character by character (RFC 9700 2.1)."""
        return redirect_uri in self.redirect_uris or self._is_local(redirect_uri)

    def may_log_out_to(self, post_logout_redirect_uri: str) -> bool:
        """Whether the URI is registered for use after logout (RP-Initiated Logout 1.0, 3)."""
        registered = post_logout_redirect_uri in self.post_logout_redirect_uris
        return registered or self._is_local(post_logout_redirect_uri)

    def _is_local(self, uri: str) -> bool:
        address = urlsplit(uri)
        return self.any_local_uri and address.scheme == "http" and address.hostname in _LOCAL_HOSTS


def _unusable(client: DevClient, reason: str) -> ConfigurationError:
    return misconfigured(f"DevClient {client.client_id!r}: {reason}")

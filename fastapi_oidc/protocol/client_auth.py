"""Authentication of this client at the OP (OpenID Connect Core 9, RFC 6749 2.3, RFC 7523)."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol
from urllib.parse import quote_plus

from fastapi_oidc.errors import Code, ConfigurationError, misconfigured
from fastapi_oidc.protocol.jose.sign import Signer

ASSERTION_TYPE = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
ASSERTION_LIFETIME = 60
"""Seconds for which a client assertion is valid."""


class AssertionTimes(NamedTuple):
    """The unique values of an assertion: the current second and a new random `jti`."""

    now: int
    jti: str


@dataclass(frozen=True, slots=True)
class AuthenticatedForm:
    """A form to post, and its headers."""

    headers: Mapping[str, str] = field(repr=False)
    form: Mapping[str, str] = field(repr=False)


class ClientAuthentication(Protocol):
    """An authentication method of Core 9."""

    def apply(
        self, form: Mapping[str, str], *, assertion: AssertionTimes, audience: str
    ) -> AuthenticatedForm:
        """`form` with the client's credentials; `audience` names the OP in an assertion."""
        ...


@dataclass(frozen=True, slots=True)
class NoSecret:
    """`none`, or a certificate (RFC 8705): the form only has the client id."""

    client_id: str

    def apply(
        self, form: Mapping[str, str], *, assertion: AssertionTimes, audience: str
    ) -> AuthenticatedForm:
        """The form with `client_id`."""
        return AuthenticatedForm({}, {**form, "client_id": self.client_id})


@dataclass(frozen=True, slots=True)
class ClientSecretBasic:
    """`client_secret_basic`: both parts form-urlencoded before base64 (RFC 6749 2.3.1)."""

    client_id: str
    client_secret: str = field(repr=False)

    def apply(
        self, form: Mapping[str, str], *, assertion: AssertionTimes, audience: str
    ) -> AuthenticatedForm:
        """The form unchanged, with an Authorization header."""
        credentials = f"{quote_plus(self.client_id)}:{quote_plus(self.client_secret)}"
        encoded = b64encode(credentials.encode("ascii")).decode("ascii")
        return AuthenticatedForm({"Authorization": f"Basic {encoded}"}, dict(form))


@dataclass(frozen=True, slots=True)
class ClientSecretPost:
    """`client_secret_post`: id and secret in the form."""

    client_id: str
    client_secret: str = field(repr=False)

    def apply(
        self, form: Mapping[str, str], *, assertion: AssertionTimes, audience: str
    ) -> AuthenticatedForm:
        """The form with `client_id` and `client_secret`."""
        credentials = {"client_id": self.client_id, "client_secret": self.client_secret}
        return AuthenticatedForm({}, {**form, **credentials})


@dataclass(frozen=True, slots=True)
class SignedAssertion:
    """`client_secret_jwt` and `private_key_jwt`: a JWT signed with the secret or a private key."""

    client_id: str
    signer: Signer

    def apply(
        self, form: Mapping[str, str], *, assertion: AssertionTimes, audience: str
    ) -> AuthenticatedForm:
        """The form with an assertion for `audience` alone, valid for 60 seconds."""
        jwt = self.signer.sign(
            {
                "iss": self.client_id,
                "sub": self.client_id,
                "aud": audience,
                "jti": assertion.jti,
                "iat": assertion.now,
                "exp": assertion.now + ASSERTION_LIFETIME,
            },
            typ="client-authentication+jwt",
        )
        credentials = {
            "client_id": self.client_id,
            "client_assertion_type": ASSERTION_TYPE,
            "client_assertion": jwt,
        }
        return AuthenticatedForm({}, {**form, **credentials})


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
    method is unknown, its secret or key is missing, too short or unusable.
    """
    match method:
        # The certificate of the connection proves the `client_id` (RFC 8705 2).
        case "none" | "tls_client_auth" | "self_signed_tls_client_auth":
            return NoSecret(client_id)
        case "client_secret_basic":
            return ClientSecretBasic(client_id, _required(client_secret, method))
        case "client_secret_post":
            return ClientSecretPost(client_id, _required(client_secret, method))
        case "client_secret_jwt":
            signer = Signer.of_secret(_required(client_secret, method), algorithm or "HS256")
            return SignedAssertion(client_id, signer)
        case "private_key_jwt":
            if private_key is None:
                raise ConfigurationError(
                    Code.CONFIGURATION_KEY_UNUSABLE, "private_key_jwt needs client_private_key"
                )
            key_signer = Signer.of_private_key(private_key, algorithm=algorithm, key_id=key_id)
            return SignedAssertion(client_id, key_signer)
    raise misconfigured("unknown client authentication method")


def _required(client_secret: str | None, method: str) -> str:
    if not client_secret:
        raise misconfigured(f"{method} needs client_secret")
    return client_secret

"""Types of settings: what callers may pass, and how it is read and checked."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BeforeValidator, SecretStr
from pydantic_settings import NoDecode

from fastapi_oidc.protocol.authorization import require_unprotected, with_openid
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.settings import rules, texts
from fastapi_oidc.settings.rules import obeying, obeying_beside


def key_ring(secrets: Sequence[SecretStr]) -> KeyRing:
    """The keys derived from the secrets; raises ConfigurationError if one is too short."""
    return KeyRing([secret.get_secret_value() for secret in secrets])


ClientAuthMethod = Annotated[
    Literal[
        "none",
        "client_secret_basic",
        "client_secret_post",
        "client_secret_jwt",
        "private_key_jwt",
        "tls_client_auth",
        "self_signed_tls_client_auth",
    ]
    | None,
    obeying_beside(rules.authentication_of),
]
CAFile = Annotated[str | None, obeying(rules.require_authorities)]
CertificateFile = Annotated[str | None, obeying_beside(rules.require_certificate)]
Issuer = Annotated[str, obeying_beside(rules.require_issuer)]
BaseURL = Annotated[str | None, obeying_beside(rules.require_base_url)]
InstanceName = Annotated[str, obeying(lambda name: CookieNames(name, secure=True))]
PostLogoutRedirectURI = Annotated[str, obeying_beside(rules.require_post_logout_redirect_uri)]
ReturnPath = Annotated[str, obeying(rules.require_path)]
ClientID = Annotated[str, obeying(rules.require_no_margin)]
IdleTimeout = Annotated[int | None, obeying_beside(rules.require_idle_within)]

if TYPE_CHECKING:
    # The types that a caller may pass; the values are converted to the types below.
    Secret: TypeAlias = str | SecretStr
    ClientSecret: TypeAlias = Secret
    Secrets: TypeAlias = Secret | Sequence[Secret]
    Words: TypeAlias = Sequence[str]
    Algorithms: TypeAlias = Sequence[str]
    AllowedTenants: TypeAlias = Sequence[str]
    Scope: TypeAlias = Sequence[str]
    Origins: TypeAlias = Sequence[str]
    Members: TypeAlias = dict[str, str]
else:
    Secret = SecretStr
    ClientSecret = Annotated[SecretStr, obeying(rules.require_no_margin)]
    Secrets = Annotated[
        tuple[SecretStr, ...], NoDecode, BeforeValidator(texts.secrets), obeying(key_ring)
    ]
    Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(texts.words)]
    Algorithms = Annotated[Words, obeying_beside(rules.algorithms_of)]
    AllowedTenants = Annotated[Words, obeying_beside(rules.issuer_of)]
    Scope = Annotated[Words, obeying(rules.require_scope), AfterValidator(with_openid)]
    Origins = Annotated[Words, obeying_beside(rules.require_origins)]
    Members = Annotated[
        dict[str, str], NoDecode, BeforeValidator(texts.members), obeying(require_unprotected)
    ]

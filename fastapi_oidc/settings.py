"""The options of one OIDC instance, checked when they are made."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Literal, Self, TypeAlias, cast

from pydantic import Field, SecretStr, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.flows.relying_party import Policy
from fastapi_oidc.protocol.authorization import require_unprotected
from fastapi_oidc.protocol.client_auth import ClientAuthentication, client_authentication
from fastapi_oidc.protocol.jose.algorithms import require_algorithms
from fastapi_oidc.protocol.metadata import require_issuer_url
from fastapi_oidc.protocol.return_path import is_same_origin_path
from fastapi_oidc.protocol.urls import URLFault, fault_of_url
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.sealing import KeyRing

ClientAuthMethod = Literal[
    "none",
    "client_secret_basic",
    "client_secret_post",
    "client_secret_jwt",
    "private_key_jwt",
]
if TYPE_CHECKING:
    # What a caller may write; it is kept as the types below.
    Secret: TypeAlias = str | SecretStr
    Secrets: TypeAlias = Secret | Sequence[Secret]
    Names: TypeAlias = Sequence[str]
    Words: TypeAlias = Sequence[str]
else:
    Secret = SecretStr
    Secrets = Annotated[tuple[SecretStr, ...], NoDecode]
    Names = tuple[str, ...]
    Words = Annotated[tuple[str, ...], NoDecode]

_DEFAULT_PORT = re.compile(r"^https:.*:443/?$|^http:.*:80/?$")


class OIDCSettings(BaseSettings):
    """Settings of `OIDC`; what is not given is read from `OIDC_*` environment variables.

    Times are in seconds, sizes in bytes. In the environment `scope` and
    `trusted_id_token_audiences` are words with spaces between them, other lists and `extra_params`
    are JSON, and `cookie_secret` is one secret or a JSON list. Raises ConfigurationError for a
    value that breaks a rule, pydantic's ValidationError for one of the wrong type; neither shows
    the value.
    """

    model_config = SettingsConfigDict(
        env_prefix="OIDC_", frozen=True, extra="forbid", hide_input_in_errors=True
    )

    issuer: str
    """The OpenID Provider's issuer identifier, exactly as it writes it itself."""
    client_id: str = Field(min_length=1)
    client_secret: Secret | None = None
    client_auth_method: ClientAuthMethod | None = None
    """None: `client_secret_basic` with a secret, `none` without."""
    client_private_key: Secret | None = None
    """PEM or JWK, for `private_key_jwt`."""
    client_private_key_id: str | None = None
    client_assertion_algorithm: str | None = None
    client_assertion_audience: Literal["issuer", "token_endpoint"] = "issuer"

    cookie_secret: Secrets
    """At least 32 random bytes. Several rotate it: the first seals, all of them open."""
    base_url: str | None = None
    """Scheme and host that browsers use, such as `https://app.example.com`."""
    name: str = "oidc"
    """Names the instance: its cookies, its routes and `request.state.<name>`."""

    scope: Words = ("openid", "profile", "email")
    extra_params: dict[str, str] = Field(default_factory=dict)
    response_mode: Literal["query", "form_post"] = "query"
    use_par: bool = False
    max_age: int | None = Field(default=None, ge=0)
    fetch_userinfo: bool = True
    allow_insecure_http: bool = False
    id_token_signing_algorithms: Names = ("RS256",)
    trusted_id_token_audiences: Words = ()

    default_return_path: str = "/"
    max_cookie_size: int = Field(default=3800, ge=500, le=4096)
    session_lifetime: int = Field(default=8 * 3600, ge=60)
    refresh_margin: int = Field(default=30, ge=0)
    clock_drift: int = Field(default=30, ge=0, le=300)
    provider_timeout: float = Field(default=10.0, gt=0, le=60)

    @field_validator("cookie_secret", mode="before")
    @classmethod
    def _one_or_more_secrets(cls, value: object) -> object:
        if isinstance(value, str) and value.startswith("["):
            return tuple(json.loads(value))
        return (value,) if isinstance(value, str | SecretStr) else value

    @field_validator("scope", "trusted_id_token_audiences", mode="before")
    @classmethod
    def _words(cls, value: object) -> object:
        return value.split() if isinstance(value, str) else value

    @field_validator("id_token_signing_algorithms", mode="before")
    @classmethod
    def _never_a_plain_text(cls, value: object) -> object:
        if isinstance(value, str):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID, "id_token_signing_algorithms is a list, not a text"
            )
        return value

    @model_validator(mode="after")
    def _checked(self) -> Self:
        insecure = self.allow_insecure_http
        require_issuer_url(self.issuer, allow_insecure_http=insecure)
        _require_origin(self.base_url, allow_insecure_http=insecure)
        require_unprotected(self.extra_params)
        if not is_same_origin_path(self.default_return_path):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID, "default_return_path is no path of this application"
            )
        self.algorithms()
        self.authentication()
        self.key_ring()
        self.cookie_names()
        return self

    @property
    def origin(self) -> str | None:
        """`base_url` without a slash at its end."""
        return None if self.base_url is None else self.base_url.rstrip("/")

    def algorithms(self) -> frozenset[str]:
        """The pinned algorithms of ID and logout tokens (Core 3.1.3.7 rule 7)."""
        return require_algorithms(self.id_token_signing_algorithms, revealed(self.client_secret))

    def authentication(self) -> ClientAuthentication:
        """How the client authenticates at the provider (Core 9)."""
        method = self.client_auth_method
        if method is None:
            method = "none" if self.client_secret is None else "client_secret_basic"
        return client_authentication(
            method,
            client_id=self.client_id,
            client_secret=revealed(self.client_secret),
            private_key=_pem_or_jwk(self.client_private_key),
            algorithm=self.client_assertion_algorithm,
            key_id=self.client_private_key_id,
        )

    def key_ring(self) -> KeyRing:
        """The keys made of `cookie_secret`."""
        secrets = cast("tuple[SecretStr, ...]", self.cookie_secret)
        return KeyRing([secret.get_secret_value() for secret in secrets])

    def cookie_names(self) -> CookieNames:
        """Secure names, unless browsers reach the application over plain http."""
        secure = self.base_url is not None and self.base_url.startswith("https:")
        return CookieNames(self.name, secure=secure)

    def policy(self) -> Policy:
        """What the flows decide by."""
        return Policy(
            issuer=self.issuer,
            client_id=self.client_id,
            scope=tuple(dict.fromkeys(("openid", *self.scope))),
            extra_params=dict(self.extra_params),
            trusted_audiences=frozenset(self.trusted_id_token_audiences),
            response_mode=self.response_mode,
            use_par=self.use_par,
            max_age=self.max_age,
            fetch_userinfo=self.fetch_userinfo,
            default_return_path=self.default_return_path,
            session_lifetime=self.session_lifetime,
            refresh_margin=self.refresh_margin,
            provider_timeout=self.provider_timeout,
        )


def _require_origin(base_url: str | None, *, allow_insecure_http: bool) -> None:
    """Scheme and host, nothing more; without them only local development can go on."""
    if base_url is None:
        if allow_insecure_http:
            return
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "base_url is needed: redirect URIs are never made from request headers",
        )
    fault = fault_of_url(base_url, allow_insecure_http=allow_insecure_http)
    if fault is URLFault.INSECURE:
        raise ConfigurationError(Code.CONFIGURATION_INSECURE_URL, "base_url must be https")
    if fault is not None or base_url.rstrip("/").count("/") != 2 or "?" in base_url:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID, "base_url is scheme and host, as in https://app.example.com"
        )
    if base_url != base_url.lower() or _DEFAULT_PORT.search(base_url):
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            "base_url is written as browsers do: in small letters, without a default port",
        )


def _pem_or_jwk(secret: Secret | None) -> str | dict[str, object] | None:
    """A JWK comes as JSON text; text that is neither is refused later as no key."""
    text = revealed(secret)
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        jwk: dict[str, object] = json.loads(text)
    except ValueError:
        return text
    return jwk


def revealed(secret: Secret | None) -> str | None:
    """The text of a secret, for the one who needs it."""
    return secret.get_secret_value() if isinstance(secret, SecretStr) else secret

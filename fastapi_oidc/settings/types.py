"""The types of the settings: how each may be written, and its validation rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

from fastapi_oidc.protocol.authorization import require_unprotected
from fastapi_oidc.protocol.metadata import require_issuer_url
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.settings import rules, texts
from fastapi_oidc.settings.client import (
    algorithms_of,
    authentication_of,
    require_authorities,
    require_certificate,
    tenants_of,
)
from fastapi_oidc.settings.faults import obeyed

Value = TypeVar("Value")


def _obeying_settings_rule(rule: Callable[[Value, Mapping[str, Any]], object]) -> AfterValidator:
    """A validator that accepts the value unless `rule` raises ConfigurationError.

    The rule gets the value and the settings that are already valid.
    """

    def validate(value: Value, info: ValidationInfo) -> Value:
        obeyed(lambda: rule(value, info.data))
        return value

    return AfterValidator(validate)


def _obeying(rule: Callable[[Any], object]) -> AfterValidator:
    return _obeying_settings_rule(lambda value, _settings: rule(value))


def _obeying_url_rule(rule: Callable[..., object]) -> AfterValidator:
    return _obeying_settings_rule(
        lambda value, settings: rule(
            value, allow_insecure_http=bool(settings.get("allow_insecure_http"))
        )
    )


def _obeying_client_rule(rule: Callable[[Value, Mapping[str, Any]], object]) -> AfterValidator:
    """The rule is skipped if other settings are invalid."""

    def apply(value: Value, settings: Mapping[str, Any]) -> None:
        with suppress(KeyError):
            rule(value, settings)

    return _obeying_settings_rule(apply)


def key_ring(secrets: Sequence[SecretStr]) -> KeyRing:
    """The keys derived from the secrets; raises ConfigurationError if one is too short."""
    return KeyRing([secret.get_secret_value() for secret in secrets])


def _is_name(name: str) -> None:
    CookieNames(name, secure=True)


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
    _obeying_client_rule(authentication_of),
]
CAFile = Annotated[str | None, _obeying(require_authorities)]
CertificateFile = Annotated[str | None, _obeying_client_rule(require_certificate)]
Issuer = Annotated[str, _obeying_url_rule(require_issuer_url)]
BaseURL = Annotated[str | None, _obeying_url_rule(rules.require_base_url)]
InstanceName = Annotated[str, _obeying(_is_name)]
PostLogoutRedirectURI = Annotated[str, _obeying_url_rule(rules.require_post_logout_redirect_uri)]
ReturnPath = Annotated[str, _obeying(rules.require_path)]
ClientID = Annotated[str, _obeying(rules.require_no_margin)]
IdleTimeout = Annotated[int | None, _obeying_settings_rule(rules.require_idle_within)]

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
    ClientSecret = Annotated[SecretStr, _obeying(rules.require_no_margin)]
    Secrets = Annotated[
        tuple[SecretStr, ...], NoDecode, BeforeValidator(texts.secrets), _obeying(key_ring)
    ]
    Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(texts.words)]
    Algorithms = Annotated[Words, _obeying_client_rule(algorithms_of)]
    AllowedTenants = Annotated[Words, _obeying_client_rule(tenants_of)]
    Scope = Annotated[Words, _obeying(rules.require_scope), AfterValidator(rules.with_openid)]
    Origins = Annotated[Words, _obeying_url_rule(rules.require_origins)]
    Members = Annotated[
        dict[str, str], NoDecode, BeforeValidator(texts.members), _obeying(require_unprotected)
    ]

"""Types of settings, and what they say of the client: authentication, certificates, algorithms."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

from fastapi_oidc.errors import ConfigurationError
from fastapi_oidc.protocol.authorization import require_unprotected
from fastapi_oidc.protocol.client_auth import ClientAuthentication, client_authentication
from fastapi_oidc.protocol.jose.algorithms import require_algorithms
from fastapi_oidc.protocol.metadata import Tenants, require_issuer_url
from fastapi_oidc.provider import HTTPOptions
from fastapi_oidc.session.cookies import CookieNames
from fastapi_oidc.session.sealing import KeyRing
from fastapi_oidc.settings import rules, texts
from fastapi_oidc.settings.faults import obeyed
from fastapi_oidc.settings.texts import pem_or_jwk, revealed


def authentication_of(method: str | None, options: Mapping[str, Any]) -> ClientAuthentication:
    """The client's authentication method (Core 9); raises ConfigurationError.

    The default is `client_secret_basic` with a secret and `none` without.
    """
    if method is None:
        method = "none" if options["client_secret"] is None else "client_secret_basic"
    return client_authentication(
        method,
        client_id=options["client_id"],
        client_secret=revealed(options["client_secret"]),
        private_key=pem_or_jwk(revealed(options["client_private_key"])),
        algorithm=options["client_assertion_algorithm"],
        key_id=options["client_private_key_id"],
    )


def require_authorities(ca_file: str | None) -> None:
    """Require a file with certificate authorities; raises ConfigurationError."""
    _require_files(HTTPOptions(ca_file=ca_file))


def require_certificate(certificate_file: str | None, options: Mapping[str, Any]) -> None:
    """Require a certificate in the file, and its key there or in `client_certificate_key_file`.

    Raises ConfigurationError.
    """
    key_file = options["client_certificate_key_file"]
    _require_files(
        HTTPOptions(client_certificate_file=certificate_file, client_certificate_key_file=key_file)
    )


def _require_files(options: HTTPOptions) -> None:
    try:
        options.verification()
    except ConfigurationError as error:
        # Without the option's name: the caller adds it as the user wrote it.
        explanation = error.explanation.partition(": ")[2]
        raise ConfigurationError(error.code, explanation) from None


def tenants_of(names: Sequence[str], options: Mapping[str, Any]) -> Tenants | None:
    """The allowed tenants of a shared issuer, None for any other issuer.

    Raises ConfigurationError.
    """
    return Tenants.of(options["issuer"], names) if names else None


def algorithms_of(names: Sequence[str], options: Mapping[str, Any]) -> frozenset[str]:
    """The pinned algorithms of ID and logout tokens (Core 3.1.3.7 rule 7).

    Raises ConfigurationError.
    """
    return require_algorithms(names, revealed(options["client_secret"]))


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

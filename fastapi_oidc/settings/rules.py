"""The types of settings: how a text is read, and the rules that each value obeys.

Several rules also read settings that are already valid, from `info.data`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, SecretStr, ValidationInfo
from pydantic_settings import NoDecode

from fastapi_oidc.errors import ConfigurationError, misconfigured
from fastapi_oidc.protocol.authorization import require_unprotected, with_openid
from fastapi_oidc.protocol.claims import TrustedIssuer
from fastapi_oidc.protocol.client_auth import ClientAuthentication, client_authentication
from fastapi_oidc.protocol.jose.keys import require_algorithms
from fastapi_oidc.protocol.metadata import require_issuer_url
from fastapi_oidc.protocol.urls import (
    is_same_origin_path,
    is_word,
    require_url,
    travels_unencrypted,
)
from fastapi_oidc.provider.network import HTTPOptions
from fastapi_oidc.session.cookies import CookieNames, KeyRing
from fastapi_oidc.settings.environment import CREDENTIALS


def words(value: object) -> object:
    """Parse a text as a JSON list or as words separated by spaces; other values are unchanged."""
    if not isinstance(value, str):
        return value
    return _json(value) if value.lstrip().startswith("[") else tuple(value.split())


def secrets(value: object) -> object:
    """Parse a text as a JSON list or as one secret, which has no comma."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        return _json(value)
    if isinstance(value, str) and "," in value:
        raise ValueError('has a comma, which separates nothing: several are ["new", "old"]')
    return (value,) if isinstance(value, str | SecretStr) else value


def members(value: object) -> object:
    """Parse a text as a JSON object."""
    return _json(value) if isinstance(value, str) else value


def pem_or_jwk(text: str | None) -> str | dict[str, object] | None:
    """Parse a JWK from JSON text. Text that is neither PEM nor JWK is refused later."""
    if text is None or not text.lstrip().startswith("{"):
        return text
    try:
        jwk: dict[str, object] = json.loads(text)
    except ValueError:
        return text
    return jwk


def revealed(secret: str | SecretStr | None) -> str | None:
    """The plain text of a secret."""
    return secret.get_secret_value() if isinstance(secret, SecretStr) else secret


def _json(text: str) -> object:
    try:
        value: object = json.loads(text)
    except ValueError:
        raise ValueError("begins like JSON but is not valid JSON") from None
    return tuple(value) if isinstance(value, list) else value


Value = TypeVar("Value")
Settings = Mapping[str, Any]

_DEFAULT_PORT = re.compile(r"^https:.*:443/?$|^http:.*:80/?$")
_WORDS = re.compile("secret|change|example|password", re.IGNORECASE)
_OF_TESTS = re.compile(r"[/.](test|example(\.\w+)?|invalid|localhost|127\.\d+\.\d+\.\d+)(:\d+)?/?$")
_STANDARD = frozenset(("openid", "profile", "email", "address", "phone", "offline_access"))
"""The scopes of Core 5.4 and 11."""

LONGEST_LIFETIME: Final = 400 * 86_400
"""Seconds after which browsers drop every cookie (RFC 6265bis 5.5)."""


class BrokenRule(ValueError):
    """Carries a ConfigurationError through pydantic, which collects ValueErrors alone."""

    def __init__(self, error: ConfigurationError) -> None:
        super().__init__(error.explanation)
        self.error = error


@contextmanager
def _collected() -> Iterator[None]:
    try:
        yield
    except ConfigurationError as error:
        raise BrokenRule(error) from None


def obeying(rule: Callable[[Any], object]) -> AfterValidator:
    """A validator that returns the value unless `rule` raises ConfigurationError."""

    def validate(value: Value) -> Value:
        with _collected():
            rule(value)
        return value

    return AfterValidator(validate)


def obeying_beside(rule: Callable[[Any, Settings], object]) -> AfterValidator:
    """Like `obeying`, for a rule that reads other settings; skipped if one of them is invalid."""

    def validate(value: Value, info: ValidationInfo) -> Value:
        with _collected(), suppress(KeyError):
            rule(value, info.data)
        return value

    return AfterValidator(validate)


def _allows_http(settings: Settings) -> bool:
    return bool(settings.get("allow_insecure_http"))


def require_issuer(issuer: str, settings: Settings) -> None:
    """Require an issuer identifier (Discovery 3)."""
    require_issuer_url(issuer, allow_insecure_http=_allows_http(settings))


def require_base_url(base_url: str | None, settings: Settings) -> None:
    """Require scheme and host only; None is accepted for local development."""
    if base_url is not None:
        require_origin(base_url, settings)
    elif not _allows_http(settings):
        raise misconfigured("is missing: redirect URIs are never made from request headers")


def require_origin(origin: str, settings: Settings) -> None:
    """Require scheme and host as browsers write them."""
    meant = "is scheme and host, as in https://app.example.com"
    require_url(origin, meant, allow_insecure_http=_allows_http(settings))
    if origin.rstrip("/").count("/") != 2 or "?" in origin:
        raise misconfigured(meant)
    if origin != origin.lower() or _DEFAULT_PORT.search(origin):
        raise misconfigured("must be as browsers write it: in lower case, without a default port")


def require_origins(origins: Sequence[str], settings: Settings) -> None:
    """Require scheme and host as in the `Origin` header (RFC 6454 6.2) for each origin."""
    for origin in origins:
        require_origin(origin, settings)
        if origin.endswith("/"):
            raise misconfigured("an origin must not end with a slash")


def require_post_logout_redirect_uri(uri: str, settings: Settings) -> None:
    """Require `route`, `none` or an absolute URL."""
    meant = 'must be "route", "none" or an absolute URL'
    if uri not in ("route", "none"):
        require_url(uri, meant, allow_insecure_http=_allows_http(settings))


def require_no_margin(value: str | SecretStr) -> None:
    """Refuse the space or line break that comes along when a value is copied or read from a file.

    Neither a `client_id` nor a `client_secret` has line breaks (RFC 6749 A.1, A.2).
    """
    text = revealed(value)
    if text is not None and text != text.strip():
        raise misconfigured("begins or ends with a space or a line break")


def require_idle_within(idle_timeout: int | None, settings: Settings) -> None:
    """Require an idle timeout that a session can reach."""
    lifetime = settings["session_lifetime"]
    if idle_timeout is not None and idle_timeout >= lifetime:
        raise misconfigured(f"must be shorter than session_lifetime, which is {lifetime} seconds")


def require_scope(scope: Iterable[str]) -> None:
    """Require the characters of RFC 6749 3.3."""
    if not all(map(is_word, scope)):
        raise misconfigured(
            "has a value with a space, a quote or a backslash: each value is one word"
        )
    # A scope may contain a comma, but a standard scope between commas is in a list by mistake.
    if any("," in token and not _STANDARD.isdisjoint(token.split(",")) for token in scope):
        raise misconfigured("has commas: put spaces between the values")


def require_path(path: str) -> None:
    """Require a path of this application."""
    if not is_same_origin_path(path):
        raise misconfigured("must be a path of this application")


def unencrypted(base_url: str | None) -> str | None:
    """What is wrong with http at a host that is not this machine; None for anything else."""
    if not travels_unencrypted(base_url or ""):
        return None
    return (
        f"base_url is {base_url}, and not this machine: cookies and codes travel unencrypted. "
        "Use https, and remove allow_insecure_http"
    )


def guessable(secrets: Any, base_url: str | None) -> str | None:
    """What is wrong with words as a secret; None at this machine and at names of tests (RFC 6761).

    A random secret has such a word once in many million.
    """
    has_words = any(_WORDS.search(revealed(each) or "") for each in secrets)
    is_public = not _OF_TESTS.search(base_url or "/localhost")
    text = "it has words, which others can guess to be any user: use openssl rand -base64 32"
    return text if has_words and is_public else None


def authentication_of(method: str | None, settings: Settings) -> ClientAuthentication:
    """The client's authentication method (Core 9); raises ConfigurationError.

    The default is `client_secret_basic` with a secret and `none` without.
    """
    if method is None:
        method = "none" if settings["client_secret"] is None else "client_secret_basic"
    return client_authentication(
        method,
        client_id=settings["client_id"],
        client_secret=revealed(settings["client_secret"]),
        private_key=pem_or_jwk(revealed(settings["client_private_key"])),
        algorithm=settings["client_assertion_algorithm"],
        key_id=settings["client_private_key_id"],
    )


def require_authorities(ca_file: str | None) -> None:
    """Require a file with certificate authorities."""
    HTTPOptions(ca_file=ca_file).verification()


def require_certificate(certificate_file: str | None, settings: Settings) -> None:
    """Require a certificate in the file, and its key there or in `client_certificate_key_file`."""
    key_file = settings["client_certificate_key_file"]
    HTTPOptions(
        client_certificate_file=certificate_file, client_certificate_key_file=key_file
    ).verification()


def issuer_of(names: Sequence[str], settings: Settings) -> TrustedIssuer:
    """The issuer, shared by the tenants with these names if there are any.

    Raises ConfigurationError.
    """
    return TrustedIssuer.of(settings["issuer"], names)


def algorithms_of(names: Sequence[str], settings: Settings) -> frozenset[str]:
    """The pinned algorithms of ID and logout tokens (Core 3.1.3.7 rule 7).

    Raises ConfigurationError.
    """
    return require_algorithms(names, revealed(settings["client_secret"]))


def require_own_credentials(current: Settings, changes: Settings) -> None:
    """Require new credentials when a copy of the settings changes the issuer."""
    if changes.get("issuer", current.get("issuer")) == current.get("issuer"):
        return
    if missing := [name for name in CREDENTIALS if current.get(name) and name not in changes]:
        raise misconfigured(
            f"another issuer needs its own {', '.join(missing)}: pass it in `update`, "
            "or None if it has none"
        )


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
    obeying_beside(authentication_of),
]
CAFile = Annotated[str | None, obeying(require_authorities)]
CertificateFile = Annotated[str | None, obeying_beside(require_certificate)]
Issuer = Annotated[str, obeying_beside(require_issuer)]
BaseURL = Annotated[str | None, obeying_beside(require_base_url)]
InstanceName = Annotated[str, obeying(lambda name: CookieNames(name, secure=True))]
PostLogoutRedirectURI = Annotated[str, obeying_beside(require_post_logout_redirect_uri)]
ReturnPath = Annotated[str, obeying(require_path)]
ClientID = Annotated[str, obeying(require_no_margin)]
IdleTimeout = Annotated[int | None, obeying_beside(require_idle_within)]

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
    ClientSecret = Annotated[SecretStr, obeying(require_no_margin)]
    Secrets = Annotated[
        tuple[SecretStr, ...], NoDecode, BeforeValidator(secrets), obeying(key_ring)
    ]
    Words = Annotated[tuple[str, ...], NoDecode, BeforeValidator(words)]
    Algorithms = Annotated[Words, obeying_beside(algorithms_of)]
    AllowedTenants = Annotated[Words, obeying_beside(issuer_of)]
    Scope = Annotated[Words, obeying(require_scope), AfterValidator(with_openid)]
    Origins = Annotated[Words, obeying_beside(require_origins)]
    Members = Annotated[
        dict[str, str], NoDecode, BeforeValidator(members), obeying(require_unprotected)
    ]

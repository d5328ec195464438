"""The types of settings: how a text is read, and the rules that each value obeys.

Several rules also read settings that are already valid, from `info.data`.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal, TypeAlias, TypeVar

from pydantic import AfterValidator, BeforeValidator, FailFast, SecretStr, ValidationInfo
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
from fastapi_oidc.session.cookies import CookieNames, KeyRing


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

_WORDS = re.compile("secret|change|example|password", re.IGNORECASE)
_OF_TESTS = re.compile(r"[/.](test|example(\.\w+)?|invalid|localhost|127\.\d+\.\d+\.\d+)(:\d+)?/?$")
_CREDENTIALS = ("client_secret", "client_private_key")
"""What one provider gave must not be sent to another."""
_STANDARD = frozenset(("openid", "profile", "email", "address", "phone", "offline_access"))
"""The scopes of Core 5.4 and 11."""

LONGEST_LIFETIME: Final = 400 * 86_400
"""Seconds after which browsers drop every cookie (RFC 6265bis 5.5)."""


class BrokenRule(ValueError):
    """Carries a ConfigurationError through pydantic, which collects ValueErrors alone."""

    def __init__(self, error: ConfigurationError) -> None:
        super().__init__(error.explanation)
        self.error = error


def obeying(rule: Callable[[Any, Settings], object]) -> AfterValidator:
    """A validator that returns the value unless `rule` raises ConfigurationError.

    `rule` also gets the settings before this one, and is skipped if one that it reads is invalid.
    """

    def validate(value: Value, info: ValidationInfo) -> Value:
        try:
            with suppress(KeyError):
                rule(value, info.data)
        except ConfigurationError as error:
            raise BrokenRule(error) from None
        return value

    return AfterValidator(validate)


def require_issuer(issuer: str, settings: Settings) -> None:
    """Require an issuer identifier (Discovery 3)."""
    require_issuer_url(issuer, allow_insecure_http=settings["allow_insecure_http"])


def require_base_url(base_url: str | None, settings: Settings) -> None:
    """Accept None for local development only."""
    if base_url is None and not settings["allow_insecure_http"]:
        raise misconfigured("is missing: redirect URIs are never made from request headers")


def require_origin(origin: str, settings: Settings) -> None:
    """Require scheme and host alone."""
    meant = "is scheme and host, as in https://app.example.com"
    require_url(origin, meant, allow_insecure_http=settings["allow_insecure_http"])
    if origin.rstrip("/").count("/") != 2 or "?" in origin:
        raise misconfigured(meant)


def as_browsers_write(origin: str) -> str:
    """The origin as in the `Origin` header (RFC 6454 6.2): in lower case, without default port."""
    origin = origin.lower().rstrip("/")
    return origin.removesuffix(":443" if origin.startswith("https:") else ":80")


def require_post_logout_redirect_uri(uri: str, settings: Settings) -> None:
    """Require `route`, `none` or an absolute URL."""
    meant = 'must be "route", "none" or an absolute URL'
    if uri not in ("route", "none"):
        require_url(uri, meant, allow_insecure_http=settings["allow_insecure_http"])


def require_scope(scope: Sequence[str], _: Settings) -> None:
    """Require the characters of RFC 6749 3.3."""
    if not all(map(is_word, scope)):
        raise misconfigured(
            "has a value with a space, a quote or a backslash: each value is one word"
        )
    # A scope may contain a comma, but a standard scope between commas is in a list by mistake.
    if any("," in token and not _STANDARD.isdisjoint(token.split(",")) for token in scope):
        raise misconfigured("has commas: put spaces between the values")


def require_path(path: str, _: Settings) -> None:
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
    if missing := [name for name in _CREDENTIALS if current.get(name) and name not in changes]:
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
    obeying(authentication_of),
]
Issuer = Annotated[str, obeying(require_issuer)]
Origin = Annotated[str, obeying(require_origin), AfterValidator(as_browsers_write)]
BaseURL = Annotated[Origin | None, obeying(require_base_url)]
InstanceName = Annotated[str, obeying(lambda name, _: CookieNames(name, secure=True))]
PostLogoutRedirectURI = Annotated[str, obeying(require_post_logout_redirect_uri)]
ReturnPath = Annotated[str, obeying(require_path)]
Members = Annotated[
    dict[str, str],
    NoDecode,
    BeforeValidator(members),
    obeying(lambda given, _: require_unprotected(given)),
]
# A caller may pass any sequence, as type checkers know; the value is a tuple.
Words = Annotated[Sequence[str], NoDecode, BeforeValidator(words), AfterValidator(tuple)]
Algorithms = Annotated[Words, obeying(algorithms_of)]
AllowedTenants = Annotated[Words, obeying(issuer_of)]
Scope = Annotated[Words, obeying(require_scope), AfterValidator(with_openid)]
if TYPE_CHECKING:
    # The types that a caller may pass; the values are converted to the types below.
    Secret: TypeAlias = str | SecretStr
    Secrets: TypeAlias = Secret | Sequence[Secret]
    Origins: TypeAlias = Sequence[str]
else:
    Secret = SecretStr
    Secrets = Annotated[
        tuple[SecretStr, ...],
        NoDecode,
        BeforeValidator(secrets),
        obeying(lambda secrets, _: key_ring(secrets)),
    ]
    Origins = Annotated[tuple[Origin, ...], FailFast(), NoDecode, BeforeValidator(words)]

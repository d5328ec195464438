"""The token endpoint's grants and responses (OpenID Connect Core 3.1.3, 12; RFC 6749 5)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal, Self, TypeAlias

from fastapi_oidc.clock import LONGEST_DURATION
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.encoding import parse_json

MAX_DIGITS: Final = 12
"""Maximum digits of `expires_in` that are read; more are beyond the longest lifetime."""

TokenType: TypeAlias = Literal["Bearer", "DPoP"]


def authorization_code_grant(
    code: AuthorizationCode, redirect_uri: str, code_verifier: str
) -> dict[str, str]:
    """The form that exchanges a code (Core 3.1.3.1, RFC 7636 4.5)."""
    return {
        "grant_type": "authorization_code",
        "code": code.value,
        "redirect_uri": redirect_uri,
        "code_verifier": code_verifier,
    }


def refresh_token_grant(refresh_token: str) -> dict[str, str]:
    """The form that refreshes tokens with their current scope (Core 12.1)."""
    return {"grant_type": "refresh_token", "refresh_token": refresh_token}


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """A successful response (Core 3.1.3.3); only `parse` makes one. `expires_in` is in seconds."""

    access_token: str = field(repr=False)
    id_token: str | None = field(repr=False)
    refresh_token: str | None = field(repr=False)
    expires_in: int | None
    scope: tuple[str, ...] | None
    session_state: str | None
    token_type: TokenType = "Bearer"  # noqa: S105 (a type)
    issued_token_type: str | None = None

    @classmethod
    def parse(cls, document: object) -> Self:
        """Read a response. Raises ProviderError: token.malformed or token.type."""
        if not isinstance(document, dict):
            raise _malformed("the token response is not a JSON object")
        token_type = _token_type(document.get("token_type"))
        access_token = _text(document, "access_token")
        if access_token is None:
            raise _malformed("access_token is missing")
        return cls(
            access_token=access_token,
            id_token=_text(document, "id_token"),
            refresh_token=_text(document, "refresh_token", may_be_empty=True) or None,
            expires_in=_lifetime(document.get("expires_in")),
            scope=_scope(document),
            session_state=_text(document, "session_state", may_be_empty=True) or None,
            token_type=token_type,
            issued_token_type=_text(document, "issued_token_type"),
        )

    @classmethod
    def read(cls, body: bytes) -> Self:
        """Parse the JSON of a response; raises like `parse`."""
        try:
            return cls.parse(parse_json(body))
        except ValueError:
            raise _malformed("the token response is not JSON") from None

    def require_binding(self, *, is_bound: bool) -> None:
        """Require a bound access token if, and only if, a proof was sent (RFC 9449 5).

        Raises ProviderError: token.not_bound or token.type.
        """
        expected = "DPoP" if is_bound else "Bearer"
        if self.token_type != expected:
            code = Code.TOKEN_NOT_BOUND if is_bound else Code.TOKEN_TYPE
            raise ProviderError(code, f"token_type is {self.token_type} instead of {expected}")

    def required_id_token(self) -> str:
        """The ID token, which a code exchange must return (Core 3.1.3.3).

        Raises ProviderError (token.id_token_missing).
        """
        if self.id_token is None:
            raise ProviderError(Code.TOKEN_ID_TOKEN_MISSING)
        return self.id_token


def _token_type(value: object) -> TokenType:
    """The type in any case (RFC 6749 5.1): Bearer (RFC 6750) or DPoP (RFC 9449 5)."""
    if not isinstance(value, str):
        raise _malformed("token_type is missing")
    match value.lower():
        case "bearer":
            return "Bearer"
        case "dpop":
            return "DPoP"
    raise ProviderError(Code.TOKEN_TYPE, "token_type is neither Bearer nor DPoP")


def _text(
    document: Mapping[object, object], name: str, *, may_be_empty: bool = False
) -> str | None:
    """A member in printable ASCII (RFC 6749 A), None when absent or null."""
    value = document.get(name)
    if value is None:
        return None
    if not isinstance(value, str) or not value.isascii() or not value.isprintable():
        raise _malformed(f"{name} is not printable ASCII")
    if not value and not may_be_empty:
        raise _malformed(f"{name} is empty")
    return value


def _scope(document: Mapping[object, object]) -> tuple[str, ...] | None:
    """The words of the scope (RFC 6749 3.3); some providers send a list."""
    value = document.get("scope")
    if isinstance(value, list) and all(isinstance(word, str) for word in value):
        document = {"scope": " ".join(value)}
    words = _text(document, "scope", may_be_empty=True)
    return None if words is None else tuple(filter(None, words.split(" ")))


def _lifetime(value: object) -> int | None:
    """The lifetime in whole seconds, ten years at most (ORCID sends twenty).

    Some providers send a text or a fraction. The member is only recommended (RFC 6749 5.1): a value
    that is no positive number counts as absent, because a token that expires when it is issued has
    no usable lifetime.
    """
    if isinstance(value, str) and re.fullmatch(r"[0-9]+", value):
        value = int(value[:MAX_DIGITS])
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(min(max(0, value), LONGEST_DURATION)) or None


def _malformed(explanation: str) -> ProviderError:
    return ProviderError(Code.TOKEN_MALFORMED, explanation)

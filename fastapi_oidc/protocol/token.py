"""The token endpoint's grants and responses (OpenID Connect Core 3.1.3, 12; RFC 6749 5)."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import BeforeValidator, StringConstraints, TypeAdapter, ValidationError

from fastapi_oidc.clock import LONGEST_DURATION
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.authorization import AuthorizationCode
from fastapi_oidc.protocol.encoding import fault_in

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


def _token_type(value: object) -> object:
    """The type in any case (RFC 6749 5.1): Bearer (RFC 6750) or DPoP (RFC 9449 5)."""
    if not isinstance(value, str):
        return value
    for known in get_args(TokenType):
        if value.lower() == known.lower():
            return known
    raise ProviderError(Code.TOKEN_TYPE, "token_type is neither Bearer nor DPoP")


def _words(value: object) -> object:
    """The words of the scope (RFC 6749 3.3); some providers send a list."""
    return tuple(filter(None, value.split(" "))) if isinstance(value, str) else value


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


_Text: TypeAlias = Annotated[str, StringConstraints(pattern="^[ -~]+$")]
"""Printable ASCII (RFC 6749 A)."""
_MayBeEmpty: TypeAlias = Annotated[_Text | None, BeforeValidator(lambda value: value or None)]


@dataclass(frozen=True, slots=True)
class TokenResponse:
    """A successful response (Core 3.1.3.3); only `read` makes one. `expires_in` is in seconds."""

    access_token: _Text = field(repr=False)
    token_type: Annotated[TokenType, BeforeValidator(_token_type)]
    id_token: _Text | None = field(default=None, repr=False)
    refresh_token: _MayBeEmpty = field(default=None, repr=False)
    expires_in: Annotated[int | None, BeforeValidator(_lifetime)] = None
    scope: Annotated[tuple[_Text, ...] | None, BeforeValidator(_words)] = None
    session_state: _MayBeEmpty = None
    issued_token_type: _Text | None = None

    @staticmethod
    def read(body: bytes) -> TokenResponse:
        """Read the JSON of a response. Raises ProviderError: token.malformed or token.type."""
        try:
            return _RESPONSE.validate_json(body)
        except ValidationError as error:
            raise ProviderError(Code.TOKEN_MALFORMED, fault_in(error)) from None

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


_RESPONSE: Final = TypeAdapter(TokenResponse)

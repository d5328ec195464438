"""What a refusal of the token endpoint means for a session (RFC 6749 5.2).

    RefusedGrant      this code or refresh token is over
    RefusedClient     the client is not authenticated or not allowed: the operator's to correct
    RefusedRequest    anything else the provider has against this request
    NonceRequired     the DPoP proof needs another nonce; nothing was said of the request

Every other ProviderError means that the provider was unavailable: it refused nothing.
"""

from __future__ import annotations

from collections.abc import Iterable
from http import HTTPStatus
from typing import ClassVar, Final

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.error_text import cleaned, without

_GRANT_ERRORS: Final = frozenset(
    # The last three say that the user has to be asked (OpenID Connect Core 3.1.2.6); Microsoft
    # Entra answers a refresh so.
    {"invalid_grant", "interaction_required", "login_required", "consent_required"}
)
_CLIENT_ERRORS: Final = frozenset({"invalid_client", "unauthorized_client"})
TEMPORARY_ERRORS: Final = frozenset({"server_error", "temporarily_unavailable"})
"""Errors that pass, whatever the status (RFC 6749 4.1.2.1)."""

MAX_ERROR_LENGTH: Final = 200
"""Characters of `error` that are used; the codes of the specifications have at most 30."""


class TokenRefused(ProviderError):
    """The token endpoint refused a request; only the subclasses are raised.

    `error` and `description` are the provider's own words, escaped and cut.
    """

    refusal_code: ClassVar[Code]

    def __init__(self, error: str, description: str = "", **details: object) -> None:
        self.error, self.description = cleaned(error, MAX_ERROR_LENGTH), cleaned(description)
        words = f"{self.error} ({self.description})" if self.description else self.error
        super().__init__(self.refusal_code, f"the provider returned {words}", **details)


class RefusedGrant(TokenRefused):
    """The code or refresh token is over: presenting it again cannot succeed."""

    refusal_code = Code.TOKEN_INVALID_GRANT


class RefusedClient(TokenRefused):
    """The client's credentials or permissions are wrong; grants outlive their correction."""

    refusal_code = Code.TOKEN_INVALID_CLIENT


class RefusedRequest(TokenRefused):
    """The request was refused for another reason, or for none that the answer tells.

    Some providers answer so to a refresh token that is over. Others do it for a while only, so that
    one answer decides nothing.
    """

    refusal_code = Code.TOKEN_REFUSED


class NonceRequired(TokenRefused):
    """The DPoP proof lacked the server's present nonce; nothing was used up (RFC 9449 8)."""

    refusal_code = Code.TOKEN_REFUSED


def refusal(document: object, status: int, *, url: str, sent: Iterable[str] = ()) -> TokenRefused:
    """The error that an unsuccessful answer stands for, whatever its body is.

    `sent` are the secrets of the request, which some providers repeat in their description.
    """
    members = document if isinstance(document, dict) else {}
    error, description = (
        without(text, sent) if isinstance(text := members.get(name), str) else ""
        for name in ("error", "error_description")
    )
    kind, details = _kind(error, status), {"url": url, "status": status}
    if kind is RefusedClient:
        details["setting"] = "client_id, client_auth_method and what belongs to it"
    return kind(error or f"status {status}", description, **details)


def _kind(error: str, status: int) -> type[TokenRefused]:
    if error == "use_dpop_nonce":
        return NonceRequired
    if error in _GRANT_ERRORS:
        return RefusedGrant
    # RFC 6749 5.2 has 401 for the client's authentication alone.
    if error in _CLIENT_ERRORS or status == HTTPStatus.UNAUTHORIZED:
        return RefusedClient
    return RefusedRequest

"""What a refusal of the token endpoint means (RFC 6749 5.2), with the dialects of providers."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.error_text import cleaned, without

_ANY: Final = re.compile("")


@dataclass(frozen=True, slots=True)
class GrantOver:
    """One way in which providers say that a code or refresh token is of no use any more."""

    rule: str
    error: str
    source: str
    description: re.Pattern[str] = _ANY

    def applies_to(self, error: str, description: str) -> bool:
        """Whether an answer with these two texts says so."""
        return error == self.error and self.description.search(description) is not None


GRANT_OVER: Final = (
    GrantOver("standard", "invalid_grant", "RFC 6749 5.2"),
    GrantOver(
        "dex",
        "invalid_request",
        "dexidp/dex, server/refreshhandlers.go: newBadRequestError",
        re.compile(r"refresh token\b.*\b(is invalid or has already been claimed|expired)", re.I),
    ),
    GrantOver(
        "interaction", "interaction_required", "Microsoft Entra; OpenID Connect Core 3.1.2.6"
    ),
    GrantOver("interaction", "login_required", "OpenID Connect Core 3.1.2.6"),
    GrantOver("interaction", "consent_required", "OpenID Connect Core 3.1.2.6"),
)
"""A session whose refresh is answered so is over; any other refusal postpones the refresh."""


class TokenRefused(ProviderError):
    """An endpoint answered with an OAuth error (RFC 6749 5.2).

    `error` and `description` are the provider's own words, cleaned and cut.
    """

    def __init__(self, code: Code, error: str, description: str = "", **details: object) -> None:
        self.error, self.description = cleaned(error), cleaned(description)
        said = f"{self.error} ({self.description})" if self.description else self.error
        super().__init__(code, f"the provider answered {said}", **details)

    @property
    def is_final(self) -> bool:
        """Whether the grant is over: presenting it again cannot succeed.

        A client that is not authenticated or not allowed is the operator's to put right; the grants
        of its users outlive that.
        """
        return self.code is Code.TOKEN_INVALID_GRANT


def refusal(document: object, status: int, *, url: str, sent: Iterable[str] = ()) -> TokenRefused:
    """The error that an unsuccessful answer stands for, whatever its body is.

    `sent` are the secrets of the request, which some providers repeat in their description.
    """
    members = document if isinstance(document, dict) else {}
    error, description = (
        without(text, sent) if isinstance(text := members.get(name), str) else ""
        for name in ("error", "error_description")
    )
    code = _code(error, description, status)
    details: dict[str, object] = {"url": url, "status": status}
    if code is Code.TOKEN_INVALID_CLIENT:
        details["setting"] = "client_id, client_auth_method and what belongs to it"
    return TokenRefused(code, error or f"status {status}", description, **details)


def _code(error: str, description: str, status: int) -> Code:
    if any(way.applies_to(error, description) for way in GRANT_OVER):
        return Code.TOKEN_INVALID_GRANT
    # RFC 6749 5.2 has 401 for the client's authentication alone; Keycloak says unauthorized_client.
    if error == "invalid_client" or status == HTTPStatus.UNAUTHORIZED:
        return Code.TOKEN_INVALID_CLIENT
    return Code.TOKEN_REFUSED

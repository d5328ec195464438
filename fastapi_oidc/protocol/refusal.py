"""Refusals of an OAuth server, and their texts in logs and errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from http import HTTPStatus
from typing import ClassVar, Final

from fastapi_oidc.errors import Code, ProviderError

MAX_TEXT: Final = 2000
"""Maximum characters of an OP's description that are shown; its end may have the advice."""
MAX_VALUE: Final = 200
"""Maximum characters of a single value that are shown."""
MIN_SECRET_LENGTH: Final = 6
"""The minimum length of a secret to remove: shorter ones occur in texts by chance."""

MAX_MEMBERS: Final = 5
"""Maximum number of shown members of a list."""
LARGEST_NUMBER: Final = 10**18
"""Numbers of this size or larger are not shown."""


def cleaned(text: str, length: int = MAX_TEXT) -> str:
    """At most `length` characters of printable ASCII; others are escaped as Python does."""
    # Cut before escaping, which makes a text up to ten times as long.
    return text[:length].encode("unicode_escape").decode("ascii")[:length]


def without(text: str, secrets: Iterable[str]) -> str:
    """`text` with `[...]` in place of each of `secrets`: an OP may repeat what it received."""
    for secret in secrets:
        if len(secret) >= MIN_SECRET_LENGTH:
            text = text.replace(secret, "[...]")
    return text


def shown(value: object) -> str:
    """A value for a log line: a text is cut and quoted; None is `missing`."""
    match value:
        case None:
            return "missing"
        case str():
            return f"'{cleaned(value, MAX_VALUE)}'"
        case bool() | int() | float():
            return str(value) if abs(value) < LARGEST_NUMBER else "a large number"
        case list() | tuple():
            return "[" + ", ".join(shown(member) for member in value[:MAX_MEMBERS]) + "]"
    return "a JSON object"


TEMPORARY_ERRORS: Final = frozenset({"server_error", "temporarily_unavailable"})
"""Temporary errors, whatever the status (RFC 6749 4.1.2.1)."""

MAX_ERROR_LENGTH: Final = 200
"""Maximum characters of `error` that are used; specified codes have at most 30."""


class TokenRefused(ProviderError):
    """The token endpoint refused a request. Only the subclasses are raised.

    `error` and `description` are the provider's texts, escaped and cut.
    """

    refusal_code: ClassVar[Code]

    def __init__(self, error: str, description: str = "", **details: object) -> None:
        self.error, self.description = cleaned(error, MAX_ERROR_LENGTH), cleaned(description)
        words = f"{self.error} ({self.description})" if self.description else self.error
        super().__init__(self.refusal_code, f"the provider returned {words}", **details)


class RefusedGrant(TokenRefused):
    """The code or refresh token is invalid: sending it again cannot succeed."""

    refusal_code = Code.TOKEN_INVALID_GRANT


class RefusedClient(TokenRefused):
    """The client's credentials or permissions are wrong; codes and tokens stay valid."""

    refusal_code = Code.TOKEN_INVALID_CLIENT


class RefusedRequest(TokenRefused):
    """The request was refused for another reason, or without a reason.

    Some providers respond so for an invalid refresh token, others temporarily. So one such response
    does not end a session.
    """

    refusal_code = Code.TOKEN_REFUSED


class NonceRequired(TokenRefused):
    """The DPoP proof lacked the server's current nonce; nothing was used up (RFC 9449 8)."""

    refusal_code = Code.TOKEN_REFUSED


_KINDS: Final[Mapping[str, type[TokenRefused]]] = {
    "use_dpop_nonce": NonceRequired,
    "invalid_client": RefusedClient,
    "unauthorized_client": RefusedClient,
    "invalid_grant": RefusedGrant,
    # The user must interact (OpenID Connect Core 3.1.2.6). Microsoft Entra says so for refreshes.
    "interaction_required": RefusedGrant,
    "login_required": RefusedGrant,
    "consent_required": RefusedGrant,
}


def refusal(document: object, status: int, *, url: str, sent: Iterable[str] = ()) -> TokenRefused:
    """The error for a response with an `error`, or with status 400 and no body.

    `sent` are the secrets in the request, which some providers repeat in their description.
    """
    members = document if isinstance(document, dict) else {}
    error, description = (
        without(text, sent) if isinstance(text := members.get(name), str) else ""
        for name in ("error", "error_description")
    )
    # In RFC 6749 5.2 the status 401 is only for the client's authentication.
    other = RefusedClient if status == HTTPStatus.UNAUTHORIZED else RefusedRequest
    kind, details = _KINDS.get(error, other), {"url": url, "status": status}
    if kind is RefusedClient:
        details["setting"] = "client_id, client_auth_method and what belongs to it"
    return kind(error or f"status {status}", description, **details)

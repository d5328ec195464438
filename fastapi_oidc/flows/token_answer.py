"""The token endpoint's response to a refresh token, recorded before anything judges it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Self

from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.protocol.token import TokenResponse


@dataclass(frozen=True, slots=True)
class TokenAnswer:
    """The `body` of a successful response, which came at `received_at` (seconds since the epoch).

    With `api` the access token is for that API, and only the other tokens belong to the session.
    """

    received_at: int
    body: bytes = field(repr=False)
    api: str = ""

    def encode(self) -> bytes:
        """The answer with its tokens, for the session's row."""
        return json.dumps([self.received_at, self.api]).encode() + b"\n" + self.body

    @classmethod
    def decode(cls, encoded: bytes) -> Self:
        """Read the result of `encode`; raises SessionError (session.store_unavailable)."""
        head, _, body = encoded.partition(b"\n")
        try:
            received_at, api = json.loads(head)
        except (ValueError, TypeError):
            explanation = "another release of this library wrote the row"
            raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from None
        return cls(received_at, body, api)

    def response(self) -> TokenResponse:
        """The parsed response; raises ProviderError (token.malformed, token.type)."""
        return TokenResponse.read(self.body)

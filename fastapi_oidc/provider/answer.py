"""What the OpenID Provider (OP) answered, and how it is read: status, media type, strict JSON."""

from __future__ import annotations

from dataclasses import dataclass, field

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.json import JSON, MalformedJSON, parse_json


@dataclass(frozen=True, slots=True)
class Answer:
    """One complete answer; `url` is without its query, the body may hold tokens."""

    url: str
    status: int
    media_type: str
    body: bytes = field(repr=False)

    @property
    def is_json(self) -> bool:
        """Whether the media type is JSON or built on it (RFC 6839 3.1)."""
        return self.media_type == "application/json" or self.media_type.endswith("+json")

    @property
    def is_jwt(self) -> bool:
        """Whether the body is a JWT (OpenID Connect Core 5.3.2)."""
        return self.media_type == "application/jwt"

    def document(self) -> JSON:
        """The parsed JSON body; raises ProviderError (provider.answer_malformed)."""
        if not self.is_json:
            raise self._malformed(f"the media type is {self.media_type[:80]!r}, not JSON")
        try:
            return parse_json(self.body, max_bytes=len(self.body))
        except MalformedJSON as error:
            raise self._malformed(str(error)) from error

    def text(self) -> str:
        """The body as ASCII text; raises ProviderError (provider.answer_malformed)."""
        try:
            return self.body.decode("ascii").strip()
        except UnicodeDecodeError:
            raise self._malformed("the body is not ASCII") from None

    def document_or_none(self) -> JSON:
        """The parsed JSON body, or None when there is none: error answers come in any form."""
        try:
            return self.document()
        except ProviderError:
            return None

    def require_status(self, *expected: int) -> None:
        """Refuse any other status with provider.status."""
        if self.status not in expected:
            raise ProviderError(
                Code.PROVIDER_STATUS, f"HTTP {self.status}", url=self.url, status=self.status
            )

    def require_no_redirect(self) -> None:
        """Refuse 3xx: a redirect would carry credentials to a place nobody configured."""
        if 300 <= self.status < 400:
            explanation = f"HTTP {self.status}; redirects are not followed"
            raise ProviderError(Code.PROVIDER_REDIRECTED, explanation, url=self.url)

    def _malformed(self, explanation: str) -> ProviderError:
        return ProviderError(Code.PROVIDER_ANSWER_MALFORMED, explanation, url=self.url)

"""Responses of the OpenID Provider (OP), with strict checks of status, media type and JSON."""

from __future__ import annotations

from codecs import BOM_UTF8
from dataclasses import dataclass, field
from typing import Final

from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.protocol.error_text import cleaned, without
from fastapi_oidc.protocol.json import JSON, Claims, MalformedJSON, parse_json

_JSON: Final = "application/json"


@dataclass(frozen=True, slots=True)
class OPResponse:
    """One complete response. `url` has no query; the body may contain tokens.

    `sent` are the secrets in the request, which some OPs repeat in their error messages. `date`,
    `location` and `dpop_nonce` are the headers with these names (RFC 9110 6.6.1, 10.2.2; RFC 9449
    8).
    """

    url: str
    status: int
    media_type: str
    body: bytes = field(repr=False)
    sent: tuple[str, ...] = field(default=(), repr=False)
    date: str = ""
    location: str = field(default="", repr=False)
    dpop_nonce: str = ""

    @property
    def is_json(self) -> bool:
        """Whether the media type is JSON or built on it (RFC 6839 3.1)."""
        return self.media_type == _JSON or self.media_type.endswith("+json")

    @property
    def is_jwt(self) -> bool:
        """Whether the body is a JWT (OpenID Connect Core 5.3.2)."""
        return self.media_type == "application/jwt"

    def document(self) -> JSON:
        """The parsed JSON body; raises ProviderError (provider.answer_malformed)."""
        return self._parsed(self.json_body())

    def json_body(self) -> bytes:
        """The unparsed JSON body; raises ProviderError (provider.answer_malformed)."""
        if not self.is_json:
            raise self._malformed(f"the media type is {self.media_type[:80]!r}, not JSON")
        # RFC 8259 8.1: a parser may ignore a byte order mark.
        return self.body.removeprefix(BOM_UTF8)

    def members(self) -> Claims:
        """The members of the JSON object in the body; raises ProviderError."""
        document = self.document()
        if not isinstance(document, dict):
            raise self._malformed("not a JSON object")
        return document

    def published_document(self) -> JSON:
        """Like `document`, for a file that web servers may send as plain text."""
        if self.media_type != "text/plain":
            return self.document()
        return self._parsed(self.body.removeprefix(BOM_UTF8))

    def _parsed(self, body: bytes) -> JSON:
        try:
            return parse_json(body, max_bytes=len(body))
        except MalformedJSON as error:
            raise self._malformed(str(error)) from error

    def text(self) -> str:
        """The body as ASCII text; raises ProviderError (provider.answer_malformed)."""
        try:
            return self.body.decode("ascii").strip()
        except UnicodeDecodeError:
            raise self._malformed("the body is not ASCII") from None

    def document_or_none(self) -> JSON:
        """The parsed JSON body, or None if it is not JSON: error responses may have any form."""
        try:
            return self.document()
        except ProviderError:
            return None

    def require_status(self, *expected: int) -> None:
        """Raise ProviderError (provider.status) for any other status."""
        if self.status not in expected:
            raise self.refused_status()

    def refused_status(self, advice: str = "") -> ProviderError:
        """The ProviderError for the status (provider.status), with the OP's error message."""
        said = self._words_of_refusal()
        explanation = f"HTTP {self.status}{said and ': '}{said}{advice}"
        return ProviderError(Code.PROVIDER_STATUS, explanation, url=self.url, status=self.status)

    def unreadable_refusal(self) -> ProviderError:
        """The ProviderError for a 4xx without an OAuth error (provider.refusal_unreadable)."""
        explanation = (
            f"HTTP {self.status} without an OAuth error ({cleaned(self.media_type, 80)}): "
            "a proxy or a firewall may have answered in the provider's place"
        )
        return ProviderError(
            Code.PROVIDER_REFUSAL_UNREADABLE, explanation, url=self.url, status=self.status
        )

    def require_no_redirect(self) -> None:
        """Raise ProviderError for 3xx: a redirect could send credentials to an unknown place."""
        if 300 <= self.status < 400:
            explanation = f"HTTP {self.status}; redirects are not followed"
            raise ProviderError(Code.PROVIDER_REDIRECTED, explanation, url=self.url)

    def _words_of_refusal(self) -> str:
        """The OP's `error` and `error_description` (RFC 6749 5.2; RFC 6750 3.1 in its body)."""
        document = self.document_or_none()
        members = document if isinstance(document, dict) else {}
        texts = [members.get(name) for name in ("error", "error_description")]
        return " - ".join(
            cleaned(without(text, self.sent)) for text in texts if isinstance(text, str)
        )

    def _malformed(self, explanation: str) -> ProviderError:
        return ProviderError(Code.PROVIDER_ANSWER_MALFORMED, explanation, url=self.url)

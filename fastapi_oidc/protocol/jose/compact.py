"""The compact form of a JWS, parsed before its verification (RFC 7515 3.1, 4, 5.2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache
from typing import NamedTuple, Self

from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.protocol.json import Claims, MalformedJSON, parse_json_object

MAX_TOKEN_LENGTH = 65_536
MAX_HEADER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CompactJWS:
    """A well-formed JWS with an unverified signature. Only `parse` makes instances.

    Keys in the header, or at its URLs (`jwk`, `jku`, `x5c`, `x5u`), are never used.
    """

    algorithm: str
    kid: str | None
    typ: str | None
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    signing_input: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a JWS. Raises ProtocolViolation: jws.too_large, jws.malformed or jws.critical."""
        if len(text) > MAX_TOKEN_LENGTH:
            raise ProtocolViolation(Code.JWS_TOO_LARGE, f"more than {MAX_TOKEN_LENGTH} characters")
        segments = text.split(".")
        if len(segments) == 5:
            raise ProtocolViolation(Code.JWS_MALFORMED, "encrypted tokens are not supported")
        if len(segments) != 3:
            raise ProtocolViolation(Code.JWS_MALFORMED, "not three parts")
        header, payload, signature = segments
        return cls(
            *_header(header),
            payload=_octets(payload),
            signature=_octets(signature),
            signing_input=f"{header}.{payload}".encode("ascii"),
        )

    def claims(self) -> Claims:
        """The payload as a claims set (RFC 7519 7.2). Trust it only after verification.

        Raises ProtocolViolation (jws.claims_malformed).
        """
        try:
            return parse_json_object(self.payload)
        except MalformedJSON as malformed:
            raise ProtocolViolation(Code.JWS_CLAIMS_MALFORMED, str(malformed)) from None


class _Header(NamedTuple):
    algorithm: str
    kid: str | None
    typ: str | None


# An OP's tokens have the same few headers.
@lru_cache(maxsize=64)
def _header(segment: str) -> _Header:
    try:
        members = parse_json_object(_octets(segment), max_bytes=MAX_HEADER_BYTES)
    except MalformedJSON as malformed:
        raise ProtocolViolation(Code.JWS_MALFORMED, f"header: {malformed}") from None
    # No extensions are supported, so critical ones must be refused (4.1.11).
    if "crit" in members:
        raise ProtocolViolation(Code.JWS_CRITICAL)
    return _Header(_required(members, "alg"), _optional(members, "kid"), _optional(members, "typ"))


def _octets(segment: str) -> bytes:
    try:
        return base64url.decode(segment)
    except ValueError:
        raise ProtocolViolation(Code.JWS_MALFORMED, "a part is not base64url") from None


def _required(members: Claims, name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise ProtocolViolation(Code.JWS_MALFORMED, f"header: {name} is not a text")
    return value


def _optional(members: Claims, name: str) -> str | None:
    return _required(members, name) if name in members else None

"""Strict readers of texts from outside: JSON, base64url, and the compact form of a JWS, of both."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeAlias, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic_core import from_json
from typing_extensions import TypeAliasType

from fastapi_oidc.errors import Code, ProtocolViolation, SessionError

if TYPE_CHECKING:  # Pyright loses the recursion of a TypeAliasType, depending on the order of files
    JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"
else:
    JSON = TypeAliasType("JSON", "bool | int | float | str | list[JSON] | dict[str, JSON] | None")
"""Any JSON value. Texts have no lone surrogates."""

Claims: TypeAlias = Mapping[str, JSON]
"""The members of one JSON object."""

MAX_BYTES = 1_000_000


class MalformedJSON(ValueError):
    """The text is not JSON that this library accepts. The message does not quote the text."""


def parse_json(text: bytes, *, max_bytes: int = MAX_BYTES) -> JSON:
    """The value of the JSON `text` (RFC 8259). Of a repeated member, the last one (RFC 7515 4).

    Raises MalformedJSON for anything else than UTF-8, for NaN, a number that no float can hold, a
    lone surrogate, more than `max_bytes` bytes or about 200 levels of nesting.
    """
    if len(text) > max_bytes:
        raise MalformedJSON(f"more than {max_bytes} bytes")
    try:
        value: JSON = from_json(text, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # refuses a number that became infinite, such as 1e400
    except ValueError:
        raise MalformedJSON("not JSON in UTF-8, or a number is too large") from None
    return value


def parse_json_object(text: bytes, *, max_bytes: int = MAX_BYTES) -> Claims:
    """The members of the JSON object `text`; raises MalformedJSON for anything else."""
    value = parse_json(text, max_bytes=max_bytes)
    if not isinstance(value, dict):
        raise MalformedJSON("not a JSON object")
    return value


Stored = TypeVar("Stored")


def read_stored(kind: TypeAdapter[Stored], encoded: bytes) -> Stored:
    """What this library has stored as JSON; raises SessionError (session.store_unavailable).

    What cannot be read is not known to be absent, so it signs nobody out.
    """
    try:
        return kind.validate_json(encoded)
    except ValidationError:  # which quotes it
        explanation = "another release of this library wrote the value in the store"
        raise SessionError(Code.SESSION_STORE_UNAVAILABLE, explanation) from None


# Used for every session cookie and token: this takes a sixth of the time of the module base64.
_OCTETS: Any = TypeAdapter(
    bytes, config=ConfigDict(val_json_bytes="base64", hide_input_in_errors=True)
).validator


def is_same(one: str, other: str) -> bool:
    """Whether two texts are the same, compared in constant time."""
    return hmac.compare_digest(*(each.encode("utf-8", "surrogatepass") for each in (one, other)))


def encode_base64url(octets: bytes) -> str:
    """`octets` in base64url without padding (RFC 7515 2)."""
    return urlsafe_b64encode(octets).rstrip(b"=").decode("ascii")


def decode_base64url(text: str) -> bytes:
    """The octets of `text`, one text for each value (RFC 4648 3.5).

    Raises ValueError unless `encode_base64url` could have returned `text`.
    """
    if "+" in text or "/" in text or "=" in text:
        raise ValueError("not base64url")
    try:
        octets: bytes = _OCTETS.validate_strings(text)
    except ValidationError:
        raise ValueError("not base64url") from None
    return octets


MAX_TOKEN_LENGTH = 65_536
MAX_HEADER_BYTES = 4096


@dataclass(frozen=True, slots=True)
class CompactJWS:
    """A JWS with an unverified signature (RFC 7515 3.1, 4, 5.2). Only `parse` makes instances.

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
        return decode_base64url(segment)
    except ValueError:
        raise ProtocolViolation(Code.JWS_MALFORMED, "a part is not base64url") from None


def _required(members: Claims, name: str) -> str:
    value = members.get(name)
    if not isinstance(value, str):
        raise ProtocolViolation(Code.JWS_MALFORMED, f"header: {name} is not a text")
    return value


def _optional(members: Claims, name: str) -> str | None:
    return _required(members, name) if name in members else None

"""Strict readers of texts from outside: JSON, base64url, and the compact form of a JWS, of both."""

from __future__ import annotations

import hmac
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Self, TypeAlias, TypeVar

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


class MalformedJSON(ValueError):
    """The text is not JSON that this library accepts. The message does not quote the text."""


def parse_json(text: bytes) -> JSON:
    """The value of the JSON `text` (RFC 8259). Of a repeated member, the last one (RFC 7515 4).

    Raises MalformedJSON for anything else than UTF-8, for NaN, a number that no float can hold, a
    lone surrogate or about 200 levels of nesting. Callers limit the size of the text.
    """
    try:
        value: JSON = from_json(text, allow_inf_nan=False)
        json.dumps(value, allow_nan=False)  # refuses a number that became infinite, such as 1e400
    except ValueError:
        raise MalformedJSON("not JSON in UTF-8, or a number is too large") from None
    return value


def parse_json_object(text: bytes) -> Claims:
    """The members of the JSON object `text`; raises MalformedJSON for anything else."""
    value = parse_json(text)
    if not isinstance(value, dict):
        raise MalformedJSON("not a JSON object")
    return value


def fault_in(error: ValidationError) -> str:
    """The first fault in one line, without the value: it may be a secret."""
    fault = error.errors(include_url=False, include_input=False)[0]
    return ": ".join([*map(str, fault["loc"]), fault["msg"]])


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
MAX_HEADER_LENGTH = 5462
"""Of 4 KiB, because headers are cached."""

_ABSENT = object()
"""No JSON, as null is."""


@dataclass(frozen=True, slots=True)
class Header:
    """The members of a JWS header that are read (RFC 7515 4.1), `jwk` only of DPoP proofs.

    Keys in the header of a token, or at its URLs (`jku`, `x5c`, `x5u`), are never used.
    """

    alg: str
    kid: str | None = None
    typ: str | None = None
    jwk: JSON = field(default=None, repr=False)
    crit: object = field(default=_ABSENT, repr=False)


_HEADER: TypeAdapter[Header] = TypeAdapter(Header)


# An OP's tokens have the same few headers.
@lru_cache(maxsize=64)
def _header(segment: str) -> Header:
    return _HEADER.validate_python(parse_json_object(decode_base64url(segment)))


@dataclass(frozen=True, slots=True)
class CompactJWS:
    """A JWS with an unverified signature (RFC 7515 3.1, 4, 5.2). Only `parse` makes instances."""

    header: Header
    payload: bytes = field(repr=False)
    signature: bytes = field(repr=False)
    signing_input: bytes = field(repr=False)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse a JWS. Raises ProtocolViolation: jws.too_large, jws.malformed or jws.critical."""
        if len(text) > MAX_TOKEN_LENGTH or text.find(".") > MAX_HEADER_LENGTH:
            raise ProtocolViolation(Code.JWS_TOO_LARGE, "the token or its header is too long")
        try:
            head, payload, signature = text.split(".")
            jws = cls(
                _header(head),
                payload=decode_base64url(payload),
                signature=decode_base64url(signature),
                signing_input=f"{head}.{payload}".encode("ascii"),
            )
        except ValueError:
            explanation = "not three parts (encrypted: five), or alg, kid or typ is not a text"
            raise ProtocolViolation(Code.JWS_MALFORMED, explanation) from None
        # No extensions are supported, so critical ones must be refused (4.1.11).
        if jws.header.crit is not _ABSENT:
            raise ProtocolViolation(Code.JWS_CRITICAL)
        return jws

    def claims(self) -> Claims:
        """The payload as a claims set (RFC 7519 7.2). Trust it only after verification.

        Raises ProtocolViolation (jws.claims_malformed).
        """
        try:
            return parse_json_object(self.payload)
        except MalformedJSON as malformed:
            raise ProtocolViolation(Code.JWS_CLAIMS_MALFORMED, str(malformed)) from None

"""Sessions as bytes and back; only this module serializes their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.session.model import SEALING, Identity, OIDCSession
from fastapi_oidc.session.origin import reading_back

_JWT_BEGINS, _JWT_ENDS = b"\x01", b"\x00"
_JSON_PART: Final = re.compile(rb'(?<=[".])eyJ[A-Za-z0-9_-]+')  # eyJ is {" in base64
_UNPACKED_PART: Final = re.compile(rb"\x01([^\x00]*)\x00")


class SessionCodec(Generic[Identity]):
    """Encodes and decodes sessions with an identity of `identity_type`.

    Raises ConfigurationError (configuration.invalid) when pydantic cannot read that type.
    """

    def __init__(self, identity_type: type[Identity]) -> None:
        self.identity_type = identity_type
        try:
            with reading_back():
                adapter = TypeAdapter(OIDCSession[identity_type])  # type: ignore[valid-type]
        except PydanticUserError as error:
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"pydantic cannot read an identity of {identity_type!r}: {error.message}",
            ) from None
        self._read: Callable[[bytes], OIDCSession[Identity]] = adapter.validator.validate_json

    def encode(self, session: OIDCSession[Identity]) -> bytes:
        """The session with its tokens, as JSON that `decode` can read.

        Raises ConfigurationError (configuration.invalid) when the identity would be read as
        something else: it has another type, a secret or an excluded field.
        """
        with suppress(ValueError, SessionError):
            encoded = session.model_dump_json(context=SEALING).encode()
            if self.decode(encoded).identity == session.identity:
                return encoded
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"the session cannot be stored: its identity, a {type(session.identity).__name__}, "
            f"would be read back as something else (identity_type is {self.identity_type!r})",
        )

    def decode(self, encoded: bytes) -> OIDCSession[Identity]:
        """The session that `encode` wrote; raises SessionError (session.malformed)."""
        try:
            return self._read(encoded)
        except ValidationError as error:
            raise _malformed(error) from None


def unpack_jwts(encoded: bytes) -> bytes:
    """JSON with each JWT part replaced by the JSON that it encodes, which deflates better.

    base64 hides from a compressor the text that several tokens share. The bytes around an unpacked
    part occur neither in JSON nor in base64.
    """
    return _JSON_PART.sub(_unpacked, encoded)


def pack_jwts(text: bytes) -> bytes:
    """Undo `unpack_jwts`."""
    return _UNPACKED_PART.sub(lambda found: base64url.encode(found[1]).encode(), text)


def _unpacked(found: re.Match[bytes]) -> bytes:
    part = found[0]
    try:
        content = base64url.decode(part.decode())
    except ValueError:
        return part
    return part if _JWT_ENDS in content else _JWT_BEGINS + content + _JWT_ENDS


def _malformed(error: ValidationError) -> SessionError:
    """The error with the place and kind of the first fault, without the value there."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"]) or "the whole"
    return SessionError(Code.SESSION_MALFORMED, f"{place}: {fault['type']}")

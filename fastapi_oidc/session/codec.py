"""Sessions and transactions as bytes and back; only this module serializes their secrets."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress
from typing import Final, Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import from_json, to_json

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.protocol.jose import base64url
from fastapi_oidc.session.model import (
    SEALING,
    Identity,
    LoginTransaction,
    OIDCSession,
    copied,
)
from fastapi_oidc.session.origin import reading_back
from fastapi_oidc.session.sealing import DecryptionCache, Sealer

Model = TypeVar("Model", bound=BaseModel)

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
                of_identity = TypeAdapter(identity_type)
        except PydanticUserError as error:
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"pydantic cannot read an identity of {identity_type!r}: {error.message}",
            ) from None
        self._read: Callable[[bytes], OIDCSession[Identity]] = adapter.validator.validate_json
        self.read_identity: Callable[[bytes], Identity] = of_identity.validator.validate_json

    def encode(self, session: OIDCSession[Identity]) -> bytes:
        """The session with its tokens, as JSON that `decode` can read.

        Raises ConfigurationError (configuration.invalid) when the identity has another type.
        """
        try:
            encoded = session.model_dump_json(context=SEALING).encode()
            self.decode(encoded)
        except (ValueError, SessionError):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"the session cannot be stored: is its identity a {self.identity_type!r}?",
            ) from None
        return encoded

    def decode(self, encoded: bytes) -> OIDCSession[Identity]:
        """The session that `encode` wrote; raises SessionError (session.malformed)."""
        try:
            return self._read(encoded)
        except ValidationError as error:
            raise _malformed(error) from None

    def copied(self, session: OIDCSession[Identity]) -> OIDCSession[Identity]:
        """A copy of `session` that shares no mutable part with it.

        An identity that cannot be serialized, as in an application's own store, is shared.
        """
        with suppress(ConfigurationError):
            return self.decode(self.encode(session))
        return session.model_copy(update={"claims": copied(session.claims)})


class SessionReader(Generic[Identity]):
    """Decodes one session as often as it is called, each time with its own claims and identity.

    The results share immutable parts only. A session that is read only once stays as bytes, which
    take a third of the memory. Threads may share a reader.
    """

    __slots__ = ("_codec", "_encoded", "_template", "_was_read")

    def __init__(self, codec: SessionCodec[Identity], encoded: bytes) -> None:
        self._codec, self._encoded, self._was_read = codec, encoded, False
        self._template: tuple[OIDCSession[Identity], bytes, list[str]] | None = None

    def __call__(self) -> OIDCSession[Identity]:
        """The session; raises SessionError (session.malformed)."""
        template = self._template
        if template is None:
            session = self._codec.decode(self._encoded)
            if not self._was_read:
                self._was_read = True
                return session
            changeable = [n for n, v in session.claims.items() if isinstance(v, (dict, list))]
            identity = to_json(from_json(self._encoded)["identity"])
            template = self._template = session, identity, changeable
        session, identity, changeable = template
        own, claims = session.__copy__(), session.claims.copy()
        for name in changeable:
            claims[name] = copied(claims[name])
        own.__dict__.update(claims=claims, identity=self._codec.read_identity(identity))
        return own


class SealedRows(Generic[Identity]):
    """Writes and reads the rows of a session store, each sealed for the id of its row.

    The `OIDC` object that uses the store binds it to a sealer. Before that every method raises
    ConfigurationError (configuration.invalid).
    """

    def __init__(self, identity_type: type[Identity]) -> None:
        self._codec = SessionCodec(identity_type)
        self._sealer: Sealer | None = None
        self._readers = DecryptionCache(self._reader, clock=Clock())

    def bind(self, sealer: Sealer) -> None:
        """Open what `sealer` has sealed, and seal with the first sealer that was bound."""
        self._sealer = sealer if self._sealer is None else self._sealer.also_opening(sealer)

    def seal(self, id: str, session: OIDCSession[Identity]) -> bytes:
        """The content of the row `id`."""
        return self._bound().encrypt(self._codec.encode(session), name=f"row:{id}")

    def open(self, id: str, content: bytes, last_seen_at: int) -> OIDCSession[Identity] | None:
        """The session in the row `id`; None for a row of another id, secret or identity type."""
        try:
            session = self._readers.open((self._bound(), id, content))()
        except SessionError:
            return None
        return (
            session.model_copy(update={"last_seen_at": last_seen_at}) if last_seen_at else session
        )

    def _reader(self, row: tuple[Sealer, str, bytes]) -> tuple[SessionReader[Identity], int]:
        sealer, id, content = row
        encoded = sealer.decrypt(content, name=f"row:{id}")
        return SessionReader(self._codec, encoded), len(content) + len(encoded)

    def _bound(self) -> Sealer:
        if self._sealer is None:
            explanation = "give this store to an OIDC object, whose cookie_secret seals its rows"
            raise ConfigurationError(Code.CONFIGURATION_INVALID, explanation)
        return self._sealer


class TransactionCodec:
    """Writes and reads pending logins."""

    def encode(self, transaction: LoginTransaction) -> bytes:
        """The transaction with its secrets, as JSON."""
        return transaction.model_dump_json(exclude_defaults=True).encode()

    def decode(self, encoded: bytes) -> LoginTransaction:
        """The transaction that `encode` wrote; raises SessionError (session.malformed)."""
        try:
            return LoginTransaction.model_validate_json(encoded)
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

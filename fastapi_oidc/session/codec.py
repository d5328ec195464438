"""Sessions and transactions as bytes, and back: the one way their secrets are written out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError

from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.immutable import is_immutable
from fastapi_oidc.session.model import (
    SEALING,
    Identity,
    LoginTransaction,
    OIDCSession,
    changeable_claims,
    own_copy,
)
from fastapi_oidc.session.once_written import MARK, restored, written_once
from fastapi_oidc.session.origin import reading_back

Model = TypeVar("Model", bound=BaseModel)


class SessionCodec(Generic[Identity]):
    """Writes and reads sessions whose identity is an `identity_type`: any type pydantic reads.

    Raises ConfigurationError (configuration.invalid) when pydantic cannot read that type.
    """

    def __init__(self, identity_type: type[Identity]) -> None:
        self.identity_type = identity_type
        self._read = _reader_for(identity_type)
        self.shares_identity = is_immutable(identity_type)
        """Whether sessions of several requests may have one identity, which nobody can change."""

    def encode(self, session: OIDCSession[Identity]) -> bytes:
        """The session with its tokens, as JSON that `decode` is sure to read.

        Raises ConfigurationError (configuration.invalid) when the identity is of another type.
        """
        try:
            encoded = session.model_dump_json(context=SEALING).encode()
            self.decode(encoded)
        except (ValueError, SessionError):
            raise ConfigurationError(
                Code.CONFIGURATION_INVALID,
                f"the session cannot be kept: is its identity a {self.identity_type!r}?",
            ) from None
        return encoded

    def encode_short(self, session: OIDCSession[Identity]) -> bytes | None:
        """As `encode`, without the claims that the ID token has; None when they differ from it."""
        return written_once(session)

    def decode(self, encoded: bytes) -> OIDCSession[Identity]:
        """The session that `encode` or `encode_short` wrote; raises SessionError
        (session.malformed).
        """
        if encoded.startswith(MARK):
            encoded = restored(encoded)
        try:
            return self._read(encoded)
        except ValidationError as error:
            raise _malformed(error) from None

    def copied(self, session: OIDCSession[Identity]) -> OIDCSession[Identity]:
        """`session` again; nothing that can be changed is part of both.

        But for an identity that cannot be written, which a store of the application may keep.
        """
        if not self.shares_identity:
            with suppress(ConfigurationError):
                return self.decode(self.encode(session))
        return own_copy(session, changeable_claims(session))


class SessionReader(Generic[Identity]):
    """Gives the session that a codec wrote, each time as one of its caller's own.

    They share what nobody can change, an identity of such a type too. What is read once alone is
    not kept as a session, which takes three times the room. Threads may share a reader.
    """

    __slots__ = ("_codec", "_kept", "_was_read")

    def __init__(self, codec: SessionCodec[Identity], encoded: bytes) -> None:
        self._codec, self._was_read = codec, False
        # Its bytes; or the session, and its claims that can be changed. Replaced as a whole.
        self._kept: bytes | tuple[OIDCSession[Identity], Sequence[str]] = encoded

    def __call__(self) -> OIDCSession[Identity]:
        """The session; raises SessionError (session.malformed)."""
        kept = self._kept
        if isinstance(kept, tuple):
            return own_copy(*kept)
        session = self._codec.decode(kept)
        if not (self._was_read and self._codec.shares_identity):
            self._was_read = True
            return session
        changeable = changeable_claims(session)
        self._kept = session, changeable
        return own_copy(session, changeable)


class TransactionCodec:
    """Writes and reads pending logins."""

    def encode(self, transaction: LoginTransaction) -> bytes:
        """The transaction with its secrets, as JSON."""
        return transaction.model_dump_json(exclude_none=True).encode()

    def decode(self, encoded: bytes) -> LoginTransaction:
        """The transaction that `encode` wrote; raises SessionError (session.malformed)."""
        try:
            return LoginTransaction.model_validate_json(encoded)
        except ValidationError as error:
            raise _malformed(error) from None


def _reader_for(identity_type: type[Identity]) -> Callable[[bytes], OIDCSession[Identity]]:
    adapter: TypeAdapter[OIDCSession[Identity]]
    try:
        with reading_back():
            adapter = TypeAdapter(OIDCSession[identity_type])  # type: ignore[valid-type]  # made at run time
    except PydanticUserError as error:
        raise ConfigurationError(
            Code.CONFIGURATION_INVALID,
            f"pydantic cannot read an identity of {identity_type!r}: {error.message}",
        ) from None
    return adapter.validator.validate_json


def _malformed(error: ValidationError) -> SessionError:
    """Says where the first fault is and of which kind, never what stood there."""
    fault = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in fault["loc"]) or "the whole"
    return SessionError(Code.SESSION_MALFORMED, f"{place}: {fault['type']}")

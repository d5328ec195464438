"""Sessions as Redis rows: a mark, the second of last use, and the encoded session."""

from __future__ import annotations

from typing import Final, Generic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.codec import SessionCodec, SessionReader
from fastapi_oidc.session.model import Identity, OIDCSession
from fastapi_oidc.session.opener import Opener
from fastapi_oidc.session.sealing import Sealer

_SEALED, _CLEAR, _FIRST_VERSION = b"s", b"c", b"{"
SEEN_START: Final = len(_SEALED)
SEEN_DIGITS: Final = 10
_HEADER: Final = SEEN_START + SEEN_DIGITS


class RowCodec(Generic[Identity]):
    """Writes and reads rows; sealed from the moment that there is a key.

    The moment of last use stands in the clear, so that it is changed without the session.
    """

    def __init__(self, identity_type: type[Identity], *, reads_clear_rows: bool) -> None:
        self._codec = SessionCodec(identity_type)
        self._sealer: Sealer | None = None
        self._reads_clear_rows = reads_clear_rows
        self._readers = Opener(self._reader, clock=Clock())

    def seal_with(self, sealer: Sealer) -> None:
        """Seals rows with `sealer`, or with an earlier one, and opens those of both."""
        self._sealer = sealer if self._sealer is None else self._sealer.and_opening(sealer)

    def encode(self, id: str, session: OIDCSession[Identity]) -> bytes:
        """The row of `session` under `id`; raises ConfigurationError as `SessionCodec`."""
        encoded = self._codec.encode(session)
        seen = seen_text(session.last_seen_at or 0).encode()
        if self._sealer is None:
            return _CLEAR + seen + encoded
        return _SEALED + seen + self._sealer.encrypt(encoded, name=_name(id))

    def decode(self, id: str, row: bytes) -> OIDCSession[Identity] | None:
        """The session; None for a row of another place, key, identity type or version."""
        try:
            session = self._session(id, row)
            seen = 0 if row.startswith(_FIRST_VERSION) else int(row[SEEN_START:_HEADER])
        except (SessionError, ValueError):
            return None
        return session.model_copy(update={"last_seen_at": seen}) if seen else session

    def _session(self, id: str, row: bytes) -> OIDCSession[Identity]:
        if self._sealer is None:
            return self._codec.decode(_clear(row))
        if row.startswith(_SEALED):
            return self._readers.open((self._sealer, id, row[_HEADER:]))()
        return self._codec.decode(_clear(row) if self._reads_clear_rows else b"")

    def _reader(self, sealed: tuple[Sealer, str, bytes]) -> tuple[SessionReader[Identity], int]:
        """Of what stands sealed in a row, and opens in its own place alone."""
        sealer, id, text = sealed
        plaintext = sealer.decrypt(text, name=_name(id))
        return SessionReader(self._codec, plaintext), len(text) + len(plaintext)


def seen_text(moment: int) -> str:
    """A moment of last use as a row has it."""
    return f"{moment:0{SEEN_DIGITS}d}"


def _name(id: str) -> str:
    return f"row:{id}"


def _clear(row: bytes) -> bytes:
    return row if row.startswith(_FIRST_VERSION) else row[_HEADER:]

"""What a session cookie says: a copy of the session, or a reference to its row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, NamedTuple

from fastapi_oidc.session.model import Identity, OIDCSession


class Copy(NamedTuple, Generic[Identity]):
    """The content of a session cookie. Its session's row says whether it still counts.

    `keys` are those of the session's revocations when the cookie was set, so that they are read
    together with the row. `epoch` is compared with the row's. `expires_at` is the absolute end, in
    seconds since the epoch. `session` is None where the row has it; then `secret` proves that the
    row is meant.
    """

    id: str
    keys: tuple[str, ...]
    epoch: int
    expires_at: int
    session: OIDCSession[Identity] | None = None
    secret: bytes = b""

    def __repr__(self) -> str:
        """Without the secret."""
        return f"Copy(id={self.id!r}, epoch={self.epoch})"


class CookieForm(ABC, Generic[Identity]):
    """Writes and reads the value of the session cookie."""

    @abstractmethod
    def open(self, value: str) -> Copy[Identity]:
        """The content; raises SessionError (session.seal_broken, session.malformed)."""

    @abstractmethod
    def seal(
        self, session: OIDCSession[Identity], content: bytes, epoch: int, secret: bytes
    ) -> str:
        """The value for `session`, which `content` encodes; raises CookieTooLarge."""

    @abstractmethod
    def leads_to(self, copy: Copy[Identity], session: OIDCSession[Identity], epoch: int) -> bool:
        """Whether a browser with `copy` needs no other cookie for `session`."""

"""What an application can plug in: narrow protocols that speak values, never requests."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from fastapi_oidc.errors import Code, OIDCError, SessionError
from fastapi_oidc.session.endings import RevocationRecord
from fastapi_oidc.session.model import Identity, OIDCSession

Answer = TypeVar("Answer")


class SessionStore(Protocol[Identity]):
    """Keeps sessions on the server. Methods may be `async def`, or plain when they never block.

    `id` is an opaque text of 43 characters. A store may drop a session after its `expires_at`.
    Whatever a method raises is answered 503 and never signs anybody out.
    """

    def get(
        self, id: str, /
    ) -> OIDCSession[Identity] | Awaitable[OIDCSession[Identity] | None] | None:
        """The session last set under `id`; None when there is none."""

    def set(self, id: str, session: OIDCSession[Identity], /) -> Awaitable[None] | None:
        """Keeps `session` under `id`, in place of what was there."""

    def delete(self, id: str, /) -> Awaitable[None] | None:
        """Forgets `id`; nothing happens when it is unknown."""


class RevocationStore(Protocol):
    """Remembers which sessions are over until no session that a record covers can be alive.

    Methods may be `async def`, or plain when they never block. It must be shared by all processes.
    """

    def revoke(self, record: RevocationRecord, /) -> Awaitable[None] | None:
        """From now on every session that `record` covers is revoked; repeating it is harmless."""

    def is_revoked(self, session: OIDCSession[Identity], /) -> Awaitable[bool] | bool:
        """Whether a record that has not expired covers `session`, as `RevocationRecord` says."""


class RefreshLock(Protocol):
    """Makes one refresh of one session happen once, however many requests ask for it."""

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        """The result of `operation`, of which at most one runs per `session_id` at a time.

        `session_id` names one refresh of one session. A run with the same name that ended in
        the last 60 seconds may answer instead. What `operation` raises reaches everybody who
        waits for that run in this process. Raises SessionError (session.lock_unavailable).
        """


async def settled(value: Answer | Awaitable[Answer]) -> Answer:
    """The answer of a method that may or may not be async."""
    if inspect.isawaitable(value):
        answer: Answer = await value
        return answer
    return value


class unavailable_as:  # noqa: N801 - written in small letters, as a function would be
    """Whatever a store raises within becomes a SessionError with `code`, which is answered 503."""

    __slots__ = ("_code",)

    def __init__(self, code: Code) -> None:
        self._code = code

    def __enter__(self) -> None:
        """Nothing to do."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, where: object
    ) -> None:
        """Raises the SessionError; errors of this library, and what ends a task, go on."""
        if isinstance(error, Exception) and not isinstance(error, OIDCError):
            raise unavailable(self._code, error) from error


def unavailable(code: Code, error: Exception) -> SessionError:
    """The error that stands for what a store raised."""
    return SessionError(code, f"the store raised {type(error).__name__}")

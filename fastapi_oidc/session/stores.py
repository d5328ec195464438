"""The base classes of an application's own stores and locks."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.records import RefreshRecords
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.sealing import Sealer

DEFAULT_TIMEOUT: Final = 5.0
"""Seconds for one command of a Redis or SQL store, including its wait for a connection."""

MOST_LISTED: Final = 1000
"""Maximum number of a user's sessions that a Redis or SQL store lists: the last ones to end."""


class SessionStore(ABC, Generic[Identity]):
    """Stores sessions on the server.

    A subclass must implement `get`, `set` and `delete`. The other methods have defaults, which a
    subclass may override. `id` is an opaque text of 43 characters. An exception of a method leads
    to a 503 response and signs nobody out.
    """

    records_last_use: bool = False
    """Whether `touch` is implemented, as `idle_timeout` requires."""

    returns_copies: bool = False
    """Whether each call returns a new object. If not, the caller copies each session."""

    is_in_memory: bool = False
    """Whether only this process has the sessions."""

    @abstractmethod
    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """The session that was last set under `id`; None without one or after its `expires_at`."""

    @abstractmethod
    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """Store `session` under `id`; it replaces an earlier one."""

    @abstractmethod
    async def delete(self, id: str, /) -> None:
        """Delete the session under `id`; an unknown `id` is not an error."""

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """Store `session` if an earlier generation of it is stored under `id`, and return whether.

        The default takes two steps: it would undo a sign-out between them. Override it with an
        atomic operation.
        """
        before = await self.get(id)
        if before is None or before.generation >= session.generation:
            return False
        await self.set(id, session)
        return True

    async def touch(self, id: str, at: int, /) -> None:
        """Set the `last_seen_at` of the session under `id` to `at`, unless it is later already.

        This must not overwrite a concurrent refresh. An unknown `id` is not an error.
        """
        raise _unsupported("touch")

    async def sessions_of(
        self, issuer: str, client_id: str, sub: str, /
    ) -> Sequence[OIDCSession[Identity]]:
        """Every session of this user that has not expired."""
        raise _unsupported("sessions_of")

    async def find_by_session_id(
        self, session_id: str, /
    ) -> tuple[str, OIDCSession[Identity]] | None:
        """The session with the `id` `session_id`, as a pair: the store's `id` and the session."""
        raise _unsupported("find_by_session_id")

    @property
    def revocations(self) -> RevocationStore | None:
        """The store's own revocation records, None if it has none."""
        return None

    @property
    def records(self) -> RefreshRecords | None:
        """The store's own refresh records, None if it has none."""
        return None

    async def find(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """The session under `id`, and why it has ended according to the store's `revocations`.

        `digests` are the names of the session's revocation records from its cookie, so that a store
        can read the session and the records in one step.
        """
        session = await self.get(id)
        if session is None or self.revocations is None:
            return session, None
        return session, await self.revocations.ended_by(session)

    def bind(self, codec: SessionCodec[Any], sealer: Sealer, /) -> None:
        """Each `OIDC` object that uses this store calls this method before the first request.

        The store may serialize sessions with `codec` and seal them with `sealer`.
        """

    async def aclose(self) -> None:
        """Close the store's own connections. A later call may open new ones."""


class RefreshLock(ABC):
    """Excludes other processes while one of them refreshes a session.

    A lock stores nothing. `RedisRefreshLock` and `MemoryRefreshLock` store refresh records
    (`RefreshRecords`) and should be preferred.
    """

    @abstractmethod
    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[None]], /
    ) -> None:
        """Await `operation()`, one at a time for each `session_id` across all processes.

        Raises what `operation` raises. If the lock cannot be acquired, raises any other exception.
        """

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the lock's own connections. A later call may open new ones."""


def require_option(name: str, value: object, *kinds: type, memory: bool = False) -> None:
    """Raise ConfigurationError (configuration.invalid) unless `value` is one of `kinds`, or None.

    With `memory` the text "memory" is accepted too.
    """
    if value is None or isinstance(value, kinds) or (memory and value == "memory"):
        return
    given = f"an instance of {type(value).__name__}"
    if isinstance(value, str):
        given = "a text"  # which may be a URL with a password
    elif inspect.isclass(value):
        given = f"the class {value.__name__}, not an instance of it"
    wanted = " or ".join(kind.__name__ for kind in kinds)
    raise ConfigurationError(
        Code.CONFIGURATION_INVALID,
        f"{name} is {given}; give an instance of {wanted}" + (', or "memory"' if memory else ""),
    )


def _unsupported(method: str) -> ConfigurationError:
    return ConfigurationError(
        Code.CONFIGURATION_STORE_MISSING, f"this session_store does not implement {method}"
    )

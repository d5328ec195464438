"""What an application can plug in: base classes whose methods speak values, never requests."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic

from fastapi_oidc.errors import Code, ConfigurationError
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.model import EndReason, Identity, OIDCSession
from fastapi_oidc.session.records import RefreshRecords
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.sealing import Sealer


class SessionStore(ABC, Generic[Identity]):
    """Keeps sessions on the server.

    A subclass has `get`, `set` and `delete`; every other method has a default, and a subclass that
    can do better overrides it. `id` is an opaque text of 43 characters. What a method raises
    becomes a 503 response and signs nobody out.
    """

    records_last_use: bool = False
    """Whether `touch` works; `idle_timeout` needs it."""

    returns_copies: bool = False
    """Whether no two calls return the same object; otherwise each session is copied."""

    @abstractmethod
    async def get(self, id: str, /) -> OIDCSession[Identity] | None:
        """The session last set under `id`; None without one, or after its `expires_at`."""

    @abstractmethod
    async def set(self, id: str, session: OIDCSession[Identity], /) -> None:
        """Keep `session` under `id`, in place of an earlier one."""

    @abstractmethod
    async def delete(self, id: str, /) -> None:
        """Forget `id`; nothing happens when it is unknown."""

    async def replace(self, id: str, session: OIDCSession[Identity], /) -> bool:
        """Keep `session` if an earlier generation of it is kept under `id`; whether that was so.

        The default takes two steps: a sign-out between them is undone. Override it with one step.
        """
        before = await self.get(id)
        if before is None or before.generation >= session.generation:
            return False
        await self.set(id, session)
        return True

    async def touch(self, id: str, at: int, /) -> None:
        """From now on the session under `id` has `last_seen_at=at`, unless it was seen later.

        A refresh at the same time is not overwritten. Nothing happens when `id` is unknown.
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
        """The session whose own `id` is `session_id`, behind the `id` under which it was set."""
        raise _unsupported("find_by_session_id")

    @property
    def revocations(self) -> RevocationStore | None:
        """The revocation records kept beside the sessions, where the store keeps them."""
        return None

    @property
    def records(self) -> RefreshRecords | None:
        """The refresh records kept beside the sessions, where the store keeps them."""
        return None

    async def find(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Identity] | None, EndReason | None]:
        """The session under `id`, and why it is over by the store's own `revocations`.

        `digests` name the revocation records of the session as its cookie knows them, so that a
        store can ask for everything in one step.
        """
        session = await self.get(id)
        if session is None or self.revocations is None:
            return session, None
        return session, await self.revocations.ended_by(session)

    def bind(self, codec: SessionCodec[Any], sealer: Sealer, /) -> None:
        """Each `OIDC` object that is given this store calls this before any request.

        A store may write sessions with `codec` and seal them with `sealer`.
        """

    async def aclose(self) -> None:
        """Close the store's own connections; a later call may open new ones."""


class RefreshLock(ABC):
    """Excludes other processes while one of them refreshes a session.

    A lock keeps nothing. `RedisRefreshLock` and `MemoryRefreshLock` keep the refresh record
    (`RefreshRecords`) and are the better choice where they can be had.
    """

    @abstractmethod
    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[None]], /
    ) -> None:
        """Await `operation()`, at most one at a time for each `session_id` over all processes.

        What `operation` raises is raised here. A lock that cannot be had raises anything else.
        """

    async def aclose(self) -> None:  # noqa: B027 - a default
        """Close the lock's own connections; a later call may open new ones."""


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

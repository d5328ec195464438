"""What a store or lock may be able to do beyond its protocol; each ability is found by its methods.

Methods may be `async def`, or plain when they never block.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, TypeAlias, runtime_checkable

from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.model import EndReason, OIDCSession
from fastapi_oidc.session.sealing import Sealer
from fastapi_oidc.session.stores import RevocationStore

Turn: TypeAlias = Callable[[], AbstractAsyncContextManager[None]]
"""One of the refreshes that a process has under way at a time, for as long as the block runs."""


def bypasses(store: object, ability: str, *methods: str) -> bool:
    """Whether a subclass has one of `methods` of its own, which an inherited `ability` skips.

    Such a class was written before the ability: it is asked by `methods` as ever.
    """
    ancestry = type(store).__mro__

    def depth(name: str) -> int:
        return next((at for at, base in enumerate(ancestry) if name in vars(base)), len(ancestry))

    return any(depth(method) < depth(ability) for method in methods)


@runtime_checkable
class Replaces(Protocol):
    """A session store that can change a row without making one."""

    def replace(self, id: str, session: OIDCSession[Any], /) -> Awaitable[bool] | bool:
        """Keeps `session` in place of what is there, in one step; False when nothing is there."""


@runtime_checkable
class RemembersUse(Protocol):
    """A session store that keeps apart from the row when a session was last used."""

    def touch(self, id: str, at: int, /) -> Awaitable[None] | None:
        """From now on the session under `id` is given with `last_seen_at=at`, or with a later one.

        A refresh at the same time is not overwritten. Nothing happens when `id` is unknown.
        """


@runtime_checkable
class ListsSessions(Protocol):
    """A session store that knows the sessions of a user."""

    def sessions_of(
        self, issuer: str, client_id: str, sub: str, /
    ) -> Awaitable[Sequence[OIDCSession[Any]]] | Sequence[OIDCSession[Any]]:
        """Every session of this user that is kept here and has not expired."""


@runtime_checkable
class TellsReason(RevocationStore, Protocol):
    """A revocation store that takes every kind of record and says why a session is over."""

    def ended_by(
        self, session: OIDCSession[Any], /
    ) -> Awaitable[EndReason | None] | EndReason | None:
        """The `reason` of a record that covers `session`; None when none does."""


@runtime_checkable
class KeepsEndings(TellsReason, Protocol):
    """A session store that keeps endings too, and finds a session and its end in one step."""

    def get_with_endings(
        self, id: str, digests: Sequence[str], /
    ) -> (
        Awaitable[tuple[OIDCSession[Any] | None, EndReason | None]]
        | tuple[OIDCSession[Any] | None, EndReason | None]
    ):
        """What `get(id)` and then `ended_by(session)` give.

        `digests` are those of `keys_of_session(session)` as the session's cookie remembers them,
        empty when it remembers none: keys to ask for together with the row. A session that has
        other keys by now is asked for again.
        """

    def keeps_endings_of(self, store: RevocationStore, /) -> bool:
        """Whether this store's endings are those of `store`, which then is not asked."""


@runtime_checkable
class Bindable(Protocol):
    """A session store that writes with the keys and the identity type of an `OIDC` object."""

    def bind(self, codec: SessionCodec[Any], sealer: Sealer, /) -> None:
        """From now on rows may be written with `codec` and sealed with `sealer`.

        Called by each `OIDC` object that is given this store, before any request.
        """


@runtime_checkable
class KeepsAnswers(Protocol):
    """A refresh lock that keeps beside a run, sealed, that its token request was sent, and what the
    provider answered."""

    def claim(
        self, name: str, data: bytes, seconds: int, /
    ) -> Awaitable[bytes | None] | bytes | None:
        """Keeps `data` under `name` for that long unless something is kept there, in one step; what
        was there, None when `data` is there from now on."""

    def keep(self, name: str, data: bytes, seconds: int, /) -> Awaitable[None] | None:
        """Keeps `data` under `name` for that long, for every process that shares the lock."""

    def kept(self, name: str, /) -> Awaitable[bytes | None] | bytes | None:
        """What is kept under `name`; None when there is nothing."""

    def forget(self, name: str, /) -> Awaitable[None] | None:
        """Keeps it no longer."""


@runtime_checkable
class YieldsTurns(Protocol):
    """A refresh lock that takes no turn of this process while it waits for another one's run."""

    async def run_in_turn(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], turn: Turn, /
    ) -> bytes:
        """As `RefreshLock.run_exclusive`; `operation` runs in a `turn`, which is taken before the
        lock is: nobody waits for a turn with the lock in hand."""


@runtime_checkable
class Closes(Protocol):
    """A store or lock that has connections of its own."""

    async def aclose(self) -> None:
        """Closes them; a later call opens new ones."""

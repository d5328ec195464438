"""The values of an instance in its store, rows among them, and the turns at a row."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Coroutine, Hashable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, Final, NamedTuple, Protocol, TypeAlias, TypeVar

from fastapi_oidc.clock import Clock
from fastapi_oidc.concurrency import SingleFlight
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session import rows
from fastapi_oidc.session.cookies import Sealer
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.rows import LEASE_SECONDS, Row, TokenAnswer
from fastapi_oidc.session.store import Cell, Store, ask_store

RENEW_SECONDS: Final = LEASE_SECONDS / 3
"""Seconds between two renewals of an owner's lease."""

RENEWAL_TIMEOUT, RENEWAL_PAUSE = 2.0, 0.5
"""Seconds that one renewal may take, and those before the next one if it fails."""

SEND_MARGIN: Final = 2.0
"""Seconds at the end of a lease in which its owner does not send the refresh token."""

FIRST_POLL, LONGEST_POLL = 0.05, 0.5
"""Seconds between two reads of a row that another process owns; doubled each time."""

MARGIN: Final = 3600
"""Seconds for which a store keeps a value beyond its end: it deletes it by its own clock, and a
response to a request of an ended session may still be under way.
"""

FIRST_RETRY, LONGEST_RETRY = 0.1, 1.0
"""Seconds between two attempts to write while the store is down; doubled each time."""

Rule: TypeAlias = Callable[[Row, float], Row]
"""A pure function: a row and the seconds since it was written -> the row to store."""

SHUTDOWN_SECONDS: Final = 5.0
"""Seconds for which a process repeats failed writes at shutdown."""


class Tried(Protocol):
    """Whatever has a last step; `tried` is set when that is done or has failed once."""

    tried: asyncio.Event


By = TypeVar("By", bound=Tried)


class LastSteps(SingleFlight[Hashable, Any]):
    """The last steps of attempts and sessions, which are repeated until the store has them.

    A step belongs to no request: a request waits until it was tried once.
    """

    async def first_try(
        self, key: Hashable, by: By, step: Callable[[], Coroutine[Any, Any, object]]
    ) -> By:
        """Begin `step`, the last one of `by`, or join that of `key`; the result is whose it is."""
        task, running = self.begin(key, by, step)
        task.add_done_callback(lambda _: running.tried.set())
        await running.tried.wait()
        return running

    async def aclose(self) -> None:
        """Repeat the steps of this event loop for some seconds, and give up the others."""
        await self.wait(SHUTDOWN_SECONDS)
        for task in self.under_way():
            task.cancel()
        await self.wait(SHUTDOWN_SECONDS)


class Unreadable(SessionError):
    """A row that another secret sealed. It is not known to be absent."""

    def __init__(self) -> None:
        explanation = "the row in the store was sealed with another cookie_secret"
        super().__init__(Code.SESSION_STORE_UNAVAILABLE, explanation)


class Seen(NamedTuple):
    """A row and the sealed value in which it was read, and the values that were read with it."""

    row: Row = Row()
    value: bytes = b""
    others: Sequence[bytes] = ()


class Cells:
    """Values of one OIDC instance in a store; rows are sealed, each for its key.

    Instances may share a store: `name`, the instance's, is in front of every key. Revocations and
    lists are not sealed: they have no secrets, and outlive the secret that seals the sessions.
    Methods raise SessionError (session.store_unavailable) when the store fails, and for a row that
    another secret or release sealed: it is not known to be absent.
    """

    def __init__(
        self,
        store: Store,
        sealer: Sealer,
        clock: Clock,
        name: str = "oidc",
        last_steps: LastSteps | None = None,
    ) -> None:
        self.store, self._sealer, self._clock, self._prefix = store, sealer, clock, f"{name}:"
        self.last_steps = LastSteps() if last_steps is None else last_steps

    async def read(self, keys: Sequence[str]) -> Sequence[bytes]:
        """The values of keys that are no rows, b"" for a key without one, in one round trip."""
        return await ask_store(self.store.read([self._prefix + key for key in keys]))

    async def see(
        self, key: str, others: Sequence[str] = (), known: Seen | None = None
    ) -> tuple[Seen, Sequence[bytes]]:
        """The row of `key`, and the values of `others`, in one round trip; `known` as in `seen`."""
        names = [self._prefix + each for each in (key, *others)]
        value, *values = await ask_store(self.store.read(names))
        return self.seen(key, value, known), values

    async def move(
        self,
        key: str,
        rule: Rule,
        known: Seen | None = None,
        *,
        margin: int = MARGIN,
        others: Sequence[str] = (),
    ) -> Seen:
        """Replace the row by the result of `rule`, unless that is the same object.

        The store keeps the row until `margin` seconds after its end. `others` are read then, in the
        same round trip where the store can do both.
        """
        made, name = Seen(), self._prefix + key

        def change(value: bytes, age: float) -> Cell | None:
            nonlocal made
            before = self.seen(key, value, known)
            row = rule(before.row, age)
            if row is before.row:
                made = before
                return None
            made = Seen(row, self._sealer.encrypt(row.encode(), name=name))
            return Cell(made.value, row.expires_at + margin)

        value = None if known is None else known.value
        beside = [self._prefix + other for other in others]
        moved = await ask_store(self.store.move(name, change, known=value, others=beside))
        return made._replace(others=moved.others) if others else made

    async def change(self, key: str, change: Callable[[bytes], Cell]) -> None:
        """Replace a value that is no row by the result of a pure function."""

        def changed(value: bytes, _: float) -> Cell:
            after, expires_at = change(value)
            return Cell(after, expires_at + MARGIN)

        await ask_store(self.store.move(self._prefix + key, changed))

    async def insist(
        self,
        move: Callable[[Seen | None], Coroutine[Any, Any, Seen]],
        known: Seen | None,
        until: int,
        on_failure: Callable[[SessionError], None],
    ) -> Seen | None:
        """The result of `move`, repeated until the store has taken it; None after `until`.

        `until` is in seconds since the epoch. No request's task may await this.
        """
        try:
            return await move(known)
        except SessionError as error:
            on_failure(error)
        pause = FIRST_RETRY
        while self._clock.now() < until:
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_RETRY)
            with suppress(SessionError):
                return await move(None)
        return None

    def seen(self, key: str, value: bytes, known: Seen | None = None) -> Seen:
        """The row of `key` in a value that `read` has returned; `known` if that is its value."""
        if known is not None and known.value == value:
            return known
        if not value:
            return Seen()
        try:
            encoded = self._sealer.decrypt(value, name=self._prefix + key)
        except SessionError:
            raise Unreadable from None
        return Seen(Row.decode(encoded), value)


class Turn:
    """One attempt of a process to do what is done once for a row: present its refresh token.

    `base` is the row of the generation to work on, as the caller knows it, and `known` is what the
    caller has read last. A turn ends with `finish`, `release`, `refuse` or `end`, which is repeated
    until the store has it; where a request waits for it, by `last`. `tried` is set when such a
    write has failed once.
    """

    def __init__(
        self,
        cells: Cells,
        key: str,
        base: Row,
        known: Seen | None = None,
        *,
        margin: int = MARGIN,
        tried: asyncio.Event | None = None,
    ) -> None:
        self._cells, self._base, self._generation = cells, base, base.generation
        self._move = partial(cells.move, key, margin=margin)
        self._owner = secrets.token_urlsafe(9)
        self._loop = asyncio.get_running_loop()
        self._began, self._poll = self._loop.time(), FIRST_POLL
        self._watched = self._leased_at = 0.0
        self.tried = tried or asyncio.Event()
        self.seen = known or Seen()

    @property
    def waited(self) -> float:
        """Seconds since the attempt began."""
        return self._loop.time() - self._began

    async def take(self) -> Row:
        """The row after this attempt asked for it; see `owns`."""
        asked_at, before = self._loop.time(), self.seen

        def rule(row: Row, age: float) -> Row:
            watched = self._watched if row is before.row else 0.0
            return rows.take(row, age, self._base, self._owner, watched)

        self.seen = await self._move(rule, before)
        self._leased_at = asked_at
        if self.seen is not before:
            self._watched = 0.0
        return self.seen.row

    def owns(self, row: Row) -> bool:
        """Whether `row`, which `take` returned, is this attempt's."""
        return row.owner == self._owner and row.generation == self._generation and not row.ended

    async def pause(self) -> None:
        """Wait before the next `take`, because another attempt owns the row."""
        await asyncio.sleep(self._poll)
        self._watched += self._poll  # however long it took: no owner writes while all stand still
        self._poll = min(2 * self._poll, LONGEST_POLL)

    def require_lease(self) -> None:
        """Raise SessionError (session.lock_unavailable) if another attempt may own the row by now.

        Called right before the refresh token is sent, so that a process that was paused sends
        nothing.
        """
        if self._loop.time() - self._leased_at > LEASE_SECONDS - SEND_MARGIN:
            raise SessionError(Code.SESSION_LOCK_UNAVAILABLE, "this process was paused")

    @asynccontextmanager
    async def renewing(self) -> AsyncIterator[None]:
        """Renew the lease within the block."""
        task = asyncio.create_task(self._renew())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def record(self, received: TokenAnswer) -> Row:
        """Store the token endpoint's response, for another process if this one dies."""
        return await self._insist(lambda row, _: rows.record(row, self._base, received))

    async def finish(self, result: Row, others: Sequence[str] = ()) -> Row:
        """Store the next generation, and return the row: another attempt may have been first.

        `seen` has the values of `others` then.
        """
        return await self._insist(lambda row, _: rows.finish(row, self._base, result), others)

    async def refuse(self, reason: EndReason) -> Row:
        """End the row after the provider's refusal, unless another attempt got a response."""
        return await self._insist(lambda row, _: rows.refuse(row, self._generation, reason))

    async def end(self, reason: EndReason) -> Row:
        """End the row, unless it has a later generation."""
        return await self._insist(lambda row, _: rows.end_generation(row, self._base, reason))

    async def release(self, *, forget: bool = False) -> Row:
        """Let another attempt go on at once; `forget` drops a response that cannot be read."""
        return await self._insist(
            lambda row, _: rows.release(row, self._generation, self._owner, forget=forget)
        )

    async def last(self, step: Callable[[], Coroutine[Any, Any, Row]]) -> None:
        """Begin the last step, and wait until it is done or has failed once: requests wait here."""
        await self._cells.last_steps.first_try(self, self, step)

    def begin_last(self, step: Callable[[], Coroutine[Any, Any, Row]]) -> None:
        """Begin the last step, for which no request waits."""
        self._cells.last_steps.start(self, step)

    async def _insist(self, rule: Rule, others: Sequence[str] = ()) -> Row:
        move, until = partial(self._move, rule, others=others), self._base.expires_at
        seen = await self._cells.insist(move, self.seen, until, lambda _: self.tried.set())
        self.seen = seen or Seen()
        return self.seen.row

    async def _renew(self) -> None:
        pause = RENEW_SECONDS
        while True:
            await asyncio.sleep(pause)
            asked_at, pause = self._loop.time(), RENEWAL_PAUSE
            with suppress(SessionError, TimeoutError):
                async with asyncio.timeout(RENEWAL_TIMEOUT):
                    # Not in `seen`: a step of the attempt may have written the row meanwhile.
                    renewed = await self._move(
                        lambda row, _: rows.renew(row, self._generation, self._owner), self.seen
                    )
                pause = RENEW_SECONDS
                if self.owns(renewed.row):
                    self._leased_at = asked_at

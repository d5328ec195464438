"""The hold: one attempt of a process to own a refresh record."""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress
from time import monotonic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.outbox import Outbox
from fastapi_oidc.session.records import Advance, Phase, RefreshRecord, SealedRecords, Take
from fastapi_oidc.session.revocations import CLOCK_MARGIN

FIRST_POLL_SECONDS, LONGEST_POLL_SECONDS = 0.05, 0.5
"""Seconds between two reads of a record that another process owns; doubled each time."""


class RecordHold:
    """A hold on the record `id` at `generation`.

    After `take` this process owns the record for `seconds`, and for `answered_seconds` once the
    token endpoint has responded. The record is stored until `margin` seconds after `expires_at`
    (seconds since the epoch). Methods raise SessionError (session.lock_unavailable) when the
    records are unavailable, unless their description says otherwise.
    """

    def __init__(
        self,
        records: SealedRecords,
        outbox: Outbox,
        clock: Clock,
        *,
        id: str,
        generation: int,
        seconds: float,
        answered_seconds: float,
        expires_at: int,
        margin: int = CLOCK_MARGIN,
    ) -> None:
        self._records, self._outbox, self._clock = records, outbox, clock
        self._id, self._generation, self._expires_at = id, generation, expires_at
        self._seconds, self._answered_seconds, self._margin = seconds, answered_seconds, margin
        self._owner = secrets.token_urlsafe(9)
        self._first_at = self._taken_at = 0.0
        self._pause = FIRST_POLL_SECONDS

    @property
    def waited(self) -> float:
        """Seconds since this process first requested the record."""
        return monotonic() - self._first_at

    @property
    def age(self) -> float:
        """Seconds since this process last requested the record."""
        return monotonic() - self._taken_at

    async def take(self) -> RefreshRecord:
        """Take the record unless another process owns it, and return it; see `owns`."""
        self._taken_at = monotonic()
        self._first_at = self._first_at or self._taken_at
        take = Take(
            generation=self._generation,
            owner=self._owner,
            hold=self._seconds,
            answered_hold=self._answered_seconds,
        )
        return await self._records.take(self._id, take, lifetime=self._lifetime())

    async def pause(self) -> None:
        """Wait before the next `take`, because another process owns the record."""
        await asyncio.sleep(self._pause)
        self._pause = min(2 * self._pause, LONGEST_POLL_SECONDS)

    def owns(self, record: RefreshRecord) -> bool:
        """Whether this process owns `record`, which `take` returned, and may advance it."""
        return record.owner == self._owner and record.phase in (Phase.SENT, Phase.ANSWERED)

    async def answered(self, data: bytes) -> None:
        """Store the token endpoint's response, so another process can use it if this one dies.

        A failed write is repeated as soon as the records are available.
        """
        await self._owe(self._change(Phase.ANSWERED, data=data, hold=self._answered_seconds))

    async def done(self, session: bytes) -> bool:
        """Record that the next generation is stored, with its `session` for sessions in cookies.

        False when another process ended the session or took the record. A failed write is repeated
        as soon as the records are available.
        """
        next_generation = self._generation + 1
        change = self._change(Phase.IDLE, to_generation=next_generation, session=session)
        return await self._owe(change)

    async def release(self, data: bytes = b"") -> None:
        """Let another process continue immediately, with the response `data` or by a new request.

        Best effort: otherwise the record becomes free when the hold expires.
        """
        await self._try(self._change(Phase.ANSWERED if data else Phase.IDLE, data=data))

    async def end(self) -> None:
        """End the record: the code or token that was sent is used up. Best effort."""
        await self._try(self._change(Phase.ENDED))

    async def _try(self, change: Advance) -> None:
        with suppress(SessionError):
            await self._records.advance(self._id, change, lifetime=self._lifetime())

    def _change(
        self,
        phase: Phase,
        *,
        to_generation: int | None = None,
        data: bytes = b"",
        session: bytes = b"",
        hold: float = 0.0,
    ) -> Advance:
        return Advance(
            phase=phase,
            owner=self._owner,
            generation=self._generation,
            to_generation=self._generation if to_generation is None else to_generation,
            data=data,
            session=session,
            hold=hold,
        )

    async def _owe(self, change: Advance) -> bool:
        moved = True

        async def write() -> None:
            nonlocal moved
            moved = await self._records.advance(self._id, change, lifetime=self._lifetime())

        await self._outbox.write(
            ("record", self._id), write, session_id=self._id, expires_at=self._expires_at
        )
        return moved

    def _lifetime(self) -> int:
        return max(0, self._expires_at - self._clock.now()) + self._margin

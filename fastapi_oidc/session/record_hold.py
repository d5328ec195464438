"""One attempt of a process to own a refresh record, from `take` to the end of its refresh."""

from __future__ import annotations

import secrets
from contextlib import suppress
from time import monotonic

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.outbox import Outbox
from fastapi_oidc.session.records import Advance, Phase, RefreshRecord, SealedRecords, Take
from fastapi_oidc.session.revocations import CLOCK_MARGIN


class RecordHold:
    """The record `id` at `generation`, which this process owns for `seconds` after `take`, and for
    `answered_seconds` once the token endpoint has responded.

    The record lives until `expires_at` and `margin` seconds longer. Methods raise SessionError
    (session.lock_unavailable) when the records cannot be reached, unless they say otherwise.
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
        self._taken_at = 0.0

    @property
    def age(self) -> float:
        """Seconds since this process asked for the record."""
        return monotonic() - self._taken_at

    async def take(self) -> RefreshRecord:
        """The record, owned by this process if nobody else owns it; see `owns`."""
        self._taken_at = monotonic()
        take = Take(
            generation=self._generation,
            owner=self._owner,
            hold=self._seconds,
            answered_hold=self._answered_seconds,
        )
        return await self._records.take(self._id, take, lifetime=self._lifetime())

    def owns(self, record: RefreshRecord) -> bool:
        """Whether `record`, which `take` returned, is this process's to advance."""
        return record.owner == self._owner and record.phase in (Phase.SENT, Phase.ANSWERED)

    async def answered(self, data: bytes) -> None:
        """Keep the response of the token endpoint for others, should this process die.

        What the records cannot take now is written as soon as they can be reached.
        """
        await self._owe(self._change(Phase.ANSWERED, data=data, hold=self._answered_seconds))

    async def done(self, session: bytes) -> bool:
        """The next generation is stored; `session` is its session where the record keeps it.

        False when another process ended the session, or took the record from this one. A change
        that the records cannot take now is written as soon as they can be reached.
        """
        next_generation = self._generation + 1
        change = self._change(Phase.IDLE, to_generation=next_generation, session=session)
        return await self._owe(change)

    async def release(self, data: bytes = b"") -> None:
        """Let others go on at once, from the response `data` or by presenting the token.

        Best effort: a record that cannot be reached is free when its time has come.
        """
        await self._try(self._change(Phase.ANSWERED if data else Phase.IDLE, data=data))

    async def end(self) -> None:
        """Nobody goes on: what was presented is used up. Best effort."""
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

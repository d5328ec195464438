"""Sealed values, writes that are repeated, and turns, in virtual time; an own store."""

import asyncio
import dataclasses
import pickle
from collections.abc import Awaitable, Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.flows.refresh import VALID_TOKEN_PATIENCE
from fastapi_oidc.flows.sessions import Live, Over, Prepared
from fastapi_oidc.session.cells import RENEW_SECONDS, SEND_MARGIN, Cells, Seen, Turn
from fastapi_oidc.session.cookies import KeyRing
from fastapi_oidc.session.model import PreviousSession
from fastapi_oidc.session.own_store import (
    ExclusiveStore,
    LockOfThisLoop,
    RefreshLock,
    Result,
    SealedSession,
    SessionStore,
)
from fastapi_oidc.session.rows import LEASE_SECONDS, Row, TokenAnswer
from fastapi_oidc.session.session_cookie import Copy
from fastapi_oidc.session.store import Cell, MemoryStore, Stored
from tests.oidc.flows.fallible_stores import FallibleStore, Outage
from tests.oidc.protocol.examples import refused
from tests.oidc.session.examples import NOW, OLD_SECRET, SECRET, a_session
from tests.oidc.session.values import KEY, ONE
from tests.oidc.virtual_time import VirtualTimeLoop

ROW: Final = "session:one"
IDLE: Final = Row(generation=1, content=b"tokens", expires_at=NOW + 3600)


class Place:
    """A store that can be down, with the row IDLE, on a clock that goes with the loop."""

    def __init__(self, loop: VirtualTimeLoop) -> None:
        self.loop, self.outage = loop, Outage()
        self.ahead = 0.0
        self.clock = Clock(read=lambda: NOW + loop.seconds + self.ahead)
        self.store = FallibleStore(self.outage, self.clock)
        self.cells = self.of_secret(SECRET)

    def of_secret(self, *secrets: str) -> Cells:
        return Cells(self.store, KeyRing(secrets).sealer("row"), self.clock)

    async def put(self, row: Row) -> Seen:
        return await self.cells.move(ROW, lambda *_: row)

    async def row(self) -> Row:
        return (await self.cells.see(ROW))[0].row

    def turn(self, known: Seen | None = None) -> Turn:
        return Turn(self.cells, ROW, IDLE, known)


def run(story: Callable[[Place], Awaitable[None]]) -> None:
    """Play the story in virtual time."""
    loop = VirtualTimeLoop()

    async def whole() -> None:
        place = Place(loop)
        await place.put(IDLE)
        await story(place)

    try:
        loop.run_until_complete(whole())
    finally:
        loop.end()


async def outage_of(call: Awaitable[object]) -> str:
    with pytest.raises(SessionError) as caught:
        await call
    assert caught.value.code is Code.SESSION_STORE_UNAVAILABLE
    return str(caught.value)


def test_a_row_is_sealed_for_its_key_and_a_foreign_one_is_no_absence() -> None:
    async def story(place: Place) -> None:
        (value,) = await place.store.read([f"oidc:{ROW}"])
        assert b"tokens" not in value
        await place.store.move("oidc:session:two", lambda *_: Cell(value, NOW + 3600))
        assert "another cookie_secret" in await outage_of(place.cells.see("session:two"))
        other = place.of_secret(OLD_SECRET)
        await outage_of(other.see(ROW))
        await outage_of(other.move(ROW, lambda row, _: replace(row, owner="me")))
        rotated = place.of_secret(OLD_SECRET, SECRET)
        assert (await rotated.see(ROW))[0].row == IDLE

    run(story)


def test_each_operation_fails_as_an_outage() -> None:
    async def story(place: Place) -> None:
        place.outage.is_down = True
        await outage_of(place.cells.read([ROW]))
        await outage_of(place.cells.see(ROW))
        await outage_of(place.cells.move(ROW, lambda row, _: row))
        await outage_of(place.cells.change(ROW, lambda value: Cell(value, NOW + 9)))

    run(story)


def test_a_write_is_given_up_when_its_value_would_have_expired() -> None:
    async def story(place: Place) -> None:
        place.outage.is_down = True
        move = partial(place.cells.move, ROW, lambda *_: IDLE)
        assert await place.cells.insist(move, None, NOW + 30, lambda _: None) is None
        assert 29 < place.loop.seconds < 32

    run(story)


def test_an_owner_that_was_paused_or_cannot_renew_sends_nothing() -> None:
    async def story(place: Place) -> None:
        paused = place.turn()
        await paused.take()
        paused.require_lease()
        place.loop.seconds += LEASE_SECONDS - SEND_MARGIN + 0.1  # as when the process stands still
        with pytest.raises(SessionError) as caught:
            paused.require_lease()
        assert caught.value.code is Code.SESSION_LOCK_UNAVAILABLE
        await paused.take()
        async with paused.renewing():
            place.outage.is_down = True
            await asyncio.sleep(LEASE_SECONDS)
            with pytest.raises(SessionError):
                paused.require_lease()
            place.outage.is_down = False
            await asyncio.sleep(RENEW_SECONDS)
            paused.require_lease()

    run(story)


def test_a_live_owner_keeps_its_row_over_an_outage_and_a_clock_that_jumps() -> None:
    """As long as it writes again: the response to its refresh token may be on its way."""

    async def story(place: Place) -> None:
        owner, other = place.turn(), place.turn()
        await owner.take()
        async with owner.renewing():
            assert not other.owns(await other.take())
            place.outage.is_down = True
            await asyncio.sleep(2 * LEASE_SECONDS)
            place.outage.is_down = False
            assert not other.owns(await other.take()), "the store is back, and the owner not yet"
            await asyncio.sleep(RENEW_SECONDS)
            place.ahead = 2 * LEASE_SECONDS
            for _ in range(20):
                assert not other.owns(await other.take()), "the clock of the store has jumped"
                await other.pause()
        died_at = place.loop.seconds
        while not other.owns(await other.take()):
            await other.pause()
        assert LEASE_SECONDS - RENEW_SECONDS <= place.loop.seconds - died_at <= LEASE_SECONDS + 0.5
        late = place.turn()
        began_at = place.loop.seconds = died_at + 100
        while not late.owns(await late.take()):
            await late.pause()
        assert place.loop.seconds - began_at <= VALID_TOKEN_PATIENCE, "one that comes late waits"

    run(story)


class Hanging(MemoryStore):
    """The connection of one process, whose third write hangs."""

    writes = 0

    async def swap(self, *given: Any) -> Stored | None:
        self.writes += 1
        if self.writes == 3:
            await asyncio.sleep(60)
        return await super().swap(*given)


def test_an_owner_whose_renewal_hangs_stays_the_owner() -> None:
    async def story(place: Place) -> None:
        store, other = Hanging(clock=place.clock), place.turn()
        store._values = place.store._values
        owner = Turn(Cells(store, KeyRing([SECRET]).sealer("row"), place.clock), ROW, IDLE)
        await owner.take()
        async with owner.renewing():
            while place.loop.seconds < 3 * LEASE_SECONDS:
                assert not other.owns(await other.take())
                await other.pause()
            owner.require_lease()
        assert store.writes > 3

    run(story)


def test_each_step_of_a_turn_is_repeated_until_the_store_has_it() -> None:
    async def story(place: Place) -> None:
        async def after_outage(step: Awaitable[Row]) -> Row:
            place.outage.is_down = True
            task = asyncio.ensure_future(step)
            await asyncio.sleep(20)
            place.outage.is_down = False
            return await task

        turn = place.turn()
        await turn.take()
        answer = TokenAnswer(NOW, b"tokens")
        assert (await after_outage(turn.record(answer))).answer == answer
        assert (await after_outage(turn.release(forget=True))).answer is None
        assert (await after_outage(turn.finish(IDLE))).generation == 2
        later = Turn(place.cells, ROW, replace(IDLE, generation=2))
        assert (await after_outage(later.end("revoked"))).ended == "revoked"
        assert (await place.row()).ended == "revoked"

    run(story)


def test_no_repr_shows_a_secret() -> None:
    session = a_session()
    copy = Copy(session.id, (), 0, NOW, session, b"the-secret")
    row = Row(content=b"the-secret", answer=TokenAnswer(NOW, b"the-secret"), secret="the-secret")
    seen = Seen(row, b"sealed")
    shown = [
        copy,
        Over(copy, "revoked", session),
        Live(session, seen, copy, "the-secret"),
        Prepared(session, b"the-secret", "the-secret"),
        TokenAnswer(NOW, b"the-secret"),
        SealedSession(b"the-secret", NOW, NOW),
        PreviousSession(id="1", expires_at=NOW, secret="the-secret"),
        seen,
        row,
    ]
    assert not [each for each in map(repr, shown) if "the-secret" in each or "again" in each]


SESSION = SealedSession(b"\x00\xffone", NOW + 60, NOW + 0.25)


class Dictionary(SessionStore):
    """Plain sync methods."""

    def __init__(self) -> None:
        self.rows: dict[str, SealedSession] = {}

    def get(self, id: str, /) -> SealedSession | None:
        return self.rows.get(id)

    def set(self, id: str, session: SealedSession, /) -> None:
        self.rows[id] = session

    def delete(self, id: str, /) -> None:
        self.rows.pop(id, None)


class CountingLock(LockOfThisLoop):
    def __init__(self) -> None:
        super().__init__()
        self.held: list[str] = []

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Result]], /
    ) -> Result:
        self.held.append(session_id)
        return await super().run_exclusive(session_id, operation)


class ForgetfulLock(RefreshLock):
    """Returns no result, as an untyped application might."""

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[Any]], /
    ) -> Any:
        await operation()


async def test_a_store_that_returns_something_else_is_told() -> None:
    store = Dictionary()
    store.rows[KEY] = "{}"  # type: ignore[assignment]  # the mistake
    with pytest.raises(SessionError, match=r"SessionStore\.get returned str, not SealedSession"):
        await ExclusiveStore(store).read([KEY])


async def test_a_value_is_compared_and_replaced_within_the_lock() -> None:
    lock = CountingLock()
    store = ExclusiveStore(Dictionary(), lock)
    await store.read([KEY])
    await store.swap(KEY, None, ONE)
    assert lock.held == []
    await store.swap(KEY, b"", ONE)
    assert lock.held == [KEY]


async def test_a_lock_that_loses_results_is_noticed_at_once() -> None:
    sealer = KeyRing([SECRET]).sealer("row")
    cells = Cells(ExclusiveStore(Dictionary(), ForgetfulLock()), sealer, Clock())
    with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
        await cells.change(KEY, lambda _: ONE)


def test_a_sealed_session_is_a_value() -> None:
    assert pickle.loads(pickle.dumps(SESSION)) == SESSION
    assert SealedSession.from_json(SESSION.to_json()) == SESSION
    assert SealedSession.from_json(SESSION.to_json().encode()) == SESSION
    assert "one" not in repr(SESSION)
    with pytest.raises(dataclasses.FrozenInstanceError):
        SESSION.content = b"another"  # type: ignore[misc]


@pytest.mark.parametrize("text", ["", "[]", '{"content": "!", "expires_at": 1, "written_at": 1}'])
def test_another_text_is_no_sealed_session(text: str) -> None:
    with pytest.raises(ValueError, match=r"Sealed|JSON"):
        SealedSession.from_json(text)

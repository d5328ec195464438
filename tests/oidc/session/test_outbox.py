"""Writes that a store could not take are repeated, whatever OIDCError the store raised."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, OIDCError, ProviderError, SessionError
from fastapi_oidc.events import Announcer, Event, EventName
from fastapi_oidc.session.outbox import Outbox, Write

KEY, LATE = "session-1", 2_000_000_000


class Store:
    """Takes what is written, or raises."""

    def __init__(self, error: OIDCError | None = None) -> None:
        self.error = error
        self.taken: list[str] = []

    def write_of(self, value: str) -> Write:
        """A write of `value`."""

        async def write() -> None:
            await asyncio.sleep(0)
            if self.error is not None:
                raise self.error
            self.taken.append(value)

        return write


@pytest.mark.parametrize("kind", [SessionError, ProviderError, OIDCError])
async def test_a_write_is_repeated_after_any_oidc_error(kind: type[OIDCError]) -> None:
    events: list[Event] = []
    outbox = Outbox(Clock(), Announcer(events.append))
    store = Store(kind(Code.SESSION_STORE_UNAVAILABLE))
    write = store.write_of("end")
    await outbox.write(KEY, write, session_id=KEY, expires_at=LATE, ends=True)
    assert len(outbox) == 1
    outbox.wake()
    for _ in range(10):  # the writer tries, and the store refuses again
        await asyncio.sleep(0)
    store.error = None
    await outbox.aclose()
    assert store.taken == ["end"]
    assert [event.name for event in events] == [
        EventName.SESSION_NOT_REMOVED,
        EventName.SESSION_REMOVED,
    ]


async def test_a_write_that_succeeds_late_leaves_a_later_one_owed() -> None:
    outbox = Outbox(Clock(), Announcer())
    store, reached, released = Store(), asyncio.Event(), asyncio.Event()

    async def slow() -> None:
        reached.set()
        await released.wait()
        store.taken.append("earlier")

    earlier = asyncio.create_task(outbox.write(KEY, slow, session_id=KEY, expires_at=LATE))
    await reached.wait()
    refusing = Store(SessionError(Code.SESSION_STORE_UNAVAILABLE))
    await outbox.write(KEY, refusing.write_of("later"), session_id=KEY, expires_at=LATE)
    released.set()
    await earlier
    assert len(outbox) == 1
    refusing.error = None
    await outbox.aclose()
    assert (store.taken, refusing.taken) == (["earlier"], ["later"])

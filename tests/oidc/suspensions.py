"""Cancel something at each of the points where it waits: a client can go away at any of them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from itertools import count
from types import coroutine
from typing import Any, Final, TypeVar

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc import OIDCSession, RevocationRecord
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.records import Advance, RefreshRecord, RefreshRecords, Take
from fastapi_oidc.session.revocations import RevocationStore
from fastapi_oidc.session.stores import SessionStore

PATIENCE: Final = 20

Result = TypeVar("Result")


async def is_cancelled(operation: Coroutine[Any, Any, object], at: int) -> bool:
    """Whether `operation` waited so often: it is cancelled when it waits for the time `at`."""
    task = asyncio.create_task(_cancelled(operation, at))
    done, _ = await asyncio.wait([task], timeout=PATIENCE)
    assert done
    if task.cancelled():
        return True
    task.result()
    return False


async def _cancelled(operation: Coroutine[Any, Any, object], at: int) -> None:
    await _driven(operation, at)


@coroutine
def _driven(operation: Coroutine[Any, Any, object], at: int) -> Generator[Any, Any, None]:
    """Hands each thing that `operation` waits for on to the task, as `await` does."""
    waiting = operation.__await__()
    step: Callable[[], Any] = partial(waiting.send, None)
    for suspension in count(1):
        try:
            waits_for = step()
        except StopIteration:
            return
        if suspension == at:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
        try:
            step = partial(waiting.send, (yield waits_for))
        except BaseException as error:
            step = partial(waiting.throw, error)


async def others_have_ended() -> None:
    """What belongs to no request comes to its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, under_way = await asyncio.wait(others, timeout=PATIENCE)
        assert not under_way


async def _suspended(method: Callable[..., Awaitable[Result]], *given: Any, **named: Any) -> Result:
    """The result of the method, with a suspension before the call and one afterwards."""
    await asyncio.sleep(0)
    result = await method(*given, **named)
    await asyncio.sleep(0)
    return result


class SuspendingRecords(RefreshRecords):
    """Refresh records each of whose methods suspends before and after its step."""

    def __init__(self, records: RefreshRecords) -> None:
        self._records = records

    async def take(self, id: str, take: Take, *, lifetime: int) -> RefreshRecord:
        return await _suspended(self._records.take, id, take, lifetime=lifetime)

    async def advance(self, id: str, change: Advance, *, lifetime: int) -> bool:
        return await _suspended(self._records.advance, id, change, lifetime=lifetime)

    async def look(self, id: str) -> RefreshRecord:
        return await _suspended(self._records.look, id)


class SuspendingRevocations(RevocationStore):
    """Revocation records, as above."""

    def __init__(self, revocations: RevocationStore) -> None:
        self._revocations = revocations

    async def revoke(self, record: RevocationRecord, /) -> None:
        await _suspended(self._revocations.revoke, record)

    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        return await _suspended(self._revocations.ended_by, session)

    async def stamps(self, session: OIDCSession[Any], /) -> tuple[str, ...]:
        return await _suspended(self._revocations.stamps, session)


class SuspendingSessions(SessionStore[Any]):
    """Sessions with their revocation and refresh records, as above."""

    returns_copies = True

    def __init__(self, store: SessionStore[Any]) -> None:
        self._store = store

    @property
    def revocations(self) -> RevocationStore | None:
        revocations = self._store.revocations
        return revocations and SuspendingRevocations(revocations)

    @property
    def records(self) -> RefreshRecords | None:
        return self._store.records and SuspendingRecords(self._store.records)

    async def get(self, id: str, /) -> OIDCSession[Any] | None:
        return await _suspended(self._store.get, id)

    async def find(
        self, id: str, digests: Sequence[str], /
    ) -> tuple[OIDCSession[Any] | None, EndReason | None]:
        return await _suspended(self._store.find, id, digests)

    async def set(self, id: str, session: OIDCSession[Any], /) -> None:
        await _suspended(self._store.set, id, session)

    async def replace(self, id: str, session: OIDCSession[Any], /) -> bool:
        return await _suspended(self._store.replace, id, session)

    async def delete(self, id: str, /) -> None:
        await _suspended(self._store.delete, id)


def suspending(app: ASGIApp) -> ASGIApp:
    """`app`, which waits when it is asked, and at each part of its answer."""

    async def suspended(scope: Scope, receive: Receive, send: Send) -> None:
        async def sent(message: Message) -> None:
            await asyncio.sleep(0)
            await send(message)
            await asyncio.sleep(0)

        await asyncio.sleep(0)
        await app(scope, receive, sent)

    return suspended


class SuspendingNetwork(httpx.AsyncBaseTransport):
    """Waits before it sends a request to the provider, and before it gives the answer."""

    inner: httpx.AsyncBaseTransport

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        await asyncio.sleep(0)
        answer = await self.inner.handle_async_request(request)
        await asyncio.sleep(0)
        return answer

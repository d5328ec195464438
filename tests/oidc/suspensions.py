"""Cancel something at each of the points where it waits: a client can go away at any of them."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Generator, Sequence
from functools import partial
from itertools import count
from types import coroutine
from typing import Any, Final, TypeVar

import httpx
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from fastapi_oidc import MemoryStore
from fastapi_oidc.session.store import Cell, Stored

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
    await driven(operation, at, _cancel)


async def _cancel() -> None:
    task = asyncio.current_task()
    assert task is not None
    task.cancel()


async def driven(
    operation: Awaitable[object], at: int, happens: Callable[[], Awaitable[None]]
) -> None:
    """Await `operation`; when it waits for the time `at`, something happens before."""
    await _driven(operation, at, happens)


@coroutine
def _driven(
    operation: Awaitable[object], at: int, happens: Callable[[], Awaitable[None]]
) -> Generator[Any, Any, None]:
    """Hands each thing that `operation` waits for on to the task, as `await` does."""
    waiting = operation.__await__()
    step: Callable[[], Any] = partial(waiting.send, None)
    for suspension in count(1):
        try:
            waits_for = step()
        except StopIteration:
            return
        try:
            if suspension == at:
                yield from happens().__await__()
            step = partial(waiting.send, (yield waits_for))
        except BaseException as error:
            step = partial(waiting.throw, error)


async def others_have_ended() -> None:
    """What belongs to no request comes to its end."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, under_way = await asyncio.wait(others, timeout=PATIENCE)
        assert not under_way


async def _suspended(method: Callable[..., Awaitable[Result]], *given: Any) -> Result:
    """The result of the method, with a suspension before the call and one afterwards."""
    await asyncio.sleep(0)
    result = await method(*given)
    await asyncio.sleep(0)
    return result


class SuspendingStore(MemoryStore):
    """A store that suspends before and after each of its steps."""

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        return await _suspended(super().read, keys)

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        return await _suspended(super().swap, key, before, after)


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

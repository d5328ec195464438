"""Tests of both halves of the client: what is awaited in one is there at once in the other."""

import asyncio
import inspect
from collections.abc import Awaitable, Iterator
from contextlib import contextmanager
from typing import Protocol, TypeVar, cast

T = TypeVar("T")


class Do(Protocol):
    """Gives the result of a call of either half, awaited if need be.

    Tests are written against the sync half; the async one has the same members.
    """

    def __call__(self, result: T | Awaitable[T]) -> T: ...


@contextmanager
def doing() -> Iterator[Do]:
    """Awaits in one event loop."""

    async def awaited(result: Awaitable[T]) -> T:
        return await result

    with asyncio.Runner() as runner:

        def do(result: T | Awaitable[T]) -> T:
            if inspect.isawaitable(result):
                return cast(T, runner.run(awaited(result)))
            return result

        yield do

"""One time limit over everything a block awaits, however the time is spent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from fastapi_oidc.errors import Code, ProviderError


@dataclass(frozen=True, eq=False)
class _Limit:
    time: asyncio.Timeout
    details: dict[str, object]
    inner: list[_Limit] = field(default_factory=list)
    """The limits under way inside, in the order in which they began."""

    def told(self) -> dict[str, object]:
        """The details, with those of the innermost that began last."""
        return self.details | (self.inner[-1].told() if self.inner else {})


_around: Final[ContextVar[_Limit | None]] = ContextVar("around", default=None)
"""The innermost limit around."""


@asynccontextmanager
async def deadline(seconds: float, **details: object) -> AsyncIterator[None]:
    """Raise ProviderError (provider.timeout) with `details` when the block takes longer.

    A limit around others tells the details of the one in which its time was over: the URL that was
    asked at that moment, also by a task that the block began.
    """
    limit = _Limit(asyncio.timeout(seconds), details)
    try:
        with _inside(_around.get(), limit):
            async with limit.time:
                yield
    except TimeoutError as error:
        explanation = f"no complete answer within {seconds:g} seconds"
        raise ProviderError(Code.PROVIDER_TIMEOUT, explanation, **limit.told()) from error


@contextmanager
def _inside(outer: _Limit | None, limit: _Limit) -> Iterator[None]:
    token = _around.set(limit)
    if outer is not None:
        outer.inner.append(limit)
    try:
        yield
    finally:
        _around.reset(token)
        # What ends because the time around it is over stays, to be told.
        if outer is not None and not outer.time.expired():
            outer.inner.remove(limit)

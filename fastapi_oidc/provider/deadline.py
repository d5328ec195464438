"""A time limit for everything that a block awaits."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Final

from fastapi_oidc.errors import Code, ProviderError


@dataclass(frozen=True, eq=False)
class _Limit:
    time: asyncio.Timeout
    details: dict[str, object]
    inner: list[_Limit] = field(default_factory=list)
    """The inner limits under way, in the order in which they began."""

    def all_details(self) -> dict[str, object]:
        """The details of this limit, and of the innermost limit that began last."""
        return self.details | (self.inner[-1].all_details() if self.inner else {})


_around: Final[ContextVar[_Limit | None]] = ContextVar("around", default=None)
"""The innermost enclosing limit."""


@asynccontextmanager
async def deadline(seconds: float, **details: object) -> AsyncIterator[None]:
    """Raise ProviderError (provider.timeout) with `details` when the block takes longer.

    When an outer limit expires, the error has the details of the innermost limit under way: the URL
    of the current request, even of a task that the block started.
    """
    limit = _Limit(asyncio.timeout(seconds), details)
    outer, token = _around.get(), _around.set(limit)
    if outer is not None:
        outer.inner.append(limit)
    try:
        async with limit.time:
            yield
    except TimeoutError as error:
        explanation = f"no complete response within {seconds:g} seconds"
        raise ProviderError(Code.PROVIDER_TIMEOUT, explanation, **limit.all_details()) from error
    finally:
        _around.reset(token)
        # A limit that ends because the outer one expired stays in the list, for the error.
        if outer is not None and not outer.time.expired():
            outer.inner.remove(limit)

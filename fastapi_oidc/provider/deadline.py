"""One time limit over everything a block awaits, however the time is spent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from contextvars import ContextVar
from typing import Final

from fastapi_oidc.errors import Code, ProviderError

_awaited: Final[ContextVar[dict[str, object] | None]] = ContextVar("awaited", default=None)
"""What the innermost limit around says of itself when its time is over."""


@asynccontextmanager
async def deadline(seconds: float, **details: object) -> AsyncIterator[None]:
    """Raise ProviderError (provider.timeout) with `details` when the block takes longer.

    A limit around others tells the details of the one in which its time was over: the URL that was
    asked at that moment, also by a task that the block began.
    """
    outer, told = _awaited.get(), dict(details)
    before = dict(outer or {})
    if outer is not None:
        outer.update(details)
    token = _awaited.set(told)
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        explanation = f"no complete answer within {seconds:g} seconds"
        raise ProviderError(Code.PROVIDER_TIMEOUT, explanation, **told) from error
    else:
        if outer is not None:
            outer.clear()
            outer.update(before)
    finally:
        _awaited.reset(token)

"""One time limit over everything a block awaits, however the time is spent."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi_oidc.errors import Code, ProviderError


@asynccontextmanager
async def deadline(seconds: float, **details: object) -> AsyncIterator[None]:
    """Raise ProviderError (provider.timeout) with `details` when the block takes longer."""
    try:
        async with asyncio.timeout(seconds):
            yield
    except TimeoutError as error:
        explanation = f"no complete answer within {seconds:g} seconds"
        raise ProviderError(Code.PROVIDER_TIMEOUT, explanation, **details) from error

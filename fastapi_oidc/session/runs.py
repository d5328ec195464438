"""One run at a time per name within this process, shared by everybody who asks for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable


class SharedRuns:
    """Callers that come while a run is under way wait for it and get its result or its error."""

    def __init__(self) -> None:
        self._running: dict[str, asyncio.Future[bytes]] = {}

    async def run(self, name: str, operation: Callable[[], Awaitable[bytes]]) -> bytes:
        """The result of `operation`; when the caller running it is cancelled, the next one runs."""
        while (running := self._running.get(name)) is not None:
            await asyncio.wait([running])
            if not running.cancelled():
                return running.result()
        return await self._lead(name, operation)

    async def _lead(self, name: str, operation: Callable[[], Awaitable[bytes]]) -> bytes:
        running = self._running[name] = asyncio.get_running_loop().create_future()
        try:
            result = await operation()
        except Exception as error:
            running.set_exception(error)
            running.exception()  # asyncio complains of an exception that nobody has looked at
            raise
        else:
            running.set_result(result)
            return result
        finally:
            running.cancel()  # without effect once the run has ended
            del self._running[name]

"""An event loop whose time passes at once: nothing sleeps, and everything keeps its order."""

from __future__ import annotations

import asyncio
import selectors


class _Selector(selectors.DefaultSelector):
    """Does not wait: when nothing is ready, the time of the next timer has come."""

    loop: VirtualTimeLoop

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise AssertionError("everything waits for something that never happens")
        if not ready and timeout:
            self.loop.seconds += timeout
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """`time()` is seconds since the loop was made; sockets and threads cannot be waited for."""

    def __init__(self) -> None:
        self.seconds = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.seconds

    def end(self, patience: float = 1.0) -> None:
        """Cancel what is under way, and close."""
        asyncio.set_event_loop(self)
        while tasks := asyncio.all_tasks(self):
            for task in tasks:
                task.cancel()
            self.run_until_complete(asyncio.wait(tasks, timeout=patience))
        self.run_until_complete(self.shutdown_asyncgens())
        self.close()
        asyncio.set_event_loop(None)

"""The thread that empties the monitor's fifos, so that they never fill up."""

from __future__ import annotations

import contextlib
import os
import select
import threading
from collections.abc import Callable, Mapping
from typing import TypeAlias

Feed: TypeAlias = Callable[[bytes], object]

READ_BYTES = 65_536


class Pump:
    """Reads fifos in a thread until a process ends, then what is left in them.

    `ended` is called in that thread when nothing more will come.
    """

    def __init__(
        self, pidfd: int, feeds: Mapping[int, Feed], ended: Callable[[], object], name: str
    ) -> None:
        self._pidfd = os.dup(pidfd)
        self._feeds = dict(feeds)
        self._ended = ended
        self._stop = os.eventfd(0)
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Ends the thread after it has read what there is; safe to call twice."""
        if self._stop >= 0:
            os.eventfd_write(self._stop, 1)
            self._thread.join()
            os.close(self._stop)
            self._stop = -1

    def _run(self) -> None:
        waiting = select.poll()
        for descriptor in (self._pidfd, self._stop, *self._feeds):
            waiting.register(descriptor, select.POLLIN)
        try:
            while self._pump(waiting):
                pass
            for descriptor, feed in self._feeds.items():
                _drain(descriptor, feed)
        finally:
            for descriptor in (self._pidfd, *self._feeds):
                os.close(descriptor)
            self._ended()

    def _pump(self, waiting: select.poll) -> bool:
        """Reads what has come; whether more can come."""
        ready = [descriptor for descriptor, _ in waiting.poll()]
        if self._pidfd in ready or self._stop in ready:
            return False
        for descriptor in ready:
            with contextlib.suppress(BlockingIOError):  # another process reads here too
                received = os.read(descriptor, READ_BYTES)
                if received:
                    self._feeds[descriptor](received)
                else:
                    waiting.unregister(descriptor)  # closed by everybody who could write
        return True


def _drain(descriptor: int, feed: Feed) -> None:
    with contextlib.suppress(BlockingIOError):
        while received := os.read(descriptor, READ_BYTES):
            feed(received)

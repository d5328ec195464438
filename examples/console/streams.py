"""Output that screens follow: the last bytes, and whatever comes next."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator
from typing import Final

KEPT_BYTES: Final = 1 << 18
"""Bytes that a screen gets when it opens."""
STREAM_SECONDS: Final = 15.0
"""How long a response goes on; then the browser asks again, if its user may still look."""


def number_in(text: str) -> int:
    """The number that a browser sends back; -1 for anything else."""
    return int(text) if text.isdecimal() and len(text) < 19 else -1


class Feed:
    """The end of an output; a position in it is a text that browsers send back."""

    def __init__(self, begin: bytes = b"") -> None:
        self._name, self._data, self._end = secrets.token_hex(4), bytearray(), 0
        self._news = asyncio.Event()
        self._is_over = False
        self.add(begin)

    def add(self, data: bytes) -> None:
        """Adds output, and wakes those that wait for it."""
        self._data += data
        self._end += len(data)
        del self._data[:-KEPT_BYTES]
        self._wake()

    def end(self) -> None:
        """Ends all streams."""
        self._is_over = True
        self._wake()

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    def start(self, position: str) -> tuple[int, bool]:
        """Where a stream from `position` begins, and whether what came before is lost to it."""
        name, _, number = position.partition(".")
        first = self._end - len(self._data)
        if name == self._name and first <= (at := number_in(number)) <= self._end:
            return at, False
        return first, True

    def position(self, at: int | None = None) -> str:
        """The text for a position; the end without one."""
        return f"{self._name}.{self._end if at is None else at}"

    def last(self, most: int) -> bytes:
        """The last bytes."""
        return bytes(self._data[-most:])

    async def follow(self, at: int, seconds: float = STREAM_SECONDS) -> AsyncIterator[bytes]:
        """The output from a position on, for some seconds."""
        deadline = asyncio.get_running_loop().time() + seconds
        while not self._is_over:
            news, first = self._news, self._end - len(self._data)
            if at < self._end:
                yield bytes(self._data[max(at - first, 0) :])
                at = self._end
                continue
            try:
                async with asyncio.timeout_at(deadline):
                    await news.wait()
            except TimeoutError:
                return

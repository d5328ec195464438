"""Bytes to lines, bounded."""

from __future__ import annotations

from collections.abc import Iterator

LONGEST_LINE = 1_048_576


class Lines:
    """Makes lines of bytes that come in pieces. A line over 1 MiB is dropped."""

    def __init__(self) -> None:
        self._begun = b""
        self._is_dropping = False

    def feed(self, received: bytes) -> Iterator[str]:
        """The lines that are whole with these bytes, without their ends."""
        *whole, begun = (self._begun + received).split(b"\n")
        self._begun = begun
        for line in whole:
            dropped, self._is_dropping = self._is_dropping, False
            if not dropped and len(line) <= LONGEST_LINE:
                yield line.decode("utf-8", "replace")
        if len(begun) > LONGEST_LINE:
            self._begun, self._is_dropping = b"", True

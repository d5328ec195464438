"""The output of a guest's console, on disk: the last megabytes."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Final

PART_BYTES: Final = 4 << 20
"""The size in bytes at which the file becomes the older part; there are two parts."""


class Scrollback:
    """A file that grows, and the part before it."""

    def __init__(self, path: Path, part_bytes: int = PART_BYTES) -> None:
        self._path = path
        self._older = path.with_suffix(".older")
        self._part_bytes = part_bytes

    def append(self, data: bytes) -> None:
        """Write output; a failed write is logged, and its output lost."""
        try:
            with self._path.open("ab") as file:
                file.write(data)
                length = file.tell()
            if length > self._part_bytes:
                self._path.replace(self._older)
        except OSError as error:
            logging.getLogger(__name__).warning("%s cannot be written: %s", self._path, error)

    def read(self, most: int | None = None) -> bytes:
        """The last `most` bytes, or all that are stored."""
        newer = _end_of(self._path, most)
        missing = None if most is None else most - len(newer)
        return _end_of(self._older, missing) + newer

    def remove(self) -> None:
        """Remove both parts."""
        self._path.unlink(missing_ok=True)
        self._older.unlink(missing_ok=True)


def _end_of(path: Path, most: int | None) -> bytes:
    try:
        with path.open("rb") as file:
            if most is not None:
                file.seek(max(file.seek(0, 2) - most, 0))
            return file.read()
    except FileNotFoundError:
        return b""

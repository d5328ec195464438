"""What a path of a guest is, and what is sent of a file."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, BinaryIO, Self, TypeAlias
from urllib.parse import quote_from_bytes

from generated_vmm.facade.elsewhere import PATH
from generated_vmm.misuse import Told, require_kind

AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes so far and all bytes, None if nobody knows."""
PART = 262_144  # bytes of a file that are sent or received at once


class PathInGuest(Told):
    """The name of a file or folder of a guest, without what waits for the agent."""

    _elsewhere = PATH

    def __init__(self, link: Any, path: AnyPath) -> None:
        self._link, self._bytes = link, os.fsencode(path)
        if not self._bytes.startswith(b"/"):
            raise ValueError(f"{path!r} is not an absolute path")
        if b"\0" in self._bytes:
            raise ValueError(f"{path!r} has a NUL character")
        self._quoted = quote_from_bytes(self._bytes, safe="")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PathInGuest):
            return NotImplemented
        return (self._link, self._bytes) == (other._link, other._bytes)

    def __hash__(self) -> int:
        return hash(self._bytes)

    def __str__(self) -> str:
        return os.fsdecode(self._bytes)

    if not TYPE_CHECKING:  # which reports this itself

        def __fspath__(self):
            """Raises TypeError for `open(path)`: the file is in the guest."""
            raise TypeError(f"{self!r} is in the guest: use its methods, such as read_bytes()")

    def __truediv__(self, name: AnyPath) -> Self:
        return type(self)(self._link, os.path.join(self._bytes, os.fsencode(name)))


def octal(mode: int | None) -> str | None:
    """The mode for the agent. Raises ValueError for 644, which is 0o1204 and meant as 0o644."""
    require_kind("mode", mode, "a number, such as 0o644", int)
    if mode is None:
        return None
    if 0o777 < mode <= 777 and not {*str(mode)} & {*"89"}:
        raise ValueError(f"mode is {mode}, which is {mode:#o}; it must be octal, such as 0o{mode}")
    return f"{mode:o}"


def require_progress(progress: Progress | None) -> None:
    """Raises TypeError for an async function."""
    if iscoroutinefunction(progress):
        raise TypeError("progress is an async function, and nothing awaits it: it must be a `def`")


def parts_of(file: BinaryIO, size: int, progress: Progress | None) -> Iterator[bytes]:
    """The next bytes of a file, part by part. Raises ValueError if it becomes shorter."""
    sent = 0
    while part := file.read(min(PART, size - sent)):
        yield part
        sent += len(part)
        if progress is not None:
            progress(sent, size)
    if sent < size:
        raise ValueError(f"the file became shorter while it was read: {sent} of {size} bytes")

# Derived from `generated_vmm/guest/_async/path.py` by `make codegen`. Do not edit.
"""Files and folders of a guest."""

from __future__ import annotations

import io
import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, BinaryIO, Self, TypeAlias
from urllib.parse import quote_from_bytes

from generated_vmm.facade.elsewhere import PATH
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest._sync.link import PART, Link
from generated_vmm.guest.errors import GuestProgramError
from generated_vmm.misuse import Here, Told, require_kind, require_opened
from generated_vmm.operation import Operation

DEFAULT_MAX_BYTES = 67_108_864
AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
Progress: TypeAlias = Callable[[int], object]
"""Called with the bytes that were moved so far."""


class GuestPath(Told, Here):
    """A path in a guest, which may be any bytes; its methods have the names of `pathlib.Path`.

    What the guest's system refuses raises Python's `OSError` for it, such as `FileNotFoundError`.
    A file is replaced as a whole or not at all. Mode and owner stay unless others are passed; a new
    file has mode 0o644. `owner` is a user's name.
    """

    _elsewhere = PATH

    def __init__(self, link: Link, path: AnyPath) -> None:
        self._link, self._bytes = link, os.fsencode(path)
        if not self._bytes.startswith(b"/"):
            raise ValueError(f"{path!r} is not an absolute path")
        self._quoted = quote_from_bytes(self._bytes, safe="")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({str(self)!r})"

    def __str__(self) -> str:
        return os.fsdecode(self._bytes)

    if not TYPE_CHECKING:  # which reports this itself

        def __fspath__(self):
            """Raises TypeError for `open(path)`: the file is in the guest."""
            raise TypeError(f"{self!r} is in the guest: use its methods, such as read_bytes()")

    def __truediv__(self, name: AnyPath) -> Self:
        return type(self)(self._link, os.path.join(self._bytes, os.fsencode(name)))

    def stat(self) -> models.FileStat:
        """What the path leads to. Raises FileNotFoundError if there is nothing."""
        return self._link.send(operations.stat_file(self._quoted), name=str(self))

    def exists(self) -> bool:
        """Whether the path leads to something."""
        try:
            self.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    def read_bytes(self, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
        """The content of a file. Raises `GuestProgramError` if it has more than `max_bytes`."""
        content = io.BytesIO()
        self.read_into(content, max_bytes=max_bytes)
        return content.getvalue()

    def read_into(
        self, file: BinaryIO, *, max_bytes: int | None = None, progress: Progress | None = None
    ) -> None:
        """Copies the content of a file to an open file of the host.

        Raises `GuestProgramError` after `max_bytes`: a guest may send bytes without end.
        """
        self._read(operations.read_file(self._quoted), file, max_bytes, progress)

    def read_tar_into(
        self, file: BinaryIO, *, max_bytes: int | None = None, progress: Progress | None = None
    ) -> None:
        """Copies a folder to an open file of the host, as tar. Do not trust the names in it.

        Raises `GuestProgramError` after `max_bytes`.
        """
        self._read(operations.read_folder(self._quoted), file, max_bytes, progress)

    def _read(
        self,
        operation: Operation[None],
        file: BinaryIO,
        max_bytes: int | None,
        progress: Progress | None,
    ) -> None:
        require_opened(file, "write", "wb")
        require_kind("max_bytes", max_bytes, "a number of bytes", int)
        size = 0

        def sink(part: bytes) -> None:
            nonlocal size
            size += len(part)
            if max_bytes is not None and size > max_bytes:
                raise GuestProgramError(f"{self!r} has more than {max_bytes} bytes")
            file.write(part)
            if progress is not None:
                progress(size)

        self._link.move(operation, str(self), sink=sink)

    def write_bytes(
        self, data: bytes, *, mode: int | None = None, owner: str | None = None
    ) -> None:
        """Writes a file."""
        self.write_from(io.BytesIO(data), mode=mode, owner=owner)

    def write_from(
        self,
        file: BinaryIO,
        *,
        mode: int | None = None,
        owner: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Writes a file with the rest of an open file of the host, which must be seekable."""
        operation = operations.write_file(self._quoted, mode=octal(mode), owner=owner)
        self._write(operation, file, progress)

    def write_tar_from(self, file: BinaryIO, *, progress: Progress | None = None) -> None:
        """Makes a folder of the tar in an open file of the host, as a whole or not at all.

        Everything belongs to the agent's user. A folder that has something in it raises OSError.
        """
        self._write(operations.write_folder(self._quoted), file, progress)

    def _write(self, operation: Operation[None], file: BinaryIO, progress: Progress | None) -> None:
        require_opened(file, "read", "rb")
        at = file.tell()
        size = file.seek(0, os.SEEK_END) - at
        file.seek(at)
        if at and not size:
            raise ValueError("file is at its end: file.seek(0) goes back to its beginning")
        self._link.move(operation, str(self), size=size, parts=parts_of(file, size, progress))


def octal(mode: int | None) -> str | None:
    """The mode for the agent. Raises ValueError for 644, which is 0o1204 and meant as 0o644."""
    require_kind("mode", mode, "a number, such as 0o644", int)
    if mode is None:
        return None
    if 0o777 < mode <= 777 and not {*str(mode)} & {*"89"}:
        raise ValueError(f"mode is {mode}, which is {mode:#o}; it must be octal, such as 0o{mode}")
    return f"{mode:o}"


def parts_of(file: BinaryIO, size: int, progress: Progress | None) -> Iterator[bytes]:
    """The next bytes of a file, part by part."""
    sent = 0
    while part := file.read(min(PART, size - sent)):
        yield part
        sent += len(part)
        if progress is not None:
            progress(sent)

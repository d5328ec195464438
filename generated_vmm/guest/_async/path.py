"""Files and folders of a guest."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias
from urllib.parse import quote_from_bytes

from generated_vmm.concurrency._async import apart
from generated_vmm.guest._async.link import PART, AsyncLink
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest.folders import HostPath, packed, receiving, unpack
from generated_vmm.guest.errors import GuestProgramError

Progress: TypeAlias = Callable[[int, int | None], object]
"""Called with the bytes so far and all bytes, None while they are not known."""
AnyPath: TypeAlias = str | bytes | os.PathLike[str] | os.PathLike[bytes]
DEFAULT_MAX_BYTES = 67_108_864


class AsyncGuestPath:
    """A path in a guest, which may be any bytes. It names methods as `pathlib.Path` does.

    What the guest's system refuses raises Python's `OSError` for it, such as `FileNotFoundError`.
    A file is replaced as a whole or not at all; mode and owner stay unless others are given, and
    new files have mode 0o644. `owner` is a user's name or `uid:gid`.
    """

    def __init__(self, link: AsyncLink, path: AnyPath) -> None:
        self._link = link
        self._bytes = os.fsencode(path)
        if not self._bytes.startswith(b"/"):
            raise ValueError(f"{path!r} is not an absolute path")

    def __repr__(self) -> str:
        return f"{type(self).__name__}({os.fsdecode(self._bytes)!r})"

    def __fspath__(self) -> str:
        return os.fsdecode(self._bytes)

    def __truediv__(self, name: AnyPath) -> AsyncGuestPath:
        return type(self)(self._link, os.path.join(self._bytes, os.fsencode(name)))

    async def stat(self) -> models.FileStat:
        """What the path leads to."""
        return await self._link.send(operations.stat_file(self._quoted()), name=os.fspath(self))

    async def exists(self) -> bool:
        """Whether the path leads to something."""
        try:
            await self.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def read_bytes(self, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
        """The content of a file. Raises `GuestProgramError` if it has more than `max_bytes`."""
        content = bytearray()

        def take(part: bytes, _: int | None) -> None:
            content.extend(part)
            if len(content) > max_bytes:
                raise GuestProgramError(f"{self!r} has more than {max_bytes} bytes")

        await self._link.download(operations.read_file(self._quoted()), take, os.fspath(self))
        return bytes(content)

    async def read_text(self, encoding: str = "utf-8") -> str:
        """The content of a file as text."""
        content = await self.read_bytes()
        return content.decode(encoding)

    async def write_bytes(
        self, data: bytes, *, mode: int | None = None, owner: str | None = None
    ) -> None:
        """Writes a file as a whole."""
        view = memoryview(data)
        parts = (bytes(view[at : at + PART]) for at in range(0, len(view), PART))
        await self._upload(len(view), parts, mode, owner)

    async def write_text(
        self, text: str, *, mode: int | None = None, owner: str | None = None
    ) -> None:
        """Writes a file as a whole, in UTF-8."""
        await self.write_bytes(text.encode(), mode=mode, owner=owner)

    async def upload(
        self,
        source: HostPath,
        *,
        mode: int | None = None,
        owner: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Copies a file or a folder of the host to this path.

        The mode of a file is that of the source unless another is given. A folder is made as a
        whole; one that exists is merged, file by file. Entries of folders belong to the agent's
        user.
        """
        with await apart(lambda: packed(source)) as file:
            size = os.fstat(file.fileno()).st_size
            parts = _parts_of(file, size, progress)
            if await apart(lambda: Path(source).is_dir()):
                operation = operations.write_folder(self._quoted())
                await self._link.upload(operation, size, parts, os.fspath(self))
            else:
                found = os.fstat(file.fileno()).st_mode & 0o7777
                await self._upload(size, parts, found if mode is None else mode, owner)

    async def download(self, target: HostPath, *, progress: Progress | None = None) -> None:
        """Copies this file or folder to the host, as a whole or not at all.

        A folder must be new at the host. Its links lead to its own files, and it has no devices:
        `tarfile`'s filter `data` refuses other ones. A file is replaced, with mode 0o600.
        """
        found = await self.stat()
        is_folder = found.kind == "folder"
        read = operations.read_folder if is_folder else operations.read_file
        size = 0
        with receiving(target, is_folder=is_folder) as file:

            def take(part: bytes, total: int | None) -> None:
                nonlocal size
                file.write(part)
                size += len(part)
                if progress is not None:
                    progress(size, total)

            await self._link.download(read(self._quoted()), take, os.fspath(self))
            if is_folder:
                await apart(lambda: unpack(file, target))

    async def _upload(
        self, size: int, parts: Iterator[bytes], mode: int | None, owner: str | None
    ) -> None:
        octal = None if mode is None else f"{mode:o}"
        operation = operations.write_file(self._quoted(), mode=octal, owner=owner)
        await self._link.upload(operation, size, parts, os.fspath(self))

    def _quoted(self) -> str:
        return quote_from_bytes(self._bytes, safe="")


def _parts_of(file: BinaryIO, size: int, progress: Progress | None) -> Iterator[bytes]:
    sent = 0
    while sent < size:
        part = file.read(min(PART, size - sent))
        if not part:
            raise OSError(f"the source became shorter while it was read: {sent} of {size} bytes")
        yield part
        sent += len(part)
        if progress is not None:
            progress(sent, size)

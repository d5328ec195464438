"""Files and folders of a guest."""

from __future__ import annotations

import io
import os
from typing import BinaryIO

from generated_vmm.guest._async.link import AsyncLink
from generated_vmm.guest._generated import models, operations
from generated_vmm.guest.errors import GuestProgramError
from generated_vmm.guest.paths import PathInGuest, Progress, octal, parts_of, require_progress
from generated_vmm.misuse import require_kind, require_opened
from generated_vmm.operation import Operation

DEFAULT_MAX_BYTES = 67_108_864


class AsyncGuestPath(PathInGuest):
    """A path in a guest, which may be any bytes; its methods have the names of `pathlib.Path`.

    What the guest's system refuses raises Python's `OSError` for it, such as `FileNotFoundError`.
    A file is replaced as a whole or not at all. Mode and owner stay unless others are passed; a new
    file has mode 0o644. `owner` is a user's name or `uid:gid`.
    """

    _link: AsyncLink

    async def stat(self) -> models.FileStat:
        """What the path leads to."""
        return await self._link.send(operations.stat_file(self._quoted), name=str(self))

    async def exists(self) -> bool:
        """Whether the path leads to something."""
        try:
            await self.stat()
        except (FileNotFoundError, NotADirectoryError):
            return False
        return True

    async def read_bytes(self, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes:
        """The content of a file. Raises `GuestProgramError` if it has more than `max_bytes`."""
        content = io.BytesIO()
        await self._read_into(operations.read_file(self._quoted), content, max_bytes, None)
        return content.getvalue()

    async def read_into(
        self, file: BinaryIO, *, max_bytes: int | None = None, progress: Progress | None = None
    ) -> None:
        """Copies the content of a file to an open file of the host.

        Raises `GuestProgramError` after `max_bytes`: a guest may send bytes without end.
        """
        total = (await self.stat()).size if progress else None
        await self._read_into(operations.read_file(self._quoted), file, max_bytes, progress, total)

    async def read_tar_into(
        self, file: BinaryIO, *, max_bytes: int | None = None, progress: Progress | None = None
    ) -> None:
        """Copies a folder to an open file of the host, as tar. Do not trust the names in it.

        Raises `GuestProgramError` after `max_bytes`.
        """
        await self._read_into(operations.read_folder(self._quoted), file, max_bytes, progress)

    async def write_bytes(
        self, data: bytes, *, mode: int | None = None, owner: str | None = None
    ) -> None:
        """Writes a file."""
        await self.write_from(io.BytesIO(data), mode=mode, owner=owner)

    async def write_from(
        self,
        file: BinaryIO,
        *,
        mode: int | None = None,
        owner: str | None = None,
        progress: Progress | None = None,
    ) -> None:
        """Writes a file with the rest of an open file of the host, which must be seekable."""
        operation = operations.write_file(self._quoted, mode=octal(mode), owner=owner)
        await self._write(operation, file, progress)

    async def write_tar_from(self, file: BinaryIO, *, progress: Progress | None = None) -> None:
        """Unpacks the tar in an open file of the host. Everything belongs to the agent's user.

        A new folder is made as a whole or not at all; one that exists is merged, file by file.
        """
        await self._write(operations.write_folder(self._quoted), file, progress)

    async def _write(
        self, operation: Operation[None], file: BinaryIO, progress: Progress | None
    ) -> None:
        require_opened(file, "read", "rb")
        require_progress(progress)
        at = file.tell()
        size = file.seek(0, os.SEEK_END) - at
        file.seek(at)
        if at and not size:
            raise ValueError("file is at its end: file.seek(0) goes back to its beginning")
        parts = parts_of(file, size, progress)
        await self._link.move(operation, str(self), size=size, parts=parts)

    async def _read_into(
        self,
        operation: Operation[None],
        file: BinaryIO,
        max_bytes: int | None,
        progress: Progress | None,
        total: int | None = None,
    ) -> None:
        require_opened(file, "write", "wb")
        require_progress(progress)
        require_kind("max_bytes", max_bytes, "a number of bytes", int)
        size = 0

        def sink(part: bytes) -> None:
            nonlocal size
            size += len(part)
            if max_bytes is not None and size > max_bytes:
                raise GuestProgramError(f"{self!r} has more than {max_bytes} bytes")
            file.write(part)
            if progress is not None:
                progress(size, total)

        await self._link.move(operation, str(self), sink=sink)

"""Files and folders of the host, on their way to and from a guest."""

from __future__ import annotations

import contextlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, TypeAlias, cast

HostPath: TypeAlias = str | os.PathLike[str]


def packed(source: HostPath) -> BinaryIO:
    """The file, or the folder as a tar file that belongs to root; read from its beginning."""
    if not Path(source).is_dir():
        return open(source, "rb")
    file = cast(BinaryIO, tempfile.TemporaryFile())
    try:
        with tarfile.open(fileobj=file, mode="w") as archive:
            archive.add(source, arcname=".", filter=_of_root)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return file


def _of_root(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


@contextlib.contextmanager
def receiving(target: HostPath, *, is_folder: bool) -> Iterator[BinaryIO]:
    """A file for what comes: of a file, it takes the place of the target at the end of the block.

    Raises `FileExistsError` for a folder that is not new.
    """
    if is_folder:
        if os.path.lexists(target):
            raise FileExistsError(f"{os.fspath(target)} exists; a folder must be new")
        with tempfile.TemporaryFile() as spool:
            yield cast(BinaryIO, spool)
        return
    descriptor, temporary = tempfile.mkstemp(prefix=".guest-", dir=Path(target).parent)
    try:
        with open(descriptor, "wb") as file:
            yield file
        os.replace(temporary, target)
    except BaseException:
        os.unlink(temporary)
        raise


def unpack(file: BinaryIO, target: HostPath) -> None:
    """The folder in a tar file, which a guest has written and which may say anything.

    The filter `data` refuses paths and links that leave the folder, and devices.
    """
    file.seek(0)
    into = tempfile.mkdtemp(prefix=".guest-", dir=Path(target).parent)
    try:
        with tarfile.open(fileobj=file, mode="r") as archive:
            archive.extractall(into, filter="data")
        os.rename(into, target)
    except BaseException:
        shutil.rmtree(into, ignore_errors=True)
        raise

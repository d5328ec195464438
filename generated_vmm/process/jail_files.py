"""The files of a jail: their paths on both sides, and copying and linking them in.

The jailed monitor owns its root: it may have created links there, and may swap names at any time.
So files are opened step by step from the root's descriptor, and changed through descriptors.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Generator
from pathlib import Path

from generated_vmm.process.copying import copy_data, regular
from generated_vmm.process.keeper.kernel import FOLDER, Descriptor
from generated_vmm.process.settings import HostPath

NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


def inside(root: Path, path: HostPath) -> str:
    """A path of the host as the monitor sees it. Raises ValueError for one outside of the jail."""
    relative = os.path.relpath(os.path.abspath(path), root)
    if relative == os.pardir or relative.startswith(os.pardir + os.sep):
        raise ValueError(f"{os.fspath(path)} is not in the jail {root}")
    return os.path.normpath(f"/{relative}")


def normal(path: HostPath) -> str:
    """A path as the monitor sees it, without `..`."""
    return os.path.normpath("/" + os.fspath(path).lstrip("/"))


def folder_of(root: int, path: str, owner: tuple[int, int]) -> Descriptor:
    """The parent folder of a path inside; creates missing folders for the owner.

    Raises OSError if a step is a link.
    """
    folder = Descriptor(os.dup, root)
    for name in filter(None, os.path.dirname(normal(path)).split("/")):
        folder = _step(folder.number, name, owner)
    return folder


def _step(folder: int, name: str, owner: tuple[int, int]) -> Descriptor:
    made = False
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=folder)
        made = True
    inner = Descriptor(os.open, name, FOLDER, dir_fd=folder)
    if made and os.fstat(inner.number).st_uid == os.geteuid():
        os.fchown(inner.number, *owner)
    return inner


def target_of(source: HostPath, path: HostPath | None) -> str:
    """The path inside for a file that is brought in: `/` and its own name by default."""
    return normal(os.path.basename(os.fspath(source)) if path is None else path)


def copied(
    root: int, source: HostPath, path: str, owner: tuple[int, int]
) -> Generator[tuple[int, int], None, None]:
    """Copies a regular file to a path inside, where only its owner may use it.

    Yields the number of copied bytes and of all bytes after each part. A copy that fails, or is
    closed before its end, is removed.
    """
    folder, original = folder_of(root, path, owner), regular(source)
    name = os.path.basename(path)
    copy = Descriptor(os.open, name, NEW_FILE, 0o600, dir_fd=folder.number)
    try:
        yield from copy_data(original.number, copy.number)
        os.fchown(copy.number, *owner)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=folder.number)
        raise


def link_in(root: int, source: HostPath, path: str, owner: tuple[int, int], *, give: bool) -> None:
    """Creates a hard link to a regular file at a path inside; `give` changes the file's owner."""
    folder, file = folder_of(root, path, owner), regular(source, os.O_NOFOLLOW)
    name, original = os.path.basename(path), f"/proc/self/fd/{file.number}"
    os.link(original, name, dst_dir_fd=folder.number, follow_symlinks=True)
    if give:
        os.fchown(file.number, *owner)

"""The files of a jail: their paths on both sides, and how they get in.

The jailed monitor owns its root, so nothing here follows a link that it may have made.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from pathlib import Path

from generated_vmm.process.settings import HostPath

FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW
NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW


class JailRoot:
    """The folder that is `/` to a jailed monitor, which runs as one user and group."""

    def __init__(self, root: Path, uid: int, gid: int) -> None:
        self.root = root
        self._uid = uid
        self._gid = gid

    def inside(self, path: HostPath) -> str:
        """A path of the host as the monitor sees it. ValueError for one outside of the jail."""
        relative = os.path.relpath(os.path.abspath(path), self.root)
        if relative == os.pardir or relative.startswith(os.pardir + os.sep):
            raise ValueError(f"{os.fspath(path)} is not in the jail {self.root}")
        return os.path.normpath(f"/{relative}")

    def outside(self, path: HostPath) -> Path:
        """A path as the monitor sees it, on the host. Nothing leads out of the jail but links."""
        return self.root / os.path.normpath(f"/{os.fspath(path)}").lstrip("/")

    def copy_in(self, source: HostPath, path: HostPath | None = None) -> str:
        """Copies a file in, which is then the jailed user's; the path as the monitor sees it.

        `path` is where, `/` and the file's own name by default; missing folders are made. Raises
        `FileExistsError` when there is something.
        """
        inside = self._target(source, path)
        with self._folder_of(inside) as folder, open(source, "rb") as original:
            name = os.path.basename(inside)
            new = os.open(name, NEW_FILE, 0o600, dir_fd=folder)
            try:
                copy_data(original.fileno(), new)
                os.fchown(new, self._uid, self._gid)
            except BaseException:
                os.unlink(name, dir_fd=folder)
                raise
            finally:
                os.close(new)
        return inside

    def link_in(self, source: HostPath, path: HostPath | None = None, *, give: bool = False) -> str:
        """Makes a hard link to a file in the jail; the path as the monitor sees it.

        It stays one file: its owner and mode are as they were, or with `give` the owner is the
        jailed user. Raises `FileExistsError`, and `OSError` (EXDEV) on another file system.
        """
        inside = self._target(source, path)
        with self._folder_of(inside) as folder:
            name = os.path.basename(inside)
            os.link(source, name, dst_dir_fd=folder, follow_symlinks=False)
            if give:
                os.chown(name, self._uid, self._gid, dir_fd=folder, follow_symlinks=False)
        return inside

    def _target(self, source: HostPath, path: HostPath | None) -> str:
        wanted = os.path.basename(os.fspath(source)) if path is None else os.fspath(path)
        return os.path.normpath(f"/{wanted}".replace("//", "/"))

    @contextlib.contextmanager
    def _folder_of(self, inside: str) -> Iterator[int]:
        """Opens the folder of a path, step by step, so that no step is a link."""
        with contextlib.ExitStack() as stack:
            folder = os.open(self.root, FOLDER)
            stack.callback(os.close, folder)
            for name in os.path.dirname(inside).split("/"):
                if name:
                    folder = self._step(folder, name)
                    stack.callback(os.close, folder)
            yield folder

    def _step(self, folder: int, name: str) -> int:
        try:
            os.mkdir(name, 0o700, dir_fd=folder)
        except FileExistsError:
            return os.open(name, FOLDER, dir_fd=folder)
        made = os.open(name, FOLDER, dir_fd=folder)
        os.fchown(made, self._uid, self._gid)
        return made


def copy_data(source: int, target: int) -> None:
    """Copies a regular file's content to an empty file, holes of a disk image as holes."""
    if not stat.S_ISREG(os.fstat(source).st_mode):
        raise ValueError("only regular files are copied into a jail")
    size = os.fstat(source).st_size
    os.ftruncate(target, size)
    end = 0
    while end < size:
        try:
            begin = os.lseek(source, end, os.SEEK_DATA)
        except OSError:  # ENXIO: there are only holes up to the end
            return
        end = os.lseek(source, begin, os.SEEK_HOLE)
        os.lseek(target, begin, os.SEEK_SET)
        while begin < end and (sent := os.sendfile(target, source, begin, end - begin)):
            begin += sent

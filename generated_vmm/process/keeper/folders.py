"""The folders of monitors: private to one user, locked by one keeper, and found again.

A folder that a keeper makes has a mode of its own while it has no record, so it is known for what
it is if the keeper is killed. Each folder has a symbolic link in a folder of the system, for `list`
and `clean`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from generated_vmm.process.keeper.kernel import Refused, identity
from generated_vmm.process.keeper.record import PARENT, RECORD, UNRECORDED, Record, is_marked

MOST_LINKS = 40  # that the kernel follows (path_resolution(7))
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
READABLE = stat.S_IRGRP | stat.S_IROTH
REGISTRY = "generated-vmm"


def open_private(path: str) -> int:
    """The descriptor of a folder that only this user can change. Raises `Refused`, OSError."""
    require_trusted_path(path)
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        require_private(path, os.fstat(descriptor))
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def remove_folder(place: tuple[Record, int]) -> None:
    """Removes the record, and the folder and those above it if keepers have made them."""
    record, folder = place
    is_to_go = record.made and not set(os.listdir(folder)) - {RECORD}
    if is_to_go:
        os.fchmod(folder, UNRECORDED)
    with contextlib.suppress(FileNotFoundError):
        os.unlink(RECORD, dir_fd=folder)
    with contextlib.suppress(FileNotFoundError):
        if is_to_go and identity(record.path) == identity(folder):
            os.rmdir(record.path)
    _leave(record.entry, record.path)
    if record.jailed or not record.how:  # or begun, perhaps for a jail
        remove_parents(record.path)


def remove_parents(path: str) -> None:
    """Removes the folders above a path that keepers have made, if they are empty."""
    with contextlib.suppress(OSError):  # the first that is not
        while (path := os.path.dirname(path)) != "/":
            with contextlib.suppress(FileNotFoundError):
                if not is_marked(os.lstat(path), PARENT):
                    return
                os.rmdir(path)


def make_parents(path: str, *, private: bool) -> None:
    """Makes missing folders above a path, with the mark."""
    names = path.split("/")
    for parent in ("/".join(names[:number]) for number in range(2, len(names))):
        if private:  # others may change what is above it
            require_trusted_path(parent)
        with contextlib.suppress(FileExistsError):
            if not os.path.lexists(parent):
                os.mkdir(parent, PARENT)


def require_private(path: str, found: os.stat_result) -> None:
    """Raises `Refused` unless only this user can change the content of a folder."""
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & WRITABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(f"{path} can be changed by others (mode {mode:o}): chmod go-w")


def require_unreadable(path: str, found: os.stat_result) -> None:
    """Raises `Refused` if others can read a folder: whoever can may lock it."""
    if found.st_mode & READABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(f"{path} can be locked by others (mode {mode:o}): chmod go-r")


def require_trusted_path(path: str) -> None:
    """Raises `Refused` if another user can exchange a folder or a link above a path.

    What does not exist yet is not checked.
    """
    with contextlib.suppress(FileNotFoundError):
        for step in _steps_to(path):
            found = os.lstat(step)
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid not in (0, os.geteuid()):
                raise Refused(f"{step} belongs to user {found.st_uid}, and leads to {path}")
            if stat.S_ISDIR(found.st_mode) and mode & WRITABLE and not mode & stat.S_ISVTX:
                raise Refused(
                    f"{step} leads to {path} and can be changed by others (mode {mode:o}): "
                    "chmod go-w"
                )


def _steps_to(path: str) -> Iterator[str]:
    """The folders and links that lead to a path, the first ones first."""
    folder, left, links = "/", path.split("/")[:0:-1], 0
    yield folder
    while left:
        step = os.path.normpath(os.path.join(folder, left.pop()))
        if os.path.islink(step) and links < MOST_LINKS:
            yield step
            target, links = os.readlink(step), links + 1
            left += filter(None, target.split("/")[::-1])
            folder = "/" if target.startswith("/") else folder
        elif left:
            yield step
            folder = step


# A link to each folder. It only says where to look: the folder behind it is checked like any other.


def entry_of(folder: os.stat_result) -> str:
    """The link for a folder; empty if there is no place for links."""
    for registry in registries():
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(registry, 0o700)
            if _is_private(registry):
                return f"{registry}/{folder.st_dev}-{folder.st_ino}"
    return ""


def enter(entry: str, path: str) -> None:
    """Creates the link. Without it a monitor runs too, but is not listed."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry)
        os.symlink(path, entry)


def _leave(entry: str, path: str) -> None:
    with contextlib.suppress(OSError):
        if os.readlink(entry) == path:
            os.unlink(entry)


def known_folders() -> Iterator[tuple[str, str]]:
    """The links, and their folders."""
    for registry in registries():
        with contextlib.suppress(OSError):
            if _is_private(registry):
                for name in sorted(os.listdir(registry)):
                    entry = f"{registry}/{name}"
                    yield entry, os.readlink(entry)


def registries() -> list[str]:
    """The folders that may contain links; the system empties them when the host starts."""
    uid = os.geteuid()
    systems = [f"/run/{REGISTRY}"] if uid == 0 else []
    return [*systems, f"/run/user/{uid}/{REGISTRY}", f"/tmp/{REGISTRY}-{uid}"]  # noqa: S108  # checked


def _is_private(registry: str) -> bool:
    found = os.lstat(registry)
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return is_ours and stat.S_ISDIR(found.st_mode)

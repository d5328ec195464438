"""The folders of monitors: private to one user, locked by one keeper, and found again.

Each folder has a symbolic link in a folder of the system, for `list` and `clean`.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

from generated_vmm.process.keeper.kernel import Descriptor, Refused

MOST_LINKS = 40  # that the kernel follows (path_resolution(7))
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
REGISTRY = "generated-vmm"


def open_private(path: str) -> Descriptor:
    """A folder that only this user can change. Raises `Refused`, OSError."""
    require_trusted_path(path)
    folder = Descriptor(os.open, path, os.O_RDONLY | os.O_DIRECTORY)
    require_private(path, os.fstat(folder.number))
    return folder


def require_private(path: str, found: os.stat_result) -> None:
    """Raises `Refused` unless only this user can change the content of a folder."""
    if found.st_uid != os.geteuid():
        raise Refused(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & WRITABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise Refused(f"{path} can be changed by others (mode {mode:o}): chmod go-w")


def make_parents(path: str) -> None:
    """Makes the missing folders above a path, none where another user could exchange it."""
    names = path.split("/")
    for parent in ("/".join(names[:number]) for number in range(2, len(names))):
        require_trusted_path(parent)
        with contextlib.suppress(FileExistsError):
            os.mkdir(parent, 0o711)


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
    folder, left, links = "", path.split("/")[:0:-1], 0
    yield "/"
    while left:
        name = left.pop()
        step = f"{folder}/{name}"
        if name == "..":
            folder = folder.rpartition("/")[0]
        elif name in ("", "."):
            continue
        elif links < MOST_LINKS and (target := _target_of(step)):
            yield step
            links += 1
            left += filter(None, target.split("/")[::-1])
            folder = "" if target.startswith("/") else folder
        elif left:
            yield step
            folder = step


def _target_of(path: str) -> str:
    """Where a symbolic link leads to; empty for any other file."""
    with contextlib.suppress(OSError):
        return os.readlink(path)
    return ""


# A link to each folder. It only says where to look: the folder behind it is checked like any other.


def enter(folder: int, path: str) -> None:
    """Creates the link. Without it a monitor runs too, but is not listed."""
    leave(folder)
    with contextlib.suppress(OSError, Refused):
        os.symlink(path, _entry_of(folder))


def leave(folder: int) -> None:
    """Removes the link."""
    with contextlib.suppress(OSError, Refused):
        os.unlink(_entry_of(folder))


def known_folders() -> Iterator[tuple[str, str]]:
    """The links, and their folders."""
    with contextlib.suppress(OSError, Refused):
        registry = _private_registry()
        for name in sorted(os.listdir(registry)):
            yield f"{registry}/{name}", os.readlink(f"{registry}/{name}")


def _entry_of(folder: int) -> str:
    found = os.fstat(folder)
    return f"{_private_registry()}/{found.st_dev}-{found.st_ino}"


def _private_registry() -> str:
    """The registry, which is made if it is missing. Raises `Refused`, OSError."""
    path = registry()
    with contextlib.suppress(OSError):
        os.mkdir(path, 0o700)
    require_private(path, os.lstat(path))
    return path


def registry() -> str:
    """The folder of this user's links; it is empty when the host has started."""
    uid = os.geteuid()
    return f"/run/{REGISTRY}" if uid == 0 else f"/dev/shm/{REGISTRY}-{uid}"  # noqa: S108  # checked

"""The folders of monitors: private to one user, locked by one process, and found again.

Each has a symbolic link in a folder of the system, for `list` and `clean`.
"""

from __future__ import annotations

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

from generated_vmm.process.errors import MonitorStartError
from generated_vmm.process.removal import LONGEST_END, PAUSE, lock
from generated_vmm.process.state import read_state

FOLDER = os.O_RDONLY | os.O_DIRECTORY
ATTEMPTS = 100
MOST_LINKS = 40  # that the kernel follows (path_resolution(7))
WRITABLE = stat.S_IWGRP | stat.S_IWOTH
READABLE = stat.S_IRGRP | stat.S_IROTH
REGISTRY = "generated-vmm"
NEW_FOLDER = stat.S_ISVTX | 0o700  # the mode of one that no state has been written to

Result = TypeVar("Result")


def retried(make: Callable[[], Result]) -> Result:
    """Retries a call whose folder another process has just removed."""
    for _ in range(ATTEMPTS):
        with contextlib.suppress(FileNotFoundError):
            return make()
    return make()


@contextlib.contextmanager
def open_private(path: str) -> Iterator[int]:
    """The descriptor of a folder that only this user can change; closed after the block."""
    require_trusted_path(path)
    descriptor = os.open(path, FOLDER)
    try:
        require_private(path, os.fstat(descriptor))
        yield descriptor
    finally:
        os.close(descriptor)


def hold(path: str, require_wanted: Callable[[], None]) -> int:
    """The descriptor of a folder, locked. Raises FileNotFoundError if it was just removed.

    Raises `MonitorStartError` if another process has locked it, or other users could change or lock
    it. `require_wanted` is called during the wait for the lock, and raises to end it.
    """
    with open_private(path) as descriptor:
        require_unreadable(path, os.fstat(descriptor))
        wait_for_lock(path, descriptor, require_wanted)
        if os.fstat(descriptor).st_nlink == 0:
            raise FileNotFoundError(path)
        return os.dup(descriptor)


def is_new(descriptor: int) -> bool:
    """Whether a folder was created for a monitor, and its state has never been written."""
    return stat.S_IMODE(os.fstat(descriptor).st_mode) & ~stat.S_ISGID == NEW_FOLDER


def wait_for_lock(path: str, descriptor: int, require_wanted: Callable[[], None]) -> None:
    """Locks a folder. Raises `MonitorStartError` if a living process owns the monitor in it.

    The reaper locks what a dead process left until it has removed it.
    """
    deadline = time.monotonic() + LONGEST_END
    while not lock(descriptor):
        state = read_state(descriptor)
        if state is not None and (owner := state.living(state.owner)):
            raise MonitorStartError(f"{path} is in use by process {owner}")
        if time.monotonic() > deadline:
            raise MonitorStartError(f"{path} is in use")
        require_wanted()
        time.sleep(PAUSE)


def require_private(path: str, found: os.stat_result) -> None:
    """Raises `MonitorStartError` unless only this user can change the content of a folder."""
    if found.st_uid != os.geteuid():
        raise MonitorStartError(f"{path} belongs to user {found.st_uid}, not to {os.geteuid()}")
    if found.st_mode & WRITABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise MonitorStartError(f"{path} can be changed by others (mode {mode:o}): chmod go-w")


def require_unreadable(path: str, found: os.stat_result) -> None:
    """Raises `MonitorStartError` if others can read a folder: whoever can may lock it."""
    if found.st_mode & READABLE:
        mode = stat.S_IMODE(found.st_mode)
        raise MonitorStartError(f"{path} can be locked by others (mode {mode:o}): chmod go-r")


def require_trusted_path(path: str) -> None:
    """Raises `MonitorStartError` if another user can exchange a folder or a link above a path.

    What does not exist yet is not checked.
    """
    with contextlib.suppress(FileNotFoundError):
        for step in _steps_to(path):
            found = os.lstat(step)
            mode = stat.S_IMODE(found.st_mode)
            if found.st_uid not in (0, os.geteuid()):
                raise MonitorStartError(
                    f"{step} belongs to user {found.st_uid}, and leads to {path}"
                )
            if stat.S_ISDIR(found.st_mode) and mode & WRITABLE and not mode & stat.S_ISVTX:
                raise MonitorStartError(
                    f"{step} leads to {path} and can be changed by others (mode {mode:o}): "
                    "chmod go-w"
                )


def _steps_to(path: str) -> Iterator[str]:
    """The folders and links that lead to a path, the first ones first."""
    folder, left, links = "/", [*Path(path).parts[:0:-1]], 0
    yield folder
    while left:
        step = os.path.normpath(os.path.join(folder, left.pop()))
        if os.path.islink(step) and links < MOST_LINKS:
            yield step
            target, links = Path(os.readlink(step)), links + 1
            left += [each for each in target.parts[::-1] if each != "/"]
            folder = "/" if target.is_absolute() else folder
        elif left:
            yield step
            folder = step


def make_fifo(name: str, folder: int, directory: Path) -> None:
    """Creates a fifo that only its owner may use, in place of an older one."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISFIFO(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode):
            os.unlink(name, dir_fd=folder)
    try:
        os.mkfifo(name, 0o600, dir_fd=folder)
    except OSError as error:
        message = f"{directory / name} cannot be created: {error.strerror}"
        raise MonitorStartError(message) from error


# A link to each folder. It only says where to look: the folder behind it is checked like any other.


def entry_of(folder: os.stat_result) -> str:
    """The link for a folder; empty if there is no place for links."""
    for registry in _registries():
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


def known_folders() -> Iterator[tuple[str, str]]:
    """The links, and their folders."""
    for registry in _registries():
        with contextlib.suppress(OSError):
            if _is_private(registry):
                for name in sorted(os.listdir(registry)):
                    entry = f"{registry}/{name}"
                    yield entry, os.readlink(entry)


def _registries() -> list[str]:
    """The folders that may contain links; the system empties them when the host starts."""
    uid = os.geteuid()
    systems = [f"/run/{REGISTRY}"] if uid == 0 else []
    return [*systems, f"/run/user/{uid}/{REGISTRY}", f"/tmp/{REGISTRY}-{uid}"]  # noqa: S108  # checked


def _is_private(registry: str) -> bool:
    found = os.lstat(registry)
    is_ours = found.st_uid == os.geteuid() and not found.st_mode & 0o077
    return is_ours and stat.S_ISDIR(found.st_mode)

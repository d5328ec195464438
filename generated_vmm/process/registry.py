"""Where this user's monitors are: a symbolic link to the folder of each, for `list` and `clean`.

A link says where to look and no more: what is there is checked as any other folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator

NAME = "generated-vmm"


def entry_of(folder: os.stat_result) -> str:
    """The link for a folder; empty when there is no place for links."""
    for registry in _registries():
        with contextlib.suppress(OSError):
            with contextlib.suppress(FileExistsError):
                os.mkdir(registry, 0o700)
            if _is_private(registry):
                return f"{registry}/{folder.st_dev}-{folder.st_ino}"
    return ""


def enter(entry: str, path: str) -> None:
    """Makes the link. Without it a monitor runs as well, but is not listed."""
    with contextlib.suppress(OSError):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(entry)
        os.symlink(path, entry)


def known_folders() -> Iterator[tuple[str, str]]:
    """The links, and the folders that they lead to."""
    for registry in _registries():
        with contextlib.suppress(OSError):
            if _is_private(registry):
                for name in sorted(os.listdir(registry)):
                    entry = f"{registry}/{name}"
                    yield entry, os.readlink(entry)


def _registries() -> list[str]:
    """Where there may be links: folders of the system that the next start of the host empties."""
    uid = os.geteuid()
    systems = [f"/run/{NAME}"] if uid == 0 else []
    return [*systems, f"/run/user/{uid}/{NAME}", f"/tmp/{NAME}-{uid}"]  # noqa: S108  # checked


def _is_private(registry: str) -> bool:
    found = os.lstat(registry)
    return stat.S_ISDIR(found.st_mode) and (found.st_uid, found.st_mode & 0o077) == (
        os.geteuid(),
        0,
    )

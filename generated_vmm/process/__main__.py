"""`list` shows this user's monitors, and leftovers of callers that were killed together with their
reaper, with their taps; `clean` removes those leftovers.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from generated_vmm.process.folders import is_new, known_folders, open_private
from generated_vmm.process.removal import lock, remove_folder
from generated_vmm.process.state import State, read_state


@dataclass(frozen=True)
class Found:
    """The state of a monitor's folder: `status` says whether a process owns it."""

    path: str
    status: str
    pid: int | None = None
    owner: int | None = None
    id: str | None = None

    def __str__(self) -> str:
        columns = (self.status, self.pid or "-", self.owner or "-", self.id or "-", self.path)
        return "{:<9} {:>8} {:>8}  {:<20} {}".format(*columns)


TITLES = "{:<9} {:>8} {:>8}  {:<20} {}".format("STATUS", "PID", "OWNER", "ID", "FOLDER")


def look(path: str, *, clean: bool = False) -> Found | None:
    """The state of a folder; None if no monitor used it. With `clean`, a leftover is removed.

    Raises OSError and `MonitorError` for a folder or a state that other users could change, and
    TimeoutError for a process that does not end.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_private(path) as folder:
        state = read_state(folder)
        if state is None:
            return _look_at_new(path, folder, clean=clean)
        pid, owner = state.living(state.process), state.living(state.owner)
        if not lock(folder):
            return Found(path, "owned", pid, owner, id_of(state))
        if pid is not None and state.is_detached:
            return Found(path, "detached", pid, None, id_of(state))
        if clean:
            state.remove(folder, removes_folder=True)
        return Found(path, "removed" if clean else "leftover", pid, None, id_of(state))
    return None


def _look_at_new(path: str, folder: int, *, clean: bool) -> Found | None:
    """The state of a folder whose starter died before it wrote one; None for other folders."""
    if not is_new(folder) or os.listdir(folder) or not lock(folder):
        return None
    if clean:
        remove_folder(path, folder)
    return Found(path, "removed" if clean else "leftover")


def look_at_taps(*, clean: bool = False) -> Iterator[Found]:
    """The taps of dead owners. Raises OSError and `NetlinkError` if the host refuses."""
    with contextlib.suppress(ModuleNotFoundError):  # without the extra there are none
        netlink: Any = importlib.import_module("generated_vmm.process.netlink")
        for name, mark in netlink.leftovers():
            if clean:
                netlink.remove({"name": name, "mark": str(mark)})
            yield Found(f"/sys/class/net/{name}", "removed" if clean else "leftover", id=name)


def id_of(state: State) -> str | None:
    """The instance id of a monitor."""
    found = (state.how.get("settings") or {}).get("id")
    return found if isinstance(found, str) else None


def main(given: Sequence[str] | None = None) -> int:
    """Prints a line for each folder; returns 1 if something could not be read or removed."""
    parser = argparse.ArgumentParser("python -m generated_vmm.process", description=__doc__)
    parser.add_argument("command", choices=["list", "clean"])
    parser.add_argument("folders", nargs="*", help="folders to look at besides the known ones")
    options = parser.parse_args(given)
    clean, failed = options.command == "clean", False
    folders = {os.path.abspath(path): "" for path in options.folders}
    folders |= {path: entry for entry, path in known_folders()}
    print(TITLES)
    for path, entry in sorted(folders.items()):
        try:
            found = look(path, clean=clean)
        except Exception as error:
            print(f"{path}: {error}", file=sys.stderr)
            failed = True
            continue
        if found is not None and (not clean or found.status == "removed"):
            print(found)
        if found is None and entry and clean:
            with contextlib.suppress(OSError):
                os.unlink(entry)
    try:
        for tap in look_at_taps(clean=clean):
            print(tap)
    except Exception as error:
        print(f"taps: {error}", file=sys.stderr)
        failed = True
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())

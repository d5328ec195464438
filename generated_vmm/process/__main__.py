"""`list` shows this user's monitors, and what is left of those whose keeper was killed, with their
taps; `clean` removes what is left.
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

from generated_vmm.process.keeper.messages import ask
from generated_vmm.process.keeper.record import known_folders, open_private, read_record
from generated_vmm.process.keeper.removal import remove_leftover

ANSWER_SECONDS = 1.0
LINE = "{:<9} {:>8} {:>8}  {:<20} {}"


@dataclass(frozen=True)
class Found:
    """The state of a monitor's folder: `status` says whether a process owns it."""

    path: str
    status: str
    pid: str = ""
    owner: str = ""
    id: str | None = None

    def __str__(self) -> str:
        columns = (self.status, self.pid or "-", self.owner or "-", self.id or "-", self.path)
        return LINE.format(*columns)


def look(path: str, *, clean: bool = False) -> Found | None:
    """The state of a folder; None if no monitor used it. With `clean`, a leftover is removed.

    Raises `Refused` for a folder that other users could change, or whose monitor cannot be asked.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_private(path) as folder:
        return _look_at(path, folder.number, clean=clean)
    return None


def _look_at(path: str, folder: int, *, clean: bool) -> Found | None:
    if read_record(folder, path) is None:
        return None
    if (seen := ask(folder, path, seconds=ANSWER_SECONDS)) is not None:
        status, owner, pid, id = seen
        return Found(path, status, pid, owner, id)
    record = read_record(folder, path)  # by now it may say how the monitor has ended
    if record is None:
        return None
    status = "leftover" if record.ended is None else "ended"
    if clean:
        remove_leftover(folder, path, keeps_folder=False)
    return Found(path, "removed" if clean else status, id=record.id)


def look_at_taps(*, clean: bool = False) -> Iterator[Found]:
    """The taps of dead keepers. Raises OSError and `NetlinkError` if the host refuses."""
    with contextlib.suppress(ModuleNotFoundError):  # without the extra there are none
        taps: Any = importlib.import_module("generated_vmm.process.keeper.taps")
        for name, mark in taps.leftovers():
            if clean:
                taps.clean(name, mark)
            yield Found(f"/sys/class/net/{name}", "removed" if clean else "leftover", id=name)


def main(given: Sequence[str] | None = None) -> int:
    """Prints a line for each folder; returns 1 if something could not be read or removed."""
    parser = argparse.ArgumentParser("python -m generated_vmm.process", description=__doc__)
    parser.add_argument("command", choices=["list", "clean"])
    parser.add_argument("folders", nargs="*", help="folders to look at besides the known ones")
    options = parser.parse_args(given)
    clean, failed = options.command == "clean", list[str]()
    folders = {os.path.abspath(path): "" for path in options.folders}
    folders |= {path: entry for entry, path in known_folders()}
    print(LINE.format("STATUS", "PID", "OWNER", "ID", "FOLDER"))
    for path, entry in sorted(folders.items()):
        with _reported(path, failed):
            found = look(path, clean=clean)
            if found is not None and (not clean or found.status == "removed"):
                print(found)
            if found is None and not entry:
                print(f"{path}: no monitor keeps its files in this folder", file=sys.stderr)
            if found is None and entry and clean:
                with contextlib.suppress(FileNotFoundError):  # another one cleans too
                    os.unlink(entry)
    with _reported("taps", failed):
        for tap in look_at_taps(clean=clean):
            print(tap)
    return int(bool(failed))


@contextlib.contextmanager
def _reported(what: str, failed: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        print(f"{what}: {error}", file=sys.stderr)
        failed.append(what)


if __name__ == "__main__":
    sys.exit(main())

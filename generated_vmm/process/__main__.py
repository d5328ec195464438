"""`list` shows this user's monitors, and what is left of those whose keeper was killed, with their
taps; `clean` removes what is left.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator, Sequence
from glob import glob
from typing import Any, TypeAlias

from generated_vmm.process.keeper.messages import ask
from generated_vmm.process.keeper.record import open_private, read_record, remove_leftover

ANSWER_SECONDS = 1.0
LINE = "{:<9} {:>8}  {:<20} {}"
USUAL_FOLDERS = (f"{tempfile.gettempdir()}/vmm-*", "/srv/jailer/*/*")

Shown: TypeAlias = tuple[str, str, str]
"""What a folder or a tap is (such as "owned" or "leftover"), its process and id."""


def look(path: str, *, clean: bool = False) -> Shown | None:
    """What is in a folder; None if no monitor used it. With `clean`, a leftover is removed.

    Raises `Refused` for a folder that other users could change, or whose monitor cannot be asked.
    """
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), open_private(path) as folder:
        if read_record(folder.number, path) is None:
            return None  # another program may have locked it
        if (seen := ask(folder.number, path, seconds=ANSWER_SECONDS)) is not None:
            status, pid, id = seen
            return status, pid, id
        if (found := read_record(folder.number, path)) is not None:
            if clean:
                remove_leftover(folder.number, path, keeps_folder=False)
            left = "leftover" if found.ended is None else "ended"
            return "removed" if clean else left, "", found.id or ""
    return None


def look_at_taps(*, clean: bool = False) -> Iterator[str]:
    """The names of dead keepers' taps. Raises OSError and `NetlinkError` if the host refuses."""
    with contextlib.suppress(ModuleNotFoundError):  # without the extra there are none
        taps: Any = importlib.import_module("generated_vmm.process.keeper.taps")
        for name, mark in taps.leftovers():
            if clean:
                taps.clean(name, mark)
            yield name


def usual_folders() -> Iterator[str]:
    """The folders of this user where monitors are if nobody says otherwise."""
    for path in (each for pattern in USUAL_FOLDERS for each in glob(pattern)):
        with contextlib.suppress(FileNotFoundError):  # its monitor has just ended
            found = os.lstat(path)  # another user may have put a link there
            if stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid():
                yield path


def main(given: Sequence[str] | None = None) -> int:
    """Prints a line for each monitor; returns 1 if something could not be read or removed."""
    parser = argparse.ArgumentParser("python -m generated_vmm.process", description=__doc__)
    parser.add_argument("command", choices=["list", "clean"])
    parser.add_argument("folders", nargs="*", help="folders to look at instead of the usual ones")
    options = parser.parse_args(given)
    clean, failed = options.command == "clean", list[str]()
    print(LINE.format("STATUS", "PID", "ID", "FOLDER"))
    for path in sorted(map(os.path.abspath, options.folders or usual_folders())):
        with _reported(path, failed):
            shown = look(path, clean=clean)
            if shown is None and options.folders:
                print(f"{path}: no monitor keeps its files in this folder", file=sys.stderr)
            if shown is not None and (not clean or shown[0] == "removed"):
                _print(shown, path)
    with _reported("taps", failed):
        for name in look_at_taps(clean=clean):
            _print(("removed" if clean else "leftover", "", name), f"/sys/class/net/{name}")
    return int(bool(failed))


def _print(shown: Shown, path: str) -> None:
    print(LINE.format(*(each or "-" for each in shown), path))


@contextlib.contextmanager
def _reported(what: str, failed: list[str]) -> Iterator[None]:
    try:
        yield
    except Exception as error:
        print(f"{what}: {error}", file=sys.stderr)
        failed.append(what)


if __name__ == "__main__":
    sys.exit(main())

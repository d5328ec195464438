"""Kernels, disks and snapshots of this host: their files, users, and deletion."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, Literal, TypeAlias

from pydantic import BaseModel

from generated_vmm import FullVmConfiguration

Place: TypeAlias = Literal["kernels", "disks", "snapshots", "machine"]
Users: TypeAlias = Callable[[Path], Sequence[str]]

SHELVES: Final[Mapping[Literal["kernels", "disks", "snapshots"], str]] = {
    "kernels": "Kernels",
    "disks": "Disks",
    "snapshots": "Snapshots",
}
STATE, MEMORY, ABOUT = ".state", ".memory", ".json"
"""The files of a snapshot: the machine's state, its memory, and its origin."""
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,80}")


@dataclass(frozen=True, slots=True)
class Thing:
    """A kernel, a disk or a snapshot; `taken` are the bytes that it uses on disk."""

    name: str
    path: Path
    taken: int
    made: datetime
    users: Sequence[str]
    machine: str = ""
    is_given: bool = False

    @property
    def may_go(self) -> bool:
        """Whether it can be deleted: no machine uses it, and no setting names it."""
        return not self.users and not self.is_given


class About(BaseModel):
    """The machine of a snapshot, and its configuration."""

    machine: str = ""
    made: FullVmConfiguration | None = None


class Library:
    """The folders of machines' files; nothing outside is read or written for a machine.

    `images` has the folders `kernels` and `disks`; `own` is the folder of disks that belong to one
    machine. Files that a setting names (`given`) may be read anywhere.
    """

    def __init__(
        self, images: Path, own: Path, snapshots: Path, given: Mapping[Place, Sequence[Path]]
    ) -> None:
        self.folders: Mapping[Place, Sequence[Path]] = {
            "kernels": [images / "kernels"],
            "disks": [images / "disks", own],
            "snapshots": [snapshots],
        }
        self.snapshots = snapshots
        self._given = given
        for folder in (folder for folders in self.folders.values() for folder in folders):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def paths(self, place: Place) -> Iterator[Path]:
        """All files to choose from; for snapshots, their state files."""
        pattern = f"*{STATE}" if place == "snapshots" else "*"
        for folder in self.folders[place]:
            yield from sorted(path for path in folder.glob(pattern) if path.is_file())
        yield from (path for path in self._given.get(place, ()) if path.is_file())

    def things(self, place: Place, users: Users) -> list[Thing]:
        """The files, the newest first."""
        found = (self._thing(path, place, users) for path in self.paths(place))
        return sorted(found, key=lambda thing: thing.made, reverse=True)

    def _thing(self, path: Path, place: Place, users: Users) -> Thing:
        files = self._files_of(path) if place == "snapshots" else [path]
        stats = [file.stat() for file in files if file.exists()]
        return Thing(
            name=path.stem if place == "snapshots" else path.name,
            path=path,
            taken=sum(stat.st_blocks for stat in stats) * 512,
            made=datetime.fromtimestamp(max(stat.st_mtime for stat in stats), UTC),
            users=sorted({user for file in files for user in users(file)}),
            machine=self.about(path).machine if place == "snapshots" else "",
            is_given=path in self._given.get(place, ()),
        )

    def require(self, path: str, places: Iterable[Place], own: Path) -> None:
        """Raises ValueError for a file outside the folders; `own` is that of the machine."""
        is_own = "machine" in places and Path(path).resolve().is_relative_to(own.resolve())
        if not is_own and not self.has(path, places):
            raise ValueError("This file is in none of the console's folders.")

    def has(self, path: str, places: Iterable[Place]) -> bool:
        """Whether a file is in a folder of the places, or named by a setting."""
        real = Path(path).resolve()
        folders = (folder for place in places for folder in self.folders.get(place, ()))
        given = (file for place in places for file in self._given.get(place, ()))
        return any(real.is_relative_to(folder.resolve()) for folder in folders) or real in (
            file.resolve() for file in given
        )

    def named(self, name: str) -> tuple[Path, Path]:
        """The files of a new snapshot. Raises ValueError for a taken or invalid name."""
        if not NAME.fullmatch(name):
            raise ValueError("A name has letters, digits, dots, hyphens and underscores.")
        state = self.snapshots / f"{name}{STATE}"
        if any(file.exists() for file in self._files_of(state)):
            raise ValueError(f"There is a snapshot called {name}: it is not overwritten.")
        return state, state.with_suffix(MEMORY)

    def describe(self, state: Path, machine: str, made: FullVmConfiguration) -> None:
        """Record the machine of a snapshot, and its configuration."""
        state.with_suffix(ABOUT).write_text(About(machine=machine, made=made).model_dump_json())

    def about(self, state: Path) -> About:
        """The record of a snapshot; empty for one that this console did not write."""
        with suppress(OSError, ValueError):
            return About.model_validate_json(state.with_suffix(ABOUT).read_bytes())
        return About()

    def _files_of(self, state: Path) -> list[Path]:
        made = self.about(state).made or FullVmConfiguration()
        disks = (disk_of(state, drive.drive_id) for drive in made.drives or [])
        return [state, state.with_suffix(MEMORY), state.with_suffix(ABOUT), *disks]

    def delete(self, place: Place, name: str, users: Users) -> None:
        """Delete an unused file; raises ValueError if it is in use or does not exist."""
        thing = next((one for one in self.things(place, users) if one.name == name), None)
        if thing is None:
            raise ValueError(f"There is no {name} any more.")
        if not thing.may_go:
            raise ValueError(f"{name} is used by {', '.join(thing.users) or 'a setting'}.")
        for file in self._files_of(thing.path) if place == "snapshots" else [thing.path]:
            file.unlink(missing_ok=True)


def disk_of(state: Path, drive_id: str) -> Path:
    """The path of a snapshot's copy of a disk."""
    return state.with_suffix(f".{drive_id}.disk")


async def copy_file(source: Path, copy: Path) -> None:
    """Copy a file with its holes; shares its blocks if the file system can. Raises ValueError."""
    process = await asyncio.create_subprocess_exec(
        *("cp", "--reflink=auto", "--sparse=always", "--", str(source), str(copy)),
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        _, said = await process.communicate()
    except asyncio.CancelledError:
        process.kill()
        raise
    if process.returncode:
        await asyncio.to_thread(copy.unlink, missing_ok=True)
        raise ValueError(f"A disk could not be copied: {said.decode(errors='replace').strip()}")

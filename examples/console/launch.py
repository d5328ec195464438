"""How monitors are started, and where their files and their machines' snapshots are."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from examples.console.library import Library, Place
from examples.console.settings import KEPT_DAYS


@dataclass(frozen=True, slots=True)
class Launch:
    """How monitors are started: the program, and the folder for their files.

    `outlive`: they go on when the console ends, and it takes them up when it comes back. Events
    are kept for `kept_days`. `images` has the folders `kernels` and `disks`, `snapshot_folder`
    snapshots; without them they are in `folder`.
    """

    binary: Sequence[str]
    folder: Path
    outlive: bool
    kept_days: int = KEPT_DAYS
    images: Path | None = None
    snapshot_folder: Path | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether the program is the simulated monitor, which is a module of Python."""
        return len(self.binary) > 1

    @property
    def machines(self) -> Path:
        """The folder with a folder for each machine."""
        return self.folder / "machines"

    @property
    def snapshots(self) -> Path:
        """The folder that is suggested for snapshots."""
        return self.snapshot_folder or self.folder / "snapshots"

    @property
    def disks(self) -> Path:
        """The folder for disks that belong to one machine."""
        return self.folder / "disks"

    def library(self, suggestions: Mapping[str, str]) -> Library:
        """Its files, with those that the settings name."""
        kernel = suggestions.get("boot_source.kernel_image_path")
        disk = suggestions.get("root_drive.path_on_host")
        given: dict[Place, list[Path]] = {
            "kernels": [Path(kernel)] if kernel else [],
            "disks": [Path(disk)] if disk else [],
        }
        images = self.images or self.folder / "images"
        return Library(images, self.disks, self.snapshots, given)

    def directory(self, name: str) -> Path:
        """The folder of one monitor."""
        return self.machines / name

    def console(self, name: str) -> Path:
        """The file of what a machine's guest writes."""
        return self.folder / "consoles" / f"{name}.log"

    def vsock(self, name: str) -> Path:
        """The socket that is suggested for a machine's vsock."""
        return self.directory(name) / "vsock.socket"

    def remove_vsock(self, name: str) -> None:
        """Remove that socket, which an ended monitor leaves: the next one cannot make it again."""
        self.vsock(name).unlink(missing_ok=True)

    def stem(self, name: str) -> str:
        """The begin of the names of new files of a machine, which no file has."""
        begin = f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        numbered = (f"{begin}-{number}" for number in count(2))
        return next(stem for stem in chain([begin], numbered) if not self._is_used(stem))

    def _is_used(self, stem: str) -> bool:
        folders = (self.snapshots, self.disks)
        return any(True for folder in folders for _ in folder.glob(f"{stem}.*"))

    def suggestions(self, name: str) -> Mapping[str, str]:
        """Texts for the empty forms of a machine, by `section.field`."""
        new = self.snapshots / self.stem(name)
        return {
            "named_snapshot.name": new.name,
            "vsock.uds_path": str(self.vsock(name)),
            "clone.name": f"{name[:29]}-2",
            **self.latest_snapshot(),
        }

    def files_of(self, snapshot: str) -> Mapping[str, str]:
        """The files of a snapshot by its name, to restore."""
        state = self.snapshots / f"{Path(snapshot).name}.state"
        return {
            "restore.snapshot_path": str(state),
            "restore.mem_backend.backend_path": str(state.with_suffix(".memory")),
        }

    def latest_snapshot(self) -> Mapping[str, str]:
        """The files of the newest snapshot of all machines, to restore; nothing without one."""
        found = list(self.snapshots.glob("*.memory"))
        if not found:
            return {}
        memory = max(found, key=os.path.getmtime)
        return self.files_of(memory.stem)

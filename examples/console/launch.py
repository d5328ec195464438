"""Starting monitors, and the paths of their files and snapshots."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain, count
from pathlib import Path

from examples.console.kept import Kept
from examples.console.library import Library, Place
from examples.console.settings import KEPT_DAYS, SettingsError
from generated_vmm.process import AsyncJailedMonitor, AsyncMonitor
from generated_vmm.process.settings import CommonOptions


@dataclass(frozen=True, slots=True)
class Launch:
    """How monitors are started: the program, and the folder for their files.

    With `outlive`, they continue when the console ends, and the next console attaches to them.
    Events are stored for `kept_days`. `images` has the folders `kernels` and `disks`,
    `snapshot_folder` the snapshots; the default for all is `folder`. New machines are jailed if
    there is a `jailer`.
    """

    binary: Sequence[str]
    folder: Path
    outlive: bool
    kept_days: int = KEPT_DAYS
    images: Path | None = None
    snapshot_folder: Path | None = None
    jailer: str | None = None

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
        """The suggested folder for snapshots."""
        return self.snapshot_folder or self.folder / "snapshots"

    @property
    def disks(self) -> Path:
        """The folder for disks that belong to one machine."""
        return self.folder / "disks"

    def library(self, suggestions: Mapping[str, str]) -> Library:
        """Its files, with those that the settings name. Raises SettingsError."""
        kernel = suggestions.get("boot_source.kernel_image_path")
        disk = suggestions.get("root_drive.path_on_host")
        given: dict[Place, list[Path]] = {
            "kernels": [Path(kernel)] if kernel else [],
            "disks": [Path(disk)] if disk else [],
        }
        images = self.images or self.folder / "images"
        try:
            library = Library(images, self.disks, self.snapshots, given)
            self._require_one_file_system()
        except OSError as error:
            raise SettingsError(f"{error.filename} cannot be used: {error.strerror}") from error
        return library

    @property
    def jails(self) -> Path:
        """The folder with the jails."""
        return self.folder / "jails"

    def _require_one_file_system(self) -> None:
        """Raises SettingsError if jails cannot have links to snapshots."""
        if self.jailer and self.snapshots.stat().st_dev != self.disks.stat().st_dev:
            raise SettingsError(
                f"{self.snapshots} is on another file system than {self.folder}: no jail can write "
                "to it. Move one of them, or jail no machines: JAILER_BIN= (empty)"
            )

    def directory(self, name: str, uid: int) -> Path:
        """The folder of one monitor, which runs as user `uid` in a jail; 0 is unjailed."""
        if not uid:
            return self.machines / name
        program = os.path.realpath(shutil.which(self.binary[0]) or self.binary[0])
        return self.jails / os.path.basename(program) / name

    def socket(self, name: str, uid: int) -> Path:
        """The socket of its API, as this process sees it."""
        folder = self.directory(name, uid)
        return (folder / "root" if uid else folder) / "api.socket"

    def monitor(self, name: str, kept: Kept) -> AsyncMonitor:
        """A monitor that is not yet started. Raises ValueError for a path that is too long."""
        options: CommonOptions = {"enable_pci": kept.has_pci, "detached": self.outlive}
        if not kept.uid:
            directory = self.directory(name, 0)
            return AsyncMonitor(self.binary, id=name, directory=directory, **options)
        return AsyncJailedMonitor(
            self.jailer or "jailer",
            self.binary[0],
            id=name,
            uid=kept.uid,
            gid=kept.uid,
            chroot_base_dir=self.jails,
            **options,
        )

    async def attach(self, name: str, uid: int) -> AsyncMonitor:
        """The monitor that an earlier console left running. Raises MonitorError."""
        kind = AsyncJailedMonitor if uid else AsyncMonitor
        return await kind.attach(self.directory(name, uid))

    def console(self, name: str) -> Path:
        """The file with the output of a machine's guest."""
        return self.folder / "consoles" / f"{name}.log"

    def vsock(self, name: str, uid: int) -> Path:
        """The suggested socket of a machine's vsock, as its monitor sees it."""
        return Path("/vsock.socket") if uid else self.directory(name, 0) / "vsock.socket"

    def stem(self, name: str) -> str:
        """A prefix for the names of new files of a machine, which no file has."""
        begin = f"{name}-{datetime.now(UTC):%Y%m%d-%H%M%S}"
        numbered = (f"{begin}-{number}" for number in count(2))
        return next(stem for stem in chain([begin], numbered) if not self._is_used(stem))

    def _is_used(self, stem: str) -> bool:
        folders = (self.snapshots, self.disks)
        return any(True for folder in folders for _ in folder.glob(f"{stem}*"))

    def suggestions(self, name: str, uid: int) -> Mapping[str, str]:
        """Texts for the empty forms of a machine, by `section.field`."""
        new = self.snapshots / self.stem(name)
        return {
            "named_snapshot.name": new.name,
            "vsock.uds_path": str(self.vsock(name, uid)),
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
        """The files of the newest snapshot of all machines, to restore; empty if there is none."""
        found = list(self.snapshots.glob("*.memory"))
        if not found:
            return {}
        memory = max(found, key=os.path.getmtime)
        return self.files_of(memory.stem)

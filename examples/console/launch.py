"""How the machines of this console are started, and where its files are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from examples.console.library import Library, Place
from examples.console.settings import KEPT_DAYS, SettingsError


@dataclass(frozen=True, slots=True)
class Launch:
    """The program of the monitors, and the folder of machines and records.

    With `outlive`, machines continue when the console ends, and the next console attaches to them.
    Events are stored for `kept_days`. `images` has the folders `kernels` and `disks`; the default
    is in `folder`. New machines are jailed if there is a `jailer`.
    """

    binary: Sequence[str]
    folder: Path
    outlive: bool
    kept_days: int = KEPT_DAYS
    images: Path | None = None
    jailer: str | None = None

    @property
    def is_simulated(self) -> bool:
        """Whether the program is the simulated monitor, which is a module of Python."""
        return len(self.binary) > 1

    def library(self, suggestions: Mapping[str, str]) -> Library:
        """Its files, with those that the settings name. Raises SettingsError."""
        kernel = suggestions.get("boot_source.kernel_image_path")
        disk = suggestions.get("root_drive.path_on_host")
        given: dict[Place, list[Path]] = {
            "kernels": [Path(kernel)] if kernel else [],
            "disks": [Path(disk)] if disk else [],
        }
        try:
            return Library(self.images or self.folder / "images", given)
        except OSError as error:
            raise SettingsError(f"{error.filename} cannot be used: {error.strerror}") from error

    @property
    def machines(self) -> Path:
        """The folder of `generated_vmm.machines`, which has no other files."""
        return self.folder / "machines"

    def console(self, machine: str) -> Path:
        """The file with the output of a machine's guest."""
        return self.folder / "consoles" / f"{machine}.log"

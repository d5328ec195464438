"""How the monitors of all machines of a folder are started."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias, TypedDict

from generated_vmm.misuse import require_kind, require_list, tell_unit

HostPath: TypeAlias = str | os.PathLike[str]


class MachinesOptions(TypedDict, total=False):
    """The programs, the files that machines may use, and the limits of time, in seconds.

    `files` are files and folders of the host; machines may use no other files than these and their
    own. None: they may use any. If `detached`, monitors outlive this program. `timeout` is for a
    monitor to respond after its start, `grace` for a guest to shut down, and `snapshot_timeout` for
    writing or reading the memory of a machine. `Options` has the defaults.
    """

    binary: HostPath | Sequence[HostPath]
    jailer: HostPath
    files: Sequence[HostPath] | None
    detached: bool
    timeout: float
    grace: float
    snapshot_timeout: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """The options of a folder of machines, with their defaults."""

    binary: HostPath | Sequence[HostPath] = "firecracker"
    jailer: HostPath = "jailer"
    files: Sequence[HostPath] | None = None
    detached: bool = True
    timeout: float = 10.0
    grace: float = 5.0
    snapshot_timeout: float = 600.0

    def __post_init__(self) -> None:
        """Raises TypeError for a text as `files`: its letters have "/", which is every file.

        Raises ValueError for a limit that is no number.
        """
        require_list("files", self.files, "a list of files and folders")
        for name in ("timeout", "grace", "snapshot_timeout"):
            require_kind(name, seconds := getattr(self, name), "a number of seconds", int, float)
            tell_unit(name, seconds)

    @property
    def program(self) -> str:
        """The monitor's program, without its first arguments."""
        binary = self.binary
        return os.fspath(binary if isinstance(binary, str | os.PathLike) else binary[0])

    def require_allowed(self, path: str) -> Path:
        """The file, without links in its path. Raises ValueError unless machines may use it."""
        found = Path(path).resolve()
        allowed = [found] if self.files is None else [Path(each).resolve() for each in self.files]
        if not any(found.is_relative_to(each) for each in allowed):
            raise ValueError(f"{path} is in none of the folders whose files machines may use")
        return found

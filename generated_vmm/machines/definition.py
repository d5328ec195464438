"""What a caller decides: what a machine is made of, and how all of a folder are started."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final, Literal, NamedTuple, TypeAlias, TypedDict

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, JsonValue, model_validator

from generated_vmm import FullVmConfiguration

OWN_DISKS: Final = "disks/"
"""Paths that begin so are relative: they name files in the machine's own folder, or in its jail."""
BOOT_FILES: Final = ("kernel_image_path", "initrd_path")
RestartPolicy: TypeAlias = Literal["never", "on-failure", "always"]


class Frozen(BaseModel):
    """A value that is compared by its members and never changes."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Jail(Frozen):
    """The jail of a machine; needs root. The members are options of `JailedMonitor`.

    If `uid` is None, the machine gets a user id that no other machine of the folder has.
    """

    uid: int | None = Field(default=None, ge=1)
    netns: str | None = None
    cgroups: Mapping[str, str] = {}
    cgroup_version: Literal[1, 2] = 2
    parent_cgroup: str | None = None
    resource_limits: Mapping[Literal["fsize", "no-file"], int] = {}
    new_pid_ns: bool = False


class TapDevice(Frozen):
    """A tap device that exists while the machine runs; see `process.network.Tap`.

    `address` is the host's address on it, with its prefix.
    """

    name: str
    address: str | None = None
    bridge: str | None = None
    nat: bool = False


Copied: TypeAlias = Annotated[
    FullVmConfiguration, AfterValidator(lambda given: given.model_copy(deep=True))
]
"""A copy, so that later changes of the caller's model do not change a definition."""


class Definition(Frozen):
    """A machine: its devices, its jail, and when it is started.

    `configuration` has kernel, drives, network interfaces, vsock and the other devices, as the
    monitor shows them, and also `cpu_config` and `logger`, which it does not show. Without a root
    device and an initrd, most kernels panic: nothing reports it, but `start` emits a RuntimeWarning
    if there are disks and `boot_args` has no `root=`. `metadata` is the document of
    MMDS, which a guest reads only with `mmds_config`. The machine creates its `taps`. With
    `autostart` it starts with the host; machines with a smaller `order` start first. `restart` says
    what happens after its monitor has ended: nothing, a restart unless the exit status was 0, or a
    restart always. Only `reconcile`, called about every second, starts machines by `autostart` and
    `restart`. `agent` is the vsock port of the guest's agent (`generated_vmm.guest`); None if it
    has none.
    """

    configuration: Copied = Field(default_factory=FullVmConfiguration)
    metadata: dict[str, JsonValue] | None = None
    enable_pci: bool = False
    jail: Jail | None = None
    taps: tuple[TapDevice, ...] = ()
    autostart: bool = False
    order: int = 0
    restart: RestartPolicy = "never"
    agent: int | None = Field(default=None, ge=1, strict=True)

    @model_validator(mode="after")
    def _is_possible(self) -> Definition:
        made = self.configuration
        if self.agent is not None and made.vsock is None:
            raise ValueError("an agent is reached over a vsock device: there is none")
        taps = [one.host_dev_name for one in made.network_interfaces or []]
        if len(set(taps)) < len(taps):
            raise ValueError(f"each interface needs a tap of its own: {', '.join(taps)}")
        return self

    def replace(self, **members: object) -> Definition:
        """The definition with other members. Raises `pydantic.ValidationError`."""
        try:
            return Definition.model_validate({**dict(self), **members})
        except ValueError as error:
            error.add_note(f"Definition has {', '.join(Definition.model_fields)}")
            raise

    @property
    def can_boot(self) -> bool:
        """Whether there is a kernel."""
        source = self.configuration.boot_source
        return source is not None and bool(source.kernel_image_path)


def require_definition(given: object) -> None:
    """Raises TypeError for anything else, such as a mapping."""
    if not isinstance(given, Definition):
        kind = type(given).__name__
        raise TypeError(f"definition is a {kind}: write Definition(configuration=..., ...)")


class File(NamedTuple):
    """A file that a monitor opens at its start, and the member of a device that names it.

    `id` is that of the drive or persistent memory; the kernel and the initial RAM disk have none.
    """

    id: str
    device: BaseModel
    member: str
    is_read_only: bool

    @property
    def path(self) -> str:
        """The file's path; relative if it is the machine's own."""
        return getattr(self.device, self.member) or ""

    @property
    def is_shared(self) -> bool:
        """Whether other machines may use the file too: it is not the machine's own, nor written."""
        return self.is_read_only and self.path.startswith("/")


def files_of(configuration: FullVmConfiguration) -> list[File]:
    """All files that a monitor opens at its start."""
    source = configuration.boot_source
    found = [File("", source, name, True) for name in BOOT_FILES] if source else []
    for drive in configuration.drives or []:
        found.append(File(drive.drive_id, drive, "path_on_host", bool(drive.is_read_only)))
    for pmem in configuration.pmem or []:
        found.append(File(pmem.id, pmem, "path_on_host", bool(pmem.read_only)))
    return [file for file in found if file.path]


def disks_of(configuration: FullVmConfiguration) -> list[File]:
    """The files of drives and of persistent memory."""
    return [file for file in files_of(configuration) if file.id]


def used_disks(configuration: FullVmConfiguration) -> set[tuple[str, str, bool]]:
    """The disks by name, path, and whether they are only read."""
    return {(disk.id, disk.path, disk.is_read_only) for disk in disks_of(configuration)}


def with_files(
    configuration: FullVmConfiguration, path_of: Callable[[File], str]
) -> FullVmConfiguration:
    """A copy of the configuration with other files."""
    made = configuration.model_copy(deep=True)
    for file in files_of(made):
        setattr(file.device, file.member, path_of(file))
    return made


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


class Options(Frozen):
    """The options of a folder of machines, with their defaults. Raises `ValidationError`."""

    binary: HostPath | Sequence[HostPath] = "firecracker"
    jailer: HostPath = "jailer"
    files: Sequence[HostPath] | None = None
    detached: bool = True
    timeout: float = 10.0
    grace: float = 5.0
    snapshot_timeout: float = 600.0

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

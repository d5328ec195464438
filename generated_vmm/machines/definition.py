"""What a machine is made of, as one value."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import Final, Literal, NamedTuple, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, JsonValue, field_validator, model_validator

from generated_vmm import FullVmConfiguration, NetworkInterface, SerialDevice

OWN_DISKS: Final = "disks/"
"""Paths that begin so are relative: they name files in the machine's own folder, or in its jail."""
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


class Definition(Frozen):
    """A machine: its devices, its jail, and when it is started.

    `configuration` has kernel, drives, network interfaces, vsock and the other devices, as the
    monitor shows them, and also `cpu_config` and `logger`, which it does not show. `metadata` is
    the document of MMDS. The machine creates its `taps`. With `autostart` it starts with the host;
    machines with a smaller `order` start first. `restart` says what happens after its monitor has
    ended: nothing, a restart unless the exit status was 0, or a restart always. `agent` is the
    vsock port of the guest's agent (`generated_vmm.guest`); None if it has none.
    """

    configuration: FullVmConfiguration = Field(default_factory=FullVmConfiguration)
    metadata: dict[str, JsonValue] | None = None
    serial: SerialDevice | None = None
    enable_pci: bool = False
    jail: Jail | None = None
    taps: tuple[TapDevice, ...] = ()
    autostart: bool = False
    order: int = 0
    restart: RestartPolicy = "never"
    agent: int | None = Field(default=None, ge=1)

    @field_validator("configuration")
    @classmethod
    def _of_its_own(cls, configuration: FullVmConfiguration) -> FullVmConfiguration:
        """A copy, so that later changes of the caller's model do not change this value."""
        return configuration.model_copy(deep=True)

    @model_validator(mode="after")
    def _reaches_its_agent(self) -> Definition:
        if self.agent is not None and self.configuration.vsock is None:
            raise ValueError("an agent is reached over a vsock device: there is none")
        return self

    def replace(self, **members: object) -> Definition:
        """The definition with other members. Raises `pydantic.ValidationError`."""
        return Definition.model_validate({**dict(self), **members})

    @property
    def can_boot(self) -> bool:
        """Whether there is a kernel."""
        source = self.configuration.boot_source
        return source is not None and bool(source.kernel_image_path)


class Disk(NamedTuple):
    """A file of a drive or of persistent memory."""

    id: str
    path: str
    is_read_only: bool


def disks_of(configuration: FullVmConfiguration) -> list[Disk]:
    """The disks and the persistent memory that have a file."""
    drives = configuration.drives or []
    found = [Disk(one.drive_id, one.path_on_host or "", bool(one.is_read_only)) for one in drives]
    found += [
        Disk(one.id, one.path_on_host, bool(one.read_only)) for one in configuration.pmem or []
    ]
    return [one for one in found if one.path]


def read_only_files(configuration: FullVmConfiguration) -> list[str]:
    """The kernel, the initial RAM disk, and the disks that are only read."""
    source = configuration.boot_source
    boot = [source.kernel_image_path, source.initrd_path or ""] if source else []
    return [one for one in boot if one] + [
        one.path for one in disks_of(configuration) if one.is_read_only
    ]


def files_of(configuration: FullVmConfiguration) -> list[str]:
    """All files that a monitor opens at its start."""
    written = [one.path for one in disks_of(configuration) if not one.is_read_only]
    return read_only_files(configuration) + written


def with_paths(configuration: FullVmConfiguration, paths: Mapping[str, str]) -> FullVmConfiguration:
    """The configuration with other files, by the id of the drive or persistent memory."""
    made = configuration.model_copy(deep=True)
    for drive in made.drives or []:
        if drive.drive_id in paths:
            drive.path_on_host = paths[drive.drive_id]
    for device in made.pmem or []:
        if device.id in paths:
            device.path_on_host = paths[device.id]
    return made


def with_absolute_files(
    configuration: FullVmConfiguration, own: Collection[str]
) -> FullVmConfiguration:
    """The configuration with paths that do not depend on this process's folder, except `own`."""
    absolute = {
        path: path if path in own else os.path.abspath(path) for path in files_of(configuration)
    }
    disks = {one.id: absolute[one.path] for one in disks_of(configuration)}
    made = with_paths(configuration, disks)
    if made.boot_source is not None:
        made.boot_source.kernel_image_path = absolute.get(made.boot_source.kernel_image_path, "")
        if made.boot_source.initrd_path:
            made.boot_source.initrd_path = absolute[made.boot_source.initrd_path]
    return made


def in_order(shown: FullVmConfiguration, before: FullVmConfiguration) -> FullVmConfiguration:
    """What a monitor shows, with the drives and interfaces in the order in which they were added.

    A guest names them by their order; a monitor that has started shows them by their names. What
    no monitor shows (`cpu_config`, `logger`), or not after a restore (`boot_source`), stays.
    """
    made = shown.model_copy(deep=True)
    source = made.boot_source
    if source is None or not source.kernel_image_path:
        made.boot_source = before.boot_source
    made.cpu_config, made.logger = before.cpu_config, before.logger
    drives = [drive.drive_id for drive in before.drives or []]
    interfaces = [one.iface_id for one in before.network_interfaces or []]
    made.drives = sorted(made.drives or [], key=lambda one: _place(drives, one.drive_id))
    made.network_interfaces = sorted(
        made.network_interfaces or [], key=lambda one: _place(interfaces, _id_of(one))
    )
    return made


def _id_of(interface: NetworkInterface) -> str:
    return interface.iface_id


def _place(known: list[str], name: str) -> int:
    return known.index(name) if name in known else len(known)

# Derived from `generated_vmm/machines/_async/making.py` by `make codegen`. Do not edit.
"""Machines that are started, created, or made of the memory of another one."""

from __future__ import annotations

import logging
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path
from typing import Any, Final, TypedDict

from generated_vmm import FullVmConfiguration, MemoryBackend, NetworkOverride, VmmClient
from generated_vmm.concurrency._sync import in_thread
from generated_vmm.machines import records
from generated_vmm.machines._sync.held import Control, Held
from generated_vmm.machines._sync.operation import (
    MEMORY,
    STATE,
    carry_out,
    conform,
    recorded,
    written,
)
from generated_vmm.machines.records import OWN_DISKS, Definition, MachineError, disks_of, files_of
from generated_vmm.machines.store import copy_file, take_over

logger = logging.getLogger(__name__)


class CopyOptions(TypedDict, total=False):
    """How a copy differs from its origin.

    `taps` names a tap device for each network interface, which the two cannot share. Without `run`,
    the copy stays paused. `by` says who wants it.
    """

    taps: Mapping[str, str]
    run: bool
    by: str


RESOURCES: Final = {
    "logger": "logger",
    "machine_config": "machine_config",
    "cpu_config": "cpu_config",
    "boot_source": "boot_source",
    "drives": "drive",
    "network_interfaces": "network_interface",
    "pmem": "pmem",
    "vsock": "vsock",
    "entropy": "entropy",
    "balloon": "balloon",
    "memory_hotplug": "hotplug_memory",
    "mmds_config": "mmds.config",
}
"""The members of the client for those of a configuration, in the order that a monitor needs."""


def furnish(vm: VmmClient, definition: Definition) -> None:
    """Sends the definition to a monitor that has none, without booting it; raises VmmError."""
    for member, name in RESOURCES.items():
        value = getattr(definition.configuration, member)
        for one in value if isinstance(value, list) else [value]:
            if one is not None:
                resource = attrgetter(name)(vm)
                ids = [getattr(one, id) for id in one.ids_in_path]
                (resource(*ids) if ids else resource).set(one)
    if definition.metadata is not None:
        vm.mmds.set(definition.metadata)


def start(held: Held) -> None:
    """Starts and configures the monitor, unless it runs, and commits to boot its guest."""
    if held.is_up:
        return held._require("Running", "Ended")
    held._step("starts the monitor")
    in_thread(held._store.tidy_disks, held.record)
    vm = held._launch()
    held._step("configures the monitor")
    furnish(vm, held.record.definition)
    known = {"boot": records.boot_id(), "retry_at": None, "agent_error": ""}
    held._commit("boots the guest", should_be="Running", started_at=records.now(), **known)


def start_again(held: Held) -> None:
    """Starts a machine that should run; the next attempt, after a failure, is stored first."""
    operation, failures = held._begun("start", "restart policy"), held.record.failures + 1
    retry_at = records.next_try(failures, records.now())
    held._change(failures=failures, retry_at=retry_at)
    with recorded(held, operation):
        start(held)
    report = records.Report(what="started", machine=held.id, name=operation.name)
    held._control._reports.append(report)


def with_copies(held: Held, definition: Definition, known: Collection[str] = ()) -> Definition:
    """The definition with copies, in the machine's folder, of disks that it writes to.

    The `known` ones have been copied. Other paths do not depend on this process's folder any more.
    Raises ValueError for a disk that it may not use or that is no regular file, and OSError.
    """
    held._step("copies the disks")
    made = definition.configuration.model_copy(deep=True)
    for file in [one for one in files_of(made) if one.path not in known]:
        path = in_thread(os.path.abspath, file.path)
        if not file.is_read_only:
            source, path = held._control._require_allowed(path), f"{OWN_DISKS}{records.new_id()}"
            in_thread(copy_file, source, held._folder / path)
        setattr(file.device, file.member, path)
    return definition.replace(configuration=made)


@dataclass(frozen=True, slots=True)
class Wish:
    """A copy that somebody wants; see `CopyOptions`."""

    name: str
    taps: Mapping[str, str] = field(default_factory=dict)
    run: bool = True
    by: str = ""

    def made_of(self, origin: Definition) -> Definition:
        """The definition of a machine that continues from the memory of another one.

        Relative paths lead to its own disks and vsock socket. Raises `MachineError` unless each
        network interface has another tap device.
        """
        made = origin.configuration.model_copy(deep=True)
        for interface in made.network_interfaces or []:
            if interface.iface_id not in self.taps:
                raise MachineError(f"name a tap device for {interface.iface_id}")
            interface.host_dev_name = self.taps[interface.iface_id]
        return origin.replace(configuration=made, taps=(), autostart=False)


def restore(control: Control, origin: records.SnapshotRecord, wish: Wish) -> Held:
    """Makes a machine that continues from a snapshot, with copies of its disks."""
    operation = records.creation("restore", wish.name, wish.by)
    held, source = Held(control, operation.machine), control._store.snapshots.path(origin.id)
    with carry_out(held, operation, wish.made_of(origin.definition)):
        held._step("copies the disks")
        for path in set(origin.definition.own_disks.values()):
            in_thread(copy_file, source / path, held._folder / path)
        for name in (STATE, MEMORY):
            os.link(source / name, held._folder / name)
        _continue(held, origin.machine_name, wish)
    return held


def clone(origin: Held, wish: Wish) -> Held:
    """Makes a machine that continues from the present state of another one."""
    new = records.creation("clone", wish.name, wish.by)
    held = Held(origin._control, new.machine)
    operation = origin._begun("clone", wish.by, held.id, wish.name)
    with carry_out(origin, operation):
        made = wish.made_of(origin.record.definition)
        # a part of what has begun, which `close` lets come to its end
        with held._control._turn(held.id), recorded(held, new, made):
            write_down(origin, operation, held._folder)
            origin._step("starts the clone")
            _continue(held, operation.name, wish)
    return held


def _continue(held: Held, origin: str, wish: Wish) -> None:
    """Loads the memory in the folder of a new machine, which appears with its own identity."""
    held._step("starts the monitor")
    _load(held, wish)
    if held.record.definition.agent is not None:
        held._step("gets an identity")
        held.client.resume()
        with held.guest() as guest:  # raises if anything has run before
            if (guest.wait_until_ready(guest.timeout)).isolated:
                guest.renew_identity(hostname=wish.name, release=True)
    else:
        what = "%s has the machine id, SSH keys and random numbers of %s: it has no agent"
        logger.warning(what, wish.name, origin)
    state = "Running" if wish.run else "Paused"
    held._commit("appears", should_be=state, started_at=records.now())


def _load(held: Held, wish: Wish) -> None:
    """Starts a machine from `state` and `memory` in its folder, paused.

    A client for an older release lacks some members, and refuses them: unneeded ones are not set.
    Raises VmmError, OSError and ValueError.
    """
    record, vm = held.record, held._launch()
    files = [held._folder / name for name in (STATE, MEMORY)]
    for file in files:
        if record.uid:  # a link, which every jail that continues from it may read
            file.chmod(0o644)
        held._admit(file.name, writable=False)
    held._step("loads the memory")
    machine = record.definition.configuration.machine_config
    given: dict[str, Any] = {
        "snapshot_path": STATE,
        "mem_backend": MemoryBackend(backend_type="File", backend_path=MEMORY),
        "track_dirty_pages": machine is not None and machine.track_dirty_pages,
        "network_overrides": [
            NetworkOverride(iface_id=name, host_dev_name=tap) for name, tap in wish.taps.items()
        ],
    }
    loading = vm.with_options(timeout=held._control.snapshot_timeout)
    loading.snapshot.load(**{name: value for name, value in given.items() if value})
    if record.definition.metadata is not None and record.definition.configuration.mmds_config:
        vm.mmds.set(record.definition.metadata)
    for file in files:  # the monitor has both open: their blocks are free when it ends
        file.unlink()


def write_down(held: Held, operation: records.Operation, folder: Path) -> None:
    """Writes the memory and copies of the disks to a folder.

    The machine is paused meanwhile, and runs again afterwards if it ran. Raises VmmError, OSError,
    ValueError, and `MachineError` if the monitor has other disks than the definition.
    """
    held._require("Running", "Paused")
    record, vm = held.record, held.client
    if _used(vm.vm_config.get()) != _used(record.definition.configuration):
        what = f"{record.name} runs with other disks than its definition: start it again"
        raise MachineError(what)  # the memory of a copy would lead it to those
    if record.definition.agent is not None:
        held._require("Running")
        held._step("holds the guest")
        with held.guest() as guest:  # it stands still in a copy too, until it is renewed
            guest.hold()
    if record.should_be == "Running":
        held._step("pauses the machine")
        vm.pause()
    held._step("writes the memory")
    files = written(held, operation)
    vm.with_options(timeout=held._control.snapshot_timeout).snapshot.create(
        snapshot_path=files[STATE].name, mem_file_path=files[MEMORY].name, snapshot_type="Full"
    )
    for name, file in files.items():
        in_thread(take_over, file, folder / name)
    held._step("copies the disks")
    for path in set(record.definition.own_disks.values()):
        in_thread(copy_file, held._folder / path, folder / path)
    held._step("resumes the machine")
    conform(held)


def _used(configuration: FullVmConfiguration) -> set[tuple[str, str, bool]]:
    """The disks by name, path, and whether they are only read."""
    return {(disk.id, disk.path, disk.is_read_only) for disk in disks_of(configuration)}

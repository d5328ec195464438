"""Configuring and starting a microVM: boot source, machine configuration, actions, state."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from typing import Final

from generated_vmm.testing.description import Json
from generated_vmm.testing.host import open_once, refusing, require_file, size_of
from generated_vmm.testing.machine import (
    AFTER_START,
    BEFORE_START,
    MIB,
    Fault,
    Machine,
    Members,
    Phase,
)
from generated_vmm.testing.resources import changed
from generated_vmm.testing.rule import Call, action, check, early_check

NO_SOURCE: Final = "Boot source error: "
MAX_VCPUS: Final = 32
MAX_COMMAND_LINE: Final = 2048
MAX_MEMORY_MIB: Final = 1 << 27
MAX_HOTPLUG_BYTES: Final = 512 << 30


@action("GET /")
def describe(machine: Machine) -> Json:
    """Show the process and the state of its guest."""
    return {
        "id": machine.options.instance_id,
        "state": machine.phase.value,
        "vmm_version": machine.options.version,
        "app_name": "Firecracker",
    }


@action("GET /version")
def get_version(machine: Machine) -> Json:
    """Show the monitor's version."""
    return {"firecracker_version": machine.options.version}


@action("GET /vm/config")
def get_full_config(machine: Machine) -> Json:
    """Show the whole configuration; missing parts are null."""
    return machine.config()


@check("PUT /boot-source")
def require_kernel(machine: Machine, kernel_image_path: str) -> None:
    """Refuse a kernel that cannot be opened."""
    require_file(machine, kernel_image_path, f"{NO_SOURCE}The kernel file cannot be opened: {{}}")


@check("PUT /boot-source")
def require_initrd(machine: Machine, initrd_path: str | None) -> None:
    """Refuse an initrd that cannot be opened."""
    reason = "due to invalid path or invalid permissions. {}"
    require_file(machine, initrd_path, f"{NO_SOURCE}The initrd file cannot be opened {reason}")


@check("PUT /boot-source")
def require_short_command_line(boot_args: str | None) -> None:
    """Refuse a command line that is too long, with the monitor's own additions."""
    if len((boot_args or "").encode()) >= MAX_COMMAND_LINE:
        reason = "Invalid cmdline capacity provided."
        raise Fault(f"{NO_SOURCE}The kernel command line is invalid: {reason}")


@check("PUT /boot-source")
def note_kernel(machine: Machine) -> None:
    """Remember that a kernel was set."""
    machine.has_kernel = True


@early_check("PATCH /machine-config")
def refuse_empty(call: Call) -> None:
    """Refuse a PATCH that sets nothing."""
    if all(value is None for value in call.body.values()):
        raise Fault("Empty PATCH request.")


@check("PATCH /machine-config")
def complete(machine: Machine, call: Call) -> None:
    """Take fields that the PATCH does not set from the current configuration."""
    call.body = changed(machine, call, machine.resources.get(call.resource, {}))


@check("PUT /machine-config", "PATCH /machine-config")
def choose_template(machine: Machine, call: Call, cpu_template: str | None) -> None:
    """An absent CPU template leaves the current one; `None` removes it."""
    template = cpu_template or machine.value("/machine-config", "cpu_template")
    call.body["cpu_template"] = None if template == "None" else template


@check("PUT /machine-config", "PATCH /machine-config")
def require_vcpus(vcpu_count: int, smt: bool = False) -> None:
    """Refuse a number of vCPUs that the monitor does not support."""
    if not 1 <= vcpu_count <= MAX_VCPUS or (smt and vcpu_count > 1 and vcpu_count % 2):
        raise Fault(
            "Machine config error: The number of vCPUs must be greater than 0, less than "
            f"{MAX_VCPUS} and must be 1 or an even number if SMT is enabled."
        )


@check("PUT /machine-config", "PATCH /machine-config")
def require_memory(machine: Machine, mem_size_mib: int, huge_pages: str = "None") -> None:
    """Refuse a memory size of 0, with part of a page, or below that of the balloon."""
    if not mem_size_mib or (huge_pages == "2M" and mem_size_mib % 2):
        raise Fault(
            "Machine config error: The memory size (MiB) is either 0, or not a multiple of "
            "the configured page size."
        )
    if mem_size_mib < machine.value("/balloon", "amount_mib", 0):
        raise Fault(
            "Machine config error: The memory size (MiB) is smaller than the previously set "
            "balloon device target size."
        )


@action("PATCH /machine-config")
def patch_machine_config(machine: Machine, call: Call) -> None:
    """Store the configuration, which the checks have completed."""
    machine.resources[call.resource] = call.body


@action("PUT /cpu-config")
def drop_static_template(machine: Machine) -> None:
    """A custom template replaces a static one; /vm/config does not show it."""
    machine.resources.get("/machine-config", {}).pop("cpu_template", None)


@action("PATCH /vm")
def change_state(machine: Machine, state: str) -> None:
    """Pause or resume the guest; the same state twice changes nothing."""
    machine.phase = Phase.PAUSED if state == "Paused" else Phase.RUNNING


@action("PUT /actions")
def act(machine: Machine, action_type: str) -> None:
    """Start before the guest runs; flush metrics and press Ctrl+Alt+Del after."""
    if (action_type == "InstanceStart") == machine.started:
        raise Fault(AFTER_START if machine.started else BEFORE_START)
    if action_type == "InstanceStart":
        start(machine)
    elif action_type == "FlushMetrics":
        machine.flush_metrics()
    elif action_type == "SendCtrlAltDel":
        machine.reset()


def start(machine: Machine) -> None:
    """Boot the guest. Raises `Fault` if something prevents it; the start may be tried again."""
    for reason in _obstacles(machine):
        raise Fault(f"Start microvm error: {reason}")
    machine.start()


def _obstacles(machine: Machine) -> Iterator[str]:
    """Why the guest cannot start, in the order in which the monitor checks."""
    if not machine.has_kernel:
        yield "Cannot start microvm without kernel configuration."
    if machine.value("/machine-config", "mem_size_mib", 0) > MAX_MEMORY_MIB:
        yield (
            "Invalid Memory Configuration: Cannot create mmap region: "
            "Cannot allocate memory (os error 12)"
        )
    total = machine.value("/hotplug/memory", "total_size_mib")
    if total is not None:
        # Memory to be plugged in needs addresses, which the monitor counts in 64 bits.
        size = total * MIB % (1 << 64)
        if size == 0:
            yield "Failed to allocate guest resource: The specified size: 0 is not valid."
        if size > MAX_HOTPLUG_BYTES:
            yield "Failed to allocate guest resource: The requested resource is not available."
    if machine.options.check_files:
        yield from _obstacles_on_host(machine)


def _obstacles_on_host(machine: Machine) -> Iterator[str]:
    serial = machine.value("/serial", "serial_out_path")
    if serial is not None:
        with refusing(
            "Start microvm error: Failed to create device manager: Error with EventFd: {}"
        ):
            machine.outlets.open_serial(serial)
    initrd = machine.value("/boot-source", "initrd_path")
    if initrd is not None:
        yield from _obstacles_of_initrd(initrd, machine)
    try:
        for device in machine.devices("/pmem").values():
            require_pmem_file(device, "Start microvm error: Cannot create pmem device: {}")
    except Fault:
        # By then the interfaces are active, and their tap devices remain in use.
        interfaces = machine.devices("/network-interfaces").values()
        machine.held_taps |= {str(one.get("host_dev_name")) for one in interfaces}
        raise


def _obstacles_of_initrd(path: str, machine: Machine) -> Iterator[str]:
    refusal = "Error with initrd initialization: "
    if os.path.isdir(path):
        reason = "Is a directory (os error 21)."
        yield f"{refusal}Cannot load initrd due to an invalid image: {reason}"
    if size_of(path) == 0:
        yield f"{refusal}Cannot load initrd due to an invalid memory configuration.."
    if size_of(path) > machine.value("/machine-config", "mem_size_mib", MAX_MEMORY_MIB) * MIB:
        yield f"{refusal}Failed to compute the initrd address.."


def require_pmem_file(device: Members, refusal: str) -> None:
    """Refuse a pmem device whose file cannot be used; `{}` is replaced by the reason."""
    path = device.get("path_on_host")
    if path is None:
        return
    with refusing(refusal.replace("{}", "Error accessing backing file: {}")):
        open_once(path, os.O_RDONLY if device.get("read_only") else os.O_RDWR)
        if os.path.isdir(path):
            raise OSError(errno.ENODEV, "no file")
    if size_of(path) == 0:
        raise Fault(refusal.replace("{}", "Error backing file size is 0"))

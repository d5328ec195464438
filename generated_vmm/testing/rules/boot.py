"""Boot source, machine configuration, start, pause, resume: the rules a microVM boots by."""

from __future__ import annotations

import os
from typing import Final

from generated_vmm.testing.description import Json
from generated_vmm.testing.machine import Fault, Machine, Members, Phase
from generated_vmm.testing.rule import Call, rule
from generated_vmm.testing.rules.host_files import (
    is_directory,
    open_fault,
    require_file,
    size_of,
    system_reason,
)

MAX_VCPUS: Final = 32
MAX_COMMAND_LINE: Final = 2048
MIB: Final = 1 << 20
MAX_MEMORY_MIB: Final = 1 << 27
MAX_HOTPLUG_BYTES: Final = 512 << 30
BEFORE_START: Final = "The requested operation is not supported before starting the microVM."
AFTER_START: Final = "The requested operation is not supported after starting the microVM."
NO_INITRD: Final = "Start microvm error: Error with initrd initialization: "


@rule("GET /")
def describe(machine: Machine, call: Call) -> Json:
    """Which process this is and what its guest does."""
    return {
        "id": machine.options.instance_id,
        "state": machine.phase.value,
        "vmm_version": machine.options.version,
        "app_name": "Firecracker",
    }


@rule("GET /version")
def get_version(machine: Machine, call: Call) -> Json:
    """The monitor's version."""
    return {"firecracker_version": machine.options.version}


@rule("GET /vm/config")
def get_full_config(machine: Machine, call: Call) -> Json:
    """Everything that has been configured; null for what is not there."""
    return machine.config | {"machine-config": get_machine_config(machine, call)}


@rule("PUT /boot-source")
def put_boot_source(machine: Machine, call: Call) -> None:
    """Both files are opened at once; a refused boot source leaves the one there was."""
    kernel, initrd = call.body["kernel_image_path"], call.body["initrd_path"]
    no_kernel = "Boot source error: The kernel file cannot be opened: {}"
    require_file(machine.options, kernel, no_kernel)
    if initrd is not None:
        no_initrd = (
            "Boot source error: The initrd file cannot be opened due to invalid path or "
            "invalid permissions. {}"
        )
        require_file(machine.options, initrd, no_initrd)
    if len((call.body["boot_args"] or "").encode()) >= MAX_COMMAND_LINE:
        raise Fault(
            "Boot source error: The kernel command line is invalid: "
            "Invalid cmdline capacity provided."
        )
    machine.config["boot-source"] = call.body
    machine.has_kernel = True


@rule("GET /machine-config")
def get_machine_config(machine: Machine, call: Call) -> Json:
    """`cpu_template` shows only when a static one is set."""
    shown: Members = dict(machine.config["machine-config"])
    if shown.get("cpu_template") is None:
        shown.pop("cpu_template", None)
    return shown


@rule("PUT /machine-config")
def put_machine_config(machine: Machine, call: Call) -> None:
    """An absent CPU template leaves the one there is."""
    kept = machine.config["machine-config"].get("cpu_template")
    template = call.body.get("cpu_template") or kept
    _set_machine_config(machine, call.body | {"cpu_template": template})


@rule("PATCH /machine-config")
def patch_machine_config(machine: Machine, call: Call) -> None:
    """What is absent or null stays."""
    given = {name: value for name, value in call.body.items() if value is not None}
    _set_machine_config(machine, machine.config["machine-config"] | given)


def refuse_empty(body: Members) -> None:
    """A PATCH that sets nothing is none."""
    if all(value is None for value in body.values()):
        raise Fault("Empty PATCH request.")


@rule("PUT /cpu-config")
def put_cpu_config(machine: Machine, call: Call) -> None:
    """A custom template takes the place of a static one; /vm/config does not show it."""
    machine.config["machine-config"]["cpu_template"] = None


def _set_machine_config(machine: Machine, config: Members) -> None:
    count, memory = config["vcpu_count"], config["mem_size_mib"]
    if not 1 <= count <= MAX_VCPUS or (config["smt"] and count > 1 and count % 2):
        raise Fault(
            "Machine config error: The number of vCPUs must be greater than 0, less than "
            f"{MAX_VCPUS} and must be 1 or an even number if SMT is enabled."
        )
    if not memory or (config.get("huge_pages") == "2M" and memory % 2):
        raise Fault(
            "Machine config error: The memory size (MiB) is either 0, or not a multiple of "
            "the configured page size."
        )
    if memory < (machine.config.get("balloon") or {}).get("amount_mib", 0):
        raise Fault(
            "Machine config error: The memory size (MiB) is smaller than the previously set "
            "balloon device target size."
        )
    if config.get("cpu_template") == "None":
        config = config | {"cpu_template": None}
    machine.config["machine-config"] = config


@rule("PUT /actions")
def act(machine: Machine, call: Call) -> None:
    """Start before the guest runs; flush metrics and press Ctrl+Alt+Del after."""
    action = call.body["action_type"]
    if (action == "InstanceStart") == machine.started:
        raise Fault(AFTER_START if machine.started else BEFORE_START)
    if action == "InstanceStart":
        start(machine)
    elif action == "FlushMetrics":
        machine.flush_metrics()
    elif action == "SendCtrlAltDel":
        machine.reboot_pending = True
        machine.settle()


def start(machine: Machine) -> None:
    """Boot the guest. Raises `Fault` with what cannot be started; it can be mended and retried."""
    if not machine.has_kernel:
        raise Fault("Start microvm error: Cannot start microvm without kernel configuration.")
    _require_memory(machine)
    if machine.options.check_files:
        _open_serial(machine)
        _require_initrd(machine)
        _require_pmem(machine)
    machine.flush_metrics()
    arguments = machine.config["boot-source"]["boot_args"] or ""
    for line in ("guest is up", arguments, "guest serves", *machine.guest.boot_messages):
        machine.print_line(line)
    machine.run_guest(Phase.RUNNING)


def _require_memory(machine: Machine) -> None:
    """Memory to be plugged in needs addresses, which the monitor counts in 64 bits."""
    if machine.config["machine-config"]["mem_size_mib"] > MAX_MEMORY_MIB:
        raise Fault(
            "Start microvm error: Invalid Memory Configuration: Cannot create mmap region: "
            "Cannot allocate memory (os error 12)"
        )
    hotplug = machine.config.get("memory-hotplug")
    size = 1 if hotplug is None else hotplug["total_size_mib"] * MIB % (1 << 64)
    reason = "" if 0 < size <= MAX_HOTPLUG_BYTES else "The requested resource is not available."
    if size == 0:
        reason = "The specified size: 0 is not valid."
    if reason:
        raise Fault(f"Start microvm error: Failed to allocate guest resource: {reason}")


def _open_serial(machine: Machine) -> None:
    try:
        if machine.serial_path is not None:
            machine.outlets.open_serial(machine.serial_path)
    except (OSError, ValueError) as error:
        reason = system_reason(error)
        raise Fault(
            f"Start microvm error: Failed to create device manager: Error with EventFd: {reason}"
        ) from None


def _require_initrd(machine: Machine) -> None:
    path = machine.config["boot-source"].get("initrd_path")
    if path is None:
        return
    if is_directory(path):
        reason = "Is a directory (os error 21)."
        raise Fault(f"{NO_INITRD}Cannot load initrd due to an invalid image: {reason}")
    if size_of(path) == 0:
        raise Fault(f"{NO_INITRD}Cannot load initrd due to an invalid memory configuration..")
    if size_of(path) > machine.config["machine-config"]["mem_size_mib"] * MIB:
        raise Fault(f"{NO_INITRD}Failed to compute the initrd address..")


def _require_pmem(machine: Machine) -> None:
    for device in machine.devices("pmem"):
        reason = pmem_fault(device)
        if reason:
            # By then the interfaces are at work, and their tap devices are not let go.
            taps = {one["host_dev_name"] for one in machine.devices("network-interfaces")}
            machine.held_taps |= taps
            raise Fault(f"Start microvm error: Cannot create pmem device: {reason}")


def pmem_fault(device: Members) -> str:
    """Why the file behind a pmem device cannot be used; empty when it can."""
    path = device["path_on_host"]
    reason = open_fault(path, os.O_RDONLY if device["read_only"] else os.O_RDWR)
    if not reason and is_directory(path):
        reason = "No such device (os error 19)"
    if reason:
        return f"Error accessing backing file: {reason}"
    return "Error backing file size is 0" if size_of(path) == 0 else ""


@rule("PATCH /vm")
def patch_vm(machine: Machine, call: Call) -> None:
    """Pausing a paused guest or resuming a running one changes nothing."""
    machine.phase = Phase.PAUSED if call.body["state"] == "Paused" else Phase.RUNNING
    machine.settle()

"""Boot source, machine configuration, start, pause, resume: the rules a microVM boots by."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Final

from generated_vmm.testing.bodies import machine as bodies
from generated_vmm.testing.json.reader import Json
from generated_vmm.testing.machine import Fault, Machine, Phase
from generated_vmm.testing.resources import full_config_json, machine_config_json
from generated_vmm.testing.rules.host_files import require_file

MAX_VCPUS: Final = 32
BEFORE_START: Final = "The requested operation is not supported before starting the microVM."
AFTER_START: Final = "The requested operation is not supported after starting the microVM."


def describe(machine: Machine) -> Json:
    """GET /."""
    return {
        "id": machine.options.instance_id,
        "state": machine.phase.value,
        "vmm_version": machine.options.version,
        "app_name": "Firecracker",
    }


def get_version(machine: Machine) -> Json:
    """GET /version."""
    return {"firecracker_version": machine.options.version}


def get_full_config(machine: Machine) -> Json:
    """GET /vm/config."""
    return full_config_json(machine.resources)


def put_boot_source(machine: Machine, body: bodies.BootSource) -> None:
    """PUT /boot-source: what was asked for is shown in /vm/config even when a file is missing."""
    machine.resources = replace(machine.resources, boot_source=body)
    require_file(
        machine.options,
        body.kernel_image_path,
        "Boot source error: The kernel file cannot be opened: {}",
    )
    if body.initrd_path is not None:
        require_file(
            machine.options,
            body.initrd_path,
            "Boot source error: The initrd file cannot be opened due to invalid path or "
            "invalid permissions. {}",
        )
    machine.has_kernel = True


def get_machine_config(machine: Machine) -> Json:
    """GET /machine-config."""
    return machine_config_json(machine.resources)


def put_machine_config(machine: Machine, body: bodies.MachineConfig) -> None:
    """PUT /machine-config: an absent CPU template leaves the one there is."""
    template = body.cpu_template or machine.resources.machine_config.cpu_template
    _set_machine_config(machine, replace(body, cpu_template=template))


def patch_machine_config(machine: Machine, body: bodies.MachineConfigUpdate) -> None:
    """PATCH /machine-config: what is absent or null stays."""
    changes = {field.name: getattr(body, field.name) for field in fields(body)}
    given = {name: value for name, value in changes.items() if value is not None}
    _set_machine_config(machine, replace(machine.resources.machine_config, **given))


def put_cpu_config(machine: Machine, body: bodies.CpuConfig) -> None:
    """PUT /cpu-config: a custom template takes the place of a static one; /vm/config hides it."""
    machine.resources = replace(
        machine.resources,
        machine_config=replace(machine.resources.machine_config, cpu_template=None),
    )


def _set_machine_config(machine: Machine, config: bodies.MachineConfig) -> None:
    count, memory = config.vcpu_count, config.mem_size_mib
    if not 1 <= count <= MAX_VCPUS or (config.smt and count > 1 and count % 2):
        raise Fault(
            "Machine config error: The number of vCPUs must be greater than 0, less than "
            f"{MAX_VCPUS} and must be 1 or an even number if SMT is enabled."
        )
    if not memory or (config.huge_pages == "2M" and memory % 2):
        raise Fault(
            "Machine config error: The memory size (MiB) is either 0, or not a multiple of "
            "the configured page size."
        )
    balloon = machine.resources.balloon
    if balloon is not None and memory < balloon.amount_mib:
        raise Fault(
            "Machine config error: The memory size (MiB) is smaller than the previously set "
            "balloon device target size."
        )
    if config.cpu_template == "None":
        config = replace(config, cpu_template=None)
    machine.resources = replace(machine.resources, machine_config=config)


def act(machine: Machine, body: bodies.Action) -> None:
    """PUT /actions: start before the guest runs, the others after."""
    start = body.action_type == "InstanceStart"
    if start and machine.started:
        raise Fault(AFTER_START)
    if not start and not machine.started:
        raise Fault(BEFORE_START)
    if start:
        _start(machine)
    elif body.action_type == "SendCtrlAltDel":
        machine.reboot_pending = True
        _reboot_if_running(machine)


def _start(machine: Machine) -> None:
    if not machine.has_kernel:
        raise Fault("Start microvm error: Cannot start microvm without kernel configuration.")
    machine.run_guest(Phase.RUNNING)


def _reboot_if_running(machine: Machine) -> None:
    """A guest that reboots ends the process; a paused one sees the keys when it goes on."""
    if machine.reboot_pending and machine.phase is Phase.RUNNING:
        machine.exit_code = 0


def patch_vm(machine: Machine, body: bodies.Vm) -> None:
    """PATCH /vm: pausing a paused guest or resuming a running one changes nothing."""
    machine.phase = Phase.PAUSED if body.state == "Paused" else Phase.RUNNING
    _reboot_if_running(machine)

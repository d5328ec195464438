"""Services of a microVM: log, metrics, vsock, metadata."""

from __future__ import annotations

import ipaddress
import os
from typing import Final

from generated_vmm.testing.bodies import json_bytes
from generated_vmm.testing.description import Json
from generated_vmm.testing.guest import VsockBackend
from generated_vmm.testing.host import refusing, require_socket_path
from generated_vmm.testing.machine import Fault, Machine, Phase
from generated_vmm.testing.rule import Call, action, check

MMDS_ADDRESS: Final = "169.254.169.254"
NO_DATA: Final = "MMDS error: The MMDS data store is not initialized."
NO_MMDS: Final = "MMMDS config error: "  # the monitor does write three Ms
NO_VSOCK: Final = "Vsock config error: Cannot create backend for vsock device: "
NOT_BOUND: Final = "Error binding to the host-side Unix socket: {}"


@action("PUT /logger")
def put_logger(machine: Machine, call: Call) -> None:
    """Set up the log, once or again; an absent level is Info, other absent settings stay."""
    outlets, body = machine.outlets, call.body
    outlets.level = (body.get("level") or "info").replace("warning", "warn")
    for attribute, name in (
        ("module", "module"),
        ("show_level", "show_level"),
        ("show_origin", "show_log_origin"),
    ):
        if body.get(name) is not None:
            setattr(outlets, attribute, body[name])
    if body.get("log_path") is not None and machine.options.check_files:
        with refusing("Logger error: Failed to open target file: {}"):
            outlets.open_log(body["log_path"])


@action("PUT /metrics")
def put_metrics(machine: Machine, metrics_path: str) -> None:
    """Set up the metrics, once in a process."""
    with refusing("Metrics error: Cannot initialize the metrics system due to bad user input: {}"):
        machine.outlets.open_metrics(metrics_path if machine.options.check_files else os.devnull)


@check("PUT /vsock")
def forget_former_vsock(machine: Machine, call: Call) -> None:
    """Remove the previous device with its socket's file, even if the new one is refused."""
    former, machine.vsock_backend = machine.vsock_backend, None
    machine.resources.pop(call.resource, None)
    if former is not None:
        with refusing(f"{NO_VSOCK}{NOT_BOUND}"):
            former.close(remove_file=True)


@check("PUT /vsock")
def bind_new_vsock(machine: Machine, uds_path: str) -> None:
    """Bind the path immediately."""
    bind_vsock(machine, uds_path, NO_VSOCK)


def bind_vsock(machine: Machine, path: str, refusal: str) -> None:
    """Bind the host's side of the device. Raises `Fault` that begins with the refusal."""
    with refusing(f"{refusal}{NOT_BOUND}"):
        require_socket_path(path)
        machine.vsock_backend = VsockBackend(
            path, machine.guest.service, lambda: machine.phase is Phase.PAUSED
        )


@check("PUT /mmds/config")
def choose_address(call: Call, ipv4_address: str | None) -> None:
    """Require a link-local address that is not reserved (RFC 3927, section 2.1)."""
    address = ipaddress.IPv4Address(ipv4_address or MMDS_ADDRESS)
    if not address.is_link_local or address.packed[2] in (0, 255):
        raise Fault(f"{NO_MMDS}The MMDS IPv4 address is not link local.")
    call.body["ipv4_address"] = str(address)


@check("PUT /mmds/config")
def require_interfaces(machine: Machine, network_interfaces: list[str]) -> None:
    """Require some interfaces, all of them known."""
    if not network_interfaces:
        raise Fault(
            f"{NO_MMDS}The list of network interface IDs that allow forwarding MMDS requests is "
            "empty."
        )
    if not set(network_interfaces) <= machine.devices("/network-interfaces").keys():
        raise Fault(
            f"{NO_MMDS}The list of network interface IDs provided contains at least one ID that "
            "does not correspond to any existing network interface."
        )


@check("GET /mmds", "PUT /mmds", "PATCH /mmds")
def require_service(machine: Machine) -> None:
    """Refuse to use the data store of a running guest without MMDS on any interface."""
    if machine.started and machine.resources.get("/mmds/config") is None:
        raise Fault(NO_DATA)


@action("GET /mmds")
def get_mmds(machine: Machine) -> Json:
    """Show the data; `{}` if nothing has been stored."""
    content: Json = machine.resources.get("/mmds", {})
    return content


@action("PUT /mmds")
def put_mmds(machine: Machine, call: Call) -> None:
    """Replace the data."""
    store_metadata(machine, call.content)


@action("PATCH /mmds")
def patch_mmds(machine: Machine, call: Call) -> None:
    """Merge into the stored data (JSON Merge Patch, RFC 7396)."""
    if "/mmds" not in machine.resources:
        raise Fault(NO_DATA)
    store_metadata(machine, merge_patch(machine.resources["/mmds"], call.content))


def store_metadata(machine: Machine, content: Json) -> None:
    """Store the data. Raises `Fault` if it is too large."""
    if len(json_bytes(content)) > machine.options.mmds_size_limit:
        raise Fault("MMDS limit exceeded error: The MMDS patch request doesn't fit.", status=413)
    machine.resources["/mmds"] = content


def merge_patch(target: Json, patch: Json) -> Json:
    """The target with the patch applied; null in the patch removes a key (RFC 7396)."""
    if not isinstance(patch, dict):
        return patch
    result = dict(target) if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = merge_patch(result.get(key), value)
    return result

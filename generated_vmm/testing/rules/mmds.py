"""The metadata service: any JSON, merged by PATCH, bounded in size, configured per interface."""

from __future__ import annotations

import ipaddress
from typing import Final

from generated_vmm.testing.bodies.json_text import json_bytes
from generated_vmm.testing.description import Json
from generated_vmm.testing.machine import Fault, Machine
from generated_vmm.testing.rule import Call, rule

DEFAULT_ADDRESS: Final = "169.254.169.254"
NOT_INITIALIZED: Final = "MMDS error: The MMDS data store is not initialized."


@rule("PUT /mmds/config")
def put_mmds_config(machine: Machine, call: Call) -> None:
    """The interfaces must be there already; the address must be link-local."""
    address = ipaddress.IPv4Address(call.body["ipv4_address"] or DEFAULT_ADDRESS)
    wanted = call.body["network_interfaces"]
    if not _usable(address):
        raise _config_fault("The MMDS IPv4 address is not link local.")
    if not wanted:
        raise _config_fault(
            "The list of network interface IDs that allow forwarding MMDS requests is empty."
        )
    if not set(wanted) <= {one["iface_id"] for one in machine.devices("network-interfaces")}:
        raise _config_fault(
            "The list of network interface IDs provided contains at least one ID that does not "
            "correspond to any existing network interface."
        )
    machine.config["mmds-config"] = call.body | {"ipv4_address": str(address)}


@rule("GET /mmds")
def get_mmds(machine: Machine, call: Call) -> Json:
    """`{}` when nothing has been stored; members come in the order of their names."""
    _require_service(machine)
    return {} if machine.mmds_content is None else sorted_json(machine.mmds_content)


@rule("PUT /mmds")
def put_mmds(machine: Machine, call: Call) -> None:
    """Replace the data."""
    _require_service(machine)
    store(machine, call.content)


@rule("PATCH /mmds")
def patch_mmds(machine: Machine, call: Call) -> None:
    """JSON Merge Patch (RFC 7396) onto what was PUT before."""
    _require_service(machine)
    if not machine.mmds_stored:
        raise Fault(NOT_INITIALIZED)
    store(machine, merge_patch(machine.mmds_content, call.content))


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


def sorted_json(value: Json) -> Json:
    """The value with the members of every object in the order of their names."""
    if isinstance(value, dict):
        return {key: sorted_json(value[key]) for key in sorted(value)}
    return [sorted_json(one) for one in value] if isinstance(value, list) else value


def store(machine: Machine, content: Json) -> None:
    """Keep the data. Raises `Fault` when there is too much of it."""
    if len(json_bytes(content)) > machine.options.mmds_size_limit:
        raise Fault("MMDS limit exceeded error: The MMDS patch request doesn't fit.", status=413)
    machine.mmds_content = content
    machine.mmds_stored = True


def _require_service(machine: Machine) -> None:
    """A running guest without MMDS on any interface has no data store."""
    if machine.started and machine.config["mmds-config"] is None:
        raise Fault(NOT_INITIALIZED)


def _usable(address: ipaddress.IPv4Address) -> bool:
    # The first and the last 256 link-local addresses are reserved (RFC 3927, 2.1).
    return address.is_link_local and address.packed[2] not in (0, 255)


def _config_fault(text: str) -> Fault:
    return Fault(f"MMMDS config error: {text}")  # the monitor does write three Ms

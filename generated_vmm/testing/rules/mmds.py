"""The metadata service: any JSON, merged by PATCH, bounded in size, configured per interface."""

from __future__ import annotations

import ipaddress
from dataclasses import replace
from typing import Final

from generated_vmm.testing.bodies.devices import MmdsConfig
from generated_vmm.testing.json.reader import Json
from generated_vmm.testing.json.writer import json_bytes, sorted_json
from generated_vmm.testing.machine import Fault, Machine

DEFAULT_ADDRESS: Final = "169.254.169.254"
NOT_INITIALIZED: Final = "MMDS error: The MMDS data store is not initialized."


def put_mmds_config(machine: Machine, body: MmdsConfig) -> None:
    """PUT /mmds/config: the interfaces must be there already; the address must be link-local."""
    address = ipaddress.IPv4Address(body.ipv4_address or DEFAULT_ADDRESS)
    if not _usable(address):
        raise _config_fault("The MMDS IPv4 address is not link local.")
    if not body.network_interfaces:
        raise _config_fault(
            "The list of network interface IDs that allow forwarding MMDS requests is empty."
        )
    known = [interface.iface_id for interface in machine.resources.network_interfaces]
    if not set(body.network_interfaces) <= set(known):
        raise _config_fault(
            "The list of network interface IDs provided contains at least one ID that does not "
            "correspond to any existing network interface."
        )
    machine.resources = replace(
        machine.resources, mmds_config=replace(body, ipv4_address=str(address))
    )


def get_mmds(machine: Machine) -> Json:
    """GET /mmds: `{}` when nothing has been stored."""
    _require_service(machine)
    return {} if machine.mmds_content is None else sorted_json(machine.mmds_content)


def put_mmds(machine: Machine, content: Json) -> None:
    """PUT /mmds."""
    _require_service(machine)
    _store(machine, content)


def patch_mmds(machine: Machine, patch: Json) -> None:
    """PATCH /mmds: JSON Merge Patch (RFC 7396) onto what was PUT before."""
    _require_service(machine)
    if not machine.mmds_stored:
        raise Fault(NOT_INITIALIZED)
    _store(machine, merge_patch(machine.mmds_content, patch))


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


def _store(machine: Machine, content: Json) -> None:
    if len(json_bytes(content)) > machine.options.mmds_size_limit:
        raise Fault("MMDS limit exceeded error: The MMDS patch request doesn't fit.", status=413)
    machine.mmds_content = content
    machine.mmds_stored = True


def _require_service(machine: Machine) -> None:
    """A running guest without MMDS on any interface has no data store."""
    if machine.started and machine.resources.mmds_config is None:
        raise Fault(NOT_INITIALIZED)


def _usable(address: ipaddress.IPv4Address) -> bool:
    # The first and the last 256 link-local addresses are reserved (RFC 3927, 2.1).
    return address.is_link_local and address.packed[2] not in (0, 255)


def _config_fault(text: str) -> Fault:
    return Fault(f"MMMDS config error: {text}")  # the monitor does write three Ms

"""Calls to every operation of a description, with every field, in an order that is accepted."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from generated_vmm.testing.description import Description, Operation, Spec

Call = tuple[str, str, object]

VALUES: dict[str, object] = {
    "amount_mib": 16, "vcpu_count": 2, "mem_size_mib": 256, "requested_size_mib": 128,
    "total_size_mib": 1024, "slot_size_mib": 128, "block_size_mib": 2, "mtu": 1500,
    "guest_cid": 3, "cpu_template": "T2", "version": "V2", "huge_pages": "2M",
    "addr": "0x10", "leaf": "0x1", "subleaf": "0x0", "bitmap": "0b1x", "register": "eax",
    "guest_mac": "06:00:00:00:00:01", "ipv4_address": "169.254.1.1", "network_interfaces": ["a"],
    "kvm_capabilities": ["!5"], "is_root_device": False, "root_device": False,
    "state": "Paused", "action_type": "InstanceStart", "resume_vm": False,
}  # fmt: skip
"""Values that are accepted, by field name; any will do for other fields."""
LEFT_OUT = (
    "CpuConfig.reg_modifiers", "CpuConfig.vcpu_features", "Drive.socket",
    "SnapshotLoadParams.mem_file_path", "SnapshotLoadParams.network_overrides",
)  # fmt: skip
"""Fields that cannot be given, or not with the others."""
FIRST = ("PUT /machine-config", "PUT /network-interfaces/{iface_id}")
ALWAYS = ("/", "/version", "/machine-config", "/vm/config", "/balloon")
CONTROL = ("PUT /actions", "PATCH /vm", "PUT /snapshot/create", "PUT /snapshot/load")


def calls(description: Description, folder: Path) -> Iterator[list[Call]]:
    """What one monitor is configured, started, asked and saved with, and what restores it."""
    known = {one.endpoint: one for one in description.operations}
    body = Bodies(description, folder)
    others = [one for one in known.values() if one.endpoint not in CONTROL]
    before = [one for one in others if one.method == "PUT" or one.phase == "before start"]
    before.sort(key=lambda one: (one.endpoint not in FIRST, one.path))
    after = [one for one in others if one not in before]
    after.sort(key=lambda one: (one.method == "DELETE", one.method == "GET"))
    start, pause, save, load = (body.call(known[one]) for one in CONTROL)
    yield [*map(body.call, before), start, *map(body.call, after), pause, save]
    # The metadata service went with the interface that was deleted.
    yield [load, *(body.call(one) for one in after if one.method == "GET" and one.path in ALWAYS)]


class Bodies:
    """Makes bodies with every field."""

    def __init__(self, description: Description, folder: Path) -> None:
        self._schemas = description.schemas
        self._files = {
            "uds_path": str(folder / "vsock"),
            "snapshot_path": str(folder / "state"),
            "mem_file_path": str(folder / "memory"),
            "backend_path": str(folder / "memory"),
            "backend_type": "File",
        }

    def call(self, operation: Operation) -> Call:
        path = operation.path.replace(f"{{{operation.parameter}}}", "a")
        body = None if operation.body is None else self.of(operation.body)
        return operation.method, path, body

    def of(self, schema: str) -> Any:
        """A value of a schema."""
        return self._value({"ref": schema}, "")

    def _value(self, spec: Spec, field: str) -> Any:
        if "ref" in spec:
            schema = self._schemas[spec["ref"]]
            if "fields" not in schema:
                return self._value(schema, field)
            return {
                name: self._value(inner, name)
                for name, inner in schema["fields"].items()
                if f"{spec['ref']}.{name}" not in LEFT_OUT
            }
        known = VALUES | self._files
        if field in known:
            return known[field]
        if "enum" in spec:
            return spec["enum"][0]
        if spec["type"] == "array":
            return [self._value(spec["items"], "")]
        text = field if field.endswith("_path") else "a"  # no two paths of a call are the same
        return {"integer": 1, "boolean": True, "object": {}}.get(spec["type"], text)

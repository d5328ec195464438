"""The simulator's own tables beside the published description, which they were not made from."""

from __future__ import annotations

import re
from dataclasses import MISSING, fields
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from generated_vmm.testing.api.table import OPERATIONS
from generated_vmm.testing.bodies import devices, machine
from generated_vmm.testing.json.structs import Struct

DESCRIPTION = YAML(typ="safe").load(
    Path(__file__).parents[3] / "openapi" / "firecracker-1.16.1.yaml"
)
SHAPES: dict[str, type[Struct]] = {
    "Balloon": devices.Balloon,
    "BalloonStartCmd": devices.BalloonHinting,
    "BalloonStatsUpdate": devices.BalloonStatsUpdate,
    "BalloonUpdate": devices.BalloonUpdate,
    "BootSource": machine.BootSource,
    "CpuidLeafModifier": machine.CpuidLeaf,
    "CpuidRegisterModifier": machine.CpuidRegister,
    "Drive": devices.Drive,
    "EntropyDevice": devices.Entropy,
    "InstanceActionInfo": machine.Action,
    "Logger": machine.Logger,
    "MachineConfiguration": machine.MachineConfig,
    "MemoryBackend": machine.MemoryBackend,
    "MemoryHotplugConfig": devices.MemoryHotplug,
    "MemoryHotplugSizeUpdate": devices.MemoryHotplugUpdate,
    "Metrics": machine.Metrics,
    "MmdsConfig": devices.MmdsConfig,
    "MsrModifier": machine.Msr,
    "NetworkInterface": devices.NetworkInterface,
    "NetworkOverride": machine.NetworkOverride,
    "PartialDrive": devices.DriveUpdate,
    "PartialNetworkInterface": devices.NetworkInterfaceUpdate,
    "PartialPmem": devices.PmemUpdate,
    "Pmem": devices.Pmem,
    "RateLimiter": devices.RateLimiter,
    "SerialDevice": machine.Serial,
    "SnapshotCreateParams": machine.SnapshotCreate,
    "SnapshotLoadParams": machine.SnapshotLoad,
    "TokenBucket": devices.TokenBucket,
    "Vm": machine.Vm,
    "Vsock": devices.Vsock,
    "VsockOverride": machine.VsockOverride,
}
# Needed by the server though the description does not say so.
ALSO_REQUIRED = {"total_size_mib", "requested_size_mib"}
# In the server since 1.16, and not in its description.
UNDESCRIBED = {
    ("DELETE", "drives/{id}"),
    ("DELETE", "pmem/{id}"),
    ("DELETE", "network-interfaces/{id}"),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_body_has_the_fields_described(name: str) -> None:
    schema = DESCRIPTION["components"]["schemas"][name]
    shape = SHAPES[name]
    assert {field.name for field in fields(shape)} == set(schema["properties"])
    required = {field.name for field in fields(shape) if field.default is MISSING}
    assert required - ALSO_REQUIRED == set(schema.get("required", ())) - ALSO_REQUIRED


def test_the_operations_are_those_described_and_three_more() -> None:
    described = {
        (method.upper(), re.sub(r"\{.*\}", "{id}", path.strip("/")))
        for path, methods in DESCRIPTION["paths"].items()
        for method in methods
    }
    assert set(OPERATIONS) == described | UNDESCRIBED

"""Devices that come and go while the guest runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from generated_vmm.testing.description import Json
from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor

DEVICES = ["drives", "pmem", "network-interfaces"]


def body_of(kind: str, device_id: str, *, root: bool = False) -> dict[str, object]:
    bodies: dict[str, dict[str, object]] = {
        "drives": {"drive_id": device_id, "is_root_device": root, "path_on_host": "/dev/null"},
        "pmem": {
            "id": device_id,
            "root_device": root,
            "path_on_host": __file__,
            "read_only": True,
        },
        "network-interfaces": {"iface_id": device_id, "host_dev_name": f"tap_{device_id}"},
    }
    return bodies[kind]


def ids(call: Caller, kind: str) -> list[Json]:
    listed = call.get("/vm/config")[kind]
    assert isinstance(listed, list)
    key = {"drives": "drive_id", "pmem": "id", "network-interfaces": "iface_id"}[kind]
    return [device[key] for device in listed if isinstance(device, dict)]


def boot(call: Caller, kernel: str, kind: str, *, root: bool = False) -> None:
    call.accepted("PUT", f"/{kind}/first", body_of(kind, "first", root=root))
    call.accepted("PUT", "/boot-source", {"kernel_image_path": kernel})
    call.accepted("PUT", "/actions", {"action_type": "InstanceStart"})


@pytest.fixture
def plugged(make_monitor: MakeMonitor) -> Caller:
    """A monitor started with PCI."""
    return Caller(make_monitor(enable_pci=True).socket_path)


@pytest.mark.parametrize("kind", DEVICES)
def test_without_pci_nothing_comes_and_nothing_goes(call: Caller, kernel: str, kind: str) -> None:
    boot(call, kernel, kind)
    assert call("PUT", f"/{kind}/more", body_of(kind, "more")).fault == "PCI is not enabled"
    assert call("DELETE", f"/{kind}/first").fault == "PCI is not enabled"
    assert ids(call, kind) == ["first"]


@pytest.mark.parametrize("kind", DEVICES)
def test_with_pci_devices_come_and_go(plugged: Caller, kernel: str, kind: str) -> None:
    boot(plugged, kernel, kind)
    plugged.accepted("PUT", f"/{kind}/more", body_of(kind, "more"))
    assert ids(plugged, kind) == ["first", "more"]
    plugged.accepted("DELETE", f"/{kind}/first")
    assert ids(plugged, kind) == ["more"]


@pytest.mark.parametrize("kind", DEVICES)
def test_an_id_in_use_and_an_unknown_id_are_refused(
    plugged: Caller, kernel: str, kind: str
) -> None:
    boot(plugged, kernel, kind)
    assert plugged("PUT", f"/{kind}/first", body_of(kind, "first")).fault == "Device ID in use"
    assert plugged("DELETE", f"/{kind}/none").fault == "Device not found"


@pytest.mark.parametrize("kind", ["drives", "pmem"])
def test_the_root_device_stays(plugged: Caller, kernel: str, kind: str) -> None:
    boot(plugged, kernel, kind, root=True)
    assert plugged("DELETE", f"/{kind}/first").fault == "Cannot unplug root device"


@pytest.mark.parametrize("kind", DEVICES)
def test_a_delete_takes_no_body(plugged: Caller, kernel: str, kind: str) -> None:
    boot(plugged, kernel, kind)
    assert plugged("DELETE", f"/{kind}/first", {}).fault == "Empty Delete request."


def test_a_missing_file_cannot_be_plugged_in(plugged: Caller, kernel: str) -> None:
    boot(plugged, kernel, "drives")
    body = body_of("drives", "more") | {"path_on_host": "/no/such/file"}
    assert "No such file or directory" in plugged("PUT", "/drives/more", body).fault


@pytest.mark.parametrize("kind", ["drives", "pmem"])
def test_no_root_device_is_plugged_in(plugged: Caller, kernel: str, kind: str) -> None:
    boot(plugged, kernel, "network-interfaces")
    reply = plugged("PUT", f"/{kind}/more", body_of(kind, "more", root=True))
    assert (reply.status, "root" in reply.fault) == (400, True)


def test_an_empty_file_is_no_pmem_device(plugged: Caller, kernel: str, folder: Path) -> None:
    boot(plugged, kernel, "drives")
    (folder / "empty").touch()
    body = {"id": "more", "path_on_host": str(folder / "empty")}
    assert plugged("PUT", "/pmem/more", body).fault == (
        "Pmem config error: Unable to create the virtio-pmem device: Error backing file size is 0"
    )

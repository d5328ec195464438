"""Drives before and after the start; devices that come and go while the guest runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from generated_vmm.testing.description import Json
from tests.vmm.simulator.caller import Caller, shows
from tests.vmm.simulator.conftest import MakeMonitor

NO_DEVICE = "Drive config error: Unable to create the virtio block device: "
NO_PATCH = "Drive config error: Unable to patch the block device: "
VERIFY = " Please verify the request arguments."


def drives(call: Caller) -> list[dict[str, Json]]:
    listed = call.get("/vm/config")["drives"]
    assert isinstance(listed, list)
    return [drive for drive in listed if isinstance(drive, dict)]


def put(call: Caller, drive_id: str, **body: object) -> None:
    call.accepted("PUT", f"/drives/{drive_id}", {"drive_id": drive_id, **body})


def test_a_drive_shows_its_defaults_and_nulls(call: Caller, disk: str) -> None:
    put(call, "rootfs", is_root_device=True, path_on_host=disk)
    assert shows(
        drives(call),
        [
            {
                "drive_id": "rootfs",
                "partuuid": None,
                "is_root_device": True,
                "cache_type": "Unsafe",
                "is_read_only": False,
                "path_on_host": disk,
                "rate_limiter": None,
                "io_engine": "Sync",
                "socket": None,
            }
        ],
    )


def test_a_vhost_user_drive_shows_no_file(call: Caller, backend: str) -> None:
    put(call, "vub", is_root_device=False, socket=backend)
    (drive,) = drives(call)
    assert drive["socket"] == backend
    assert [drive[name] for name in ("path_on_host", "is_read_only", "io_engine")] == [None] * 3


@pytest.mark.parametrize(
    "extra",
    [
        {"path_on_host": "/dev/null"},
        {"io_engine": "Sync"},
        {"is_read_only": False},
        {"rate_limiter": {}},
    ],
)
def test_a_socket_allows_nothing_that_is_for_files(
    call: Caller, backend: str, extra: dict[str, object]
) -> None:
    body = {"drive_id": "a", "is_root_device": False, "socket": backend}
    call.accepted("PUT", "/drives/a", body)
    assert call("PUT", "/drives/a", body | extra).fault == NO_DEVICE + "Invalid block config."


def test_a_drive_needs_a_file_or_a_socket(call: Caller) -> None:
    reply = call("PUT", "/drives/a", {"drive_id": "a", "is_root_device": False})
    assert reply.fault == NO_DEVICE + "Invalid block config."


def test_a_missing_file_is_refused_with_its_path(call: Caller, folder: Path) -> None:
    path = str(folder / "{nothing}")
    body = {"drive_id": "a", "is_root_device": False, "path_on_host": path}
    assert call("PUT", "/drives/a", body).fault == (
        f"{NO_DEVICE}Virtio backend error: Error manipulating the backing file: "
        f"No such file or directory (os error 2) {path}"
    )
    assert drives(call) == []


def test_there_is_one_root_device_and_it_comes_first(call: Caller, disk: str) -> None:
    put(call, "data", is_root_device=False, path_on_host=disk)
    put(call, "rootfs", is_root_device=True, path_on_host=disk)
    body = {"drive_id": "other", "is_root_device": True, "path_on_host": disk}
    assert call("PUT", "/drives/other", body).fault == (
        "Drive config error: A root block device already exists!"
    )
    assert [drive["drive_id"] for drive in drives(call)] == ["rootfs", "data"]


def test_a_known_id_is_replaced_in_its_place(call: Caller, disk: str) -> None:
    put(call, "a", is_root_device=False, path_on_host=disk)
    put(call, "b", is_root_device=False, path_on_host=disk)
    put(call, "a", is_root_device=False, path_on_host=disk, is_read_only=True)
    shown = [(drive["drive_id"], drive["is_read_only"]) for drive in drives(call)]
    assert shown == [("a", True), ("b", False)]


def test_a_bucket_of_nothing_is_no_limit(call: Caller, disk: str) -> None:
    limiter = {
        "bandwidth": {"size": 0, "refill_time": 100},
        "ops": {"size": 5, "refill_time": 100, "one_time_burst": 0, "unknown": 1},
    }
    put(call, "a", is_root_device=False, path_on_host=disk, rate_limiter=limiter)
    assert drives(call)[0]["rate_limiter"] == {
        "bandwidth": None,
        "ops": {"size": 5, "one_time_burst": None, "refill_time": 100},
    }


class TestPatch:
    """PATCH /drives/{drive_id} of a running guest."""

    @pytest.fixture(autouse=True)
    def _running(self, call: Caller, disk: str, backend: str, start: Callable[[], None]) -> None:
        bucket = {"size": 1, "refill_time": 2}
        put(call, "a", is_root_device=False, path_on_host=disk, rate_limiter={"ops": bucket})
        put(call, "vub", is_root_device=False, socket=backend)
        start()

    def test_another_file_shows_in_the_configuration(self, call: Caller, kernel: str) -> None:
        call.accepted("PATCH", "/drives/a", {"drive_id": "a", "path_on_host": kernel})
        assert drives(call)[0]["path_on_host"] == kernel

    def test_limits_are_merged_bucket_by_bucket(self, call: Caller) -> None:
        limiter = {"bandwidth": {"size": 3, "refill_time": 4}}
        call.accepted("PATCH", "/drives/a", {"drive_id": "a", "rate_limiter": limiter})
        assert drives(call)[0]["rate_limiter"] == {
            "bandwidth": {"size": 3, "one_time_burst": None, "refill_time": 4},
            "ops": {"size": 1, "one_time_burst": None, "refill_time": 2},
        }

    def test_the_last_limit_can_be_switched_off(self, call: Caller) -> None:
        limiter = {"ops": {"size": 0, "refill_time": 0}}
        call.accepted("PATCH", "/drives/a", {"drive_id": "a", "rate_limiter": limiter})
        assert drives(call)[0]["rate_limiter"] is None

    def test_an_unknown_drive_is_refused(self, call: Caller) -> None:
        assert call("PATCH", "/drives/b", {"drive_id": "b", "path_on_host": "/x"}).fault == (
            f"{NO_PATCH}Failed perform action on device: Device not found{VERIFY}"
        )

    def test_a_missing_file_is_refused(self, call: Caller, disk: str, folder: Path) -> None:
        body = {"drive_id": "a", "path_on_host": str(folder / "nothing")}
        assert "No such file or directory" in call("PATCH", "/drives/a", body).fault
        assert drives(call)[0]["path_on_host"] == disk

    def test_a_refresh_is_for_vhost_user_drives(self, call: Caller) -> None:
        call.accepted("PATCH", "/drives/vub", {"drive_id": "vub"})
        assert "Running method expected different backend." in (
            call("PATCH", "/drives/a", {"drive_id": "a"}).fault
        )

    def test_a_vhost_user_drive_takes_no_file(self, call: Caller) -> None:
        assert "Running method expected different backend." in (
            call("PATCH", "/drives/vub", {"drive_id": "vub", "path_on_host": "/x"}).fault
        )


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

"""Calls to walk a monitor through, each with the answer expected: one list for all monitors.

`{file}`, `{folder}`, `{kernel}` and `{initrd}` stand for host paths. An expectation is a status
and, for a refusal, how its text begins; where the system's own reason would follow, it stops.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One call. `says` is the beginning of a refusal, or a member that an object must have."""

    method: str
    path: str
    body: object = None
    status: int = 204
    says: str | dict[str, object] = ""


def get(path: str, **members: object) -> Step:
    """A call that reads an object with these members."""
    return Step("GET", path, None, 200, members)


def put(path: str, body: object, refused: str = "", status: int = 400) -> Step:
    """A PUT that is accepted, or refused with a text that begins so."""
    return Step("PUT", path, body, status if refused else 204, refused)


def patch(path: str, body: object, refused: str = "", status: int = 400) -> Step:
    """A PATCH that is accepted, or refused with a text that begins so."""
    return Step("PATCH", path, body, status if refused else 204, refused)


BEFORE = "The requested operation is not supported before starting the microVM."
AFTER = "The requested operation is not supported after starting the microVM."
JSON = "An error occurred when deserializing the json body of a request: "
NO_DRIVE = "Drive config error: Unable to create the virtio block device: "
MACHINE = {"vcpu_count": 1, "mem_size_mib": 256}

READING = [
    get("/", state="Not started", app_name="Firecracker"),
    get("/version"),
    get("/machine-config", vcpu_count=1, mem_size_mib=128, smt=False, huge_pages="None"),
    get("/vm/config", balloon=None, drives=[], vsock=None),
    get("/mmds"),
    Step("GET", "/balloon", None, 400, "Balloon config error: No balloon device found."),
    Step("GET", "/nope", None, 400, "Invalid request method and/or path: GET nope."),
    Step("GET", "/vm/config?x=1", None, 400, "Invalid request method and/or path: GET vm."),
    Step("GET", "/version", {}, 400, "GET request cannot have a body."),
    put("/actions", {"action_type": "InstanceStart"}, "Start microvm error: Cannot start microvm"),
]

REFUSED_BODIES = [
    put("/boot-source", {"foo": 1}, f"{JSON}unknown field `foo`, expected one of "),
    put("/boot-source", {}, f"{JSON}missing field `kernel_image_path`"),
    put("/boot-source", None, "Empty PUT request."),
    put("/boot-source", {"kernel_image_path": 5}, f"{JSON}invalid type: integer `5`, expected a"),
    put("/machine-config", MACHINE | {"vcpu_count": 256}, f"{JSON}invalid value: integer `256`"),
    put("/actions", {"action_type": "Stop"}, f"{JSON}unknown variant `Stop`, expected one of "),
    put("/drives/a", {"drive_id": "a"}, f"{JSON}missing field `is_root_device`"),
    patch("/vm", {"state": "Running"}, f"{JSON}unknown variant `Running`, expected `Paused` or"),
    patch("/machine-config", {}, "Empty PATCH request."),
    put("/snapshot/load", {"snapshot_path": "s"}, f"{JSON}missing field: either `mem_backend`"),
    put("/drives/a-b", {}, "API Resource IDs can only contain alphanumeric characters and"),
    put("/drives/", {}, "The ID cannot be empty."),
    put("/drives/a", {"drive_id": "b", "is_root_device": False}, "The id from the path does not"),
]

CONFIGURATION = [
    put("/logger", {"log_path": "{folder}/log", "level": "Debug"}),
    put("/logger", {"level": "Info"}),
    put("/metrics", {"metrics_path": "{folder}/metrics"}),
    put("/metrics", {"metrics_path": "{folder}/metrics"}, "Metrics error: Cannot initialize the"),
    put("/mmds", {"a": {"b": 1}, "c": None}),
    patch("/mmds", {"a": {"b": None, "d": 2}}),
    get("/mmds", a={"d": 2}),
    put("/cpu-config", {}),
    put("/serial", {"serial_out_path": "{folder}/serial"}),
    put("/machine-config", MACHINE | {"track_dirty_pages": True}),
    put("/machine-config", MACHINE | {"vcpu_count": 0}, "Machine config error: The number of"),
    put("/machine-config", MACHINE | {"mem_size_mib": 0}, "Machine config error: The memory size"),
    patch("/machine-config", {"vcpu_count": 2}),
    get("/machine-config", vcpu_count=2, mem_size_mib=256, track_dirty_pages=True),
    put("/boot-source", {"kernel_image_path": "/no/such/kernel"}, "Boot source error: The kernel"),
    put("/boot-source", {"kernel_image_path": "{file}", "boot_args": "console=ttyS0"}),
    put("/drives/a", {"drive_id": "a", "is_root_device": True}, f"{NO_DRIVE}Invalid block config."),
    put(
        "/drives/a",
        {"drive_id": "a", "is_root_device": True, "path_on_host": "/no/such/disk"},
        f"{NO_DRIVE}Virtio backend error: Error manipulating the backing file: ",
    ),
    put("/drives/a", {"drive_id": "a", "is_root_device": True, "path_on_host": "{file}"}),
    put(
        "/drives/b",
        {"drive_id": "b", "is_root_device": True, "path_on_host": "{file}"},
        "Drive config error: A root block device already exists!",
    ),
    put("/pmem/p", {"id": "p", "path_on_host": "/no/such/file", "read_only": True}),
    put("/balloon", {"amount_mib": 999, "deflate_on_oom": False}, "Balloon config error: Amount"),
    put("/balloon", {"amount_mib": 10, "deflate_on_oom": False}),
    get("/balloon", amount_mib=10, free_page_hinting=False),
    put("/entropy", {"rate_limiter": {"ops": {"size": 1, "refill_time": 2}}}),
    put("/vsock", {"guest_cid": 3, "uds_path": "{folder}/vsock"}),
    put("/hotplug/memory", {"total_size_mib": 1000}, "Memory hotplug config error: Total size"),
    put("/hotplug/memory", {"total_size_mib": 1024}),
    put("/mmds/config", {"network_interfaces": []}, "MMMDS config error: The list of network"),
    get("/vm/config", balloon={"amount_mib": 10}, vsock={"guest_cid": 3}),
    patch("/vm", {"state": "Paused"}, BEFORE),
    patch("/balloon", {"amount_mib": 1}, BEFORE),
    Step("DELETE", "/drives/a", None, 400, BEFORE),
    put("/snapshot/load", {"snapshot_path": "s", "mem_file_path": "m"}, "Load snapshot error: Lo"),
]

BOOT = [
    put("/machine-config", MACHINE),
    put(
        "/boot-source",
        {
            "kernel_image_path": "{kernel}",
            "initrd_path": "{initrd}",
            "boot_args": "console=ttyS0 reboot=k panic=1",
        },
    ),
    put("/actions", {"action_type": "InstanceStart"}),
    get("/", state="Running"),
    put("/actions", {"action_type": "InstanceStart"}, AFTER),
    put("/boot-source", {"kernel_image_path": "{kernel}"}, AFTER),
    put("/actions", {"action_type": "FlushMetrics"}),
    Step("GET", "/balloon", None, 400, "Internal VMM error: "),
    Step("GET", "/mmds", None, 400, "MMDS error: The MMDS data store is not initialized."),
    put("/drives/x", {"drive_id": "x", "is_root_device": False, "path_on_host": "{file}"}, "PCI"),
    patch("/drives/x", {"drive_id": "x", "path_on_host": "{file}"}, "Drive config error: Unable"),
    patch("/pmem/x", {"id": "x"}),
    patch("/network-interfaces/x", {"iface_id": "x"}, "Network config error: Unable to update"),
    Step("DELETE", "/drives/x", None, 400, "PCI is not enabled"),
    Step("DELETE", "/pmem/x", None, 400, "PCI is not enabled"),
    Step("DELETE", "/network-interfaces/x", None, 400, "PCI is not enabled"),
    patch("/balloon", {"amount_mib": 1}, "Balloon update error: "),
    Step("GET", "/balloon/statistics", None, 400, "Internal VMM error: "),
    patch("/balloon/statistics", {"stats_polling_interval_s": 1}, "Balloon update error: "),
    patch("/balloon/hinting/start", None, "Balloon update error: "),
    Step("GET", "/balloon/hinting/status", None, 400, "Balloon update error: "),
    patch("/balloon/hinting/stop", None, "Balloon update error: "),
    Step("GET", "/hotplug/memory", None, 400, "Internal VMM error: "),
    patch("/hotplug/memory", {"requested_size_mib": 0}, "Memory hotplug update error: "),
    put(
        "/snapshot/create",
        {"snapshot_path": "{folder}/state", "mem_file_path": "{folder}/memory"},
        "Create snapshot error: Cannot save the microVM state: Operation not allowed: ",
    ),
]

SNAPSHOT = [
    patch("/vm", {"state": "Paused"}),
    patch("/vm", {"state": "Paused"}),
    get("/", state="Paused"),
    put(
        "/snapshot/create", {"snapshot_path": "{folder}/state", "mem_file_path": "{folder}/memory"}
    ),
    patch("/vm", {"state": "Resumed"}),
    get("/", state="Running"),
]

RESTORE = [
    put(
        "/snapshot/load",
        {
            "snapshot_path": "{folder}/state",
            "mem_backend": {"backend_path": "{folder}/memory", "backend_type": "File"},
        },
    ),
    get("/", state="Paused"),
    get("/machine-config", vcpu_count=1, mem_size_mib=256),
    patch("/vm", {"state": "Resumed"}),
    get("/", state="Running"),
    put("/actions", {"action_type": "InstanceStart"}, AFTER),
]

FAILED_LOAD = [
    put(
        "/snapshot/load",
        {
            "snapshot_path": "/no/such/state",
            "mem_backend": {"backend_path": "/no/such/memory", "backend_type": "File"},
        },
        "Load snapshot error: Failed to restore from snapshot: Failed to get snapshot state from",
    ),
]

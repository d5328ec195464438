"""What is typed into each form of the console to be accepted, and the call that it makes."""

from __future__ import annotations

from typing import Final, Literal

Stage = Literal["empty", "furnished", "running", "paused"]
Typed = dict[str, str]

ACCEPTED: Final[tuple[tuple[str, Stage, Typed, str], ...]] = (
    ("setup", "empty", {}, "PUT /machine-config"),
    ("start", "furnished", {}, "PUT /actions"),
    ("pause", "running", {}, "PATCH /vm"),
    ("resume", "paused", {}, "PATCH /vm"),
    ("ctrl_alt_del", "running", {}, "PUT /actions"),
    (
        "drive",
        "empty",
        {"drive.drive_id": "more", "drive.path_on_host": "{file}"},
        "PUT /drives/more",
    ),
    ("drive_anew", "furnished", {"drive_anew.path_on_host": "{file}"}, "PUT /drives/data"),
    (
        "drive_limits",
        "running",
        {"drive_limits.rate_limiter.bandwidth.size": "4096"},
        "PATCH /drives/root",
    ),
    ("drive_removal", "running", {}, "DELETE /drives/data"),
    ("medium", "running", {"medium.path_on_host": "{file}"}, "PATCH /drives/root"),
    (
        "network",
        "empty",
        {"network.iface_id": "eth1", "network.host_dev_name": "tap1"},
        "PUT /network-interfaces/eth1",
    ),
    (
        "network_anew",
        "furnished",
        {"network_anew.guest_mac": "06:00:00:00:00:01"},
        "PUT /network-interfaces/eth0",
    ),
    (
        "network_limits",
        "running",
        {"network_limits.tx_rate_limiter.ops.size": "10"},
        "PATCH /network-interfaces/eth0",
    ),
    ("network_removal", "running", {}, "DELETE /network-interfaces/eth0"),
    ("pmem", "empty", {"pmem.id": "more", "pmem.path_on_host": "{file}"}, "PUT /pmem/more"),
    ("pmem_anew", "furnished", {"pmem_anew.read_only": "true"}, "PUT /pmem/maps"),
    (
        "pmem_limits",
        "running",
        {"pmem_limits.rate_limiter.bandwidth.size": "4096"},
        "PATCH /pmem/maps",
    ),
    ("pmem_removal", "running", {}, "DELETE /pmem/maps"),
    ("vsock", "empty", {"vsock.uds_path": "{folder}/new.vsock"}, "PUT /vsock"),
    ("entropy", "empty", {}, "PUT /entropy"),
    ("balloon", "empty", {"balloon.amount_mib": "16"}, "PUT /balloon"),
    ("balloon_size", "running", {"balloon_size.amount_mib": "32"}, "PATCH /balloon"),
    (
        "balloon_pace",
        "running",
        {"balloon_pace.stats_polling_interval_s": "5"},
        "PATCH /balloon/statistics",
    ),
    ("hints", "running", {}, "PATCH /balloon/hinting/start"),
    ("hints_end", "running", {}, "PATCH /balloon/hinting/stop"),
    ("memory_hotplug", "empty", {"memory_hotplug.total_size_mib": "256"}, "PUT /hotplug/memory"),
    ("memory_size", "running", {"memory_size.requested_size_mib": "128"}, "PATCH /hotplug/memory"),
    ("metadata", "running", {"document.contents": '{"a": 1}'}, "PUT /mmds"),
    ("metadata_patch", "running", {"patch.contents": '{"b": 2}'}, "PATCH /mmds"),
    ("access", "furnished", {"access.network_interfaces": "eth0"}, "PUT /mmds/config"),
    (
        "snapshot",
        "paused",
        {"snapshot.snapshot_path": "{folder}/s", "snapshot.mem_file_path": "{folder}/m"},
        "PUT /snapshot/create",
    ),
    (
        "diff",
        "paused",
        {"diff.snapshot_path": "{folder}/s", "diff.mem_file_path": "{folder}/m"},
        "PUT /snapshot/create",
    ),
    ("logger", "empty", {"logger.log_path": "{folder}/log"}, "PUT /logger"),
    ("serial", "empty", {"serial.rate_limiter.size": "4096"}, "PUT /serial"),
    ("metrics", "empty", {"metrics.metrics_path": "{folder}/metrics"}, "PUT /metrics"),
    ("flush", "running", {}, "PUT /actions"),
    ("cpu_template", "empty", {}, "PATCH /machine-config"),
    (
        "cpu_config",
        "empty",
        {"cpu_config.contents": '{"kvm_capabilities": ["!56"]}'},
        "PUT /cpu-config",
    ),
)

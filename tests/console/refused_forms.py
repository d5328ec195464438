"""What is typed into each form of the console to be refused, and the sentence that says why."""

from __future__ import annotations

from typing import Final

from tests.console.accepted_forms import Stage, Typed

AFTER, BEFORE = "Start the machine first.", "Only possible before the start."
DROPS: Final = ("drive_drop", "network_drop", "pmem_drop")
CONFLICTS: Final = {
    *("pause", "resume", "ctrl_alt_del", "stop", "restart", "delete", "clone"),
    *("edit", "grow", "named_snapshot", "policy", "update_snapshot", *DROPS),
    *("hints", "hints_end", "diff", "restore", "flush"),
}
"""What is refused for the state of the machine, before the monitor is asked."""
NUMBER = "Enter a whole number."
REFUSED: Final[tuple[tuple[str, Stage, Typed, str], ...]] = (
    (
        "setup",
        "empty",
        {
            "boot_source.kernel_image_path": "/none",
            "root_drive.path_on_host": "{file}",
            "machine_config.vcpu_count": "1",
            "machine_config.mem_size_mib": "128",
        },
        "There is no such file",
    ),
    ("start", "empty", {}, "The machine has no kernel yet."),
    ("pause", "empty", {}, AFTER),
    ("resume", "empty", {}, AFTER),
    ("ctrl_alt_del", "empty", {}, AFTER),
    ("stop", "running", {}, "This console did not start this monitor."),
    ("restart", "running", {}, "This console did not start this monitor."),
    ("delete", "running", {}, "This console did not start this monitor."),
    *(
        (name, "running", {}, "This console did not start this monitor.")
        for name in ("edit", "grow", "named_snapshot", "policy", "update_snapshot", *DROPS)
    ),
    ("clone", "running", {"clone.name": "two"}, "This console did not start this monitor."),
    (
        "drive",
        "running",
        {"drive.drive_id": "data", "drive.path_on_host": "{file}"},
        "There is a device of this name.",
    ),
    (
        "drive_anew",
        "furnished",
        {"drive_anew.drive_id": "data", "drive_anew.path_on_host": "/none"},
        "There is no such file",
    ),
    (
        "drive_limits",
        "running",
        {"drive_limits.drive_id": "root", "drive_limits.rate_limiter.ops.size": "many"},
        NUMBER,
    ),
    (
        "drive_removal",
        "running",
        {"drive_removal.drive_id": "root"},
        "The guest has booted from this device: it stays.",
    ),
    (
        "medium",
        "running",
        {"medium.drive_id": "root", "medium.path_on_host": "/none"},
        "There is no such file",
    ),
    (
        "network",
        "running",
        {"network.iface_id": "eth0", "network.host_dev_name": "tap1"},
        "There is a device of this name.",
    ),
    (
        "network_anew",
        "furnished",
        {"network_anew.iface_id": "eth0", "network_anew.host_dev_name": "tap/0"},
        "There is no such tap device that the monitor may open.",
    ),
    (
        "network_limits",
        "running",
        {"network_limits.iface_id": "gone", "network_limits.rx_rate_limiter.ops.size": "1"},
        "There is no such device.",
    ),
    ("network_removal", "running", {"network_removal.iface_id": "gone"}, "There is no such device"),
    ("pmem", "running", {"pmem.id": "new", "pmem.path_on_host": "/dev/null"}, "This file is empty"),
    (
        "pmem_anew",
        "furnished",
        {"pmem_anew.id": "maps", "pmem_anew.path_on_host": ""},
        "This is needed.",
    ),
    (
        "pmem_limits",
        "running",
        {"pmem_limits.id": "gone", "pmem_limits.rate_limiter.ops.size": "1"},
        "There is no such device.",
    ),
    ("pmem_removal", "running", {"pmem_removal.id": "gone"}, "There is no such device."),
    (
        "vsock",
        "empty",
        {"vsock.guest_cid": "3", "vsock.uds_path": "/none/v"},
        "There is no such file or folder on this host.",
    ),
    ("entropy", "empty", {"entropy.rate_limiter.ops.one_time_burst": "5"}, "This is needed."),
    ("balloon", "empty", {"balloon.amount_mib": "4096"}, "That is more than the machine has."),
    ("balloon_size", "running", {"balloon_size.amount_mib": "4096"}, "That is more than"),
    (
        "balloon_pace",
        "running",
        {"balloon_pace.stats_polling_interval_s": "0"},
        "Statistics are turned on or off before the start alone.",
    ),
    ("hints", "empty", {}, AFTER),
    ("hints_end", "empty", {}, AFTER),
    (
        "memory_hotplug",
        "empty",
        {"memory_hotplug.total_size_mib": "100"},
        "These sizes do not fit together.",
    ),
    (
        "memory_size",
        "running",
        {"memory_size.requested_size_mib": "4096"},
        "Not more than there may be, and a multiple of the pieces.",
    ),
    ("metadata", "running", {"document.contents": "[]"}, "Enter a JSON object, as in {}."),
    ("metadata_patch", "empty", {"patch.contents": "{}"}, "Nothing was saved here yet."),
    (
        "access",
        "empty",
        {"access.network_interfaces": "eth7", "access.version": "V2"},
        "There is no such interface.",
    ),
    (
        "snapshot",
        "paused",
        {"snapshot.snapshot_path": "/none/s", "snapshot.mem_file_path": "/none/m"},
        "This file cannot be opened.",
    ),
    (
        "diff",
        "running",
        {"diff.snapshot_path": "{folder}/s", "diff.mem_file_path": "{folder}/m"},
        "Pause the machine first.",
    ),
    (
        "restore",
        "running",
        {"restore.snapshot_path": "/s", "restore.mem_backend.backend_path": "/m"},
        BEFORE,
    ),
    ("logger", "empty", {"logger.log_path": "/none/log"}, "There is no such file or folder"),
    ("serial", "empty", {"serial.rate_limiter.size": "some"}, NUMBER),
    ("metrics", "empty", {"metrics.metrics_path": "/none/metrics"}, "There is no such file"),
    ("flush", "empty", {}, AFTER),
    (
        "cpu_template",
        "empty",
        {"cpu_template.cpu_template": "V1N1"},
        "This host's processors do not have this one.",
    ),
    (
        "cpu_config",
        "empty",
        {"cpu_config.contents": "[1]"},
        "JSON object",
    ),
)

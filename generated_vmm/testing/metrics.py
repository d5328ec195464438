"""The monitor's metrics: counters that are written as lines of JSON."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

# The groups and counters of 1.16.1; `_agg` stands for three figures. What is counted under another
# name shows as well.
NAMES: Final = """
api_server: process_startup_time_us process_startup_time_cpu_us
balloon: activate_fails inflate_count stats_updates_count stats_update_fails deflate_count
 event_fails free_page_report_count free_page_report_freed free_page_report_fails
 free_page_hint_count free_page_hint_freed free_page_hint_fails
block: activate_fails cfg_fails no_avail_buffer event_fails execute_fails invalid_reqs_count
 flush_count queue_event_count rate_limiter_event_count update_count update_fails read_bytes
 write_bytes read_count write_count read_agg write_agg rate_limiter_throttled_events
 io_engine_throttled_events remaining_reqs_count
deprecated_api: deprecated_http_api_calls
get_api_requests: instance_info_count machine_cfg_count mmds_count vmm_version_count
 hotplug_memory_count
i8042: error_count missed_read_count missed_write_count read_count reset_count write_count
uart: error_count flush_count missed_read_count missed_write_count read_count write_count
 rate_limiter_dropped_bytes
latencies_us: full_create_snapshot diff_create_snapshot load_snapshot pause_vm resume_vm
 vmm_full_create_snapshot vmm_diff_create_snapshot vmm_load_snapshot vmm_pause_vm vmm_resume_vm
logger: missed_metrics_count metrics_fails missed_log_count rate_limited_log_count
mmds: rx_accepted rx_accepted_err rx_accepted_unusual rx_bad_eth rx_invalid_token rx_no_token
 rx_count tx_bytes tx_count tx_errors tx_frames connections_created connections_destroyed
net: activate_fails cfg_fails mac_address_updates no_rx_avail_buffer no_tx_avail_buffer event_fails
 rx_queue_event_count rx_event_rate_limiter_count rx_rate_limiter_throttled rx_tap_event_count
 rx_bytes_count rx_packets_count rx_fails rx_count tap_read_fails tap_write_fails tap_write_agg
 tx_bytes_count tx_malformed_frames tx_fails tx_count tx_packets_count tx_queue_event_count
 tx_rate_limiter_event_count tx_rate_limiter_throttled tx_spoofed_mac_count tx_remaining_reqs_count
patch_api_requests: drive_count drive_fails network_count network_fails machine_cfg_count
 machine_cfg_fails mmds_count mmds_fails hotplug_memory_count hotplug_memory_fails pmem_count
 pmem_fails
put_api_requests: actions_count actions_fails boot_source_count boot_source_fails drive_count
 drive_fails logger_count logger_fails machine_cfg_count machine_cfg_fails cpu_cfg_count
 cpu_cfg_fails metrics_count metrics_fails network_count network_fails mmds_count mmds_fails
 vsock_count vsock_fails pmem_count pmem_fails serial_count serial_fails hotplug_memory_count
 hotplug_memory_fails
seccomp: num_faults
vcpu: exit_io_in exit_io_out exit_mmio_read exit_mmio_write failures kvmclock_ctrl_fails
 exit_io_in_agg exit_io_out_agg exit_mmio_read_agg exit_mmio_write_agg
vmm: panic_count
signals: sigbus sigsegv sigxfsz sigxcpu sigpipe sighup sigill
vsock: activate_fails cfg_fails rx_queue_event_fails tx_queue_event_fails ev_queue_event_fails
 muxer_event_fails conn_event_fails rx_queue_event_count tx_queue_event_count rx_bytes_count
 tx_bytes_count rx_packets_count tx_packets_count conns_added conns_killed conns_removed
 killq_resync tx_flush_fails tx_write_fails rx_read_fails
entropy: activate_fails entropy_event_fails entropy_event_count entropy_bytes host_rng_fails
 entropy_rate_limiter_throttled rate_limiter_event_count
pmem: activate_fails cfg_fails event_fails queue_event_count rate_limiter_throttled_events
 rate_limiter_event_count
interrupts: triggers config_updates
memory_hotplug: activate_fails queue_event_fails queue_event_count plug_agg plug_count plug_bytes
 plug_fails unplug_agg unplug_count unplug_bytes unplug_fails unplug_discard_fails unplug_all_agg
 unplug_all_count unplug_all_fails state_agg state_count state_fails
"""
GROUPS: Final = dict(line.split(": ", 1) for line in NAMES.strip().replace("\n ", " ").splitlines())
# What a request is counted as, by the first segments of its path.
COUNTED: Final = {
    "": "instance_info",
    "cpu-config": "cpu_cfg",
    "drives": "drive",
    "hotplug": "hotplug_memory",
    "machine-config": "machine_cfg",
    "network-interfaces": "network",
    "version": "vmm_version",
}


def _zeros(group: str) -> dict[str, Any]:
    """The counters of a group; that of one device, as `block_rootfs`, has those of its kind."""
    aggregate = {"min_us": 0, "max_us": 0, "sum_us": 0}
    names = GROUPS.get(group) or GROUPS.get(group.partition("_")[0], "")
    return {name: dict(aggregate) if name.endswith("_agg") else 0 for name in names.split()}


def _with_kind(group: str) -> tuple[str, ...]:
    """The group, and that of its kind when it is one device's."""
    kind = group.partition("_")[0]
    return (group, kind) if group not in GROUPS and kind in GROUPS else (group,)


class Metrics:
    """Counters since the last line. Safe to use from any thread."""

    def __init__(self) -> None:
        self._counters: Counter[tuple[str, str]] = Counter()
        self._lock = threading.Lock()

    def count(self, group: str, name: str, by: int = 1) -> None:
        """Add to a counter."""
        with self._lock:
            self._counters[group, name] += by

    def count_request(self, method: str, path: str, *, refused: bool) -> None:
        """Count what was asked and whether it was refused."""
        first = path.strip("/").partition("/")[0]
        name = COUNTED.get(first, first.replace("-", "_"))
        group = f"{method.lower()}_api_requests"
        if group not in GROUPS:
            return
        self.count(group, f"{name}_count")
        if refused and method != "GET":
            self.count(group, f"{name}_fails")

    def line(self, devices: Iterable[str] = ()) -> str:
        """What has been counted since the last call, as JSON; `devices` have groups of their own.

        What a device has counted is in the group of its kind too.
        """
        with self._lock:
            counted, self._counters = self._counters, Counter()
        groups = {group: _zeros(group) for group in (*GROUPS, *devices)}
        for (group, name), number in counted.items():
            for each in _with_kind(group):
                counters = groups.setdefault(each, _zeros(each))
                counters[name] = counters.get(name, 0) + number
        moment = {"utc_timestamp_ms": time.time_ns() // 10**6}
        return json.dumps(moment | groups, separators=(",", ":"))

"""Every form of the table, once accepted by the monitor and once refused."""

from __future__ import annotations

from pathlib import Path
from typing import Final, Literal

import pytest

from examples.console.changes import CHANGES
from generated_vmm import VmmClient
from tests.console.browser import Browser
from tests.console.running import RunningConsole

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
    ("network_anew", "furnished", {"network_anew.mtu": "1400"}, "PUT /network-interfaces/eth0"),
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

AFTER, BEFORE = "only possible after the start", "only possible before the start"
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
    ("metrics_copy", "empty", {"metrics_copy.path": "/tmp"}, "This console did not start this"),
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
        {"cpu_config.contents": '{"cpus": 1}'},
        "cpus: There is no such member.",
    ),
)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "file").write_bytes(bytes(4096))
    return tmp_path


def bring(console: RunningConsole, stage: Stage, folder: Path) -> None:
    """The machine of the console, with everything that can be set up unless it is to be empty."""
    with VmmClient(console.monitor.socket_path) as vm:
        if stage != "empty":
            furnish(vm, folder)
        if stage in ("running", "paused"):
            vm.action("InstanceStart")
            vm.mmds.set({})
        if stage == "paused":
            vm.pause()


def furnish(vm: VmmClient, folder: Path) -> None:
    file = folder / "file"
    vm.machine_config.set(vcpu_count=1, mem_size_mib=128, track_dirty_pages=True)
    vm.boot_source.set(kernel_image_path=file)
    vm.drive("root").set(path_on_host=file, is_root_device=True)
    vm.drive("data").set(path_on_host=file, is_root_device=False)
    vm.network_interface("eth0").set(host_dev_name="tap0")
    vm.pmem("maps").set(path_on_host=file)
    vm.vsock.set(guest_cid=3, uds_path=folder / "vsock")
    vm.balloon.set(
        amount_mib=0, deflate_on_oom=True, stats_polling_interval_s=1, free_page_hinting=True
    )
    vm.hotplug_memory.set(total_size_mib=256)
    vm.mmds.config.set(network_interfaces=["eth0"], version="V2")


def filled(typed: Typed, folder: Path) -> Typed:
    places = {"file": str(folder / "file"), "folder": str(folder)}
    return {
        name: text.format(**places) if text.startswith("{f") else text
        for name, text in typed.items()
    }


@pytest.mark.filterwarnings("ignore::generated_vmm.errors.VmmDeprecationWarning")
@pytest.mark.parametrize(
    ("name", "stage", "typed", "call"), ACCEPTED, ids=[case[0] for case in ACCEPTED]
)
def test_a_form_is_sent(
    alice: Browser,
    console: RunningConsole,
    folder: Path,
    name: str,
    stage: Stage,
    typed: Typed,
    call: str,
) -> None:
    bring(console, stage, folder)
    alice.open(f"/machines/demo/{CHANGES[name].tab}")
    change = CHANGES[name]
    item = f" {call.rpartition('/')[2]}" if change.items else ""
    alice.click(f"{change.button}{item}", filled(typed, folder))
    assert alice.status == 200
    assert change.done in alice.text
    assert console.changes()[-1] == call


@pytest.mark.parametrize(
    ("name", "stage", "typed", "sentence"), REFUSED, ids=[case[0] for case in REFUSED]
)
def test_a_refused_form_says_why_and_keeps_what_was_typed(
    alice: Browser,
    console: RunningConsole,
    folder: Path,
    name: str,
    stage: Stage,
    typed: Typed,
    sentence: str,
) -> None:
    bring(console, stage, folder)
    tab = CHANGES[name].tab
    alice.open(f"/machines/demo/{tab}")
    token = alice.field("csrf_token")
    texts = filled(typed, folder)
    alice.post(f"/machines/demo/{name}", {**texts, "csrf_token": token, "tab": tab})
    assert alice.status == 422
    assert sentence in alice.text
    shown = [form.fields for form in alice.page.forms if form.action.endswith(f"/{name}")]
    kept = {field: text for form in shown for field, text in form.items() if field in texts}
    assert kept == (texts if shown and not CHANGES[name].items else kept)


def test_no_form_is_left_out() -> None:
    hosted = {name for name, change in CHANGES.items() if change.hosted}
    assert {case[0] for case in ACCEPTED} | hosted | {"restore"} == set(CHANGES)
    assert {case[0] for case in REFUSED} == set(CHANGES)

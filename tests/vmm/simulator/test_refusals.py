"""What the monitor refuses, as a table: calls that it accepts, then the one that it does not."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from tests.vmm.simulator.caller import Caller
from tests.vmm.simulator.conftest import MakeMonitor

Call = tuple[str, str, object]

MISSING = "No such file or directory (os error 2)"
MISMATCH = "The id from the path does not match the id from the body!"
BAD_ID = "API Resource IDs can only contain alphanumeric characters and underscores."
NO_DRIVE = "Drive config error: Unable to create the virtio block device: "
NO_PATCH = "Drive config error: Unable to patch the block device: "
VERIFY = " Please verify the request arguments."
NO_TAP = "Network config error: Could not create the network device: "
NOT_FOUND = "Failed perform action on device: Device not found"
NO_BOOT = "Boot source error: "
NO_START = "Start microvm error: "
NO_INITRD = f"{NO_START}Error with initrd initialization: "
NO_HOTPLUG = "Memory hotplug config error: "

BALLOON = {"amount_mib": 10, "deflate_on_oom": True}
BUCKET = {"size": 1, "refill_time": 1}
HOTPLUG = {"total_size_mib": 1024}
KERNEL: Call = ("PUT", "/boot-source", {"kernel_image_path": "{kernel}"})
START: Call = ("PUT", "/actions", {"action_type": "InstanceStart"})
BOOTED = (KERNEL, START)


def drive(name: str, **more: object) -> Call:
    body = {"drive_id": name, "is_root_device": False, "path_on_host": "{disk}"}
    return "PUT", f"/drives/{name}", body | more


def pmem(name: str, **more: object) -> Call:
    return "PUT", f"/pmem/{name}", {"id": name, "path_on_host": "{disk}", **more}


def interface(name: str, **more: object) -> Call:
    body = {"iface_id": name, "host_dev_name": f"tap_{name}"}
    return "PUT", f"/network-interfaces/{name}", body | more


def boot(**source: object) -> Call:
    return "PUT", "/boot-source", {"kernel_image_path": "{kernel}", **source}


def hotplug(**sizes: int) -> Call:
    return "PUT", "/hotplug/memory", HOTPLUG | sizes


class Refusal(NamedTuple):
    """`before` is accepted; braces name files."""

    call: Call
    fault: str
    before: tuple[Call, ...] = ()
    pci: bool = False


PATCHED = (
    drive("a"),
    drive("v", path_on_host=None, socket="{backend}"),
    *BOOTED,
)
FOR_FILES: tuple[dict[str, object], ...] = (
    {"path_on_host": "/dev/null"},
    {"path_on_host": None, "io_engine": "Sync"},
    {"path_on_host": None, "is_read_only": False},
    {"path_on_host": None, "rate_limiter": {}},
)
PLUGGED = tuple(make("a") for make in (drive, pmem, interface))

REFUSALS = [
    # Ids
    *(
        Refusal(("PUT", f"/drives{end}", "no JSON"), "The ID cannot be empty.")
        for end in ("", "/", "//")
    ),
    *(Refusal(("PUT", f"/{path}", "no JSON"), BAD_ID) for path in ("drives/a-b", "pmem/a%20b")),
    Refusal(("PUT", "/drives/a", drive("b")[2]), MISMATCH),
    Refusal(("PATCH", "/pmem/a", {"id": "b"}), MISMATCH, BOOTED),
    Refusal(
        ("PUT", "/network-interfaces/a", interface("b")[2]),
        "The id from the path [a] does not match the id from the body [b]!",
    ),
    # Drives
    *(
        Refusal(drive("a", socket="{backend}", **one), f"{NO_DRIVE}Invalid block config.")
        for one in FOR_FILES
    ),
    Refusal(drive("a", path_on_host=None), f"{NO_DRIVE}Invalid block config."),
    Refusal(
        drive("a", path_on_host="{folder}/{nothing}"),
        f"{NO_DRIVE}Virtio backend error: Error manipulating the backing file: "
        f"{MISSING} {{folder}}/{{nothing}}",
    ),
    Refusal(
        drive("b", is_root_device=True),
        "Drive config error: A root block device already exists!",
        (drive("a", is_root_device=True),),
    ),
    Refusal(
        drive("a", is_root_device=True),
        "Drive config error: Attempt to add block as a root device while the root device defined "
        "as a pmem device",
        (pmem("p", root_device=True),),
    ),
    Refusal(
        ("PATCH", "/drives/b", {"drive_id": "b", "path_on_host": "/x"}),
        f"{NO_PATCH}{NOT_FOUND}{VERIFY}",
        BOOTED,
    ),
    Refusal(
        ("PATCH", "/drives/a", {"drive_id": "a", "path_on_host": "/no/file"}),
        f"{NO_PATCH}Block: Virtio backend error: Error manipulating the backing file: "
        f"{MISSING} /no/file{VERIFY}",
        PATCHED,
    ),
    *(
        Refusal(
            ("PATCH", f"/drives/{body['drive_id']}", body),
            f"{NO_PATCH}Block: Running method expected different backend.{VERIFY}",
            PATCHED,
        )
        for body in ({"drive_id": "a"}, {"drive_id": "v", "path_on_host": "/x"})
    ),
    # Pmem
    Refusal(
        pmem("q", root_device=True),
        "Pmem config error: A root pmem device already exist",
        (pmem("p", root_device=True),),
    ),
    Refusal(
        pmem("p", root_device=True),
        "Pmem config error: Attempt to add pmem as a root device while the root device defined "
        "as a block device",
        (drive("a", is_root_device=True),),
    ),
    Refusal(
        START,
        f"{NO_START}Cannot create pmem device: Error accessing backing file: {MISSING}",
        (pmem("p", path_on_host="{folder}/nothing"), KERNEL),
    ),
    Refusal(
        ("PATCH", "/pmem/p", {"id": "p", "rate_limiter": {"ops": BUCKET}}),
        f"Pmem config error: Unable to patch the pmem device: {NOT_FOUND}{VERIFY}",
        BOOTED,
    ),
    # Network interfaces
    Refusal(
        interface("b", guest_mac="06:00:00:00:00:01"),
        "Network config error: The MAC address is already in use: 06:00:00:00:00:01",
        (interface("a", guest_mac="06:00:00:00:00:01"),),
    ),
    Refusal(interface("a", mtu=67), f"{NO_TAP}MTU 67 is out of range [68, 65535]"),
    Refusal(
        interface("b", host_dev_name="tap_a"),
        f"{NO_TAP}Open tap device failed: Error while creating ifreq structure: Device or "
        "resource busy (os error 16). Invalid TUN/TAP Backend provided by tap_a. "
        "Check our documentation on setting up the network devices.",
        (interface("a"),),
    ),
    Refusal(
        interface("a", host_dev_name="sixteen_letters_"),
        f"{NO_TAP}Open tap device failed: Invalid interface name",
    ),
    *(
        Refusal(
            interface("a", host_dev_name=name),
            f"{NO_TAP}Open tap device failed: Error while creating ifreq structure: "
            f"Invalid argument (os error 22). Invalid TUN/TAP Backend provided by {name}. "
            "Check our documentation on setting up the network devices.",
        )
        for name in ("lo", "a/b")
    ),
    Refusal(
        ("PATCH", "/network-interfaces/z", {"iface_id": "z"}),
        f"Network config error: Unable to update the net device: {NOT_FOUND}",
        BOOTED,
    ),
    # Hotplug
    *(
        Refusal(make("b"), "PCI is not enabled", (make("a"), *BOOTED))
        for make in (drive, pmem, interface)
    ),
    *(
        Refusal(("DELETE", call[1], None), "PCI is not enabled", (call, *BOOTED))
        for call in PLUGGED
    ),
    *(Refusal(call, "Device ID in use", (call, *BOOTED), pci=True) for call in PLUGGED),
    *(Refusal(("DELETE", call[1], None), "Device not found", BOOTED, pci=True) for call in PLUGGED),
    *(
        Refusal(("DELETE", call[1], {}), "Empty Delete request.", (call, *BOOTED), pci=True)
        for call in PLUGGED
    ),
    *(
        Refusal(("DELETE", call[1], None), "Cannot unplug root device", (call, *BOOTED), pci=True)
        for call in (drive("a", is_root_device=True), pmem("a", root_device=True))
    ),
    Refusal(
        drive("a", is_root_device=True),
        "Drive config error: A root block device already exists!",
        BOOTED,
        pci=True,
    ),
    Refusal(
        pmem("a", path_on_host="{empty}"),
        "Pmem config error: Unable to create the virtio-pmem device: Error backing file size is 0",
        BOOTED,
        pci=True,
    ),
    # Boot
    Refusal(
        boot(kernel_image_path="/no/file"), f"{NO_BOOT}The kernel file cannot be opened: {MISSING}"
    ),
    Refusal(
        boot(initrd_path="/no/file"),
        f"{NO_BOOT}The initrd file cannot be opened due to invalid path or invalid permissions. "
        f"{MISSING}",
    ),
    Refusal(START, f"{NO_START}Cannot start microvm without kernel configuration."),
    Refusal(
        START,
        f"{NO_INITRD}Cannot load initrd due to an invalid memory configuration..",
        (boot(initrd_path="{empty}"),),
    ),
    Refusal(
        START, f"{NO_INITRD}Failed to compute the initrd address..", (boot(initrd_path="{large}"),)
    ),
    Refusal(
        START,
        f"{NO_INITRD}Cannot load initrd due to an invalid image: Is a directory (os error 21).",
        (boot(initrd_path="{folder}"),),
    ),
    Refusal(
        START,
        f"{NO_START}Invalid Memory Configuration: Cannot create mmap region: "
        "Cannot allocate memory (os error 12)",
        (KERNEL, ("PUT", "/machine-config", {"vcpu_count": 1, "mem_size_mib": 2**64 - 1})),
    ),
    Refusal(
        START,
        f"{NO_START}Failed to allocate guest resource: The requested resource is not available.",
        (KERNEL, hotplug(total_size_mib=2**20)),
    ),
    Refusal(
        START,
        f"{NO_START}Failed to create device manager: Error with EventFd: {MISSING}",
        (KERNEL, ("PUT", "/serial", {"serial_out_path": "/no/such/folder/serial"})),
    ),
    Refusal(
        ("PATCH", "/machine-config", {"mem_size_mib": 99}),
        "Machine config error: The memory size (MiB) is smaller than the previously set balloon "
        "device target size.",
        (("PUT", "/balloon", BALLOON | {"amount_mib": 100}),),
    ),
    *(
        Refusal(("PATCH", "/machine-config", body), "Empty PATCH request.")
        for body in ({}, {"vcpu_count": None, "smt": None})
    ),
    # Outlets and vsock
    Refusal(
        ("PUT", "/logger", {"log_path": "/no/such/folder/log"}),
        f"Logger error: Failed to open target file: {MISSING}",
    ),
    Refusal(
        ("PUT", "/vsock", {"guest_cid": 3, "uds_path": "{disk}"}),
        "Vsock config error: Cannot create backend for vsock device: "
        "Error binding to the host-side Unix socket: Address already in use (os error 98)",
    ),
    # Memory
    Refusal(
        ("PUT", "/balloon", BALLOON | {"amount_mib": 129}),
        "Balloon config error: Amount of pages requested is too large.",
    ),
    Refusal(
        ("PATCH", "/balloon", {"amount_mib": 129}),
        "Balloon update error: Balloon: Requested memory should be less than 129MiB",
        (("PUT", "/balloon", BALLOON), *BOOTED),
    ),
    Refusal(
        ("PATCH", "/balloon/statistics", {"stats_polling_interval_s": 1}),
        "Balloon update error: Balloon: Statistics cannot be enabled/disabled after activation.",
        (("PUT", "/balloon", BALLOON), *BOOTED),
    ),
    Refusal(
        ("GET", "/balloon/statistics", None),
        "Internal VMM error: Balloon: Received stats query when stats are disabled.",
        (("PUT", "/balloon", BALLOON), *BOOTED),
    ),
    *(
        Refusal(
            (method, path, None),
            "Balloon update error: Balloon: Attempting to use hinting when not enabled",
            (("PUT", "/balloon", BALLOON), *BOOTED),
        )
        for method, path in (
            ("PATCH", "/balloon/hinting/start"),
            ("GET", "/balloon/hinting/status"),
        )
    ),
    Refusal(("GET", "/balloon", None), "Balloon config error: No balloon device found."),
    Refusal(("GET", "/balloon", None), f"Internal VMM error: {NOT_FOUND}", BOOTED),
    Refusal(("PATCH", "/balloon", {"amount_mib": 1}), f"Balloon update error: {NOT_FOUND}", BOOTED),
    Refusal(("GET", "/balloon/statistics", None), f"Internal VMM error: {NOT_FOUND}", BOOTED),
    Refusal(("PATCH", "/balloon/hinting/stop", None), f"Balloon update error: {NOT_FOUND}", BOOTED),
    Refusal(hotplug(block_size_mib=1), f"{NO_HOTPLUG}Block size must not be lower than 2 MiB"),
    Refusal(hotplug(block_size_mib=6), f"{NO_HOTPLUG}Block size must be a power of 2"),
    Refusal(hotplug(slot_size_mib=64), f"{NO_HOTPLUG}Slot size must not be lower than 128 MiB"),
    Refusal(
        hotplug(slot_size_mib=130, block_size_mib=4),
        f"{NO_HOTPLUG}Slot size must be a multiple of block size (4 MiB)",
    ),
    Refusal(
        hotplug(total_size_mib=64),
        f"{NO_HOTPLUG}Total size must not be lower than slot size (128 MiB)",
    ),
    Refusal(
        hotplug(total_size_mib=1000),
        f"{NO_HOTPLUG}Total size must be a multiple of slot size (128 MiB)",
    ),
    *(
        Refusal(
            ("PATCH", "/hotplug/memory", {"requested_size_mib": size}),
            "Memory hotplug update error: Failed to create memory hotplug device: Size "
            f"{size << 20} is invalid: it must be a multiple of block size and less than the total "
            "size",
            (hotplug(), *BOOTED),
        )
        for size in (3, 1026)
    ),
    Refusal(("GET", "/hotplug/memory", None), f"Internal VMM error: {NOT_FOUND}", BOOTED),
    Refusal(
        ("PATCH", "/hotplug/memory", {"requested_size_mib": 0}),
        f"Memory hotplug update error: {NOT_FOUND}",
        BOOTED,
    ),
]


@pytest.fixture
def names(kernel: str, disk: str, backend: str, folder: Any) -> Mapping[str, str]:
    (folder / "empty").touch()
    with (folder / "large").open("wb") as file:
        file.truncate(129 << 20)
    here = {name: str(folder / name) for name in ("empty", "large")}
    return here | {"kernel": kernel, "disk": disk, "backend": backend, "folder": str(folder)}


@pytest.mark.parametrize("case", REFUSALS, ids=lambda case: " ".join(case.call[:2]))
def test_it_is_refused_and_changes_nothing(
    make_monitor: MakeMonitor, names: Mapping[str, str], case: Refusal
) -> None:
    call = Caller(make_monitor(enable_pci=case.pci).socket_path)
    for accepted in case.before:
        call.accepted(*filled(accepted, names))
    shown = call.get("/vm/config"), call.get("/")
    reply = call(*filled(case.call, names))
    assert (reply.status, reply.fault) == (400, named(case.fault, names))
    assert (call.get("/vm/config"), call.get("/")) == shown


def filled(call: Call, names: Mapping[str, str]) -> Call:
    method, path, body = call
    return method, path, None if body is None else named(json.dumps(body), names)


def named(text: str, names: Mapping[str, str]) -> str:
    for name, value in names.items():
        text = text.replace(f"{{{name}}}", value)
    return text

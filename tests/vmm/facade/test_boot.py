"""`boot`: the typical sequence in one call; the same as a document for `--config-file`."""

import json
from collections.abc import Callable

import pytest

from generated_vmm import (
    BootSource,
    Drive,
    FullVmConfiguration,
    InstanceInfo,
    MachineConfiguration,
    VmmApiError,
    VmmClient,
    to_config_file,
)
from tests.vmm.described import has_field
from tests.vmm.facade.conftest import Run, Serve
from tests.vmm.scripted import NO_CONTENT, Wire, answer

INFO = answer(200, b'{"app_name":"a","id":"b","state":"Running","vmm_version":"1"}')
KERNEL = ("PUT /boot-source", {"kernel_image_path": "/k"})
ROOT = ("PUT /drives/rootfs", {"drive_id": "rootfs", "is_root_device": True, "path_on_host": "/r"})
SIZE = ("PUT /machine-config", {"vcpu_count": 2, "mem_size_mib": 512})
START = [("PUT /actions", {"action_type": "InstanceStart"}), ("GET /", None)]

BOOTS: dict[str, tuple[Callable[[VmmClient], InstanceInfo], list[object]]] = {
    "paths and a mapping": (
        lambda vm: vm.boot("/k", "/r", {"vcpu_count": 2, "mem_size_mib": 512}),
        [KERNEL, ROOT, SIZE, *START],
    ),
    "models": (
        lambda vm: vm.boot(
            BootSource(kernel_image_path="/k"),
            root_drive=Drive(drive_id="rootfs", is_root_device=True, path_on_host="/r"),
            machine_config=MachineConfiguration(vcpu_count=2, mem_size_mib=512),
        ),
        [KERNEL, ROOT, SIZE, *START],
    ),
    "a root drive as mapping": (
        lambda vm: vm.boot("/k", {"path_on_host": "/r"}),
        [KERNEL, ROOT, *START],
    ),
    "a root drive with another id": (
        lambda vm: vm.boot("/k", Drive(drive_id="a", is_root_device=True, path_on_host="/r")),
        [
            KERNEL,
            ("PUT /drives/a", {"drive_id": "a", "is_root_device": True, "path_on_host": "/r"}),
            *START,
        ],
    ),
    "single fields of the machine configuration": (
        lambda vm: vm.boot("/k", "/r", vcpu_count=2),
        [KERNEL, ROOT, ("PATCH /machine-config", {"vcpu_count": 2}), *START],
    ),
    "an initrd and no drive": (
        lambda vm: vm.boot({"kernel_image_path": "/k", "initrd_path": "/i"}),
        [("PUT /boot-source", {"kernel_image_path": "/k", "initrd_path": "/i"}), *START],
    ),
}
REFUSED: dict[str, tuple[Callable[[VmmClient], object], str]] = {
    "boot source": (lambda vm: vm.boot({}), "kernel_image_path"),
    "root drive": (lambda vm: vm.boot("/k", {"path_on_host": 5}), "path_on_host"),
    "root drive that is none": (
        lambda vm: vm.boot("/k", Drive(drive_id="a", is_root_device=False)),
        "is_root_device",
    ),
    "id of the root drive": (
        lambda vm: vm.boot("/k", {"drive_id": "a-b", "path_on_host": "/r"}),
        "drive_id 'a-b'",
    ),
    "machine configuration": (lambda vm: vm.boot("/k", "/r", {"vcpu_count": 99}), "vcpu_count"),
    "a field of it": (lambda vm: vm.boot("/k", "/r", vcpu_count=99), "vcpu_count"),
}


def monitor(wire: Wire) -> None:
    while wire.request():
        wire.send(INFO if wire.latest.startswith(b"GET") else NO_CONTENT)


@pytest.mark.parametrize(("boot", "sent"), BOOTS.values(), ids=BOOTS)
def test_it_configures_starts_and_reads_the_state(
    run: Run, serve: Serve, boot: Callable[[VmmClient], InstanceInfo], sent: list[object]
) -> None:
    server = serve(monitor)
    assert run(boot).state == "Running"
    assert server.sent() == sent


@pytest.mark.parametrize(("boot", "text"), REFUSED.values(), ids=REFUSED)
def test_all_values_are_checked_before_the_first_call(
    run: Run, serve: Serve, boot: Callable[[VmmClient], object], text: str
) -> None:
    server = serve(monitor)
    with pytest.raises(ValueError, match=text):
        run(boot)
    assert server.requests == []


def test_the_machine_configuration_is_passed_in_one_way() -> None:
    with pytest.raises(TypeError, match="pass the body or keyword arguments, not both"):
        VmmClient("/s").boot("/k", "/r", {"vcpu_count": 2, "mem_size_mib": 128}, smt=True)


def test_it_stops_at_the_first_refusal(run: Run, serve: Serve) -> None:
    def play(wire: Wire) -> None:
        while wire.request():
            refused = wire.latest.startswith(b"PUT /drives")
            wire.send(answer(400, b'{"fault_message":"no file"}') if refused else NO_CONTENT)

    server = serve(play)
    with pytest.raises(VmmApiError, match="no file") as caught:
        run(lambda vm: vm.boot("/k", "/r"))
    assert str(caught.value.operation) == "putGuestDriveByID (PUT /drives/rootfs)"
    assert server.sent() == [KERNEL, ROOT]


# What `GET /vm/config` shows, as a document for the monitor's `--config-file`


SHOWN = {
    "balloon": None,
    "drives": [
        {
            "drive_id": "rootfs",
            "partuuid": None,
            "is_root_device": True,
            "cache_type": "Unsafe",
            "is_read_only": False,
            "path_on_host": "/r",
            "rate_limiter": {"bandwidth": None, "ops": {"size": 1, "refill_time": 2}},
            "io_engine": "Sync",
            "socket": None,
        }
    ],
    "boot-source": {"kernel_image_path": "/k", "initrd_path": None, "boot_args": "quiet"},
    "cpu-config": None,
    "logger": None,
    "machine-config": {"vcpu_count": 2, "mem_size_mib": 512, "smt": False},
    "metrics": None,
    "mmds-config": {"version": "V2", "network_interfaces": ["eth0"]},
    "network-interfaces": [{"iface_id": "eth0", "host_dev_name": "tap0", "mtu": None}],
    "pmem": [],
    "vsock": {"guest_cid": 3, "uds_path": "/v"},
    "entropy": {"rate_limiter": None},
    "memory-hotplug": None,
}


def without_nulls(value: object) -> object:
    if isinstance(value, dict):
        return {name: without_nulls(each) for name, each in value.items() if each is not None}
    return [without_nulls(each) for each in value] if isinstance(value, list) else value


def shown(**changes: object) -> FullVmConfiguration:
    return FullVmConfiguration.from_answer(json.dumps({**SHOWN, **changes}).encode())


def test_the_document_says_all_that_was_shown_and_no_null() -> None:
    known = {
        name: value for name, value in SHOWN.items() if has_field(f"FullVmConfiguration.{name}")
    }
    assert json.loads(to_config_file(shown())) == without_nulls(known)


def test_the_document_reads_back_as_the_same_configuration() -> None:
    document = to_config_file(shown())
    assert to_config_file(FullVmConfiguration.from_answer(document.encode())) == document


def test_the_list_of_drives_is_always_there() -> None:
    assert json.loads(to_config_file(shown(drives=None)))["drives"] == []


@pytest.mark.parametrize("boot_source", [None, {"kernel_image_path": ""}])
def test_without_a_kernel_there_is_no_document(boot_source: object) -> None:
    with pytest.raises(ValueError, match="kernel_image_path"):
        to_config_file(shown(**{"boot-source": boot_source}))

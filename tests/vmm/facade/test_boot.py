"""`boot`: the typical sequence in one call."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from generated_vmm import (
    BootSource,
    Drive,
    InstanceInfo,
    MachineConfiguration,
    VmmApiError,
    VmmClient,
)
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

"""Every getter asks its endpoint and reads the answer into its model."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping

import pytest
from pydantic import BaseModel

from generated_vmm import VmmClient, VmmError
from tests.vmm.described import has
from tests.vmm.facade.conftest import Run, Serve
from tests.vmm.scripted import Wire, answer

MACHINE = {"vcpu_count": 2, "mem_size_mib": 512, "smt": False, "track_dirty_pages": False}
INSTANCE = {"app_name": "Firecracker", "id": "a", "state": "Running", "vmm_version": "1.16.1"}
STATS = {"target_pages": 1, "actual_pages": 2, "target_mib": 3, "actual_mib": 4, "swap_in": 2**63}
HOTPLUG = {
    "total_size_mib": 1024,
    "slot_size_mib": 128,
    "block_size_mib": 2,
    "plugged_size_mib": 0,
    "requested_size_mib": 0,
}
VM_CONFIG = {
    "balloon": None,
    "drives": [{"drive_id": "rootfs", "is_root_device": True, "partuuid": None}],
    "boot-source": {"kernel_image_path": "/vmlinux", "initrd_path": None},
    "cpu-config": None,
    "machine-config": MACHINE,
    "network-interfaces": [],
    "vsock": None,
}

Asked = tuple[Callable[[VmmClient], BaseModel], str, Mapping[str, object]]
GETTERS: dict[str, Asked] = {
    "get_instance_info": (lambda vm: vm.get_instance_info(), "GET /", INSTANCE),
    "get_version": (
        lambda vm: vm.get_version(),
        "GET /version",
        {"firecracker_version": "1.16.1"},
    ),
    "balloon.get": (
        lambda vm: vm.balloon.get(),
        "GET /balloon",
        {"amount_mib": 1, "deflate_on_oom": False},
    ),
    "balloon.stats.get": (lambda vm: vm.balloon.stats.get(), "GET /balloon/statistics", STATS),
    "balloon.hinting.status": (
        lambda vm: vm.balloon.hinting.status(),
        "GET /balloon/hinting/status",
        {"host_cmd": 1, "guest_cmd": None},
    ),
    "hotplug_memory.get": (lambda vm: vm.hotplug_memory.get(), "GET /hotplug/memory", HOTPLUG),
    "machine_config.get": (lambda vm: vm.machine_config.get(), "GET /machine-config", MACHINE),
    "vm_config.get": (lambda vm: vm.vm_config.get(), "GET /vm/config", VM_CONFIG),
}


def answering(body: object) -> Callable[[Wire], None]:
    return lambda wire: wire.answer_all(answer(200, json.dumps(body).encode()))


@pytest.mark.parametrize(("call", "line", "body"), GETTERS.values(), ids=GETTERS)
def test_a_getter_reads_all_that_was_answered(
    run: Run,
    serve: Serve,
    call: Callable[[VmmClient], BaseModel],
    line: str,
    body: Mapping[str, object],
) -> None:
    server = serve(answering(body))
    if has(line):
        assert run(call).model_dump(by_alias=True, exclude_unset=True) == body
        assert server.sent() == [(line, None)]
    else:
        with pytest.raises(VmmError, match="needs monitor"):
            run(call)


def test_metadata_is_a_plain_dict_with_its_nulls(run: Run, serve: Serve) -> None:
    serve(answering({"latest": {"a": None, "b": [1, "x"]}}))
    assert run(lambda vm: vm.mmds.get()) == {"latest": {"a": None, "b": [1, "x"]}}


def test_what_a_newer_monitor_answers_is_readable(run: Run, serve: Serve) -> None:
    serve(answering({**INSTANCE, "state": "Hibernating", "mood": "good"}))
    assert str(run(lambda vm: vm.get_instance_info()).state) == "Hibernating"

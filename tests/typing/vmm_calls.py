"""What type checkers say of calls on both clients. Checked, never run.

A wrong call has an ignore with the code that mypy gives it: should mypy accept the call one day,
the ignore is unused, which is an error too.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import assert_type

from pydantic import JsonValue

from generated_vmm import (
    AsyncVmmClient,
    Balloon,
    BalloonFields,
    BootSource,
    Drive,
    FirecrackerVersion,
    FullVmConfiguration,
    InstanceInfo,
    MachineConfiguration,
    Operation,
    RateLimiter,
    TokenBucket,
    VmmClient,
)


def right(vm: VmmClient, mapping: Mapping[str, object], fields: BalloonFields) -> None:
    assert_type(vm.get_instance_info(), InstanceInfo)
    assert_type(vm.get_version(), FirecrackerVersion)
    assert_type(vm.vm_config.get(), FullVmConfiguration)
    assert_type(vm.machine_config.get(), MachineConfiguration)
    assert_type(vm.machine_config.get().vcpu_count, int)
    assert_type(vm.mmds.get(), dict[str, JsonValue])
    assert_type(vm.boot("/k", "/r", mapping), InstanceInfo)
    assert_type(vm.boot(BootSource(kernel_image_path="/k")), InstanceInfo)
    assert_type(vm.wait_until_ready(3), InstanceInfo)
    assert_type(vm.with_options(timeout=None), VmmClient)
    vm.boot_source.set(kernel_image_path="/k")
    vm.boot_source.set(BootSource(kernel_image_path="/k"))
    vm.boot_source.set({"kernel_image_path": "/k"})
    vm.boot_source.set(mapping)
    vm.balloon.set(fields)
    vm.balloon.set(**fields)
    vm.entropy.set()
    vm.machine_config.update(huge_pages="2M")
    vm.action("InstanceStart")
    vm.drive("d").set(is_root_device=True, rate_limiter={"ops": {"size": 1, "refill_time": 1}})
    vm.drive("d").set(
        is_root_device=True, rate_limiter=RateLimiter(ops=TokenBucket(size=1, refill_time=1))
    )
    vm.drive("d").set(Drive(drive_id="d", is_root_device=True))
    vm.balloon.hinting.start()
    vm.balloon.hinting.start(acknowledge_on_stop=False)
    vm.mmds.set({"a": [None, {"b": 1}]})


def wrong(vm: VmmClient) -> None:
    vm.boot_source.set()  # type: ignore[call-overload]
    vm.boot_source.set(kernel_image_path=1)  # type: ignore[call-overload]
    vm.boot_source.set(kernel_image_path="/k", kernel_args="")  # type: ignore[call-overload]
    vm.boot_source.set(Balloon(amount_mib=1, deflate_on_oom=True))  # type: ignore[call-overload]
    vm.boot_source.set("/k")  # type: ignore[call-overload]
    vm.boot_source.set({"kernel_image_path": "/k"}, boot_args="")  # type: ignore[call-overload]
    vm.machine_config.set(vcpu_count=1)  # type: ignore[call-overload]
    vm.machine_config.update(huge_pages="3M")  # type: ignore[call-overload]
    vm.drive("d").set(drive_id="d", is_root_device=True)  # type: ignore[call-overload]
    vm.drive("d").set(is_root_device=True, rate_limiter={"op": {}})  # type: ignore[call-overload]
    vm.drive(1)  # type: ignore[arg-type]
    vm.drive()  # type: ignore[call-arg]
    vm.action("InstanceStrat")  # type: ignore[arg-type]
    vm.mmds.set({"a": object()})  # type: ignore[dict-item]
    vm.mmds.set([1])  # type: ignore[arg-type]
    vm.with_options(5)  # type: ignore[call-arg]
    vm.boot(root_drive="/r")  # type: ignore[call-arg]
    print(vm.get_instance_info().stat)  # type: ignore[attr-defined]
    vm.serial.get()  # type: ignore[attr-defined]


async def right_async(vm: AsyncVmmClient, operation: Operation[Balloon]) -> None:
    assert_type(await vm.get_instance_info(), InstanceInfo)
    assert_type(await vm.mmds.get(), dict[str, JsonValue])
    assert_type(await vm.send(operation), Balloon)
    assert_type(vm.with_options(timeout=1.5), AsyncVmmClient)
    async with vm as same:
        assert_type(same, AsyncVmmClient)
    await vm.boot_source.set(kernel_image_path="/k")
    await vm.boot_source.set(BootSource(kernel_image_path="/k"))
    await vm.drive("d").delete()


async def wrong_async(vm: AsyncVmmClient) -> None:
    await vm.boot_source.set()  # type: ignore[call-overload]
    await vm.machine_config.set(vcpu_count="1", mem_size_mib=1)  # type: ignore[call-overload]
    await vm.drive("d")  # type: ignore[misc]
    print(vm.get_instance_info().state)  # type: ignore[attr-defined]
    with vm:  # type: ignore[attr-defined]
        pass

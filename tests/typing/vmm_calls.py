"""What type checkers say of calls on both clients, errors and transports. Checked, never run.

A wrong call has an ignore with the code that mypy gives it: should mypy accept the call one day,
the ignore is unused, which is an error too.
"""

from __future__ import annotations

import socket
from asyncio import StreamReader, StreamWriter
from collections.abc import Mapping
from typing import assert_type

from pydantic import JsonValue

from generated_vmm import (
    AsyncVmmClient,
    Balloon,
    BalloonFields,
    BootSource,
    Drive,
    FullVmConfiguration,
    InstanceInfo,
    MachineConfiguration,
    Operation,
    RateLimiter,
    TokenBucket,
    VmmApiError,
    VmmClient,
    VmmError,
    VmmTimeoutError,
    to_config_file,
)
from generated_vmm.transport import AsyncUnixChannel, UnixChannel


def right(vm: VmmClient, mapping: Mapping[str, object], fields: BalloonFields) -> None:
    assert_type(vm.get_instance_info(), InstanceInfo)
    assert_type(vm.vm_config.get(), FullVmConfiguration)
    assert_type(vm.machine_config.get(), MachineConfiguration)
    assert_type(vm.mmds.get(), dict[str, JsonValue])
    assert_type(vm.boot(BootSource(kernel_image_path="/k")), InstanceInfo)
    assert_type(vm.wait_until_ready(3), InstanceInfo)
    assert_type(vm.with_options(timeout=None), VmmClient)
    vm.boot_source.set(kernel_image_path="/k")
    vm.boot_source.set({"kernel_image_path": "/k"})
    vm.boot_source.set(mapping)
    vm.balloon.set(fields)
    vm.balloon.set(**fields)
    vm.machine_config.update(huge_pages="2M")
    vm.action("InstanceStart")
    vm.drive("d").set(
        is_root_device=True, rate_limiter=RateLimiter(ops=TokenBucket(size=1, refill_time=1))
    )
    vm.drive("d").set(Drive(drive_id="d", is_root_device=True))
    vm.balloon.hinting.start()
    vm.balloon.hinting.start(acknowledge_on_stop=False)
    vm.mmds.set({"a": [None, {"b": 1}]})


def wrong(vm: VmmClient) -> None:
    vm.boot_source.set()  # type: ignore[call-overload]
    vm.boot_source.set(kernel_image_path="/k", kernel_args="")  # type: ignore[call-overload]
    vm.boot_source.set(Balloon(amount_mib=1, deflate_on_oom=True))  # type: ignore[call-overload]
    vm.boot_source.set({"kernel_image_path": "/k"}, boot_args="")  # type: ignore[call-overload]
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
    await vm.drive("d")  # type: ignore[misc]
    print(vm.get_instance_info().state)  # type: ignore[attr-defined]
    with vm:  # type: ignore[attr-defined]
        pass


def errors(vm: VmmClient) -> None:
    try:
        vm.pause()
    except VmmApiError as refusal:
        assert_type(refusal.status_code, int)
        assert_type(refusal.fault_message, str)
        assert_type(refusal.operation.id, str)
    except (VmmTimeoutError, TimeoutError) as late:
        assert_type(late, VmmTimeoutError | TimeoutError)
    except VmmError as error:
        assert_type(error.operation, Operation[object] | None)


def operations(vm: VmmClient, operation: Operation[InstanceInfo]) -> None:
    assert_type(vm.send(operation), InstanceInfo)
    takes_any(operation)
    operation.path = "/other"  # type: ignore[misc]


def takes_any(operation: Operation[object]) -> None:
    """An operation that answers something in particular is one that answers an object."""


def transports(sync: UnixChannel, waiting: AsyncUnixChannel) -> None:
    VmmClient("/s", transport=sync)
    AsyncVmmClient("/s", transport=waiting)
    VmmClient("/s", transport=waiting)  # type: ignore[arg-type]
    AsyncVmmClient("/s", transport=sync)  # type: ignore[arg-type]
    VmmClient("/s", 5.0)  # type: ignore[call-arg]
    VmmClient("/s", timeout="5")  # type: ignore[arg-type]


def whole_configuration(vm: VmmClient) -> None:
    assert_type(to_config_file(vm.vm_config.get()), str)
    to_config_file(vm.machine_config.get())  # type: ignore[arg-type]


def vsock(vm: VmmClient) -> None:
    assert_type(vm.connect_vsock(52), socket.socket)


async def vsock_async(vm: AsyncVmmClient) -> None:
    assert_type(await vm.connect_vsock(52), tuple[StreamReader, StreamWriter])

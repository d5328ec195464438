"""What type checkers say of errors, operations and transports. Checked, never run."""

from __future__ import annotations

import socket
from asyncio import StreamReader, StreamWriter
from typing import assert_type

import httpx

from generated_vmm import (
    AsyncVmmClient,
    InstanceInfo,
    Operation,
    VmmApiError,
    VmmClient,
    VmmError,
    VmmTimeoutError,
    to_config_file,
)


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


def transports(sync: httpx.BaseTransport, waiting: httpx.AsyncBaseTransport) -> None:
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

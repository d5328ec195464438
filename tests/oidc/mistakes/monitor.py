"""Mistakes with a monitor that is missing or mute, and values that it would refuse."""

from __future__ import annotations

from collections.abc import Callable
from socket import AF_UNIX, socket

import pytest

from generated_vmm import VmmClient
from tests.oidc.mistakes.desk import Desk


def raised(desk: Desk, mistake: Callable[[VmmClient], object], timeout: float = 5.0) -> str:
    """The type and the message of the error that the mistake raises."""
    with (
        VmmClient(desk.folder / "vm.socket", timeout=timeout) as vm,
        pytest.raises((OSError, ValueError)) as caught,
    ):
        mistake(vm)
    return f"{caught.typename}: {caught.value}"


async def no_monitor(desk: Desk) -> str:
    return raised(desk, VmmClient.get_version)


async def a_mute_monitor(desk: Desk) -> str:
    with socket(AF_UNIX) as listener:
        listener.bind(str(desk.folder / "vm.socket"))
        listener.listen()
        seen = raised(desk, VmmClient.get_version, timeout=0.1)
    assert seen.endswith("the monitor may have carried the call out")
    return seen


async def a_value_that_is_forbidden(desk: Desk) -> str:
    """There is no socket: a call that was sent would raise VmmConnectionError."""
    seen = raised(desk, lambda vm: vm.machine_config.set(vcpu_count=0, mem_size_mib=512))
    assert "vcpu_count" in seen
    return seen

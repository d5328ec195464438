"""A channel of one's own is a way to the monitor."""

from pathlib import Path
from typing import Any

import pytest

from generated_vmm import AsyncVmmClient, Operation, VmmClient, VmmConnectionError, VmmTimeoutError
from generated_vmm.transport import AsyncUnixChannel, CallFailed, HttpAnswer, UnixChannel
from tests.vmm.facade.conftest import Serve, result_of
from tests.vmm.scripted import answer

VERSION = b'{"firecracker_version":"9"}'


def test_a_channel_says_why_there_is_no_answer() -> None:
    assert str(CallFailed(VmmTimeoutError, "too late\nfor it", sent=True)) == "too late for it"


class RefusingChannel(UnixChannel):
    """Lets nothing through but what looks."""

    def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        if operation.method != "GET":
            raise CallFailed(VmmConnectionError, "it may only be looked at", sent=False)
        return super().exchange(operation, seconds)


class AsyncRefusingChannel(AsyncUnixChannel):
    """The same for the async client."""

    async def exchange(self, operation: Operation[object], seconds: float | None) -> HttpAnswer:
        if operation.method != "GET":
            raise CallFailed(VmmConnectionError, "it may only be looked at", sent=False)
        return await super().exchange(operation, seconds)


@pytest.mark.parametrize(
    ("kind", "channel"), [(VmmClient, RefusingChannel), (AsyncVmmClient, AsyncRefusingChannel)]
)
def test_a_channel_may_be_given(kind: Any, channel: Any, serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    vm = kind(socket_path, transport=channel(str(socket_path)))
    assert result_of(lambda: vm.get_version()).firecracker_version == "9"
    with pytest.raises(VmmConnectionError, match="no connection: it may only be looked at; noth"):
        result_of(lambda: vm.pause())
    result_of(lambda: vm.close())
    assert len(server.requests) == 1

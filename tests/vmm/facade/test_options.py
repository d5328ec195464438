"""The client's options, its life, and the seam for other transports."""

import asyncio
import threading
from pathlib import Path
from threading import TIMEOUT_MAX
from types import SimpleNamespace
from typing import Any
from unittest.mock import AsyncMock

import pytest

from generated_vmm import (
    AsyncVmmClient,
    Operation,
    VmmClient,
    VmmProtocolError,
    VmmRequestTooLarge,
    VmmTimeoutError,
)
from generated_vmm._generated import operations
from generated_vmm.transport import AsyncUnixChannel, CallSettings
from generated_vmm.transport.calls import late
from tests.vmm.facade.conftest import Serve, result_of
from tests.vmm.scripted import NO_CONTENT, Wire, answer

INFO = b'{"app_name":"a","id":"b","state":"Running","vmm_version":"1"}'


def test_with_options_changes_the_timeout(serve: Serve, socket_path: Path) -> None:
    finish = threading.Event()

    def play(wire: Wire) -> None:
        while wire.request():
            if len(server.requests) == 3:
                finish.wait(10)
            wire.send(NO_CONTENT)

    server = serve(play)
    with VmmClient(socket_path, timeout=0.05) as vm:
        patient = vm.with_options(timeout=5)
        patient.pause()
        patient.resume()
        with pytest.raises(VmmTimeoutError, match=r"within 0.05 s"):
            vm.pause()
    finish.set()
    assert len(server.requests) == 3


LIMITS: dict[str, tuple[dict[str, float | None], float | None]] = {
    "the default": ({}, 300.0),
    "a chosen one": ({"timeout": 7.0}, 7.0),
    "none": ({"timeout": None}, None),
}


@pytest.mark.parametrize(("chosen", "seconds"), LIMITS.values(), ids=LIMITS)
def test_a_snapshot_has_a_limit_of_its_own_unless_one_is_chosen(
    chosen: dict[str, Any], seconds: float | None
) -> None:
    channel = AsyncMock(AsyncUnixChannel)
    channel.exchange.return_value = SimpleNamespace(status_code=204, headers=[], content=b"")

    async def call() -> None:
        client = AsyncVmmClient("/s", transport=channel, **chosen)
        await client.pause()
        await client.snapshot.create(snapshot_path="/s", mem_file_path="/m")
        await client.with_options(timeout=9).snapshot.create(snapshot_path="/s", mem_file_path="/m")

    asyncio.run(call())
    limits = [(each.args[0].id, each.args[1]) for each in channel.exchange.call_args_list]
    usual = chosen.get("timeout", 5.0)
    assert limits == [("patchVm", usual), ("createSnapshot", seconds), ("createSnapshot", 9)]


def test_the_message_of_a_late_snapshot_names_its_limit() -> None:
    settings = CallSettings("/s").limited(300)
    error = settings.error_of(operations.describe_instance(), late("no answer", sent=True))
    assert "within 300 s" in str(error)


def test_the_body_limit_is_an_option(serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(NO_CONTENT))
    with VmmClient(socket_path, max_body_bytes=100_000) as vm:
        vm.mmds.set({"a": "x" * 60_000})
    assert len(server.requests) == 1


@pytest.mark.parametrize("kind", [VmmClient, AsyncVmmClient])
def test_the_answer_limit_is_an_option(kind: Any, serve: Serve, socket_path: Path) -> None:
    serve(lambda wire: wire.answer_all(answer(200, INFO)))
    vm = kind(socket_path, max_answer_bytes=100)
    with pytest.raises(VmmProtocolError, match="larger than 100 bytes"):
        result_of(lambda: vm.get_instance_info())
    result_of(lambda: vm.close())


@pytest.mark.parametrize("timeout", [0, -1, float("nan"), float("inf"), TIMEOUT_MAX * 2, "5"])
def test_a_timeout_that_is_none_is_refused(timeout: Any) -> None:
    with pytest.raises(ValueError, match="it must be a number of seconds, more than 0"):
        VmmClient("/s", timeout=timeout)


def test_a_timeout_may_be_the_longest_that_there_is() -> None:
    VmmClient("/s", timeout=TIMEOUT_MAX).close()


def test_a_body_limit_of_none_lets_calls_without_a_body_through(
    serve: Serve, socket_path: Path
) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, INFO)))
    with VmmClient(socket_path, max_body_bytes=0) as vm:
        vm.get_instance_info()
        with pytest.raises(VmmRequestTooLarge, match="the limit is 0"):
            vm.pause()
    assert len(server.requests) == 1


def test_the_repr_names_the_socket() -> None:
    assert repr(VmmClient("/s", timeout=2)) == "VmmClient('/s', timeout=2)"
    assert repr(AsyncVmmClient("/s")) == "AsyncVmmClient('/s', timeout=5.0)"
    vm, waiting = VmmClient("/a"), AsyncVmmClient("/b")
    assert repr(vm.balloon.hinting) == "<BalloonHintingResource of /a>"
    assert repr(vm.drive("rootfs")) == "<DriveResource 'rootfs' of /a>"
    assert repr(waiting.mmds.config) == "<AsyncMmdsConfigResource of /b>"
    assert repr(waiting.pmem("p_1")) == "<AsyncPmemResource 'p_1' of /b>"


class NamedClient(VmmClient):
    """A client of a program's own."""

    def __init__(self, name: str) -> None:
        super().__init__(f"/run/{name}.sock", max_body_bytes=10)
        self.name = name


def test_with_options_keeps_what_a_subclass_added() -> None:
    vm = NamedClient("one").with_options(timeout=1)
    assert type(vm) is NamedClient
    assert vm.name == "one"
    assert repr(vm) == "NamedClient('/run/one.sock', timeout=1)"
    with pytest.raises(VmmRequestTooLarge):
        vm.boot_source.set(kernel_image_path="/k")


@pytest.mark.parametrize("path", ["", "version", "/a b", "/a\r\nX: y", "/é", "/\0", "*"])
def test_an_operation_that_no_request_line_can_hold_is_refused(
    serve: Serve, socket_path: Path, path: str
) -> None:
    server = serve(lambda wire: wire.answer_all(NO_CONTENT))
    operation = Operation("own", "GET", path, None, bytes)
    with pytest.raises(ValueError, match="characters that no URL can have"):
        VmmClient(socket_path).send(operation)
    waiting = AsyncVmmClient(socket_path)
    with pytest.raises(ValueError, match="characters that no URL can have"):
        asyncio.run(waiting.send(operation))
    assert server.connections == []

"""The transports that httpx has itself are ways to the monitor."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import httpx
import pytest

from generated_vmm import (
    AsyncVmmClient,
    VmmClient,
    VmmConnectionError,
    VmmError,
    VmmProtocolError,
)
from tests.vmm.facade.conftest import Serve
from tests.vmm.scripted import answer

VERSION = b'{"firecracker_version":"9"}'


def test_httpx_own_transport_keeps_its_connection(serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)
    with VmmClient(socket_path, transport=transport) as vm:
        for _ in range(3):
            assert vm.get_version().firecracker_version == "9"
    assert (len(server.requests), len(server.connections)) == (3, 1)


@pytest.mark.parametrize(
    ("play", "kind"),
    [
        (lambda wire: wire.request(), VmmProtocolError),  # httpx: disconnected without a response
        (lambda wire: wire.request() and wire.send(b"220 smtp\r\n"), VmmProtocolError),
    ],
)
def test_httpx_own_transport_fails_as_ours(
    serve: Serve, socket_path: Path, play: Any, kind: type[VmmError]
) -> None:
    serve(play)
    transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)
    with (
        VmmClient(socket_path, transport=transport) as vm,
        pytest.raises(kind, match="may have carried the call out"),
    ):
        vm.get_version()


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_httpx_own_transport_without_a_socket(socket_path: Path) -> None:
    transport = httpx.HTTPTransport(uds=str(socket_path), verify=False)

    def text_of_failure() -> str:
        with VmmClient(socket_path, transport=transport) as vm:
            try:
                vm.get_version()
            except VmmConnectionError as error:
                return str(error)
        return ""

    assert f"on {socket_path}: no connection: [Errno 2] No such file" in text_of_failure()
    gc.collect()


async def test_httpx_own_async_transport(serve: Serve, socket_path: Path) -> None:
    server = serve(lambda wire: wire.answer_all(answer(200, VERSION)))
    transport = httpx.AsyncHTTPTransport(uds=str(socket_path), verify=False)
    async with AsyncVmmClient(socket_path, transport=transport) as vm:
        for _ in range(3):
            assert (await vm.get_version()).firecracker_version == "9"
    assert (len(server.requests), len(server.connections)) == (3, 1)

import asyncio
import contextlib
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeAlias

import pytest

from generated_vmm.concurrency._async import stream_of
from generated_vmm.transport._async.vsock import async_connect_vsock
from generated_vmm.transport._sync.vsock import connect_vsock
from tests.vmm.scripted import Serve as Serve
from tests.vmm.scripted import served

Talk: TypeAlias = Callable[[bytes, int], bytes]
Connect: TypeAlias = Callable[[int, float], Talk]


def blocking(path: Path) -> Iterator[Connect]:
    with contextlib.ExitStack() as opened:

        def connect(port: int, seconds: float) -> Talk:
            connection = opened.enter_context(connect_vsock(str(path), port, seconds))
            connection.setblocking(True)

            def talk(sent: bytes, expected: int) -> bytes:
                connection.sendall(sent)
                return connection.recv(expected, socket.MSG_WAITALL)

            return talk

        yield connect


async def close(writer: asyncio.StreamWriter) -> None:
    writer.close()
    await writer.wait_closed()


def asynchronous(path: Path) -> Iterator[Connect]:
    with asyncio.Runner() as runner, contextlib.ExitStack() as opened:

        def connect(port: int, seconds: float) -> Talk:
            connection = runner.run(async_connect_vsock(str(path), port, seconds))
            reader, writer = runner.run(stream_of(connection))
            opened.callback(lambda: runner.run(close(writer)))

            async def exchange(sent: bytes, expected: int) -> bytes:
                writer.write(sent)
                return await reader.readexactly(expected)

            return lambda sent, expected: runner.run(exchange(sent, expected))

        yield connect


@pytest.fixture
def uds_path(tmp_path: Path) -> Path:
    return tmp_path / "v.sock"


@pytest.fixture
def connect(uds_path: Path) -> Iterator[Connect]:
    """Opens connections to ports of the guest, for tasks: talk is "send this, read so much"."""
    yield from asynchronous(uds_path)


@pytest.fixture(params=[blocking, asynchronous])
def connect_each(request: pytest.FixtureRequest, uds_path: Path) -> Iterator[Connect]:
    """The same of each kind: for waits, which `concurrency` has twice."""
    yield from request.param(uds_path)


@pytest.fixture
def serve(uds_path: Path) -> Iterator[Serve]:
    """Plays the device on its unix socket."""
    yield from served(uds_path)

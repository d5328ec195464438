from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Protocol

import httpx
import pytest

from generated_vmm.transport import AsyncUnixTransport, UnixTransport
from tests.vmm.scripted import Serve as Serve
from tests.vmm.scripted import served


class Call(Protocol):
    """Sends one request through the transport under test."""

    def __call__(
        self, method: str = "GET", body: bytes = b"", *, timeout: float | None = 5.0
    ) -> httpx.Response: ...


def make_request(method: str, body: bytes, timeout: float | None) -> httpx.Request:
    return httpx.Request(
        method, "http://localhost/", content=body, extensions={"timeout": {"read": timeout}}
    )


def blocking_call(path: Path) -> Iterator[Call]:
    transport = UnixTransport(path, max_answer_bytes=10_000)

    def call(
        method: str = "GET", body: bytes = b"", *, timeout: float | None = 5.0
    ) -> httpx.Response:
        response = transport.handle_request(make_request(method, body, timeout))
        response.read()
        return response

    yield call
    transport.close()


def asynchronous_call(path: Path) -> Iterator[Call]:
    transport = AsyncUnixTransport(path, max_answer_bytes=10_000)

    async def exchange(request: httpx.Request) -> httpx.Response:
        response = await transport.handle_async_request(request)
        await response.aread()
        return response

    with asyncio.Runner() as runner:

        def call(
            method: str = "GET", body: bytes = b"", *, timeout: float | None = 5.0
        ) -> httpx.Response:
            return runner.run(exchange(make_request(method, body, timeout)))

        yield call
        runner.run(transport.aclose())


@pytest.fixture
def socket_path(tmp_path: Path) -> Path:
    return tmp_path / "vmm.sock"


@pytest.fixture
def call(socket_path: Path) -> Iterator[Call]:
    """One call after another through one transport for tasks; the other one is derived from it."""
    yield from asynchronous_call(socket_path)


@pytest.fixture(params=[blocking_call, asynchronous_call])
def call_each(request: pytest.FixtureRequest, socket_path: Path) -> Iterator[Call]:
    """The same through a transport of each kind: for waits, which `concurrency` has twice."""
    yield from request.param(socket_path)


@pytest.fixture
def serve(socket_path: Path) -> Iterator[Serve]:
    """Starts servers that play what the test says, on the path that `call` connects to."""
    yield from served(socket_path)

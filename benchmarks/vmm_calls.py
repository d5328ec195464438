"""One GET over a unix socket by every client, each over its kept connection where it has one."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack

import aiohttp
import httpx
import requests_unixsocket

from benchmarks.rounds import Batch, repeated
from generated_vmm import AsyncVmmClient, VmmClient

URL = "http://localhost/machine-config"
REQUEST = b"GET /machine-config HTTP/1.1\r\nHost: localhost\r\n\r\n"


class UnixHTTPConnection(http.client.HTTPConnection):
    """`http.client` over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def sync_cases(path: str, stack: ExitStack) -> dict[str, Batch]:
    """The sync clients."""
    ours = stack.enter_context(VmmClient(path))
    peer = httpx.Client(transport=httpx.HTTPTransport(uds=path, verify=False))
    stack.enter_context(peer)
    session = requests_unixsocket.Session()  # type: ignore[no-untyped-call]  # it has no types
    stack.callback(session.close)
    encoded = f"http+unix://{path.replace('/', '%2F')}/machine-config"
    return {
        "bare socket": repeated(bare_socket(path, stack)),
        "http.client": repeated(http_client(path, stack)),
        "VmmClient": repeated(ours.machine_config.get),
        "httpx.Client": repeated(lambda: peer.get(URL).content),
        "requests-unixsocket2": repeated(lambda: session.get(encoded).content),
    }


async def async_cases(
    path: str, stack: AsyncExitStack
) -> dict[str, Callable[[], Awaitable[object]]]:
    """The async clients."""
    ours = await stack.enter_async_context(AsyncVmmClient(path))
    connector = aiohttp.UnixConnector(path)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
    transport = httpx.AsyncHTTPTransport(uds=path, verify=False)
    client = await stack.enter_async_context(httpx.AsyncClient(transport=transport))

    async def aiohttp_get() -> bytes:
        async with session.get(URL) as response:
            return await response.read()

    return {
        "AsyncVmmClient": ours.machine_config.get,
        "aiohttp": aiohttp_get,
        "httpx.AsyncClient": lambda: client.get(URL),
    }


def batch_in(runner: asyncio.Runner, call: Callable[[], Awaitable[object]]) -> Batch:
    """The batch that awaits `call` in the runner's loop."""

    async def calls_in_a_row(calls: int) -> None:
        for _ in range(calls):
            await call()

    return lambda calls: runner.run(calls_in_a_row(calls))


def bare_socket(path: str, stack: ExitStack) -> Callable[[], bytes]:
    """The least that a round trip takes in Python."""
    connection = stack.enter_context(socket.socket(socket.AF_UNIX))
    connection.connect(path)

    def call() -> bytes:
        connection.sendall(REQUEST)
        return connection.recv(65_536)

    return call


def http_client(path: str, stack: ExitStack) -> Callable[[], bytes]:
    connection = UnixHTTPConnection(path)
    stack.callback(connection.close)

    def call() -> bytes:
        connection.request("GET", "/machine-config")
        return connection.getresponse().read()

    return call

"""One call over a unix socket by every client, each over its kept connection where it has one."""

from __future__ import annotations

import asyncio
import http.client
import socket
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack, ExitStack
from typing import Final

import aiohttp
import httpx
import requests_unixsocket

from generated_vmm import AsyncVmmClient, MachineConfiguration, VmmClient
from tools.benchmarks.rounds import Batch, repeated
from tools.benchmarks.vmm_server import BODY, PATH

URL: Final = f"http://localhost{PATH}"
JSON: Final = {"Content-Type": "application/json"}
CONFIGURATION: Final = MachineConfiguration.from_answer(BODY)
METHODS: Final = ("GET", "PUT")


def request_of(method: str) -> tuple[bytes | None, dict[str, str]]:
    """The body and the headers that a client is given."""
    return (BODY, JSON) if method == "PUT" else (None, {})


class UnixHTTPConnection(http.client.HTTPConnection):
    """`http.client` over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def sync_cases(method: str, path: str, stack: ExitStack) -> dict[str, Batch]:
    """The sync clients."""
    vm = stack.enter_context(VmmClient(path))
    peer = httpx.Client(transport=httpx.HTTPTransport(uds=path, verify=False))
    stack.enter_context(peer)
    session = requests_unixsocket.Session()  # type: ignore[no-untyped-call]  # it has no types
    stack.callback(session.close)
    encoded = f"http+unix://{path.replace('/', '%2F')}{PATH}"
    body, headers = request_of(method)
    return {
        "bare socket": repeated(bare_socket(method, path, stack)),
        "http.client": repeated(http_client(method, path, stack)),
        "VmmClient": repeated(
            vm.machine_config.get
            if method == "GET"
            else lambda: vm.machine_config.set(CONFIGURATION)
        ),
        "httpx.Client": repeated(
            lambda: peer.request(method, URL, content=body, headers=headers).content
        ),
        "requests-unixsocket2": repeated(
            lambda: session.request(method, encoded, data=body, headers=headers).content
        ),
    }


async def async_cases(
    method: str, path: str, stack: AsyncExitStack
) -> dict[str, Callable[[], Awaitable[object]]]:
    """The async clients."""
    vm = await stack.enter_async_context(AsyncVmmClient(path))
    connector = aiohttp.UnixConnector(path)
    session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
    transport = httpx.AsyncHTTPTransport(uds=path, verify=False)
    client = await stack.enter_async_context(httpx.AsyncClient(transport=transport))
    body, headers = request_of(method)

    async def through_aiohttp() -> bytes:
        async with session.request(method, URL, data=body, headers=headers) as response:
            return await response.read()

    return {
        "AsyncVmmClient": vm.machine_config.get
        if method == "GET"
        else lambda: vm.machine_config.set(CONFIGURATION),
        "aiohttp": through_aiohttp,
        "httpx.AsyncClient": lambda: client.request(method, URL, content=body, headers=headers),
    }


def batch_in(runner: asyncio.Runner, call: Callable[[], Awaitable[object]]) -> Batch:
    """The batch that awaits `call` in the runner's loop."""

    async def calls_in_a_row(calls: int) -> None:
        for _ in range(calls):
            await call()

    return lambda calls: runner.run(calls_in_a_row(calls))


def bare_socket(method: str, path: str, stack: ExitStack) -> Callable[[], bytes]:
    """The least that a round trip takes in Python."""
    connection = stack.enter_context(socket.socket(socket.AF_UNIX))
    connection.connect(path)
    body, headers = request_of(method)
    lines = [f"{method} {PATH} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] if body else []
    request = "\r\n".join([*lines, "", ""]).encode() + (body or b"")

    def call() -> bytes:
        connection.sendall(request)
        return connection.recv(65_536)

    return call


def http_client(method: str, path: str, stack: ExitStack) -> Callable[[], bytes]:
    connection = UnixHTTPConnection(path)
    stack.callback(connection.close)
    body, headers = request_of(method)

    def call() -> bytes:
        connection.request(method, PATH, body, headers)
        return connection.getresponse().read()

    return call

"""A call to a monitor by our clients, by peers and by a bare socket; GET and PUT, wall time.

The monitor is a process with one fixed response and, with a binary in FIRECRACKER_BIN, a real one.
Our clients read or write a model, the others have the bytes of the body.
"""

from __future__ import annotations

import asyncio
import http.client
import os
import select
import socket
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, ExitStack
from typing import Final

import aiohttp
import httpx

from generated_vmm import AsyncVmmClient, MachineConfiguration, VmmClient
from tools.benchmarks.figures import Figure
from tools.benchmarks.monitor_servers import (
    BODY,
    PATH,
    fixed_response_server,
    is_whole,
    real_monitor,
)
from tools.benchmarks.rounds import Batch, Cost, awaited, costs, repeated

ROUNDS, CALLS = 61, 50
SECONDS: Final = 10.0
URL: Final = f"http://localhost{PATH}"
JSON: Final = {"Content-Type": "application/json"}
CONFIGURATION: Final = MachineConfiguration.from_answer(BODY)
METHODS: Final = ("GET", "PUT")
BARE, SAME = "bare socket", "bare socket, same guarantees"
OURS, OURS_ASYNC = "VmmClient", "AsyncVmmClient"
STANDARD, AIOHTTP = "http.client", "aiohttp"


def figures() -> Iterator[Figure]:
    """Microseconds for a call, and ours as a multiple of the others'."""
    with fixed_response_server() as path:
        yield from calls("a fixed response", path, within=None)
    if binary := os.environ.get("FIRECRACKER_BIN"):
        with real_monitor(binary) as path:
            yield from calls("a real monitor", path, within=1.5)


def calls(asked: str, path: str, *, within: float | None) -> Iterator[Figure]:
    """Every client and method; `within` is how many times a bare socket's time ours may take."""
    for method in METHODS:
        measured = call_costs(method, path)
        what = f"{method}, {asked}"
        for name, cost in measured.items():
            yield Figure(f"{what}: {name}", cost.median, "µs")
        ours, ours_async = measured[OURS], measured[OURS_ASYNC]
        yield Figure(f"{what}: {OURS} / {SAME}", ours.ratio(measured[SAME]), "", within)
        rest = ours.above(measured[SAME]).median
        reason = f"Reading and writing models and HTTP take ours {rest:.0f} µs."
        yield Figure(
            f"{what}: {OURS} / {STANDARD}", ours.ratio(measured[STANDARD]), "", 0.7, reason
        )
        yield Figure(
            f"{what}: {OURS_ASYNC} / {AIOHTTP}", ours_async.ratio(measured[AIOHTTP]), "", 0.9
        )


def call_costs(
    method: str, path: str, *, rounds: int = ROUNDS, calls: int = CALLS
) -> dict[str, Cost]:
    """What one call costs by each client, over a connection that it keeps."""
    with asyncio.Runner() as runner, ExitStack() as opened:
        stack = AsyncExitStack()
        cases = sync_cases(method, path, opened)
        waiting = runner.run(async_cases(method, path, stack))
        cases |= {name: awaited(runner, call) for name, call in waiting.items()}
        measured = costs(cases, rounds=rounds, calls=calls)
        runner.run(stack.aclose())
    return measured


def sync_cases(method: str, path: str, stack: ExitStack) -> dict[str, Batch]:
    """The sync clients."""
    vm = stack.enter_context(VmmClient(path))
    peer = httpx.Client(transport=httpx.HTTPTransport(uds=path, verify=False))
    stack.enter_context(peer)
    body, headers = request_of(method)
    get, put = vm.machine_config.get, lambda: vm.machine_config.set(CONFIGURATION)
    return {
        BARE: repeated(bare_socket(method, path, stack)),
        SAME: repeated(bare_socket_with_guarantees(method, path, stack)),
        OURS: repeated(get if method == "GET" else put),
        STANDARD: repeated(http_client(method, path, stack)),
        "httpx.Client": repeated(
            lambda: peer.request(method, URL, content=body, headers=headers).content
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

    get, put = vm.machine_config.get, lambda: vm.machine_config.set(CONFIGURATION)
    return {
        OURS_ASYNC: get if method == "GET" else put,
        AIOHTTP: through_aiohttp,
        "httpx.AsyncClient": lambda: client.request(method, URL, content=body, headers=headers),
    }


def request_of(method: str) -> tuple[bytes | None, dict[str, str]]:
    """The body and the headers that a client is given."""
    return (BODY, JSON) if method == "PUT" else (None, {})


def request_bytes(method: str) -> bytes:
    """The whole request."""
    body, headers = request_of(method)
    lines = [f"{method} {PATH} HTTP/1.1", "Host: localhost"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    lines += [f"Content-Length: {len(body)}"] if body else []
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


def bare_socket(method: str, path: str, stack: ExitStack) -> Callable[[], bytes]:
    """The least that a round trip takes in Python."""
    connection, request = connected(path, stack), request_bytes(method)

    def call() -> bytes:
        connection.sendall(request)
        return connection.recv(65_536)

    return call


def bare_socket_with_guarantees(method: str, path: str, stack: ExitStack) -> Callable[[], bytes]:
    """The same with what our client guarantees of the connection and the response.

    Nothing is sent over a connection that the monitor has closed, the call ends within its seconds
    whatever signals come, and the response is whole and no refusal.
    """
    connection, request = connected(path, stack), request_bytes(method)
    connection.setblocking(False)
    arrivals = select.poll()
    arrivals.register(connection, select.POLLIN)

    def call() -> bytes:
        deadline = time.monotonic() + SECONDS
        if arrivals.poll(0):
            raise ConnectionResetError("the monitor has closed the connection")
        connection.sendall(request)
        received = b""
        while not is_whole(received):
            if not arrivals.poll((deadline - time.monotonic()) * 1000):
                raise TimeoutError
            received += connection.recv(65_536)
        if not received.startswith(b"HTTP/1.1 2"):
            raise RuntimeError(f"the monitor refused: {received[:80]!r}")
        return received

    return call


def connected(path: str, stack: ExitStack) -> socket.socket:
    """A socket that is connected to the monitor's."""
    connection = stack.enter_context(socket.socket(socket.AF_UNIX))
    connection.connect(path)
    return connection


class UnixHTTPConnection(http.client.HTTPConnection):
    """`http.client` over a unix socket."""

    def __init__(self, path: str) -> None:
        super().__init__("localhost")
        self.path = path

    def connect(self) -> None:
        """Opens the connection."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.connect(self.path)


def http_client(method: str, path: str, stack: ExitStack) -> Callable[[], bytes]:
    """The standard library's client."""
    connection = UnixHTTPConnection(path)
    stack.callback(connection.close)
    body, headers = request_of(method)

    def call() -> bytes:
        connection.request(method, PATH, body, headers)
        return connection.getresponse().read()

    return call

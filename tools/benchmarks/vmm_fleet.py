"""One process that asks many monitors each second: `tools.benchmarks.vmm_fleet CLIENT PATH...`.

Prints what it took, as JSON. Called without arguments by `benchmarks.vmm`, once for each client.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TypedDict

import aiohttp
import httpx

from generated_vmm import AsyncVmmClient, VmmClient
from tools.benchmarks.targets import Target
from tools.benchmarks.vmm_server import fixed_answer_servers, real_monitors

MONITORS = 200
REAL_MONITORS = 50
SECONDS = 5
URL = "http://localhost/machine-config"

Ask = Callable[[], Awaitable[object]]


class Took(TypedDict):
    """Per cent of a core, kB and file descriptors, the last two for one monitor."""

    cpu: float
    memory: float
    descriptors: float


def fleet_targets(binary: str) -> Iterator[Target]:
    """Measures each client in a process of its own, shows the figures, says what was aimed at.

    The monitors give a fixed answer; with a binary, fewer real ones are asked, too.
    """
    with fixed_answer_servers(MONITORS) as paths:
        ours = shown("monitors", paths)["VmmClient"]
    yield Target(f"{MONITORS} monitors each second, VmmClient", ours["cpu"], 2, "% CPU")
    yield Target("memory of a VmmClient in use", ours["memory"], 16, "kB")
    yield Target("file descriptors of a VmmClient in use", ours["descriptors"], 1)
    if binary:
        with real_monitors(binary, REAL_MONITORS) as paths:
            ours = shown("real monitors", paths)["VmmClient"]
        yield Target(
            f"{REAL_MONITORS} real monitors each second, VmmClient", ours["cpu"], 2, "% CPU"
        )


def shown(what: str, paths: list[str]) -> dict[str, Took]:
    """What each client took to ask these, after it has been printed."""
    print(f"\n{len(paths)} {what} asked each second for {SECONDS} s by one process:")
    print(f"  {'':<20}{'% of a core':>12}{'kB each':>10}{'descriptors each':>18}")
    figures = {client: took_by(client, paths) for client in CLIENTS}
    for client, took in figures.items():
        cpu, memory, descriptors = took["cpu"], took["memory"], took["descriptors"]
        print(f"  {client:<20}{cpu:12.2f}{memory:10.1f}{descriptors:18.2f}")
    return figures


def took_by(client: str, paths: list[str]) -> Took:
    command = [sys.executable, "-m", "tools.benchmarks.vmm_fleet", client, *paths]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    took: Took = json.loads(done.stdout)
    return took


async def watch(client: str, paths: list[str]) -> Took:
    """Asks every monitor once, to have its connection, then all of them each second."""
    async with AsyncExitStack() as stack:
        memory, descriptors = resident_kilobytes(), open_descriptors()
        asks = [await CLIENTS[client](path, stack) for path in paths]
        await ask_all(asks)
        memory, descriptors = resident_kilobytes() - memory, open_descriptors() - descriptors
        used = time.process_time()
        for _ in range(SECONDS):
            next_second = asyncio.get_running_loop().time() + 1
            await ask_all(asks)
            await asyncio.sleep(next_second - asyncio.get_running_loop().time())
        used = time.process_time() - used
    return {
        "cpu": used / SECONDS * 100,
        "memory": memory / len(paths),
        "descriptors": descriptors / len(paths),
    }


async def ask_all(asks: list[Ask]) -> None:
    for ask in asks:
        await ask()


async def blocking(path: str, stack: AsyncExitStack) -> Ask:
    vm = stack.enter_context(VmmClient(path))

    async def ask() -> object:
        return vm.machine_config.get()

    return ask


async def waiting(path: str, stack: AsyncExitStack) -> Ask:
    return (await stack.enter_async_context(AsyncVmmClient(path))).machine_config.get


async def through_aiohttp(path: str, stack: AsyncExitStack) -> Ask:
    session = aiohttp.ClientSession(connector=aiohttp.UnixConnector(path))
    await stack.enter_async_context(session)

    async def ask() -> object:
        async with session.get(URL) as response:
            return await response.read()

    return ask


async def through_httpx(path: str, stack: AsyncExitStack) -> Ask:
    transport = httpx.HTTPTransport(uds=path, verify=False)
    client = stack.enter_context(httpx.Client(transport=transport))

    async def ask() -> object:
        return client.get(URL).content

    return ask


CLIENTS: dict[str, Callable[[str, AsyncExitStack], Awaitable[Ask]]] = {
    "VmmClient": blocking,
    "AsyncVmmClient": waiting,
    "aiohttp": through_aiohttp,
    "httpx.Client": through_httpx,
}


def resident_kilobytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * resource.getpagesize() / 1024


def open_descriptors() -> int:
    return len(os.listdir("/proc/self/fd"))


if __name__ == "__main__":
    print(json.dumps(asyncio.run(watch(sys.argv[1], sys.argv[2:]))))

"""How many logins one process completes when many sign in: `tools.benchmarks.oidc_login_rate`.

The application, the provider and the browsers are a process each, on one machine. The browsers are
known to the provider, which asks them nothing: a login is four requests of the browser and those
that the application sends.
"""

from __future__ import annotations

import asyncio
import logging
import multiprocessing
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Final, NamedTuple

import httpx
import uvicorn

from fastapi_oidc.testing import sign_in
from tools.benchmarks.machine import processor_seconds, show_machine
from tools.benchmarks.oidc_login_apps import APPLICATIONS, BASE_URL, OURS, PEER, a_dev_provider
from tools.benchmarks.oidc_served import a_listener
from tools.benchmarks.targets import Target, report

PEOPLE: Final = 16
SECONDS: Final = 4.0
PATIENCE: Final = 30.0
"""Seconds that a browser waits for one answer, on a machine that is busy with something else."""


class Rate(NamedTuple):
    """Logins in a second, and what one takes of the application's processor, milliseconds."""

    a_second: float
    cpu: float


def main() -> int:
    """Measures and prints it; the exit status."""
    show_machine()
    return report(list(login_rate_targets()))


def login_rate_targets() -> Iterator[Target]:
    """Measures ours and authlib's, shows the figures and says what was aimed at."""
    rates = login_rates()
    print(f"\n{PEOPLE} people sign in again and again for {SECONDS:g} s, one process:")
    for name, rate in rates.items():
        print(f"  {name:<28}{rate.a_second:8.1f} a second{rate.cpu:8.1f} ms of its processor each")
    yield from compared(rates)


def compared(rates: dict[str, Rate]) -> Iterator[Target]:
    """What was aimed at."""
    ours, peer = rates[OURS], rates[PEER]
    many = f"{PEOPLE} people sign in"
    yield Target(f"{many}, time of a login: ours / authlib", peer.a_second / ours.a_second, 1)
    yield Target(f"{many}, CPU of a login: ours / authlib", ours.cpu / peer.cpu, 1)


def login_rates(*, people: int = PEOPLE, seconds: float = SECONDS) -> dict[str, Rate]:
    """Of each application, one after the other."""
    with a_dev_provider() as issuer:
        return {name: _rate(name, issuer, people, seconds) for name in APPLICATIONS}


def _rate(name: str, issuer: str, people: int, seconds: float) -> Rate:
    with an_application(name, issuer) as (port, process):
        return asyncio.run(_signed_in_by_all(port, issuer, process.pid or 0, people, seconds))


async def _signed_in_by_all(port: int, issuer: str, pid: int, people: int, seconds: float) -> Rate:
    async with AsyncExitStack() as stack:
        browsers = [await stack.enter_async_context(a_browser(port, issuer)) for _ in range(people)]
        await asyncio.gather(*map(one_login, browsers))  # the provider knows them from here on
        used, began = processor_seconds(pid), time.perf_counter()
        counts = await asyncio.gather(*(_until(began + seconds, browser) for browser in browsers))
        took, used = time.perf_counter() - began, processor_seconds(pid) - used
    return Rate(sum(counts) / took, used / sum(counts) * 1000)


async def _until(ends: float, browser: httpx.AsyncClient) -> int:
    """How many logins it completes until then; the last one may end later."""
    count = 0
    while time.perf_counter() < ends:
        await one_login(browser)
        count += 1
    return count


async def one_login(browser: httpx.AsyncClient) -> None:
    """Signs in, with no cookie of the application."""
    for cookie in [each for each in browser.cookies.jar if "app.test" in each.domain]:
        browser.cookies.jar.clear(cookie.domain, cookie.path, cookie.name)
    answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    answer.raise_for_status()
    if answer.json() != {"sub": "alice"}:
        raise RuntimeError("the benchmark was not signed in")


class Proxied(httpx.AsyncHTTPTransport):
    """Reaches an application at its port of this machine, as a proxy with TLS does."""

    def __init__(self, port: int) -> None:
        super().__init__()
        self._port = port

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Asks."""
        url = request.url.copy_with(scheme="http", host="127.0.0.1", port=self._port)
        headers = request.headers.copy()
        headers["X-Forwarded-Proto"] = "https"
        return await super().handle_async_request(
            httpx.Request(
                request.method,
                url,
                headers=headers,
                stream=request.stream,
                extensions=request.extensions,
            )
        )


def a_browser(port: int, issuer: str) -> httpx.AsyncClient:
    """One that reaches the application and the provider at their ports."""
    return httpx.AsyncClient(
        base_url=BASE_URL,
        transport=Proxied(port),
        mounts={issuer: httpx.AsyncHTTPTransport()},
        follow_redirects=True,
        timeout=PATIENCE,
    )


@contextmanager
def an_application(name: str, issuer: str) -> Iterator[tuple[int, BaseProcess]]:
    """The port of an application in a process of its own, for as long as the block runs."""
    here, there = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    with a_listener() as listener, here, there:
        process = context.Process(target=_serve, args=(there, listener, name, issuer))
        process.start()
        there.close()  # or nobody would learn that the application has ended
        try:
            here.recv()
            yield listener.getsockname()[1], process
        finally:
            process.kill()
            process.join()


def _serve(connection: Connection, listener: socket.socket, name: str, issuer: str) -> None:
    logging.disable()
    app = APPLICATIONS[name](issuer)
    connection.send("ready")
    uvicorn.Server(uvicorn.Config(app, access_log=False, ws="none")).run([listener])


if __name__ == "__main__":
    sys.exit(main())

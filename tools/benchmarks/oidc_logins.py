"""Where the time of a login goes; ours and authlib's, one login after the other.

The provider is a process of its own on a port of this machine; the browser is httpx, in the process
of the application.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Final

import httpx
from fastapi import FastAPI

from fastapi_oidc.testing import sign_in
from tools.benchmarks.layers import Layers, Watched, exchanges_in
from tools.benchmarks.oidc_login_apps import APPLICATIONS, BASE_URL, OURS, PEER, a_dev_provider
from tools.benchmarks.targets import Target

LOGINS: Final = 100
LOGIN: Final = "a login without provider and browser, ours / authlib"
PROVIDER, EXCHANGES, APPLICATION, BROWSER = "provider", "exchanges", "application", "browser"

Parts = Mapping[str, float]
"""Milliseconds of one login, by whose they are."""


@dataclass(frozen=True)
class Taken:
    """Every login of one application; `exchanges` is how many requests one makes."""

    logins: Sequence[Parts]
    cpu: float
    exchanges: float

    @property
    def usual(self) -> Parts:
        """Of each part its first quartile: what else a machine does makes logins slower only."""
        parts = (PROVIDER, EXCHANGES, APPLICATION, BROWSER)
        taken = {part: [login[part] for login in self.logins] for part in parts}
        return {part: statistics.quantiles(each)[0] for part, each in taken.items()}

    @property
    def own(self) -> float:
        """Milliseconds without the provider and the browser."""
        return self.usual[EXCHANGES] + self.usual[APPLICATION]


def login_targets() -> Iterator[Target]:
    """Signs in again and again, and shows where the time goes."""
    taken = logins(LOGINS)
    print(f"\n{LOGINS} logins in turns, first quartiles in ms:")
    print(f"  {'':<28}{'all':>8}{'CPU':>8}" + "".join(f"{part:>13}" for part in taken[OURS].usual))
    for name, each in taken.items():
        parts = "".join(f"{part:13.2f}" for part in each.usual.values())
        print(f"  {name:<28}{sum(each.usual.values()):8.2f}{each.cpu:8.2f}{parts}")
    ours, peer = taken[OURS], taken[PEER]
    print(f"  requests to the provider: ours {ours.exchanges:g}, authlib {peer.exchanges:g}")
    yield Target(LOGIN, ours.own / peer.own, 1)


def logins(count: int) -> dict[str, Taken]:
    """Signs in so often with each application, in turns."""
    with a_dev_provider() as issuer:
        return asyncio.run(_logins(issuer, count))


async def _logins(issuer: str, count: int) -> dict[str, Taken]:
    layers = Layers()
    taken: dict[str, list[Parts]] = {name: [] for name in APPLICATIONS}
    cpu, exchanges = dict.fromkeys(taken, 0.0), dict.fromkeys(taken, 0)
    async with AsyncExitStack() as stack:
        browsers = {
            name: await stack.enter_async_context(a_browser(issuer, make(issuer), layers))
            for name, make in APPLICATIONS.items()
        }
        besides = tuple(browsers.values())
        stack.enter_context(exchanges_in(layers, EXCHANGES, PROVIDER, besides=besides))
        for number in range(-1, count):
            for name, browser in browsers.items():
                layers.clear()
                used = time.process_time()
                with layers.within(BROWSER):
                    await one_login(browser)
                if number >= 0:  # the first one asks for the provider's keys and metadata
                    cpu[name] += (time.process_time() - used) / count * 1000
                    taken[name].append({part: 1000 * each for part, each in layers.seconds.items()})
                    exchanges[name] += layers.entered[EXCHANGES]
    return {name: Taken(taken[name], cpu[name], exchanges[name] / count) for name in taken}


def a_browser(issuer: str, app: FastAPI, layers: Layers) -> httpx.AsyncClient:
    """One that reaches the application in this process, and the provider at its port."""
    return httpx.AsyncClient(
        base_url=BASE_URL,
        transport=httpx.ASGITransport(layers.around(app, APPLICATION)),
        mounts={issuer: Watched(layers, PROVIDER)},
        follow_redirects=True,
    )


async def one_login(browser: httpx.AsyncClient) -> None:
    browser.cookies.clear()
    answer = await sign_in(browser, "/auth/login?return_to=/me", user="alice")
    answer.raise_for_status()

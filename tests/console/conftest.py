"""The console with its demo parts, served over real sockets, and people with browsers."""

from __future__ import annotations

import socket
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from threading import Thread

import pytest
import uvicorn
from fastapi import FastAPI

from examples.console.app import create_app
from examples.console.demo import Parts, parts
from examples.console.settings import ConsoleSettings
from generated_vmm.testing import SimulatedMonitor
from tests.console.browser import Browser


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that answers at `url`."""

    url: str
    parts: Parts

    @property
    def monitor(self) -> SimulatedMonitor:
        return next(iter(self.parts.monitors.values()))


@contextmanager
def served(app: FastAPI, listener: socket.socket) -> Iterator[None]:
    """`app` answers on `listener` while the block runs."""
    config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
    server = uvicorn.Server(config)
    thread = Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    while not server.started and thread.is_alive():
        time.sleep(0.005)
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


@contextmanager
def running_console() -> Iterator[RunningConsole]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = ConsoleSettings(port=port, provider_port=0, sockets={}, issuer=None)
        with parts(settings) as console:
            app = create_app(console.oidc, console.sockets, console.suggestions)
            with served(app, listener):
                yield RunningConsole(f"http://127.0.0.1:{port}", console)


@pytest.fixture
def console() -> Iterator[RunningConsole]:
    with running_console() as console:
        yield console


@pytest.fixture
def sign_in(console: RunningConsole) -> Iterator[Callable[[str], Browser]]:
    """Signs a person of the demo in, in a browser of their own."""
    with ExitStack() as stack:

        def sign_in(name: str) -> Browser:
            browser = stack.enter_context(Browser(console.url))
            browser.home()
            browser.click(name)
            return browser

        yield sign_in


@pytest.fixture
def alice(sign_in: Callable[[str], Browser]) -> Browser:
    return sign_in("AA Alice Admin")


@pytest.fixture
def bob(sign_in: Callable[[str], Browser]) -> Browser:
    return sign_in("BV Bob Viewer")

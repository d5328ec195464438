"""A console that answers on a socket of this machine."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

from examples.console.app import create_app
from examples.console.demo import Parts, parts
from examples.console.serving import serving
from examples.console.settings import ConsoleSettings
from generated_vmm.testing import SimulatedMonitor


@dataclass(frozen=True, slots=True)
class RunningConsole:
    """A console that answers at `url`."""

    url: str
    parts: Parts

    @property
    def monitor(self) -> SimulatedMonitor:
        """The demo's own monitor."""
        return next(iter(self.parts.monitors.values()))

    def changes(self) -> list[str]:
        """Every call that was not only to look, as method and path."""
        calls = self.monitor.calls
        return [f"{call.method} {call.path}" for call in calls if call.method != "GET"]


@contextmanager
def running_console(sockets: Mapping[str, str] | None = None) -> Iterator[RunningConsole]:
    """The demo's parts, but for the monitors if `sockets` names others."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        settings = ConsoleSettings(port=port, provider_port=0, sockets=sockets or {}, issuer=None)
        with parts(settings) as console:
            app = create_app(console.oidc, console.sockets, console.suggestions)
            with serving(app, listener):
                yield RunningConsole(f"http://127.0.0.1:{port}", console)

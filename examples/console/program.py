"""The console as a program: it reads its environment, prints its address, and serves."""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import socket
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from types import FrameType

import uvicorn

from examples.console.app import create_app
from examples.console.demo import Parts, parts
from examples.console.host import Host
from examples.console.monitors import Monitors
from examples.console.settings import ConsoleSettings, SettingsError
from examples.console.words import VARIABLES
from fastapi_oidc import ConfigurationError


def main(arguments: Sequence[str] | None = None) -> None:
    """Serve until Ctrl-C or SIGTERM; a wrong setup prints one sentence, with exit code 2."""
    _parser().parse_args(arguments)
    try:
        # The server shuts down in order at a signal, and then passes it on.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        with suppress(KeyboardInterrupt):
            serve(ConsoleSettings.from_environment(os.environ))
    except (SettingsError, ConfigurationError) as error:
        why = ", ".join(getattr(error, "faults", ())) or error
        print(f"The console cannot start: {why}", file=sys.stderr)
        sys.exit(2)


def _parser() -> argparse.ArgumentParser:
    variables = "\n".join(f"  {name:24}{meaning}" for name, meaning in VARIABLES.items())
    return argparse.ArgumentParser(
        prog="python -m examples.console",
        description="Serves the microVM console on 127.0.0.1 until Ctrl-C.",
        epilog=f"environment variables, all optional:\n{variables}",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )


def serve(settings: ConsoleSettings) -> None:
    """Serve on 127.0.0.1 until interrupted; port 0 is any free one. Raises SettingsError."""
    listener = _listener(settings.port)
    settings = settings.model_copy(update={"port": listener.getsockname()[1]})
    key = secrets.token_urlsafe(16) if settings.needs_key else ""
    with listener, parts(settings) as console:
        sessions = settings.sessions()
        if console.folder is not None:  # where there is room for files that are uploaded
            tempfile.tempdir = str(console.folder)
        app = create_app(
            console.oidc,
            console.monitors,
            sessions,
            metrics_token=settings.metrics_token,
            roles=settings.roles,
            api_audience=settings.api_audience,
            apis=console.apis,
            key=key,
        )
        config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1, ws="none")
        print(_welcome(settings, console, key), flush=True)
        Server(config, console.monitors).run([listener])


class Server(uvicorn.Server):
    """Ends streams at a signal, for which it would wait."""

    def __init__(self, config: uvicorn.Config, monitors: Monitors) -> None:
        super().__init__(config)
        self._monitors = monitors

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Begins the end."""
        self._monitors.end_streams()
        super().handle_exit(sig, frame)


def _listener(port: int) -> socket.socket:
    try:
        listener = socket.create_server(("127.0.0.1", port))
        # Accepted connections inherit it: else a body waits for the acknowledgement of its head.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return listener
    except OSError as error:
        raise SettingsError(
            f"port {port} of 127.0.0.1 cannot be used ({error.strerror}). "
            "Choose another with CONSOLE_PORT."
        ) from error


def _welcome(settings: ConsoleSettings, console: Parts, key: str) -> str:
    lines = [
        f"\n  microVM console   http://127.0.0.1:{settings.port}{f'/?key={key}' if key else ''}"
    ]
    if console.provider is not None:
        lines += ["  Sign in as        alice (admin), carol (operator), bob (viewer); no password"]
        lines += [f"  OpenID Provider   {console.provider.issuer} (for this demo only)"]
    lines += [f"  Monitor {name:9} {path}" for name, path in settings.sockets.items()]
    if isinstance(console.monitors, Host):
        jail = "jailed" if console.monitors.launch.jailer else "without a jail"
        kind = f"real, {jail}" if settings.firecracker else "simulated"
        kept = "kept" if settings.folder else "until the console ends"
        lines += [f"  Machines          {kind}, {kept}, in {console.folder}"]
        if settings.simulated_agent and not settings.firecracker:
            lines += ["  Guests            run programs as you on this host: nothing is isolated."]
            lines += ["                    Without programs: CONSOLE_SIMULATED_AGENT="]
            lines += ["  Try               on the page Guest of demo: Give access, then curl"]
    return "\n".join([*lines, "  Stop with         Ctrl-C\n"])

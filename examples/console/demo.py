"""What the demo brings along when nothing else is given: a provider, a monitor, a kernel."""

from __future__ import annotations

import secrets
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr

from examples.console.lively_memory import LivelyMemory
from examples.console.settings import ConsoleSettings, SettingsError
from fastapi_oidc import ConfigurationError, OIDCSettings
from fastapi_oidc.testing import DevClient, DevProvider, DevUser
from generated_vmm.testing import SimulatedMonitor

USERS = (
    DevUser("alice", "Alice Admin", "alice@example.com", {"roles": ["admin"]}),
    DevUser("bob", "Bob Viewer", "bob@example.com", {"roles": ["viewer"]}),
)
CLIENT_ID = "microvm-console"
MACHINES = ("demo",)
IDLE_SECONDS = 3600
"""Without a request for that long a session of the demo is over; it also dates `last seen`."""


@dataclass(frozen=True, slots=True)
class Parts:
    """Who signs people in, which monitors there are, and what an empty setup form suggests."""

    oidc: OIDCSettings
    sockets: Mapping[str, str]
    suggestions: Mapping[str, str]
    provider: DevProvider | None
    monitors: Mapping[str, SimulatedMonitor]


@contextmanager
def parts(settings: ConsoleSettings) -> Iterator[Parts]:
    """Everything the console needs, while the block runs; raises SettingsError."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="console-")))
        names = () if settings.sockets else MACHINES
        monitors = {
            name: SimulatedMonitor(folder / f"{name}.socket", instance_id=name) for name in names
        }
        for monitor in monitors.values():
            monitor.guest.balloon_statistics = LivelyMemory(monitor)
            stack.enter_context(monitor)
        provider = None if settings.issuer else _provider(stack, settings)
        own = {name: str(monitor.socket_path) for name, monitor in monitors.items()}
        yield Parts(
            oidc=_demo_settings(provider, settings) if provider else _given_settings(),
            sockets=settings.sockets or own,
            suggestions=_samples(folder) if own else {},
            provider=provider,
            monitors=monitors,
        )


def _provider(stack: ExitStack, settings: ConsoleSettings) -> DevProvider:
    origin = f"http://127.0.0.1:{settings.port}"
    client = DevClient(
        client_id=CLIENT_ID,
        redirect_uris=(f"{origin}/auth/callback",),
        post_logout_redirect_uris=(f"{origin}/auth/logged-out",),
        backchannel_logout_uri=f"{origin}/auth/backchannel-logout",
    )
    provider = DevProvider(users=USERS, clients=[client])
    try:
        stack.enter_context(provider.serve(port=settings.provider_port))
    except OSError as error:
        raise SettingsError(
            f"Port {settings.provider_port} of 127.0.0.1, where the demo's OpenID Provider goes, "
            f"cannot be used ({error.strerror}). Choose another with CONSOLE_PROVIDER_PORT."
        ) from error
    return provider


def _demo_settings(provider: DevProvider, settings: ConsoleSettings) -> OIDCSettings:
    return OIDCSettings(
        issuer=provider.issuer,
        client_id=CLIENT_ID,
        cookie_secret=(SecretStr(secrets.token_urlsafe(48)),),
        base_url=f"http://127.0.0.1:{settings.port}",
        allow_insecure_http=True,
        idle_timeout=IDLE_SECONDS,
    )


def _given_settings() -> OIDCSettings:
    """The settings of a real provider, from the environment."""
    try:
        return OIDCSettings()
    except ConfigurationError as error:
        raise SettingsError(", ".join(error.faults)) from error


def _samples(folder: Path) -> dict[str, str]:
    """Files that stand for a kernel and a disk, as the setup form suggests them."""
    kernel, disk = folder / "vmlinux", folder / "rootfs.ext4"
    kernel.write_bytes(b"\x7fELF" + bytes(60))
    disk.write_bytes(bytes(1024 * 1024))
    return {"boot_source.kernel_image_path": str(kernel), "root_drive.path_on_host": str(disk)}

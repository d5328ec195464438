"""The parts of the console, and those of the demo: a provider, monitors, a kernel."""

from __future__ import annotations

import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from pydantic import SecretStr

from examples.calendar.calendar import CLIENT_ID as CALENDAR_CLIENT
from examples.calendar.calendar import RESOURCE, SCOPE, calendar_api
from examples.console.access import NO_APIS, Apis, apis_in
from examples.console.changes import CREATE
from examples.console.creating import created, suggested
from examples.console.events import on_behalf_of
from examples.console.forms import Texts
from examples.console.host import Host, Launch
from examples.console.monitors import Monitors
from examples.console.records import Person, Records
from examples.console.settings import ConsoleSettings, SettingsError
from fastapi_oidc import DownstreamAPI, OIDCSettings
from fastapi_oidc.broker import Route
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser
from generated_vmm.machines import Definition

USERS = (
    DevUser("alice", "Alice Admin", "alice@example.com", {"roles": ["admin"]}),
    DevUser("carol", "Carol Operator", "carol@example.com", {"roles": ["operator"]}),
    DevUser("bob", "Bob Viewer", "bob@example.com", {"roles": ["viewer"]}),
)
CLIENT_ID = "microvm-console"
SECRET = secrets.token_urlsafe(32)
"""That of the demo's clients, as long as this process runs."""
SIMULATED = (sys.executable, "-m", "examples.console.simulated")
WITH_AGENT = (sys.executable, "-m", "examples.console.simulated_agent")
IDLE_SECONDS = 3600
"""The idle timeout of a session of the demo; it also enables `last seen`."""


@dataclass(frozen=True, slots=True)
class Parts:
    """The OpenID settings, the monitors, and the APIs that machines may get access to.

    Monitors that it starts have a `folder`.
    """

    oidc: OIDCSettings
    monitors: Monitors
    provider: DevProvider | None
    folder: Path | None
    apis: Apis


@contextmanager
def parts(settings: ConsoleSettings) -> Iterator[Parts]:
    """Starts what the console needs, for the block; raises SettingsError."""
    with ExitStack() as stack:
        folder = None if settings.sockets else _folder(stack, settings)
        provider = None if settings.issuer else _provider(stack, settings)
        apis = _calendar(provider) if provider else NO_APIS
        yield Parts(
            oidc=_demo_settings(provider, settings) if provider else OIDCSettings(),
            monitors=_host(settings, folder) if folder else watched(settings),
            provider=provider,
            folder=folder,
            apis=apis_in(settings.routes) if settings.routes else apis,
        )


def _folder(stack: ExitStack, settings: ConsoleSettings) -> Path:
    if settings.folder is not None:
        return settings.folder
    return Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="console-")))


def _host(settings: ConsoleSettings, folder: Path) -> Host:
    """The machines that the console starts itself: real ones, or simulated ones with examples."""
    real, has_agent = settings.firecracker, settings.simulated_agent
    launch = Launch(
        (real,) if real else WITH_AGENT if has_agent else SIMULATED,
        folder,
        settings.folder is not None,
        settings.keep_days,
        settings.images,
        _jailer(settings) if real else None,
    )
    known = _suggestions(settings.kernel, settings.rootfs)
    if real:
        return Host(launch, known)
    known = {**samples(folder), **{name: path for name, path in known.items() if path}}
    known |= {"new.agent": "true"} if has_agent else {}
    return Host(launch, known, first_machines)


def _jailer(settings: ConsoleSettings) -> str | None:
    """The jailer if machines can be jailed, and no setting forbids it."""
    if settings.jailer == "":
        return None
    found = shutil.which(settings.jailer or "jailer")
    why = "there is no such program" if found is None else "jails need root" if os.geteuid() else ""
    if why and settings.jailer:
        raise SettingsError(f"JAILER_BIN is {settings.jailer}: {why}")
    return None if why else found


def watched(settings: ConsoleSettings) -> Monitors:
    """Monitors that this console did not start."""
    folder = settings.folder
    records = Records.in_folder(folder, settings.keep_days) if folder else None
    return Monitors(settings.sockets, records=records, folder=folder or Path("/"))


def _provider(stack: ExitStack, settings: ConsoleSettings) -> DevProvider:
    origin = f"http://127.0.0.1:{settings.port}"
    client = DevClient(
        client_id=CLIENT_ID,
        client_secret=SECRET,
        access_token_format="jwt",  # noqa: S106 - a format
        redirect_uris=(f"{origin}/auth/callback",),
        post_logout_redirect_uris=(f"{origin}/auth/logged-out",),
        backchannel_logout_uri=f"{origin}/auth/backchannel-logout",
    )
    calendar = DevClient(client_id=CALENDAR_CLIENT, client_secret=SECRET)
    resource = DevResource(RESOURCE, [SCOPE], calendar.client_id)
    provider = DevProvider(users=USERS, clients=[client, calendar], resources=[resource])
    try:
        stack.enter_context(provider.serve(port=settings.provider_port))
    except OSError as error:
        raise SettingsError(
            f"Port {settings.provider_port} of 127.0.0.1, where the demo's OpenID Provider goes, "
            f"cannot be used ({error.strerror}). Choose another with CONSOLE_PROVIDER_PORT."
        ) from error
    return provider


def _calendar(provider: DevProvider) -> Apis:
    """The demo's calendar, which the provider's server has too, and its route."""
    provider.app.mount("/calendar", calendar_api(provider.issuer, SECRET, None))
    route = Route(
        url=f"{provider.issuer}/calendar",
        allow=["GET /events", "POST /events"],
        approve=["POST /events"],
        resource=RESOURCE,
    )
    api = DownstreamAPI(grant="token_exchange", resource=RESOURCE, scope=SCOPE)
    return Apis({"calendar.internal": route}, [api])


def _demo_settings(provider: DevProvider, settings: ConsoleSettings) -> OIDCSettings:
    return OIDCSettings(
        issuer=provider.issuer,
        client_id=CLIENT_ID,
        client_secret=SecretStr(SECRET),
        cookie_secret=(SecretStr(secrets.token_urlsafe(48)),),
        base_url=f"http://127.0.0.1:{settings.port}",
        allow_insecure_http=True,
        idle_timeout=IDLE_SECONDS,
    )


def samples(folder: Path) -> dict[str, str]:
    """Placeholder files for a kernel and a disk, which forms suggest, for guests."""
    kernel, disk = folder / "vmlinux", folder / "rootfs.ext4"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    kernel.write_bytes(b"\x7fELF" + bytes(60))
    disk.write_bytes(bytes(1024 * 1024))
    return _suggestions(str(kernel), str(disk))


def _suggestions(kernel: str, disk: str) -> dict[str, str]:
    return {"boot_source.kernel_image_path": kernel, "root_drive.path_on_host": disk}


RUNNING, FRESH = "demo", "fresh"
SIZE: Final[Texts] = {"machine_config.vcpu_count": "2", "machine_config.mem_size_mib": "512"}


async def first_machines(host: Host) -> None:
    """Creates a machine that runs, and one to try everything with."""
    own = {**suggested(host, CREATE), **SIZE, "new_network.host_dev_name": "tap0"}
    with on_behalf_of(Person("", "The console")):
        await host.create(FRESH, Definition())
        await created(host, CREATE, {**own, "new.name": RUNNING})

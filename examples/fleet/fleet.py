"""The whole fleet: its parts start in order, and end in reverse order."""

from __future__ import annotations

import os
import secrets
import ssl
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from examples.console.demo import IDLE_SECONDS, USERS
from examples.console.settings import REDIS_SECONDS
from examples.fleet.certificate import write_certificate
from examples.fleet.monitors import FRESH, RUNNING, monitors, socket_of
from examples.fleet.part import Part, Together
from examples.fleet.program import Program
from examples.fleet.provider import Provider, Trusting
from examples.fleet.proxy import Proxy, place_for
from examples.fleet.redis_server import RedisServer
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, Lifetimes

REPOSITORY: Final = Path(__file__).parents[2]
CLIENT_ID: Final = "fleet"
TOLD: Final = ("OIDC_", "CONSOLE_", "VMM_", "FLEET_")
"""Prefixes of the shell's variables that the workers do not inherit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The size of a fleet, and its ports on 127.0.0.1; port 0 is any free one.

    Access tokens last `access_token` seconds and are refreshed `refresh_margin` seconds before
    they expire. A worker waits `redis_timeout` and `provider_timeout` seconds.
    """

    port: int = 8443
    provider_port: int = 9400
    machines: int = 2
    workers_each: int = 2
    users: Sequence[DevUser] = USERS
    access_token: int = 60
    refresh_margin: int = 20
    redis_timeout: float = REDIS_SECONDS
    provider_timeout: float = 10


@dataclass(frozen=True, slots=True)
class Fleet:
    """A running fleet; `trust` trusts its certificate, and `machines` are lists of workers."""

    url: str
    folder: Path
    shape: Shape
    trust: ssl.SSLContext
    provider: Provider
    redis: RedisServer
    monitors: Sequence[Program]
    machines: Sequence[Sequence[Program]]
    proxy: Proxy

    @property
    def op(self) -> DevProvider:
        """The OpenID Provider."""
        return self.provider.op

    @property
    def workers(self) -> list[Program]:
        """The workers of all machines."""
        return [worker for machine in self.machines for worker in machine]

    @property
    def parts(self) -> Mapping[str, Part]:
        """The parts that can be stopped and started, by name."""
        places = enumerate(self.machines, start=1)
        machines = [Together(f"machine {number}", workers) for number, workers in places]
        single: list[Part] = [*self.workers, self.redis, self.proxy, self.provider, *self.monitors]
        return {part.name: part for part in (*single, *machines)}


@contextmanager
def running_fleet(shape: Shape | None = None) -> Iterator[Fleet]:
    """A fleet in a folder of its own, removed after the block. Raises StartError."""
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="fleet-")))
        fleet = _prepared(folder, shape or Shape(), stack)
        _start(fleet, stack)
        yield fleet


def _prepared(folder: Path, shape: Shape, stack: ExitStack) -> Fleet:
    """The parts of a fleet; only the provider runs, because the workers need its port."""
    place = stack.enter_context(place_for(shape.port))
    url = f"https://127.0.0.1:{place.getsockname()[1]}"
    trust = write_certificate(folder / "certificate.pem", folder / "key.pem")
    client = _client(url)
    provider = Provider(_op(shape, client, trust), shape.provider_port)
    stack.callback(provider.stop)
    provider.start()
    redis = RedisServer(folder / "redis")
    common = _common_environment()
    told = common | _told(provider.op, client, url, shape, redis, folder)
    machines = [_machine(number, folder, shape, told) for number in range(shape.machines)]
    sockets = [socket_in(worker) for machine in machines for worker in machine]
    return Fleet(
        url=url,
        folder=folder,
        shape=shape,
        trust=trust,
        provider=provider,
        redis=redis,
        monitors=monitors(folder / "monitors", common),
        machines=machines,
        proxy=Proxy(folder, place, sockets),
    )


def _start(fleet: Fleet, stack: ExitStack) -> None:
    """Starts the parts; those that do not wait for each other start at the same time."""
    for at_once in ([fleet.redis, *fleet.monitors], fleet.workers, [fleet.proxy]):
        for program in at_once:
            stack.callback(program.stop)
            program.begin()
        for program in at_once:
            program.wait_until_ready()


def _client(url: str) -> DevClient:
    return DevClient(
        client_id=CLIENT_ID,
        client_secret=secrets.token_urlsafe(32),
        redirect_uris=(f"{url}/auth/callback",),
        post_logout_redirect_uris=(f"{url}/auth/logged-out",),
        backchannel_logout_uri=f"{url}/auth/backchannel-logout",
    )


def _op(shape: Shape, client: DevClient, trust: ssl.SSLContext) -> DevProvider:
    lifetimes = Lifetimes(access_token=shape.access_token)
    op = DevProvider(users=shape.users, clients=[client], lifetimes=lifetimes)
    op.back_channel_transport = Trusting(trust)
    return op


def _common_environment() -> dict[str, str]:
    """The environment in which our processes find the modules of this repository."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(TOLD)}
    return ours | {"PYTHONPATH": str(REPOSITORY)}


def _told(
    op: DevProvider,
    client: DevClient,
    url: str,
    shape: Shape,
    redis: RedisServer,
    folder: Path,
) -> dict[str, str]:
    """The environment of all workers: the same secrets and the same Redis."""
    names = (RUNNING, FRESH)
    sockets = [f"{name}={socket_of(folder / 'monitors', name)}" for name in names]
    return {
        "OIDC_ISSUER": op.issuer,
        "OIDC_CLIENT_ID": client.client_id,
        "OIDC_CLIENT_SECRET": client.client_secret or "",
        "OIDC_COOKIE_SECRET": secrets.token_urlsafe(32),
        "OIDC_BASE_URL": url,
        "OIDC_ALLOW_INSECURE_HTTP": "true",
        "OIDC_REFRESH_MARGIN": str(shape.refresh_margin),
        "OIDC_PROVIDER_TIMEOUT": str(shape.provider_timeout),
        "OIDC_IDLE_TIMEOUT": str(IDLE_SECONDS),
        "CONSOLE_REDIS": redis.url,
        "CONSOLE_FOLDER": str(folder / "console"),
        "FLEET_REDIS_TIMEOUT": str(shape.redis_timeout),
        "VMM_SOCKETS": ",".join(sockets),
    }


def _machine(number: int, folder: Path, shape: Shape, told: Mapping[str, str]) -> list[Program]:
    first = number * shape.workers_each + 1
    home = folder / f"machine-{number + 1}"
    return [_worker(first + place, home, told) for place in range(shape.workers_each)]


def _worker(number: int, home: Path, told: Mapping[str, str]) -> Program:
    address = home / f"worker-{number}.sock"
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "--factory",
        "examples.fleet.application:application",
    ]
    return Program(
        f"worker {number}",
        # Only nginx can reach the socket, so what it says of the client is true.
        [*command, "--uds", str(address), "--forwarded-allow-ips", "*", "--log-level", "warning"],
        home,
        address=address,
        environment={**told, "FLEET_WORKER": str(number)},
    )


def socket_in(worker: Program) -> Path:
    """Where a worker listens."""
    return worker.folder / f"{worker.name.replace(' ', '-')}.sock"

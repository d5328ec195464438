"""Workers, a Redis and a provider as real processes and sockets, on one clock that tests move."""

import secrets
import ssl
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import (
    AbstractContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    nullcontext,
)
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from fastapi_oidc import Clock
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, TokensIssued, sign_in
from tests.oidc.fleet.redis_process import RedisProcess
from tests.oidc.fleet.tls_provider import reserved_port, tls_in_front
from tests.oidc.fleet.worker_process import PATIENCE, Worker
from tests.oidc.provider.certificates import Authority

MODES = ["cookie", "store"]

BEFORE_THE_END, LONG_AFTER = 280, 400
"""Seconds after a sign-in when the access token (300 s) is to be refreshed, and when it is over."""

ONE_PAUSE = 6
"""Seconds after which a provider that failed once is asked again."""


@dataclass(slots=True)
class Fleet:
    """What the workers share; `settings` are changed before a worker is started."""

    op: DevProvider
    provider: ExitStack
    redis: RedisProcess
    stack: ExitStack
    settings: dict[str, Any]
    folder: Path
    serving: Callable[[], AbstractContextManager[object]] = nullcontext
    serving_with_another_certificate: Callable[[], AbstractContextManager[object]] = nullcontext
    browsers_trust: ssl.SSLContext | bool = True
    mode: str = "store"
    redis_options: dict[str, object] = field(default_factory=dict)
    redis_url: str = ""
    """Of a Redis that the workers use in place of `redis`."""

    def pass_seconds(self, seconds: float) -> None:
        """The clocks of the provider and of every worker go on by so much at once."""
        later = self.clock_file.with_suffix(".later")
        later.write_text(str(float(self.clock_file.read_text()) + seconds))
        later.replace(self.clock_file)

    def workers(self, *each: dict[str, Any]) -> list[Worker]:
        """Starts one worker for each of these differences, all at the same time.

        `holds` holds refreshes, `ahead` is its clock's fault in seconds, `next_version` seals as
        this version of the library does not, the others are settings.
        """
        started = [self._started(**differences) for differences in each]
        for worker in started:
            worker.wait_until_listening()
        return started

    def _started(
        self, *, holds: bool = False, ahead: int = 0, next_version: bool = False, **settings: Any
    ) -> Worker:
        configuration = {
            "settings": self.settings | settings,
            "redis_url": self.redis_url or self.redis.url(**self.redis_options),
            "mode": self.mode,
            "clock_file": str(self.clock_file),
            "holds": holds,
            "next_version": next_version,
        }
        number = len(list(self.folder.glob("worker-*.log")))
        worker = Worker(configuration, ahead, self.folder / f"worker-{number}.log")
        self.stack.callback(worker.end)
        return worker

    @asynccontextmanager
    async def signed_in(
        self, worker: Worker, user: str = "alice"
    ) -> AsyncIterator[httpx.AsyncClient]:
        """A browser in which `user` has signed in; the workers have one name for it."""
        async with self.browser() as browser:
            page = await sign_in(browser, worker.at("/auth/login?return_to=/me"), user=user)
            assert page.json() == {"sub": user, "generation": 0}
            yield browser

    def browser(self) -> httpx.AsyncClient:
        """A browser without cookies; with TLS it trusts the provider's right certificate."""
        return httpx.AsyncClient(timeout=PATIENCE, verify=self.browsers_trust)

    @property
    def clock_file(self) -> Path:
        """By how many seconds the time of the fleet is ahead of this machine's."""
        return self.folder / "clock"

    def logs_out_through(self, worker: Worker) -> None:
        """The provider tells this worker alone when a session ends."""
        clients, uri = self.op._state.clients, worker.at("/auth/backchannel-logout")
        client = replace(clients["app"], backchannel_logout_uri=uri)
        self.op._state.clients = {**clients, "app": client}

    def provider_ends(self) -> None:
        """Nobody listens at the provider's address."""
        self.provider.close()

    def provider_shows_another_certificate(self) -> None:
        """Its address is served by somebody whom nobody trusts."""
        self.provider.close()
        self.provider.enter_context(self.serving_with_another_certificate())

    def provider_heals(self) -> None:
        """It works, at the address that it had before."""
        self.op.faults.clear()
        self.provider.close()
        self.provider.enter_context(self.serving())

    def token_calls(self, grant_type: str = "refresh_token") -> int:
        """How many tokens the provider gave for such a grant."""
        return sum(event.grant_type == grant_type for event in self.op.record.of(TokensIssued))


@contextmanager
def running_fleet() -> Iterator[Fleet]:
    """Provider and Redis are up; workers are started by the test, and all end with it."""
    with _fleet() as fleet:
        fleet.provider.enter_context(fleet.op.serve())
        port = _port_of(fleet.op)
        fleet.serving = lambda: fleet.op.serve(port=port)
        fleet.settings["issuer"] = fleet.op.issuer
        yield fleet


@contextmanager
def running_fleet_with_tls() -> Iterator[Fleet]:
    """As `running_fleet`, with a provider behind TLS whose authority everybody trusts."""
    with reserved_port() as port, _fleet() as fleet, fleet.op.serve():
        provider = _port_of(fleet.op)
        authority, other = (Authority(fleet.folder, name) for name in ("right", "wrong"))
        right, wrong = authority.issue("provider"), other.issue("impostor")
        fleet.serving = lambda: tls_in_front(port, provider, right)
        fleet.serving_with_another_certificate = lambda: tls_in_front(port, provider, wrong)
        fleet.browsers_trust = ssl.create_default_context(cafile=authority.file)
        fleet.op._state.issuer = f"https://127.0.0.1:{port}"
        fleet.settings |= {"issuer": fleet.op.issuer, "ca_file": str(authority.file)}
        with fleet.provider:
            fleet.provider.enter_context(fleet.serving())
            yield fleet


def _port_of(op: DevProvider) -> int:
    return httpx.URL(op.issuer).port or 0


@contextmanager
def _fleet() -> Iterator[Fleet]:
    with tempfile.TemporaryDirectory(prefix="fleet-") as name, ExitStack() as stack:
        folder = Path(name)
        redis = RedisProcess(folder)
        redis.start()
        stack.callback(redis.kill)
        clock_file = folder / "clock"
        clock_file.write_text("0")
        client = DevClient(
            client_id="app", client_secret=secrets.token_urlsafe(32), any_local_uri=True
        )
        op = DevProvider(
            users=[DevUser("alice"), DevUser("bob"), DevUser("carol"), DevUser("dave")],
            clients=[client],
            clock=Clock(read=lambda: time.time() + float(clock_file.read_text())),
        )
        provider = stack.enter_context(ExitStack())
        yield Fleet(op, provider, redis, stack, _settings(client), folder)


def _settings(client: DevClient) -> dict[str, Any]:
    return {
        "client_id": client.client_id,
        "client_secret": client.client_secret,
        "cookie_secret": secrets.token_urlsafe(32),
        "allow_insecure_http": True,
        "scope": ["openid", "offline_access"],
        "callback_timeout": 60,
    }

"""Workers, a Redis and a provider as real processes and sockets, on one clock that tests move."""

import secrets
import tempfile
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

from fastapi_oidc import Clock
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, TokensIssued, sign_in
from tests.oidc.fleet.worker_process import PATIENCE, Worker
from tests.oidc.redis_topologies.clients import Connect
from tests.oidc.redis_topologies.servers import Server, program_of, running

LONG_AFTER = 400
"""Seconds after a sign-in when the access token (300 s) is over."""

KEPT_ON_DISK = ("--appendonly", "yes", "--appendfsync", "always")


@dataclass(slots=True)
class Fleet:
    """What the workers share; `settings` are changed before a worker is started.

    `redis_at` is a URL, or makes a client.
    """

    op: DevProvider
    redis: Server
    redis_at: str | Connect
    stack: ExitStack
    settings: dict[str, Any]
    folder: Path
    mode: str = "store"

    def pass_seconds(self, seconds: float) -> None:
        """The clocks of the provider and of every worker go on by so much at once."""
        later = self.clock_file.with_suffix(".later")
        later.write_text(str(float(self.clock_file.read_text()) + seconds))
        later.replace(self.clock_file)

    def workers(self, *each: dict[str, Any]) -> list[Worker]:
        """Starts one worker for each of these settings, at once; `holds` holds refreshes."""
        started = [self._started(**differences) for differences in each]
        for worker in started:
            worker.wait_until_listening()
        return started

    def _started(self, *, holds: bool = False, **settings: Any) -> Worker:
        configuration = {
            "settings": self.settings | settings,
            "redis_at": self.redis_at,
            "mode": self.mode,
            "clock_file": str(self.clock_file),
            "holds": holds,
        }
        number = len(list(self.folder.glob("worker-*.log")))
        worker = Worker(configuration, self.folder / f"worker-{number}.log")
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
        """A browser without cookies."""
        return httpx.AsyncClient(timeout=PATIENCE)

    @property
    def clock_file(self) -> Path:
        """By how many seconds the time of the fleet is ahead of this machine's."""
        return self.folder / "clock"

    def token_calls(self, grant_type: str = "refresh_token") -> int:
        """How many tokens the provider gave for such a grant."""
        return sum(event.grant_type == grant_type for event in self.op.record.of(TokensIssued))


@contextmanager
def running_fleet() -> Iterator[Fleet]:
    """Provider and Redis are up; workers are started by the test, and all end with it."""
    with tempfile.TemporaryDirectory(prefix="fleet-") as name, ExitStack() as stack:
        folder = Path(name)
        redis = Server(program_of("redis-server"), folder / "redis", *KEPT_ON_DISK)
        stack.enter_context(running(redis))
        clock_file = folder / "clock"
        clock_file.write_text("0")
        secret = secrets.token_urlsafe(32)
        client = DevClient(client_id="app", client_secret=secret, any_local_uri=True)
        op = DevProvider(
            users=[DevUser("alice"), DevUser("bob"), DevUser("carol"), DevUser("dave")],
            clients=[client],
            clock=Clock(read=lambda: time.time() + float(clock_file.read_text())),
        )
        stack.enter_context(op.serve())
        url = f"redis://127.0.0.1:{redis.port}"
        yield Fleet(op, redis, url, stack, _settings(client, op), folder)


def _settings(client: DevClient, op: DevProvider) -> dict[str, Any]:
    return {
        "issuer": op.issuer,
        "client_id": client.client_id,
        "client_secret": client.client_secret,
        "cookie_secret": secrets.token_urlsafe(32),
        "allow_insecure_http": True,
        "scope": ["openid", "offline_access"],
        "callback_timeout": 60,
    }

"""How often Redis is asked for each kind of request: no more than docs/scaling.md says."""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import httpx
import pytest
from redis.asyncio import Redis

from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, LOCAL
from tests.oidc.redis_topologies.servers import Server, program_of, running
from tests.oidc.world import LOGIN_URL, Time, World, make_world

DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "scaling.md"
SHAPES: Final = ["session store", "cookie"]
OF_A_CONNECTION: Final = ("HELLO", "CLIENT", "SELECT", "AUTH")


@dataclass(slots=True)
class Visit:
    """An application, and a browser of alice."""

    world: World
    browser: httpx.AsyncClient

    async def login(self) -> None:
        page = await sign_in(self.browser, LOGIN_URL, user="alice")
        assert page.json()["generation"] == 0

    async def request(self) -> None:
        assert (await self.browser.get("/me")).status_code == 200

    async def refresh(self) -> None:
        self.world.time.advance(AFTER_EXPIRY)
        assert (await self.browser.get("/me")).json()["generation"] == 1

    async def sign_out(self) -> None:
        await self.browser.post("/auth/logout", data=LOCAL)

    async def back_channel_logout(self) -> None:
        await self.world.op.log_out("alice")

    async def refused(self) -> None:
        assert (await self.browser.get("/me")).status_code == 401


DEEDS: Final[list[tuple[str, Callable[[Visit], Awaitable[None]], list[str]]]] = [
    ("a login, with the page that follows", Visit.login, []),
    ("a request with a session", Visit.request, ["login"]),
    ("a request that refreshes", Visit.refresh, ["login"]),
    ("a sign-out", Visit.sign_out, ["login"]),
    ("a back-channel logout", Visit.back_channel_logout, ["login"]),
    ("the request that is refused after it", Visit.refused, ["login", "back_channel_logout"]),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(program_of("redis-server"), tmp_path_factory.mktemp("operations") / "server")
    with running(server):
        yield server


def stores(shape: str, url: str) -> dict[str, Any]:
    store = RedisStore(url, prefix=f"{secrets.token_hex(4)}:")  # each world has its own secret
    if shape == "cookie":
        return {"back_channel_logout_store": store}
    return {"session_store": store, "back_channel_logout_store": None}


@asynccontextmanager
async def visiting(server: Server, shape: str) -> AsyncIterator[Visit]:
    url = f"redis://127.0.0.1:{server.port}"
    world = make_world(time=Time(time.time()), **stores(shape, url))
    async with world.browser() as browser:
        yield Visit(world, browser)
    await world.oidc.aclose()


async def asked(server: Server, deed: Awaitable[None]) -> int:
    """How many commands Redis was given meanwhile; a script is one, and a new connection none."""
    commands = []
    async with Redis(port=server.port) as client, client.monitor() as monitor:
        await deed
        server.command("ECHO", "the end")
        while not (said := await monitor.next_command())["command"].startswith("ECHO"):
            if said["client_type"] != "lua":
                commands.append(said["command"].split()[0].upper())
    return sum(command not in OF_A_CONNECTION for command in commands)


def documented(deed: str, shape: str) -> int:
    """What the table of docs/scaling.md says."""
    [row] = re.findall(rf"^\| {re.escape(deed)} \| (\d+) \| (\d+) \|$", DOCUMENT.read_text(), re.M)
    return int(row[SHAPES.index(shape)])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("name", "deed", "before"), DEEDS, ids=[deed[0] for deed in DEEDS])
async def test_redis_is_asked_no_more_often_than_the_documents_say(
    server: Server,
    shape: str,
    name: str,
    deed: Callable[[Visit], Awaitable[None]],
    before: list[str],
) -> None:
    server.command("SCRIPT FLUSH")
    async with visiting(server, shape) as known:  # scripts are sent in full once
        for everything in (Visit.login, Visit.refresh, Visit.sign_out):
            await everything(known)
        await known.login()
        await known.back_channel_logout()
    async with visiting(server, shape) as visit:
        for earlier in before:
            await getattr(visit, earlier)()
        assert 0 < await asked(server, deed(visit)) <= documented(name, shape)

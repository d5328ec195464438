"""What Redis is asked, by whom, and in every topology."""

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
from redis.exceptions import NoPermissionError

import fastapi_oidc.session.redis as redis_package
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import sign_in
from tests.oidc.flows.steps import AFTER_EXPIRY, LOCAL
from tests.oidc.protocol.examples import each
from tests.oidc.redis_topologies.clients import Connect, close
from tests.oidc.redis_topologies.conftest import (
    PASSWORD,
    allow_the_documented_user,
    words_of_the_documented_user,
)
from tests.oidc.redis_topologies.servers import Server, program_of, running
from tests.oidc.session.values import KEY, LATER, ONE, has_one, put_one
from tests.oidc.world import LOGIN_URL, Time, World, make_world


@pytest.fixture
async def store(connect: Connect, prefix: str) -> AsyncIterator[RedisStore]:
    client = connect()
    yield RedisStore(client, prefix=prefix)
    await close(client)


async def test_values_are_stored_read_together_replaced_and_deleted(store: RedisStore) -> None:
    keys = [f"{KEY}{number}" for number in range(8)]
    for key in keys[1:]:
        assert await store.swap(key, b"", Cell(key.encode(), LATER)) is None
    assert list(await store.read(keys)) == [b"", *(key.encode() for key in keys[1:])]
    await put_one(store)
    seen = await store.swap(KEY, b"two", ONE)
    assert seen is not None
    assert seen.value == ONE.value
    assert await store.swap(KEY, ONE.value, Cell(b"", 0)) is None
    assert await store.swap(KEY, ONE.value, ONE) == Stored(b"", 0.0)


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


SOURCE = Path(redis_package.__file__)


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[RedisStore]:
    store = RedisStore(url)
    yield store
    await store.aclose()


async def assert_it_works(url: str) -> None:
    async with store_at(url) as store:
        await put_one(store)
        assert await has_one(store)


async def assert_unavailable(url: str) -> str:
    """What is told of it."""
    async with store_at(url) as store:
        with pytest.raises(SessionError) as caught:
            await store.read([KEY])
    assert (caught.value.code, caught.value.status) == (Code.SESSION_STORE_UNAVAILABLE, 503)
    assert PASSWORD not in f"{caught.value!r} {caught.value.message}"
    return str(caught.value.message)


@pytest.fixture(scope="module")
def guarded(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Only the user of docs/sessions.md may do anything."""
    server = Server(program, tmp_path_factory.mktemp("guarded") / "server")
    with running(server):
        allow_the_documented_user(server)
        server.command("ACL SETUSER", "default", "off")
        yield server


def test_the_documented_user_has_every_command_of_our_scripts() -> None:
    allowed = set(re.findall(r"\+(\w+)", words_of_the_documented_user()))
    used = set(re.findall(r"redis\.call\('(\w+)'", SOURCE.read_text()))
    assert {"SET", "DEL"} <= used <= {name.upper() for name in allowed}


@pytest.mark.parametrize("user", ["", "app:wrong@", "nobody:PASSWORD@", ":PASSWORD@"])
async def test_others_are_not(guarded: Server, user: str) -> None:
    user = user.replace("PASSWORD", PASSWORD)
    told = await assert_unavailable(f"redis://{user}127.0.0.1:{guarded.port}/0")
    assert "could not read: AuthenticationError: " in told
    assert PASSWORD not in told


FORBIDDEN = {
    "listing": ("KEYS *", "SCAN 0", "ACL LIST", "CONFIG GET *"),
    "other keys": ("GET another:key", "SET another:key value", "FLUSHALL"),
    "other things": ("SCRIPT FLUSH", "PUBLISH channel message"),
}


@pytest.mark.parametrize("command", each(FORBIDDEN))
async def test_the_documented_user_may_do_no_more(guarded: Server, command: str) -> None:
    async with Redis.from_url(f"redis://app:{PASSWORD}@127.0.0.1:{guarded.port}") as client:
        with pytest.raises(NoPermissionError):
            await client.execute_command(*command.split())  # type: ignore[no-untyped-call]

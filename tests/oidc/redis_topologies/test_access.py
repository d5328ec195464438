"""Who may speak to a Redis: users and passwords."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError

import fastapi_oidc.session.redis as redis_package
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisStore
from tests.oidc.redis_topologies.conftest import (
    PASSWORD,
    allow_the_documented_user,
    words_of_the_documented_user,
)
from tests.oidc.redis_topologies.servers import Server, running
from tests.oidc.session.values import KEY, has_one, put_one

SOURCES = Path(redis_package.__file__).parent


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
    sources = (file.read_text() for file in SOURCES.glob("*.py"))
    used = {name for text in sources for name in re.findall(r"redis\.call\('(\w+)'", text)}
    assert {"SET", "DEL"} <= used <= {name.upper() for name in allowed}


@pytest.mark.parametrize("user", ["", "app:wrong@", "nobody:PASSWORD@", ":PASSWORD@"])
async def test_others_are_not(guarded: Server, user: str) -> None:
    user = user.replace("PASSWORD", PASSWORD)
    told = await assert_unavailable(f"redis://{user}127.0.0.1:{guarded.port}/0")
    assert "could not read: AuthenticationError: " in told
    assert PASSWORD not in told


@pytest.mark.parametrize(
    "command",
    [
        "KEYS *",
        "SCAN 0",
        "FLUSHALL",
        "CONFIG GET *",
        "ACL LIST",
        "GET another:key",
        "SET another:key value",
        "SCRIPT FLUSH",
        "PUBLISH channel message",
    ],
)
async def test_the_documented_user_may_do_no_more(guarded: Server, command: str) -> None:
    async with Redis.from_url(f"redis://app:{PASSWORD}@127.0.0.1:{guarded.port}") as client:
        with pytest.raises(NoPermissionError):
            await client.execute_command(*command.split())  # type: ignore[no-untyped-call]

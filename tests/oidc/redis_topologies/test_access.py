"""Who may speak to a Redis, and whom the stores speak to: TLS both ways, users and passwords."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from redis.asyncio import Redis
from redis.exceptions import NoPermissionError, ResponseError

import fastapi_oidc.session.redis as redis_package
from fastapi_oidc.errors import Code, SessionError
from fastapi_oidc.session.redis import RedisSessionStore
from tests.oidc.provider.certificates import Authority
from tests.oidc.redis_topologies.conftest import (
    PASSWORD,
    allow_the_documented_user,
    words_of_the_documented_user,
)
from tests.oidc.redis_topologies.servers import Server, program_of, running
from tests.oidc.session.examples import User, a_session, bound

ID = "a" * 43
SOURCES = Path(redis_package.__file__).parent


@asynccontextmanager
async def store_at(url: str) -> AsyncIterator[RedisSessionStore[User]]:
    store = bound(RedisSessionStore.from_url(url, User))
    yield store
    await store.aclose()


async def assert_it_works(url: str) -> None:
    async with store_at(url) as store:
        await store.set(ID, a_session())
        assert await store.get(ID) == a_session()


async def assert_unavailable(url: str) -> str:
    """What is told of it."""
    async with store_at(url) as store:
        with pytest.raises(SessionError) as caught:
            await store.get(ID)
    assert (caught.value.code, caught.value.status) == (Code.SESSION_STORE_UNAVAILABLE, 503)
    assert PASSWORD not in f"{caught.value!r} {caught.value.message}"
    return str(caught.value.message)


class _WithTls(Server):
    """Takes TLS alone, from clients with a certificate of its authority."""

    def arguments(self, port: int) -> list[str]:
        authority, own = self.folder / "authority.pem", str(self.folder / "server.pem")
        listening = [*super().arguments(0), "--tls-port", str(port)]
        files = ["--tls-ca-cert-file", str(authority), "--tls-cert-file", own]
        return [*listening, *files, "--tls-key-file", own, "--tls-auth-clients", "yes"]


class Keys:
    """A server with TLS, and the certificates that are about."""

    def __init__(self, folder: Path) -> None:
        self.server = _WithTls(program_of("redis-server"), folder / "server")
        authority, stranger = (Authority(self.server.folder, name) for name in ("authority", "xy"))
        authority.issue("server")
        self.authority, self.other_authority = authority.file, stranger.file
        self.client, self.stranger = authority.issue("client"), stranger.issue("stranger")

    def url(self, authority: Path, client: Path | None, host: str = "127.0.0.1") -> str:
        shown = f"&ssl_certfile={client}&ssl_keyfile={client}" if client else ""
        return f"rediss://{host}:{self.server.port}/0?ssl_ca_certs={authority}{shown}"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Keys]:
    keys = Keys(tmp_path_factory.mktemp("tls"))
    with running(keys.server):
        yield keys


async def test_tls_with_a_certificate_of_the_client(keys: Keys) -> None:
    await assert_it_works(keys.url(keys.authority, keys.client))


async def test_a_server_of_another_authority_is_not_believed(keys: Keys) -> None:
    await assert_unavailable(keys.url(keys.other_authority, keys.client))


async def test_a_server_of_another_name_is_not_believed(keys: Keys) -> None:
    """Its certificate is for 127.0.0.1."""
    await assert_unavailable(keys.url(keys.authority, keys.client, host="localhost"))
    unchecked = keys.url(keys.authority, keys.client, host="localhost")
    await assert_it_works(f"{unchecked}&ssl_check_hostname=False")


@pytest.mark.parametrize("shown", ["nothing", "another authority's"])
async def test_a_client_without_its_certificate_is_refused(keys: Keys, shown: str) -> None:
    certificate = None if shown == "nothing" else keys.stranger
    await assert_unavailable(keys.url(keys.authority, certificate))


async def test_without_tls_there_is_no_answer(keys: Keys) -> None:
    await assert_unavailable(f"redis://127.0.0.1:{keys.server.port}")


@pytest.fixture(scope="module")
def guarded(program: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Only the user of docs/sessions.md may do anything."""
    server = Server(program, tmp_path_factory.mktemp("guarded") / "server")
    with running(server):
        allow_the_documented_user(server)
        server.command("ACL SETUSER", "default", "off")
        yield server


async def test_the_documented_user_is_let_in(guarded: Server) -> None:
    await assert_it_works(f"redis://app:{PASSWORD}@127.0.0.1:{guarded.port}/0")


def test_the_documented_user_has_every_command_of_our_scripts() -> None:
    allowed = set(re.findall(r"\+(\w+)", words_of_the_documented_user()))
    sources = (file.read_text() for file in SOURCES.glob("*.py"))
    used = {name for text in sources for name in re.findall(r"redis\.call\('(\w+)'", text)}
    assert {"SET", "ZADD"} <= used <= {name.upper() for name in allowed}


@pytest.mark.parametrize("user", ["", "app:wrong@", "nobody:PASSWORD@", ":PASSWORD@"])
async def test_others_are_not(guarded: Server, user: str) -> None:
    user = user.replace("PASSWORD", PASSWORD)
    told = await assert_unavailable(f"redis://{user}127.0.0.1:{guarded.port}/0")
    assert told == "the store raised AuthenticationError"


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


async def test_nor_may_a_script_of_that_user(guarded: Server) -> None:
    async with Redis.from_url(f"redis://app:{PASSWORD}@127.0.0.1:{guarded.port}") as client:
        assert await client.eval("return redis.call('GET', KEYS[1])", 1, "fastapi_oidc:a") is None
        for script in ("return redis.call('GET', 'another:key')", "return redis.call('FLUSHALL')"):
            with pytest.raises(ResponseError, match=r"ACL failure|permission|can't (access|run)"):
                await client.eval(script, 0)

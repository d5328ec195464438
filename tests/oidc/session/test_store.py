"""Stores in memory and by their options, what their failures say, and extras that are missing."""

import importlib
import secrets
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ConfigurationError, SessionError
from fastapi_oidc.session.own_store import ExclusiveStore, store_of
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.sql import SQLStore
from fastapi_oidc.session.store import Cell, MemoryStore, Stored
from tests.oidc.protocol.examples import each, refused
from tests.oidc.session.conftest import MovableClock
from tests.oidc.session.examples import NOW
from tests.oidc.session.test_cells import Dictionary
from tests.oidc.session.values import KEY

PASSWORD = secrets.token_urlsafe(16)
ONE = Cell(b"x", 2**31)


def closed_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])


@pytest.mark.parametrize("by", ["url", "client"])
async def test_redis_names_the_operation_the_address_and_the_cause(by: str) -> None:
    port = closed_port()
    url = f"redis://app:{PASSWORD}@127.0.0.1:{port}"
    store = RedisStore(url if by == "url" else Redis.from_url(url))
    with pytest.raises(SessionError) as caught:
        await store.read(["a"])
    told = caught.value.explanation
    place = f"redis://127.0.0.1:{port}" if by == "url" else "Redis"
    assert told.startswith(f"the store {place} could not read: ConnectionError: ")
    assert f"127.0.0.1:{port}" in told
    with pytest.raises(SessionError, match="could not write: ConnectionError: "):
        await store.swap("a", b"", ONE)
    assert PASSWORD not in told
    await store.aclose()


async def test_sql_names_the_operation_and_the_cause_and_shows_no_value(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/db", hide_parameters=False)
    store = SQLStore(engine)
    await store._send(text("CREATE TABLE fastapi_oidc_values (expires_at)"), {})
    with pytest.raises(
        SessionError, match=f"{tmp_path}/db could not read: .*no such col"
    ) as caught:
        await store.read([PASSWORD])
    assert PASSWORD not in caught.value.explanation
    with pytest.raises(SessionError, match=r"could not write: .*no column"):
        await store.swap("a", b"", ONE)
    await engine.dispose()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (f"redis://:{PASSWORD}@a:1/0?password={PASSWORD}", "redis://a:1/0"),
        (f"unix://u:{PASSWORD}@/run/redis.sock", "unix:///run/redis.sock"),
        ("rediss://a", "rediss://a"),
        (f"postgresql+asyncpg://app:{PASSWORD}@db/name?user=a", "postgresql+asyncpg://db/name"),
    ],
    ids=["query", "unix", "bare", "database"],  # the same in every process
)
def test_an_address_has_neither_user_nor_password(url: str, address: str) -> None:
    assert (SQLStore if "asyncpg" in url else RedisStore)(url)._address == address


LATER = NOW + 600
ONE, TWO = Cell(b"one", LATER), Cell(b"two", LATER)


class Watched(MemoryStore):
    """Notes what it is asked."""

    def __init__(self, moving: MovableClock) -> None:
        super().__init__(clock=moving.clock)
        self.asked: list[tuple[bytes | None, bytes]] = []

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        self.asked.append((before, after.value))
        return await super().swap(key, before, after)


@pytest.mark.parametrize(
    ("stored", "known", "asked", "heard"),
    [
        (b"a", b"a", [(b"a", b"ax")], [(b"a", 0)]),
        (b"a", None, [(None, b""), (b"a", b"ax")], [(b"a", 7)]),
        (b"a", b"b", [(b"b", b"bx"), (b"a", b"ax")], [(b"b", 0), (b"a", 7)]),
        (b"aaa", None, [(None, b"")], [(b"aaa", 7)]),
        (b"aaa", b"aaa", [(None, b"")], [(b"aaa", 0), (b"aaa", 7)]),  # its age may decide
    ],
)
async def test_who_knows_the_value_asks_once_and_others_hear_its_age(
    moving: MovableClock, stored: bytes, known: bytes | None, asked: object, heard: object
) -> None:
    store, calls = Watched(moving), []

    def append(value: bytes, age: float) -> Cell | None:
        calls.append((value, age))
        return None if len(value) >= 3 else Cell(value + b"x", LATER)

    await store.swap(KEY, b"", Cell(stored, LATER))
    moving.second += 7
    store.asked.clear()
    moved = await store.move(KEY, append, known=known)
    assert [moved.value] == await store.read([KEY]) == [stored if stored == b"aaa" else b"ax"]
    assert (store.asked, calls) == (asked, heard)


CLOCK = Clock()


@pytest.mark.parametrize(
    ("given", "kind"),
    [
        ("memory", MemoryStore),
        ("redis://localhost", RedisStore),
        ("rediss://app:pass@localhost:6380/2", RedisStore),
        ("unix:///run/redis.sock", RedisStore),
        ("postgresql+asyncpg://app:pass@localhost/app", SQLStore),
        ("sqlite+aiosqlite:///sessions.db", SQLStore),
        (Dictionary(), ExclusiveStore),
        (MemoryStore(), MemoryStore),
    ],
)
def test_what_is_a_store(given: object, kind: type[object]) -> None:
    store = store_of(given, CLOCK)
    assert type(store) is kind
    assert (store is given) is isinstance(given, MemoryStore)
    assert store.is_in_memory is (kind is MemoryStore)


NO_STORES = {
    "nothing": (None, ""),
    "a URL": ("redis:hunter2", "http://app:hunter2@db", " redis://app:hunter2@db"),
    "another database": ("mysql+aiomysql://app:hunter2@db/app",),
    "a class": (Dictionary, MemoryStore),
    "an object": (object(), b"memory"),
}


@pytest.mark.parametrize("given", each(NO_STORES))
def test_what_is_none_is_refused_by_the_name_of_its_option(given: object) -> None:
    with pytest.raises(ConfigurationError, match="back_channel_logout_store is ") as caught:
        store_of(given, CLOCK, option="back_channel_logout_store")
    assert caught.value.code is Code.CONFIGURATION_INVALID
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url", ["redis+ring://app:hunter2@db", "postgresql://app:hunter2@db", "sqlite:///hunter2"]
)
def test_a_url_that_its_extra_does_not_take_is_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(ConfigurationError, match=r"is (redis|postgresql\+asyncpg)://") as caught:
        store_of(url, CLOCK)
    assert "hunter2" not in str(caught.value)


def until(second: int, value: bytes = b"one") -> Cell:
    return Cell(value, NOW + second)


async def test_a_value_ends_at_its_second_and_ages_until_then(moving: MovableClock) -> None:
    store = MemoryStore(clock=moving.clock)
    await store.swap(KEY, b"", until(10))
    moving.second = NOW + 9
    assert await store.read([KEY]) == [b"one"]
    assert await store.swap(KEY, None, until(10)) == Stored(b"one", 9)
    moving.second = NOW - 5
    assert await store.swap(KEY, None, until(10)) == Stored(b"one", -5), "the clock was set back"
    moving.second = NOW + 10
    assert await store.read([KEY]) == [b""]
    assert await store.swap(KEY, None, until(10)) == Stored(b"", 0)


async def test_a_full_store_takes_no_new_key_and_loses_nothing(moving: MovableClock) -> None:
    store = MemoryStore(clock=moving.clock, max_values=2)
    for key, second in (("a", 10), ("b", 20)):
        await store.swap(key, b"", until(second))
    with refused(Code.SESSION_STORE_UNAVAILABLE, SessionError):
        await store.swap("c", b"", until(30))
    assert await store.swap("a", b"one", until(10, b"two")) is None
    assert await store.read(["a", "b", "c"]) == [b"two", b"one", b""]
    await store.swap("b", b"one", Cell(b"", 0))
    assert await store.swap("c", b"", until(30)) is None
    moving.second = NOW + 10
    assert await store.swap("d", b"", until(30)) is None, "in the place of one that has ended"


async def test_a_store_that_evicts_drops_the_value_that_ends_first(moving: MovableClock) -> None:
    store = MemoryStore(clock=moving.clock, max_values=2, evicts=True)
    for key, second in (("a", 20), ("b", 10), ("c", 30)):
        assert await store.swap(key, b"", until(second)) is None
    assert await store.read(["a", "b", "c"]) == [b"one", b"", b"one"]


NEEDS = [
    ("broker", "uvicorn", "the broker needs"),
    ("redis", "redis", "a store on Redis needs"),
    ("sql", "sqlalchemy", "the store on SQL needs"),
    ("sql", "greenlet", "the store on SQL needs"),
]


@pytest.mark.parametrize(("extra", "missing", "what"), NEEDS)
def test_what_needs_an_extra_says_which(
    extra: str, missing: str, what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = "fastapi_oidc.broker" if extra == "broker" else f"fastapi_oidc.session.{extra}"
    for name in [name for name in sys.modules if name.startswith((package, "redis.asyncio"))]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(ModuleNotFoundError) as caught:
        importlib.import_module(package)
    assert str(caught.value) == f"{what}: pip install 'fastapi-oidc-vmm[{extra}]'"


def test_without_what_needs_an_extra_nothing_of_it_is_imported() -> None:
    program = "import fastapi_oidc, sys; print({'redis', 'sqlalchemy', 'uvicorn'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "set()\n", done.stderr

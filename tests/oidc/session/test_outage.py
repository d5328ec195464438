"""A store that fails: its error says what was asked, where and why, and nothing secret."""

from __future__ import annotations

import secrets
import socket
from pathlib import Path

import pytest
from redis.asyncio import Redis
from sqlalchemy import make_url
from sqlalchemy.ext.asyncio import create_async_engine

from fastapi_oidc.errors import SessionError
from fastapi_oidc.session.redis import RedisStore
from fastapi_oidc.session.sql import SQLStore
from fastapi_oidc.session.sql.store import _place_of
from fastapi_oidc.session.store import Cell, Place, ask_store

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
    assert told.startswith(f"the store redis://127.0.0.1:{port} could not read: ConnectionError: ")
    with pytest.raises(SessionError, match="could not write: ConnectionError: "):
        await store.swap("a", b"", ONE)
    assert PASSWORD not in told
    await store.aclose()


async def test_sql_names_the_missing_table(tmp_path: Path) -> None:
    store = SQLStore(f"sqlite+aiosqlite:///{tmp_path}/db")
    told = f"the store sqlite.aiosqlite:///{tmp_path}/db could not {{}}: .*no such table"
    with pytest.raises(SessionError, match=told.format("read")):
        await store.read(["a"])
    with pytest.raises(SessionError, match=told.format("write")):
        await store.swap("a", b"", ONE)
    await store.aclose()


async def test_values_of_a_statement_are_not_shown(tmp_path: Path) -> None:
    engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path}/db", hide_parameters=False)
    with pytest.raises(SessionError, match="no such table") as caught:
        await SQLStore(engine).read([PASSWORD])
    assert PASSWORD not in caught.value.explanation
    await engine.dispose()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        (f"redis://:{PASSWORD}@a:1/0?password={PASSWORD}", "redis://a:1/0"),
        (f"redis+sentinel://u:{PASSWORD}@a,b/service/0", "redis+sentinel://a,b/service/0"),
        (f"unix://u:{PASSWORD}@/run/redis.sock", "unix:///run/redis.sock"),
        ("rediss://a", "rediss://a"),
    ],
    ids=["query", "sentinel", "unix", "bare"],  # the same in every process
)
def test_an_address_has_neither_user_nor_password(url: str, address: str) -> None:
    assert Place.of(url).address == address


def test_the_address_of_a_database_has_neither_user_nor_password() -> None:
    url = make_url(f"postgresql+asyncpg://app:{PASSWORD}@db:5432/name?password={PASSWORD}")
    assert _place_of(url) == Place("postgresql+asyncpg://db:5432/name", (PASSWORD,))


async def test_a_driver_that_quotes_the_password_is_not_quoted() -> None:
    async def log_in() -> None:
        raise ConnectionError(f"cannot log in with\n{PASSWORD}")

    with pytest.raises(SessionError) as caught:
        await ask_store(log_in(), Place.of(f"redis://app:{PASSWORD}@a"), "read")
    assert caught.value.explanation == (
        "the store redis://a could not read: ConnectionError: cannot log in with [...]"
    )

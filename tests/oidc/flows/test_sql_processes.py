"""Processes that share a database refresh a session once and end it everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fastapi_oidc import StandardIdentity
from fastapi_oidc.session.sql import SQLSessionStore
from tests.oidc.flows.steps import AFTER_EXPIRY, LOCAL, copy_of, generation, refreshes
from tests.oidc.interleaving import another_process
from tests.oidc.session.conftest import empty_sql_store
from tests.oidc.session.conftest import postgres_url as postgres_url
from tests.oidc.session.conftest import sql_url as sql_url
from tests.oidc.session.conftest import sqlite_url as sqlite_url
from tests.oidc.world import Time, World, make_world


def shared(mode: str, url: str) -> dict[str, Any]:
    """The options of one process: a store and connections of its own, in the same database."""
    store = SQLSessionStore(url, StandardIdentity)
    if mode == "store":
        return {"session_store": store, "back_channel_logout_store": None}
    return {"back_channel_logout_store": store.revocations, "refresh_lock": store.records}


@pytest.fixture
async def processes(mode: str, sql_url: str) -> AsyncIterator[tuple[World, World]]:
    async with empty_sql_store(sql_url):
        time = Time()
        here = make_world(time=time, **shared(mode, sql_url))
        there = another_process(here, **shared(mode, sql_url))
        yield here, there
        for world in (here, there):
            await world.oidc.aclose()


async def test_a_session_is_refreshed_once_and_continues_in_each_process(
    processes: tuple[World, World],
) -> None:
    here, _ = processes
    browser = await here.signed_in()
    tabs = [copy_of(browser, world) for world in processes] * 5
    for number in (1, 2):
        here.time.advance(AFTER_EXPIRY)
        generations = await asyncio.gather(*map(generation, tabs))
        assert set(generations) == {number}
        assert refreshes(here) == number


async def test_a_sign_out_ends_every_copy_of_the_cookie(processes: tuple[World, World]) -> None:
    here, _ = processes
    browser = await here.signed_in()
    copies = [copy_of(browser, world) for world in processes]
    assert [await generation(copy) for copy in copies] == [0, 0]
    assert (await browser.post("/auth/logout", data=LOCAL)).status_code == 200
    assert [await generation(copy) for copy in copies] == [None, None]


async def test_a_revoked_users_next_login_continues(processes: tuple[World, World]) -> None:
    here, there = processes
    first = await here.signed_in()
    await there.oidc.revoke(sub="alice")
    assert await generation(first) is None
    second = await there.signed_in()
    assert await generation(copy_of(second, here)) == 0

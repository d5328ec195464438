"""Processes that share a database refresh a session once and end it everywhere."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from fastapi_oidc.session.sql import SQLStore
from tests.oidc.flows.steps import AFTER_EXPIRY, LOCAL, copy_of, generation, refreshes, stores_of
from tests.oidc.interleaving import another_process
from tests.oidc.session.conftest import opened_values
from tests.oidc.session.conftest import postgres_url as postgres_url
from tests.oidc.session.conftest import sql_url as sql_url
from tests.oidc.session.conftest import sqlite_url as sqlite_url
from tests.oidc.world import Time, World, make_world


def shared(mode: str, url: str) -> dict[str, Any]:
    """The options of one process: a store and connections of its own, in the same database."""
    return stores_of(mode, SQLStore(url))


@pytest.fixture
async def processes(mode: str, sql_url: str) -> AsyncIterator[tuple[World, World]]:
    async with opened_values(sql_url):
        time = Time()
        here = make_world(time=time, **shared(mode, sql_url))
        there = another_process(here, **shared(mode, sql_url))
        yield here, there
        for world in (here, there):
            await world.oidc.aclose()


async def test_processes_refresh_end_and_revoke_sessions_of_a_database(
    processes: tuple[World, World],
) -> None:
    here, there = processes
    browser = await here.signed_in()
    tabs = [copy_of(browser, world) for world in processes] * 5
    for number in (1, 2):
        here.time.advance(AFTER_EXPIRY)
        assert set(await asyncio.gather(*map(generation, tabs))) == {number}
        assert refreshes(here) == number
    await browser.post("/auth/logout", data=LOCAL)
    assert {await generation(tab) for tab in tabs} == {None}
    browser = await here.signed_in()
    await there.oidc.revoke(sub="alice")
    assert await generation(browser) is None
    assert await generation(copy_of(await there.signed_in(), here)) == 0

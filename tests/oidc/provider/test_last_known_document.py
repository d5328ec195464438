"""The last known document serves while the provider cannot be asked."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import ProviderError
from fastapi_oidc.provider.document import Document
from tests.oidc.provider.documents import Source, down
from tests.oidc.world import Time


async def aged(document: Document[str], source: Source, time: Time, seconds: int) -> None:
    """A document fetched so many seconds ago, whose source is down."""
    await document.get()
    time.now += seconds
    source.error = down()


async def test_while_it_serves_a_new_one_is_tried_once_a_minute(
    document: Document[str], source: Source, time: Time
) -> None:
    await aged(document, source, time, 3600)
    for _ in range(60):
        assert await document.get() == "value 1"
        time.now += 1
    assert source.fetches == 2
    source.error = None
    assert await document.get() == "value 3"


async def test_that_it_serves_is_in_the_log_with_its_age_and_the_reason(
    document: Document[str], source: Source, time: Time, caplog: pytest.LogCaptureFixture
) -> None:
    await aged(document, source, time, 3600)
    await document.get()
    await document.get()
    [record] = caplog.records
    assert record.name == "fastapi_oidc.provider"
    message = "using the last known keys, 3600 s old: ConnectError (url=https://op.test/)"
    assert record.getMessage() == message


async def test_a_slow_source_keeps_nobody_waiting_who_has_a_last_known_document(time: Time) -> None:
    answer = asyncio.Event()
    values = iter(["old", "new"])

    async def fetch() -> str:
        value = next(values)
        if value == "new":
            await answer.wait()
        return value

    document = Document("keys", fetch, Clock(read=time), patience=0)
    assert await document.get() == "old"
    time.now += 3600
    assert await document.get() == "old"
    answer.set()
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert await document.get() == "new"


async def test_a_clock_that_is_set_back_neither_keeps_a_document_nor_a_failure(
    document: Document[str], source: Source, time: Time
) -> None:
    source.error = down()
    with pytest.raises(ProviderError):
        await document.get()
    source.error = None
    time.now -= 24 * 3600
    assert await document.get() == "value 2"
    time.now -= 24 * 3600
    assert await document.get() == "value 3"

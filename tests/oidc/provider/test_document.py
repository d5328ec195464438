"""How long values and failures are kept, and how often a miss may fetch again."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.document import Document
from tests.oidc.protocol.examples import refused
from tests.oidc.provider.documents import Source, down
from tests.oidc.world import Time


@pytest.mark.parametrize(("seconds", "fetches"), [(3599, 1), (3600, 2), (-1, 2)])
async def test_a_value_is_kept_for_an_hour(
    document: Document[str], source: Source, time: Time, seconds: int, fetches: int
) -> None:
    await document.get()
    time.now += seconds
    await document.get()
    assert source.fetches == fetches


async def test_a_hundred_first_callers_fetch_once(document: Document[str], source: Source) -> None:
    values = await asyncio.gather(*(document.get() for _ in range(100)))
    assert set(values) == {"value 1"}


async def test_a_failure_is_not_tried_again_for_five_seconds(
    document: Document[str], source: Source, time: Time
) -> None:
    source.error = down()
    with refused(Code.PROVIDER_UNREACHABLE, ProviderError):
        await document.get()
    time.now += 4
    with pytest.raises(ProviderError) as second:
        await document.get()
    assert second.value.code == Code.PROVIDER_UNAVAILABLE
    assert second.value.details == {"url": "https://op.test/"}
    assert source.fetches == 1
    time.now += 1
    source.error = None
    assert await document.get() == "value 2"


async def test_a_failure_keeps_nothing_of_the_request_that_met_it(
    document: Document[str], source: Source
) -> None:
    class Cookies(dict[str, str]):
        """Can be referred to weakly."""

    async def request(cookies: Cookies) -> None:
        with pytest.raises(ProviderError):
            await document.get()
        assert cookies

    cookies = Cookies(session="sealed")
    gone = weakref.ref(cookies)
    source.error = down()
    await request(cookies)
    source.error = None
    del cookies
    await asyncio.sleep(0)  # the loop lets go of the task that failed
    gc.collect()
    assert gone() is None


async def test_a_value_somebody_else_renewed_is_used(
    document: Document[str], source: Source
) -> None:
    seen = await document.get()
    await document.newer_than(seen, asker="provider")
    assert await document.newer_than(seen, asker="provider") == "value 2"
    assert source.fetches == 2


async def test_strangers_cannot_use_up_the_fetch_of_others(
    document: Document[str], source: Source
) -> None:
    await document.newer_than(await document.get(), asker="anybody")
    await document.newer_than(await document.get(), asker="anybody")
    assert source.fetches == 2
    await document.newer_than(await document.get(), asker="provider")
    assert source.fetches == 3


async def test_a_failed_renewal_may_be_repeated_after_five_seconds(
    document: Document[str], source: Source, time: Time
) -> None:
    seen = await document.get()
    source.error = down()
    with pytest.raises(ProviderError):
        await document.newer_than(seen, asker="provider")
    source.error = None
    time.now += 4
    with refused(Code.PROVIDER_UNAVAILABLE, ProviderError):
        await document.newer_than(seen, asker="provider")
    time.now += 1
    assert await document.newer_than(seen, asker="provider") == "value 3"


async def test_a_fetch_that_fails_when_nobody_waits_any_more_is_tried_again(time: Time) -> None:
    fails = asyncio.Event()
    values = iter(["value 1", "none", "value 3"])

    async def fetch() -> str:
        value = next(values)
        if value == "none":
            await fails.wait()
            raise down()
        return value

    document = Document("keys", fetch, Clock(read=time))
    seen = await document.get()
    waiting = asyncio.ensure_future(document.newer_than(seen, asker="provider"))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    fails.set()
    with pytest.raises(ProviderError):
        await document.newer_than(seen, asker="anybody")
    time.now += 5
    assert await document.newer_than(seen, asker="provider") == "value 3"


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

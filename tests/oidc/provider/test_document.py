"""How long values and failures are kept, and how often a miss may fetch again."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.document import Document


class Source:
    """Counts fetches; each gives a new value unless `error` is set."""

    def __init__(self) -> None:
        self.fetches = 0
        self.error: ProviderError | None = None

    async def __call__(self) -> str:
        self.fetches += 1
        await asyncio.sleep(0)
        if self.error:
            raise self.error
        return f"value {self.fetches}"


class Time:
    def __init__(self) -> None:
        self.now = 1_000_000

    def read(self) -> float:
        return self.now


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def document(source: Source, time: Time) -> Document[str]:
    return Document("keys", source, Clock(read=time.read))


def down() -> ProviderError:
    return ProviderError(Code.PROVIDER_UNREACHABLE, "ConnectError", url="https://op.test/")


async def test_nothing_is_fetched_before_it_is_needed(
    document: Document[str], source: Source
) -> None:
    assert source.fetches == 0
    await document.get()
    assert source.fetches == 1


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
    with pytest.raises(ProviderError) as first:
        await document.get()
    assert first.value.code == Code.PROVIDER_UNREACHABLE
    time.now += 4
    with pytest.raises(ProviderError) as second:
        await document.get()
    assert second.value.code == Code.PROVIDER_UNAVAILABLE
    assert second.value.details == {"url": "https://op.test/"}
    assert source.fetches == 1
    time.now += 1
    source.error = None
    assert await document.get() == "value 2"


async def test_the_first_miss_fetches_at_once(document: Document[str]) -> None:
    seen = await document.get()
    assert await document.newer_than(seen, asker="provider") == "value 2"


async def test_a_value_somebody_else_renewed_is_used(
    document: Document[str], source: Source
) -> None:
    seen = await document.get()
    await document.newer_than(seen, asker="provider")
    assert await document.newer_than(seen, asker="provider") == "value 2"
    assert source.fetches == 2


async def test_a_flood_of_misses_makes_no_flood_of_fetches(
    document: Document[str], source: Source, time: Time
) -> None:
    seen = await document.get()
    await asyncio.gather(*(document.newer_than(seen, asker="provider") for _ in range(100)))
    for _ in range(100):
        await document.newer_than(await document.get(), asker="provider")
    assert source.fetches == 2
    time.now += 60
    await document.newer_than(await document.get(), asker="provider")
    assert source.fetches == 3


async def test_strangers_cannot_use_up_the_fetch_of_others(
    document: Document[str], source: Source
) -> None:
    await document.newer_than(await document.get(), asker="anybody")
    await document.newer_than(await document.get(), asker="anybody")
    assert source.fetches == 2
    await document.newer_than(await document.get(), asker="provider")
    assert source.fetches == 3


async def test_misses_while_the_renewal_runs_wait_for_it(document: Document[str]) -> None:
    seen = await document.get()
    values = await asyncio.gather(*(document.newer_than(seen, asker="provider") for _ in range(10)))
    assert set(values) == {"value 2"}


async def test_a_failed_renewal_may_be_repeated_after_five_seconds(
    document: Document[str], source: Source, time: Time
) -> None:
    seen = await document.get()
    source.error = down()
    with pytest.raises(ProviderError):
        await document.newer_than(seen, asker="provider")
    source.error = None
    time.now += 4
    with pytest.raises(ProviderError) as caught:
        await document.newer_than(seen, asker="provider")
    assert caught.value.code == Code.PROVIDER_UNAVAILABLE
    time.now += 1
    assert await document.newer_than(seen, asker="provider") == "value 3"


async def aged(document: Document[str], source: Source, time: Time, seconds: int) -> None:
    """A document fetched so many seconds ago, whose source is down."""
    await document.get()
    time.now += seconds
    source.error = down()


async def test_the_last_known_document_serves_for_a_day(
    document: Document[str], source: Source, time: Time
) -> None:
    await aged(document, source, time, 24 * 3600 - 1)
    assert await document.get() == "value 1"
    time.now += 1
    with pytest.raises(ProviderError) as caught:
        await document.get()
    assert caught.value.code in (Code.PROVIDER_UNREACHABLE, Code.PROVIDER_UNAVAILABLE)


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
    message = "the last known keys serve, 3600 s old: ConnectError (url=https://op.test/)"
    assert record.getMessage() == message


async def test_a_slow_source_keeps_nobody_waiting_who_has_a_last_known_document(
    time: Time,
) -> None:
    answer = asyncio.Event()
    values = iter(["old", "new"])

    async def fetch() -> str:
        value = next(values)
        if value == "new":
            await answer.wait()
        return value

    document = Document("keys", fetch, Clock(read=time.read), patience=0)
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

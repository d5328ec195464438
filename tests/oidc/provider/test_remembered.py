"""How long values and failures are kept, and how often a miss may fetch again."""

from __future__ import annotations

import asyncio

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.provider.remembered import Remembered


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
def remembered(source: Source, time: Time) -> Remembered[str]:
    return Remembered(source, Clock(read=time.read))


def down() -> ProviderError:
    return ProviderError(Code.PROVIDER_UNREACHABLE, "ConnectError", url="https://op.test/")


async def test_nothing_is_fetched_before_it_is_needed(
    remembered: Remembered[str], source: Source
) -> None:
    assert source.fetches == 0
    await remembered.get()
    assert source.fetches == 1


@pytest.mark.parametrize(("seconds", "fetches"), [(3599, 1), (3600, 2), (-1, 2)])
async def test_a_value_is_kept_for_an_hour(
    remembered: Remembered[str], source: Source, time: Time, seconds: int, fetches: int
) -> None:
    await remembered.get()
    time.now += seconds
    await remembered.get()
    assert source.fetches == fetches


async def test_a_hundred_first_callers_fetch_once(
    remembered: Remembered[str], source: Source
) -> None:
    values = await asyncio.gather(*(remembered.get() for _ in range(100)))
    assert set(values) == {"value 1"}


async def test_a_failure_is_not_tried_again_for_five_seconds(
    remembered: Remembered[str], source: Source, time: Time
) -> None:
    source.error = down()
    with pytest.raises(ProviderError) as first:
        await remembered.get()
    assert first.value.code == Code.PROVIDER_UNREACHABLE
    time.now += 4
    with pytest.raises(ProviderError) as second:
        await remembered.get()
    assert second.value.code == Code.PROVIDER_UNAVAILABLE
    assert second.value.details == {"url": "https://op.test/"}
    assert source.fetches == 1
    time.now += 1
    source.error = None
    assert await remembered.get() == "value 2"


async def test_the_first_miss_fetches_at_once(remembered: Remembered[str]) -> None:
    seen = await remembered.get()
    assert await remembered.newer_than(seen, asker="provider") == "value 2"


async def test_a_value_somebody_else_renewed_is_used(
    remembered: Remembered[str], source: Source
) -> None:
    seen = await remembered.get()
    await remembered.newer_than(seen, asker="provider")
    assert await remembered.newer_than(seen, asker="provider") == "value 2"
    assert source.fetches == 2


async def test_a_flood_of_misses_makes_no_flood_of_fetches(
    remembered: Remembered[str], source: Source, time: Time
) -> None:
    seen = await remembered.get()
    await asyncio.gather(*(remembered.newer_than(seen, asker="provider") for _ in range(100)))
    for _ in range(100):
        await remembered.newer_than(await remembered.get(), asker="provider")
    assert source.fetches == 2
    time.now += 60
    await remembered.newer_than(await remembered.get(), asker="provider")
    assert source.fetches == 3


async def test_strangers_cannot_use_up_the_fetch_of_others(
    remembered: Remembered[str], source: Source
) -> None:
    await remembered.newer_than(await remembered.get(), asker="anybody")
    await remembered.newer_than(await remembered.get(), asker="anybody")
    assert source.fetches == 2
    await remembered.newer_than(await remembered.get(), asker="provider")
    assert source.fetches == 3


async def test_misses_while_the_renewal_runs_wait_for_it(remembered: Remembered[str]) -> None:
    seen = await remembered.get()
    values = await asyncio.gather(
        *(remembered.newer_than(seen, asker="provider") for _ in range(10))
    )
    assert set(values) == {"value 2"}


async def test_a_failed_renewal_may_be_repeated_after_five_seconds(
    remembered: Remembered[str], source: Source, time: Time
) -> None:
    seen = await remembered.get()
    source.error = down()
    with pytest.raises(ProviderError):
        await remembered.newer_than(seen, asker="provider")
    source.error = None
    time.now += 4
    with pytest.raises(ProviderError) as caught:
        await remembered.newer_than(seen, asker="provider")
    assert caught.value.code == Code.PROVIDER_UNAVAILABLE
    time.now += 1
    assert await remembered.newer_than(seen, asker="provider") == "value 3"

"""A source of documents that counts, and a clock that is set."""

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

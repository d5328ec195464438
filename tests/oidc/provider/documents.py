"""A source of documents that counts, and a clock that is set."""

import asyncio

from fastapi_oidc.errors import Code, ProviderError


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


def down() -> ProviderError:
    return ProviderError(Code.PROVIDER_UNREACHABLE, "ConnectError", url="https://op.test/")

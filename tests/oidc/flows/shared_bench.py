"""Processes that share a refresh lock, and locks that can do less."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi_oidc import MemoryRefreshLock
from fastapi_oidc.flows.shared import KeptAnswer, Shared
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session.abilities import Turn
from fastapi_oidc.session.codec import SessionCodec
from fastapi_oidc.session.keeper import Kept
from fastapi_oidc.session.reference import SessionReference
from fastapi_oidc.session.sealing import KeyRing
from tests.oidc.session.examples import SECRET, User, a_session

NAME = "session-1.0"
ANSWER = KeptAnswer(
    TokenResponse(
        access_token="access-2",
        id_token="id.to.ken",
        refresh_token="again-2",
        expires_in=300,
        scope=("openid", "email"),
        session_state="state",
    ),
    received_at=1_800_000_000,
)
BARE = KeptAnswer(
    TokenResponse("access-2", None, None, None, None, None), received_at=1_800_000_000
)
IN_COOKIE = Kept(a_session())
IN_STORE = Kept(a_session(), SessionReference.new())


def a_process(lock: Any, *, secret: str = SECRET, **options: Any) -> Shared[User]:
    return Shared(lock, SessionCodec(User), KeyRing([secret]).sealer("refresh"), **options)


class WithoutMemory:
    """A lock as 0.1.0 knew it."""

    async def run_exclusive(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], /
    ) -> bytes:
        return await operation()


class Broken(MemoryRefreshLock):
    """Keeps nothing, and loses what a run gave."""

    async def run_in_turn(
        self, session_id: str, operation: Callable[[], Awaitable[bytes]], turn: Turn, /
    ) -> bytes:
        await operation()
        raise ConnectionError("down")

    def keep(self, name: str, data: bytes, seconds: int, /) -> None:
        raise ConnectionError("down")

    def kept(self, name: str, /) -> bytes | None:
        raise ConnectionError("down")

    def forget(self, name: str, /) -> None:
        raise ConnectionError("down")

    def claim(self, name: str, data: bytes, seconds: int, /) -> bytes | None:
        raise ConnectionError("down")

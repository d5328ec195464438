"""A provider that runs for hours under load keeps what may come again, and no more and more."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable

import pytest

from fastapi_oidc.clock import Clock
from fastapi_oidc.testing import DevClient, DevUser, grants
from fastapi_oidc.testing.grants import (
    REUSE_IS_TOLD,
    Access,
    AccessToken,
    Credential,
    Credentials,
    Grant,
    OPSession,
    OPSessions,
)
from tests.oidc.testing.bare_client import ALICE, APP, BareClient
from tests.oidc.world import Time

MANY, FEW = 3000, 100


def a_grant(client: DevClient = APP, user: DevUser = ALICE, sid: str = "sid-1") -> Grant:
    return Grant(client, user, ("openid",), None, 0, sid)


def grown(step: Callable[[int], object]) -> int:
    """The bytes that so many steps leave, after some to warm up."""
    tracemalloc.start()
    for number in range(MANY):
        step(number)
    before, _ = tracemalloc.get_traced_memory()
    for number in range(MANY, 2 * MANY):
        step(number)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return after - before


def test_refreshing_a_session_again_and_again_takes_no_room() -> None:
    time, grant = Time(), a_grant()
    credentials = Credentials(Clock(read=time))
    access = Access(grant.client, grant.scope, "https://op.test")

    def refresh(number: int) -> None:
        time.now += number % 10 == 0
        token = AccessToken(grant, int(time.now) + 300, access=access, claims={})
        credentials.remember_access_token(f"access-token-{number}", token)
        credentials.issue_refresh_token(Credential(grant, int(time.now) + 14 * 24 * 3600))

    assert grown(refresh) < 50 * MANY


def test_beyond_the_limit_the_oldest_session_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grants, "LIMIT", 2)
    sessions = OPSessions()
    began = [sessions.begin(OPSession(ALICE, auth_time)) for auth_time in range(3)]
    assert sessions.of_user(ALICE.sub) == began[1:]


async def test_reuse_of_any_earlier_refresh_token_ends_the_grant(rp: BareClient) -> None:
    newest = await rp.tokens()
    first = newest["refresh_token"]
    for _ in range(3):
        rp.time.now += 24 * 3600
        newest = (await rp.refresh(newest["refresh_token"])).json()
    assert "used before" in (await rp.refresh(first)).text
    assert "revoked" in (await rp.refresh(newest["refresh_token"])).text
    assert (await rp.userinfo(newest["access_token"])).status_code == 401


async def test_reuse_of_a_code_is_told_for_an_hour(rp: BareClient) -> None:
    code = await rp.code()
    tokens = (await rp.exchange(code)).json()
    rp.time.now += REUSE_IS_TOLD - 1
    assert "used before" in (await rp.exchange(code)).text
    assert "revoked" in (await rp.refresh(tokens["refresh_token"])).text

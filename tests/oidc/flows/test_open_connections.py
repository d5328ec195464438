"""A websocket or an event stream that is open for long has the cookie that it was opened with."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import OIDC
from fastapi_oidc.testing import OAuthError
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    connected,
    copy_of,
    generation,
    refreshes,
    two_processes,
    with_connection,
)
from tests.oidc.interleaving import same_browser


@pytest.mark.parametrize("how", ["sign-out", "revocation", "refusal", "expiry"])
async def test_open_connection_learns_that_its_session_is_over(mode: str, how: str) -> None:
    here, there = two_processes(mode, mount=with_connection)
    browser = await here.signed_in()
    connection = await connected(there, copy_of(browser, there))
    oidc: OIDC[Any, Any] = there.oidc
    assert await oidc.is_still_signed_in(connection)
    if how == "sign-out":
        await browser.post("/auth/logout", data=LOCAL)
    elif how == "revocation":
        await here.oidc.revoke(sub="alice")
    elif how == "expiry":
        here.time.advance(8 * 3600)
    else:
        here.op.faults.put("token", OAuthError("invalid_grant"))
        here.time.advance(400)
        assert await generation(browser) is None
    assert not await oidc.is_still_signed_in(connection)


@pytest.mark.parametrize("is_elsewhere", [False, True], ids=["here", "in another process"])
@pytest.mark.parametrize("seconds", [0, 61, 11 * 60])
async def test_open_connection_gets_the_newest_session_and_presents_no_used_token(
    mode: str, seconds: int, is_elsewhere: bool
) -> None:
    """It still has the cookie that it was opened with, however long ago."""
    here, there = two_processes(mode, mount=with_connection)
    place = there if is_elsewhere else here
    browser = await here.signed_in()
    connection = await connected(place, same_browser(browser, place))
    here.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1
    here.time.advance(seconds)
    newest = await place.oidc.refresh(connection)
    assert newest.tokens.expires_at is not None
    assert newest.tokens.expires_at > here.time.now, "its access token can be used"
    assert newest.generation == await generation(browser)
    assert refreshes(here) == here.op.record.calls["token"] - 1 == newest.generation
    assert await place.oidc.is_still_signed_in(connection)

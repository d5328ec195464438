"""A websocket or an event stream that is open for long has the cookie that it was opened with."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import OIDC
from fastapi_oidc.testing import OAuthError
from tests.oidc.flows.steps import (
    LOCAL,
    connected,
    copy_of,
    generation,
    two_processes,
    with_connection,
)


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

"""What happens in the same browser while an answer's session cookie is being decided."""

from __future__ import annotations

from typing import Any

import pytest
from fastapi import FastAPI

from fastapi_oidc import (
    OIDC,
    Clock,
    EndReason,
    MemoryRevocationStore,
    MemorySessionStore,
    OIDCSession,
)
from fastapi_oidc.testing import OAuthError, sign_in
from tests.oidc.flows.test_late_answers import AS_SOMEBODY_ELSE, EIGHT_HOURS, user
from tests.oidc.flows.test_refresh import LONG_AFTER
from tests.oidc.interleaving import Gate, another_process, begun, same_browser, with_gate
from tests.oidc.world import Time, make_world


class SlowEndings(MemoryRevocationStore):
    """Its next answer is right when it is asked, and comes when the gate is opened."""

    gate: Gate | None = None

    async def ended_by(self, session: OIDCSession[Any], /) -> EndReason | None:
        reason = await super().ended_by(session)
        gate, self.gate = self.gate, None
        if gate is not None:
            await gate.passed()
        return reason


@pytest.mark.parametrize("seconds", [LONG_AFTER, EIGHT_HOURS], ids=["refreshed", "expired"])
async def test_a_login_leaves_the_cookie_to_the_new_session(seconds: int) -> None:
    time, gate = Time(), Gate()
    endings = SlowEndings(clock=Clock(read=time))

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        @app.get("/last")
        async def last() -> None:
            endings.gate = gate

    world = make_world(time=time, mount=mount, back_channel_logout_store=endings)
    browser = await world.signed_in()
    time.advance(seconds)
    late = begun(browser.get("/last"))
    await gate.until_reached()
    await sign_in(browser, AS_SOMEBODY_ELSE, user="bob")
    gate.opened.set()
    assert "set-cookie" not in (await late).headers
    assert await user(browser) == "bob"


@pytest.mark.parametrize("processes", [1, 2])
async def test_of_a_session_that_the_provider_ended_a_late_answer_leaves_a_new_login_alone(
    processes: int,
) -> None:
    time, gate = Time(), Gate()
    store = MemorySessionStore[Any](clock=Clock(read=time))
    here = make_world(time=time, mount=with_gate(gate), session_store=store)
    there = here if processes == 1 else another_process(here, session_store=store)
    browser = await here.signed_in()
    here.op.faults.put("token", OAuthError("invalid_grant"), times=1)
    time.advance(LONG_AFTER)
    late = begun(browser.get("/slow"))
    await gate.until_reached()
    await sign_in(same_browser(browser, there), AS_SOMEBODY_ELSE, user="bob")
    gate.opened.set()
    assert "set-cookie" not in (await late).headers
    assert await user(browser) == "bob"

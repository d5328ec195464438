"""Tokens bound to a key of the session (RFC 9449): login, refresh, nonces, other processes.

The client is public, so that the provider binds its refresh tokens too (RFC 9449 5).
"""

from dataclasses import dataclass, field
from itertools import count
from typing import Any

import pytest
from starlette.responses import Response

from fastapi_oidc import OIDCSession, PersistContext
from fastapi_oidc.flows.refresh import REFUSALS_BEFORE_END
from fastapi_oidc.flows.relying_party import LONGEST_BACKOFF
from fastapi_oidc.session import rows
from fastapi_oidc.session.cells import Turn
from fastapi_oidc.session.rows import Row
from fastapi_oidc.testing import TokensIssued
from fastapi_oidc.testing.faults import Answer
from fastapi_oidc.testing.messages import Refusal
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LEASE,
    RETRY,
    Watched,
    callback_url,
    copy_of,
    generation,
    refreshes,
    two_processes,
)
from tests.oidc.interleaving import Gate, Held, begun
from tests.oidc.testing.bare_client import jwt_parts
from tests.oidc.world import World, make_world

_BOUND = {"dpop_bound_access_tokens": True}
BOUND: dict[str, Any] = {
    "settings": {"client_secret": None, "dpop": True},
    "client": {"client_secret": None, "access_token_format": "jwt"} | _BOUND,
}


@pytest.fixture
def world(mode: str) -> World:
    return make_world(session_store="memory" if mode == "store" else None, **BOUND)


@pytest.fixture
def processes(mode: str) -> tuple[World, World]:
    return two_processes(mode, **BOUND)


def key_in(access_token: str) -> object:
    """The thumbprint that the token is bound to."""
    return jwt_parts(access_token)[1].get("cnf")


async def test_tokens_are_bound_to_a_key_of_the_session(mode: str) -> None:
    watched = Watched(session_store="memory" if mode == "store" else None, **BOUND)
    for _ in range(2):
        await watched.world.signed_in()
    session, other = watched.sessions
    key = session.tokens.proof_key()
    assert key is not None
    assert session.tokens.token_type == "DPoP"
    assert key_in(session.tokens.access_token) == {"jkt": key.thumbprint}
    assert other.tokens.dpop_key != session.tokens.dpop_key
    assert str(session.tokens.dpop_key) not in repr(session)


async def test_a_bearer_token_signs_nobody_in(world: World) -> None:
    world.op.edits.put("token_response", lambda members: members | {"token_type": "Bearer"})
    browser = world.browser()
    answer = await browser.get(await callback_url(browser))
    assert (answer.status_code, answer.json()["code"]) == (502, "token.not_bound")
    assert await generation(browser) is None


async def test_no_callback_takes_the_key_from_its_tokens(caplog: pytest.LogCaptureFixture) -> None:
    """The next refresh would send no proof, and could be given a bearer token."""

    def without_key(context: PersistContext[Any]) -> OIDCSession[Any]:
        tokens = context.session.tokens.model_copy(update={"dpop_key": None})
        return context.session.model_copy(update={"tokens": tokens})

    world = make_world(before_session_persist=without_key, **BOUND)
    browser = world.browser()
    answer = await browser.get(await callback_url(browser))
    assert (answer.status_code, answer.json()["code"]) == (500, "configuration.invalid")
    assert "before_session_persist changed tokens.dpop_key" in caplog.text


@dataclass(slots=True)
class DemandsNonce:
    """Refuses the proof and names another nonce each time, without looking at the token."""

    gate: Gate | None = None
    nonces: Any = field(default_factory=count)

    async def happen(self, answer: Answer) -> Response:
        headers = {"DPoP-Nonce": f"nonce-{next(self.nonces)}"}
        if self.gate is not None:
            await self.gate.passed()
        return Refusal("use_dpop_nonce", "another nonce", headers=headers).answer()


class TestNonces:
    """RFC 9449 8 and 9."""

    async def test_code_and_userinfo_are_sent_again_with_the_nonce_once(self, world: World) -> None:
        world.op.dpop_nonce = "nonce-1"
        await world.signed_in()
        assert world.op.record.calls["token"] == world.op.record.calls["userinfo"] == 2
        assert len(world.op.record.of(TokensIssued)) == 1
        world.op.record.clear()
        await world.signed_in()
        assert world.op.record.calls["token"] == world.op.record.calls["userinfo"] == 1

    async def test_a_refresh_token_is_sent_again_with_the_nonce(self, world: World) -> None:
        browser = await world.signed_in()
        world.time.advance(AFTER_EXPIRY)
        world.op.dpop_nonce = "nonce-1"
        assert await generation(browser) == 1
        assert refreshes(world) == 1
        assert world.op.record.calls["token"] == 3

    async def test_it_is_sent_again_once_and_no_number_of_such_refusals_ends_a_session(
        self, world: World
    ) -> None:
        browser = await world.signed_in()
        world.time.advance(AFTER_EXPIRY)
        world.op.faults.put("token", DemandsNonce(), times=99)
        for number in range(2 * REFUSALS_BEFORE_END):
            assert (await browser.get("/me")).status_code == 503
            assert world.op.record.calls["token"] == 3 + 2 * number
            world.time.advance(LONGEST_BACKOFF)
        world.op.faults.clear()
        assert await generation(browser) == 1

    async def test_a_code_that_is_refused_twice_signs_nobody_in(self, world: World) -> None:
        world.op.faults.put("token", DemandsNonce(), times=9)
        browser = world.browser()
        answer = await browser.get(await callback_url(browser))
        assert (answer.status_code, answer.json()["code"]) == (502, "token.refused")
        assert world.op.record.calls["token"] == 2

    @pytest.mark.parametrize("sent", ["refresh token", "code"])
    async def test_a_paused_process_does_not_send_it_again(
        self, processes: tuple[World, World], monkeypatch: pytest.MonkeyPatch, sent: str
    ) -> None:
        """By then another process may own the row (decision 017). A provider that gets a code twice
        may revoke the tokens (RFC 6749 4.1.2)."""
        here, there = processes
        if sent == "code":
            browser = here.browser()
            url = await callback_url(browser)
        else:
            browser, url = await here.signed_in(), "/me"
            here.time.advance(AFTER_EXPIRY)
        turns, gate, held, calls = turns_taken(monkeypatch), Gate(), Held(), here.op.record.calls
        before = calls["token"]
        here.op.faults.put("token", DemandsNonce(gate))
        paused = begun(browser.get(url))
        await gate.until_reached()
        turns[0]._leased_at -= LEASE  # as when it stood still for so long
        here.time.advance(LEASE)
        here.op.faults.put("token", held)
        elsewhere = begun(copy_of(browser, there).get(url))
        await held.gate.until_reached()
        gate.opened.set()
        assert (await paused).status_code == 503
        assert calls["token"] == before + 2, "the refused proof, and the other process"
        held.gate.opened.set()
        known = 1 if sent == "refresh token" else 0
        assert (await elsewhere).json()["generation"] == known
        here.time.advance(RETRY)
        assert refreshes(here) == known


def turns_taken(monkeypatch: pytest.MonkeyPatch) -> list[Turn]:
    """The turns that processes take from now on, at once from an owner that seems to be dead."""
    monkeypatch.setattr(rows, "WATCH_SECONDS", 0.0)
    turns: list[Turn] = []
    take = Turn.take

    async def noted(turn: Turn) -> Row:
        turns.append(turn)
        return await take(turn)

    monkeypatch.setattr(Turn, "take", noted)
    return turns

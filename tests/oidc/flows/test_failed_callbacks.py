"""A callback that fails at a refresh costs neither the session nor its tokens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from fastapi_oidc import Code, OIDCSession, SessionError
from fastapi_oidc.flows.application import Application
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.renewal import approved, identified, within_limit
from tests.oidc.flows.test_renewal import EVIDENCE, before
from tests.oidc.session.examples import ALICE
from tests.oidc.world import make_world

MEANT = SessionError(Code.SESSION_FORBIDDEN)
FAILURES = [
    RuntimeError("the directory is down"),
    TimeoutError(),
    SessionError(Code.SESSION_STORE_UNAVAILABLE),
]


def a_party(
    resolve: Callable[..., Any] = lambda _: ALICE, persist: Callable[..., Any] | None = None
) -> RelyingParty[Any]:
    party: RelyingParty[Any] = make_world().oidc.site.party
    return replace(party, application=Application(resolve, persist))


def failing(error: Exception) -> Callable[..., Any]:
    def callback(context: Any) -> Any:
        raise error

    return callback


def stripped(*names: str) -> OIDCSession[Any]:
    session = before()
    tokens = session.tokens.model_copy(update=dict.fromkeys(names, ""))
    return session.model_copy(update={"tokens": tokens})


@pytest.mark.parametrize("error", FAILURES, ids=repr)
async def test_the_identity_stays_as_it_was(error: Exception) -> None:
    session = before()
    assert await identified(a_party(resolve=failing(error)), session, EVIDENCE) is session


async def test_an_identity_that_is_resolved_takes_its_place() -> None:
    anew = replace(ALICE, roles=("auditor",))
    session = await identified(a_party(resolve=lambda _: anew), before(), EVIDENCE)
    assert session == before().model_copy(update={"identity": anew})


@pytest.mark.parametrize(
    "names", [(), ("access_token",), ("id_token",), ("access_token", "id_token")]
)
@pytest.mark.parametrize("error", FAILURES, ids=repr)
async def test_tokens_that_were_left_out_stay_out(error: Exception, names: tuple[str, ...]) -> None:
    party = a_party(persist=failing(error))
    assert await approved(party, before(), stripped(*names)) == stripped(*names)


async def test_a_session_error_is_meant() -> None:
    with pytest.raises(SessionError) as caught:
        await identified(a_party(resolve=failing(MEANT)), before(), EVIDENCE)
    assert caught.value is MEANT
    with pytest.raises(SessionError) as caught:
        await approved(a_party(persist=failing(MEANT)), before(), before())
    assert caught.value is MEANT


async def test_a_callback_that_hangs_is_given_up() -> None:
    party = a_party()
    impatient = replace(party, policy=replace(party.policy, callback_timeout=0.0))
    with pytest.raises(TimeoutError):
        await within_limit(impatient, asyncio.Event().wait())


async def test_a_callback_that_was_cancelled_from_within_failed() -> None:
    async def cancelled() -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled from within"):
        await within_limit(a_party(), cancelled())


async def test_a_request_that_is_cancelled_ends_its_callback() -> None:
    began = asyncio.Event()

    async def hanging() -> None:
        began.set()
        await asyncio.Event().wait()

    request = asyncio.create_task(within_limit(a_party(), hanging()))
    await began.wait()
    request.cancel()
    with pytest.raises(asyncio.CancelledError):
        await request

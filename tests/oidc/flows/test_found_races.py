"""What another process does between two steps of a refresh."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import httpx
import pytest

from fastapi_oidc import (
    Clock,
    IdentityContext,
    MemoryRefreshLock,
    OIDCSession,
    StandardIdentity,
)
from fastapi_oidc.errors import Code
from fastapi_oidc.flows.callback import (
    Callback,
    CodeExchanges,
    LoginRefused,
    complete_login,
)
from fastapi_oidc.flows.local_sessions import Postponed
from fastapi_oidc.flows.refresh import Ended, RefreshCoordinator
from fastapi_oidc.flows.relying_party import RelyingParty
from fastapi_oidc.flows.revocation import revoke
from fastapi_oidc.session.backend import StoredSession
from fastapi_oidc.session.records import Advance, Phase, Take
from fastapi_oidc.testing import sign_in
from tests.oidc.session.dictionary_stores import DictionaryStore
from tests.oidc.world import LOGIN_URL, World, make_world


@dataclass
class Refreshing:
    """A session that is about to be refreshed, in one of two processes."""

    world: World
    party: RelyingParty[Any]
    stored: StoredSession[Any]

    @property
    def coordinator(self) -> RefreshCoordinator[Any]:
        return self.world.oidc.runtime.coordinator


async def refreshing(world: World) -> Refreshing:
    browser = await world.signed_in()
    party = world.oidc.runtime.party
    lookup = await party.backend.lookup(dict(browser.cookies))
    assert lookup is not None
    return Refreshing(world, party, lookup.stored)


def answer_kept_by_another_release() -> bytes:
    return b'{"of": "another release"}'


def answer_without_tokens() -> bytes:
    return b'{"received_at": 1, "response": null}'


@pytest.mark.parametrize("response", [answer_kept_by_another_release, answer_without_tokens])
async def test_a_response_that_cannot_be_read_is_left_to_others(
    response: Callable[[], bytes],
) -> None:
    """The refresh token is used up: it is not presented again."""
    here = await refreshing(make_world(refresh_lock=MemoryRefreshLock()))
    session, records, data = here.stored.session, here.party.records, response()
    await records.take(
        session.id, Take(generation=0, owner="a", hold=1, answered_hold=1), lifetime=60
    )
    change = Advance(phase=Phase.ANSWERED, owner="a", generation=0, to_generation=0, data=data)
    assert await records.advance(session.id, change, lifetime=60)
    outcome = await here.coordinator.refresh(here.stored)
    assert isinstance(outcome, Postponed)
    record = await records.look(session.id)
    assert (record.phase, record.data) == (Phase.ANSWERED, data)


class TwoSteps(DictionaryStore):
    """An application's own store, with what happens between the two steps of `replace`."""

    async def meanwhile(self, id: str) -> None: ...

    async def get(self, id: str, /) -> OIDCSession[Any] | None:
        before = await super().get(id)
        await self.meanwhile(id)
        return before


async def test_a_sign_out_between_the_two_steps_of_a_store_leaves_no_row() -> None:
    store = TwoSteps()
    here = await refreshing(make_world(session_store=store, refresh_lock=MemoryRefreshLock()))
    (id,) = store.rows

    async def sign_out_elsewhere(id: str) -> None:
        ended = Advance(phase=Phase.ENDED, data=b"signed_out")
        await here.party.records.advance(here.stored.session.id, ended, lifetime=60)
        await store.delete(id)

    store.meanwhile = sign_out_elsewhere  # type: ignore[method-assign]
    outcome = await here.coordinator.refresh(here.stored)
    assert isinstance(outcome, Ended)
    assert id not in store.rows


@pytest.mark.parametrize("session_store", [None, "memory"])
async def test_a_new_sid_does_not_escape_the_revocation_of_the_old_one(session_store: Any) -> None:
    """A silent login confirms the session with another session at the provider."""
    here = await refreshing(make_world(session_store=session_store))
    sid = here.stored.session.sid

    async def make(now: StoredSession[Any]) -> StoredSession[Any]:
        await revoke(here.party, sid=sid)
        update = {"generation": now.session.generation + 1, "sid": "another"}
        return StoredSession(now.session.model_copy(update=update), now.reference)

    outcome = await here.coordinator.replace(here.stored, make)
    assert isinstance(outcome, Ended)
    changed = here.stored.session.model_copy(update={"generation": 1, "sid": "another"})
    lookup = await here.party.backend.reread(StoredSession(changed, here.stored.reference))
    assert lookup is None or lookup.ended is not None


async def test_a_code_that_one_process_used_up_is_not_sent_by_another() -> None:
    """The browser sent the callback twice, and the application refused the first of them."""

    def refuse(_context: IdentityContext) -> StandardIdentity:
        raise LookupError("nobody we know")

    world = make_world(resolve_identity=refuse, refresh_lock=MemoryRefreshLock())
    callbacks: list[httpx.Request] = []

    async def note(request: httpx.Request) -> None:
        if request.url.path == "/auth/callback":
            callbacks.append(request)

    async with world.browser() as browser:
        browser.event_hooks["request"].append(note)
        with pytest.raises(LookupError):
            await sign_in(browser, LOGIN_URL, user="alice")
    (first,) = callbacks
    parameters = {name: [value] for name, value in first.url.params.items()}
    cookies = dict(pair.split("=", 1) for pair in first.headers["cookie"].split("; "))
    party, elsewhere = world.oidc.runtime.party, CodeExchanges[Any](Clock(), 5)
    outcome = await complete_login(
        party, world.oidc.runtime.coordinator, elsewhere, Callback(parameters, cookies)
    )
    assert isinstance(outcome, LoginRefused)
    assert outcome.error.code is Code.AUTHORIZATION_TRANSACTION_MISSING

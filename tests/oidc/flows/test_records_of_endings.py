"""What is written down when sessions are ended by name: at the provider, or by the application."""

from __future__ import annotations

from typing import Any

import pytest

from fastapi_oidc import (
    Code,
    MemoryRevocationStore,
    PersistContext,
    RevocationRecord,
    SessionError,
)
from fastapi_oidc.flows.endings import revoke, sessions_of
from tests.oidc.flows.test_refresh import LONG_AFTER, generation
from tests.oidc.world import World, make_world

HOUR = 3600
THIRTY_DAYS = 30 * 24 * HOUR


class Watched(MemoryRevocationStore):
    """Notes each record."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[RevocationRecord] = []

    async def revoke(self, record: RevocationRecord, /) -> None:
        self.records.append(record)
        await super().revoke(record)


@pytest.fixture
def store() -> Watched:
    return Watched()


@pytest.fixture
def world(store: Watched) -> World:
    return make_world(back_channel_logout_store=store)


async def test_a_logout_token(world: World, store: Watched) -> None:
    said: list[dict[str, Any]] = []

    def noted(claims: dict[str, Any]) -> dict[str, Any]:
        said.append(claims | {"iat": claims["iat"] - 2})
        return said[-1]

    world.op.edits.put("logout_token", noted)
    await world.signed_in()
    await world.op.log_out("alice")
    assert store.records == [
        RevocationRecord(
            issuer=world.op.issuer,
            client_id="app",
            sid=said[0]["sid"],
            sub="alice",
            jti=said[0]["jti"],
            issued_at=int(world.time.now) - 2,
            expires_at=int(world.time.now) + THIRTY_DAYS + HOUR,
        )
    ]


async def test_one_of_another_application_of_the_same_provider_that_is_trusted_in_id_tokens() -> (
    None
):
    store = Watched()
    settings = {"trusted_id_token_audiences": ["api"]}
    world = make_world(back_channel_logout_store=store, settings=settings)
    world.op.edits.put("logout_token", lambda said: said | {"aud": ["app", "api"]})
    await world.signed_in()
    await world.op.log_out("alice")
    assert len(store.records) == 1


@pytest.mark.parametrize("named", [{"sub": "alice"}, {"sid": "s"}, {"session_id": "one"}])
async def test_the_word_of_the_application(
    world: World, store: Watched, named: dict[str, str]
) -> None:
    await revoke(world.oidc.site.party, **named, reason="signed_out")
    assert store.records == [
        RevocationRecord(
            issuer=world.op.issuer,
            client_id="app",
            issued_at=int(world.time.now),
            expires_at=int(world.time.now) + THIRTY_DAYS + HOUR,
            made_by="application",
            reason="signed_out",
            **named,
        )
    ]


async def test_without_a_reason_the_application_revoked_it(world: World, store: Watched) -> None:
    await revoke(world.oidc.site.party, sub="alice")
    assert store.records[-1].reason == "revoked"


async def test_records_outlive_a_session_lifetime_that_is_longer_than_a_month() -> None:
    store, lifetime = Watched(), 2 * THIRTY_DAYS
    world = make_world(back_channel_logout_store=store, settings={"session_lifetime": lifetime})
    await world.signed_in()
    await world.op.log_out("alice")
    await revoke(world.oidc.site.party, sub="alice")
    assert {record.expires_at for record in store.records} == {
        int(world.time.now) + lifetime + HOUR
    }


async def test_a_session_that_is_ended_by_its_id_is_over_here_before_its_store_is_asked(
    world: World,
) -> None:
    browser = await world.signed_in()
    party = world.oidc.site.party
    found = await party.keeper.read(dict(browser.cookies))
    assert found is not None
    session = found.kept.session
    await revoke(party, session_id=session.id, reason="ended_by_provider")
    assert party.register.ended(session) == "ended_by_provider"
    world.time.advance(THIRTY_DAYS)
    assert party.register.ended(session) == "ended_by_provider"


async def test_a_session_is_listed_to_its_end() -> None:
    world = make_world(session_store="memory", settings={"idle_timeout": 600})
    await world.signed_in()
    await world.signed_in("bob")
    world.time.advance(599)
    [session] = await sessions_of(world.oidc.site.party, "alice")
    assert session.sub == "alice"
    world.time.advance(1)
    assert await sessions_of(world.oidc.site.party, "alice") == []


async def test_what_the_application_refuses_at_a_refresh(store: Watched) -> None:
    def persist(context: PersistContext[Any]) -> None:
        if context.reason == "refresh":
            raise SessionError(Code.SESSION_FORBIDDEN)

    world = make_world(back_channel_logout_store=store, before_session_persist=persist)
    browser = await world.signed_in()
    world.time.advance(LONG_AFTER)
    assert await generation(browser) is None
    assert [record.reason for record in store.records] == ["revoked"]


async def test_of_a_session_whose_time_is_over_nothing(world: World, store: Watched) -> None:
    browser = await world.signed_in()
    world.time.advance(THIRTY_DAYS)
    assert await generation(browser) is None
    assert store.records == []


async def test_what_was_revoked_is_not_written_down_again(world: World, store: Watched) -> None:
    browser = await world.signed_in()
    await world.oidc.revoke(sub="alice")
    assert await generation(browser) is None
    assert len(store.records) == 1

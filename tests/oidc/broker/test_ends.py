"""When access ends: at its time, at withdrawal, and with the session; and what does not end it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta

import pytest

from fastapi_oidc import Clock, MemoryStore
from fastapi_oidc.testing import TokensIssued
from tests.oidc.broker.apis import Api
from tests.oidc.broker.guests import NAME
from tests.oidc.broker.rig import TWO_HOURS, Rig, another_broker, broker_world, rigged
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.world import Time

End = Callable[[Rig], Awaitable[object]]


async def withdrawn(rig: Rig) -> None:
    await rig.broker.withdraw(rig.access)


async def signed_out(rig: Rig) -> None:
    assert (await rig.browser.post("/auth/logout")).status_code == 200


async def revoked(rig: Rig) -> None:
    await rig.world.oidc.revoke(sub="alice")


async def session_revoked(rig: Rig) -> None:
    await rig.world.oidc.revoke(session_id=rig.session.id)


async def logged_out_at_the_provider(rig: Rig) -> None:
    await rig.world.op.log_out("alice")


async def expired(rig: Rig) -> None:
    rig.world.time.advance(TWO_HOURS.total_seconds())


ENDS: dict[str, tuple[End, str]] = {
    "withdrawal": (withdrawn, "broker.withdrawn"),
    "sign-out": (signed_out, "broker.signed_out"),
    "oidc.revoke of the user": (revoked, "broker.signed_out"),
    "oidc.revoke of the session": (session_revoked, "broker.signed_out"),
    "the provider's logout": (logged_out_at_the_provider, "broker.signed_out"),
    "its time": (expired, "broker.expired"),
}
END = pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS.keys())


@END
async def test_the_next_call_after_the_end_is_refused(end: End, code: str) -> None:
    async with rigged() as rig:
        assert (await rig.guest.get()).status_code == 200
        await end(rig)
        answer = await rig.guest.get()
        assert (answer.status_code, answer.text) == (401, f"{code}: The access has ended.\n")
        assert len(rig.api.received) == 1


@END
async def test_an_end_in_one_process_ends_the_access_in_another(end: End, code: str) -> None:
    async with rigged() as rig:
        _, elsewhere = another_broker(rig)
        await elsewhere.check(rig.access)
        await end(rig)
        with pytest.raises(Exception, match=code):
            await elsewhere.check(rig.access)


@END
async def test_a_stream_that_is_open_is_cut(end: End, code: str) -> None:
    stream = Stream()
    async with rigged(api=Api(stream)) as rig, streaming(rig.guest) as parts:
        await end(rig)
        assert await is_cut(parts)
        await stream.until_ended()
    [line] = rig.trail
    assert (line.code, line.status, line.received) == (code, 200, 5)


async def test_a_refresh_revives_nothing_and_a_living_access_outlives_it() -> None:
    async with rigged() as rig:
        rig.world.time.advance(400)
        assert (await rig.guest.get()).status_code == 200
        kinds = [event.grant_type for event in rig.world.op.record.of(TokensIssued)]
        assert "refresh_token" in kinds
        await rig.broker.withdraw(rig.access)
        rig.world.time.advance(400)
        assert (await rig.browser.get("/me")).json()["generation"] == 2
        assert (await rig.guest.get()).status_code == 401


async def test_a_refresh_after_sign_out_revives_nothing() -> None:
    async with rigged() as rig:
        await signed_out(rig)
        await rig.world.signed_in()
        rig.world.time.advance(400)
        assert (await rig.guest.get()).status_code == 401


async def test_the_idle_timeout_of_the_browser_ends_nothing() -> None:
    async with rigged(broker_world(settings={"idle_timeout": 600})) as rig:
        rig.world.time.advance(1000)
        assert (await rig.guest.get()).status_code == 200
        assert (await rig.browser.get("/")).json() == {"is_authenticated": False}
        assert (await rig.guest.get()).status_code == 200
        assert await rig.world.oidc.sessions_of("alice") == []


async def test_a_guest_does_not_keep_the_browser_signed_in() -> None:
    async with rigged(broker_world(settings={"idle_timeout": 600})) as rig:
        for _ in range(4):
            rig.world.time.advance(200)
            assert (await rig.guest.get()).status_code == 200
        assert (await rig.browser.get("/")).json() == {"is_authenticated": False}


async def test_the_absolute_end_of_the_session_ends_the_access() -> None:
    world = broker_world(settings={"session_lifetime": 3600})
    async with rigged(world) as rig:
        assert rig.access.until == rig.session.expires_at
        world.time.advance(3600)
        assert (await rig.guest.get()).status_code == 401


async def test_a_shorter_lifetime_in_a_new_deployment_ends_the_access() -> None:
    async with rigged() as rig:
        rig.world.time.advance(3600)
        party = rig.world.oidc.runtime.party
        shorter = party.settings.model_copy(update={"session_lifetime": 1800})
        object.__setattr__(party, "settings", shorter)
        assert (await rig.guest.get()).text == "broker.expired: The access has ended.\n"


async def test_the_access_survives_a_restart_of_the_control_plane() -> None:
    async with rigged() as rig:
        _, broker = another_broker(rig)
        [found] = await broker.given(rig.session)
        assert (found.id, found.machine, found.routes) == (rig.access.id, "m1", (NAME,))
        assert (await broker.check(found)).until == rig.access.until


async def test_an_end_may_be_a_time() -> None:
    async with rigged() as rig:
        until = datetime.fromtimestamp(rig.world.time.now + 60, UTC)
        access = await rig.broker.give(rig.session, to="m1", routes=[NAME], until=until)
        assert access.until == rig.world.time.now + 60


async def test_a_call_waits_for_no_store_that_is_down_and_nobody_is_let_in() -> None:
    time = Time()
    store = MemoryStore(clock=Clock(read=time))
    async with rigged(broker_world(store, time)) as rig:
        working, store.read = store.read, _down  # type: ignore[method-assign]
        assert (await rig.guest.get()).status_code == 503
        store.read = working  # type: ignore[method-assign]
        assert (await rig.guest.get()).status_code == 200
    assert len(rig.api.received) == 1


async def _down(keys: object) -> list[bytes]:
    raise OSError("down")


async def test_a_session_that_has_ended_gives_nothing() -> None:
    async with rigged() as rig:
        await signed_out(rig)
        with pytest.raises(Exception, match=r"broker\.signed_out"):
            await rig.broker.give(rig.session, to="m2", routes=[NAME], until=timedelta(hours=1))


async def test_a_withdrawal_ends_one_access_alone() -> None:
    async with rigged() as rig:
        other = await rig.broker.give(rig.session, to="m2", routes=[NAME], until=TWO_HOURS)
        await rig.broker.withdraw(other)
        assert (await rig.guest.get()).status_code == 200

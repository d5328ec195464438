"""When access ends: at its time, at withdrawal, and with the session; and what does not end it."""

from collections.abc import Awaitable, Callable

import pytest

from fastapi_oidc import SessionError
from fastapi_oidc.broker import guest
from fastapi_oidc.testing import TokensIssued
from tests.oidc.broker.apis import Api
from tests.oidc.broker.rig import TWO_HOURS, Rig, broker_world, rigged, store_of
from tests.oidc.broker.streams import Stream, is_cut, streaming

End = Callable[[Rig], Awaitable[object]]


async def expired(rig: Rig) -> None:
    rig.world.time.advance(TWO_HOURS.total_seconds())


ENDS: dict[str, tuple[End, str]] = {
    "withdrawal": (lambda rig: rig.broker.withdraw(rig.access), "broker.withdrawn"),
    "sign-out": (lambda rig: rig.browser.post("/auth/logout"), "broker.signed_out"),
    "a revoked user": (lambda rig: rig.world.oidc.revoke(sub="alice"), "broker.signed_out"),
    "its time": (expired, "broker.expired"),
}
END = pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS.keys())


@END
async def test_an_end_refuses_the_next_call_and_cuts_an_open_stream(end: End, code: str) -> None:
    stream = Stream()
    async with rigged(api=Api(stream)) as rig, streaming(rig.guest) as parts:
        await end(rig)
        assert (await rig.guest.get()).text == f"{code}: The access has ended.\n"
        assert await is_cut(parts)
        await stream.until_ended()
        assert len(rig.api.received) == 1
    told = {(line.code, line.status, line.received) for line in rig.trail}
    assert told == {(code, 401, 0), (code, 200, 5)}


async def test_a_withdrawal_cuts_at_once_here_also_while_the_store_is_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(guest, "POLL_SECONDS", 1000)
    stream = Stream()
    async with rigged(api=Api(stream)) as rig, streaming(rig.guest) as parts:
        monkeypatch.setattr(store_of(rig), "swap", _down)
        with pytest.raises(SessionError):
            await rig.broker.withdraw(rig.access)
        assert await is_cut(parts)
        await stream.until_ended()
        monkeypatch.undo()


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


async def test_the_idle_timeout_of_the_browser_ends_nothing_and_no_call_extends_it() -> None:
    async with rigged(broker_world(settings={"idle_timeout": 600})) as rig:
        for _ in range(4):
            rig.world.time.advance(200)
            assert (await rig.guest.get()).status_code == 200
        assert (await rig.browser.get("/")).json() == {"is_authenticated": False}
        assert (await rig.guest.get()).status_code == 200
        rig.world.time.advance(400)  # the access token expires
        assert (await rig.guest.get()).status_code == 200


async def test_the_absolute_end_of_the_session_ends_the_access_also_one_that_became_earlier() -> (
    None
):
    world = broker_world(settings={"session_lifetime": 3600})
    async with rigged(world) as rig:
        assert rig.access.until == rig.session.expires_at
        world.time.advance(1800)
        party = world.oidc.runtime.party
        shorter = party.settings.model_copy(update={"session_lifetime": 1800})
        object.__setattr__(party, "settings", shorter)
        assert (await rig.guest.get()).text == "broker.expired: The access has ended.\n"


async def test_what_is_past_its_time_has_ended_by_that_also_after_the_store_forgot_it() -> None:
    async with rigged() as rig:
        await expired(rig)
        await rig.broker.withdraw(rig.access)
        assert (await rig.guest.get()).text == "broker.expired: The access has ended.\n"


async def _down(*_: object) -> list[bytes]:
    raise OSError("down")

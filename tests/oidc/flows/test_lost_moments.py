"""Between two steps: a command is lost or hangs, or another request comes first."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any

import httpx
import pytest
from fastapi import Depends, FastAPI, Response

from fastapi_oidc import OIDC, Clock, MemoryStore, OIDCSession
from fastapi_oidc.errors import Code, ProviderError
from fastapi_oidc.flows.refresh import refresh, refresh_for
from fastapi_oidc.flows.sessions import Live
from fastapi_oidc.protocol.downstream import DownstreamAPI
from fastapi_oidc.protocol.token import TokenResponse
from fastapi_oidc.session import rows
from fastapi_oidc.session.rows import LEASE_SECONDS
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.fallible_stores import fallible_world
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LOCAL,
    SHORTLY_BEFORE_EXPIRY,
    callback_url,
    copy_of,
    generation,
    live_in,
    others_have_run,
    revoked_by,
    stores_of,
    two_processes,
    user,
)
from tests.oidc.interleaving import (
    PATIENCE,
    Gate,
    Held,
    another_process,
    begun,
    same_browser,
    with_gate,
)
from tests.oidc.world import LOGIN_URL, Time, World, make_world

STEP_UP = "/auth/login?max_age=60&return_to=/me"


class Between(MemoryStore):
    """Before the `nth` write of a session's row, or of another kind, something else happens."""

    nth, kind = 0, "session"
    gate: Gate | None = None

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        if self.nth and f":{self.kind}:" in key:
            self.nth -= 1
            if not self.nth:
                if self.gate is None:
                    raise ConnectionError("one lost command")
                await self.gate.passed()
        return await super().swap(key, before, after)


def world_of(mode: str, **options: Any) -> tuple[World, Between]:
    time = Time()
    store = Between(clock=Clock(read=time))
    return make_world(time=time, **stores_of(mode, store), **options), store


async def test_a_step_up_survives_a_lost_command(mode: str) -> None:
    world, store = world_of(mode)
    browser = await world.signed_in()
    world.time.advance(120)
    url = await callback_url(browser, STEP_UP)
    store.nth = 2  # it is the owner of the row, and stores the next generation
    assert (await browser.get(url)).status_code == 200
    assert (await generation(browser), await user(browser)) == (1, "alice")
    assert not world.op.record.of(TokenRevoked)


async def test_a_step_up_continues_the_session_even_if_its_data_cannot_be_loaded(mode: str) -> None:
    failing: list[str] = []

    def load(_: object) -> None:
        if failing:
            raise RuntimeError(failing.pop())

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        app.add_route("/own", oidc.callback_handler(on_success=lambda *_: None))
        app.add_exception_handler(RuntimeError, lambda *_: Response(status_code=500))

        @app.get("/who")
        async def who(session: OIDCSession[Any] = Depends(oidc.require_auth)) -> str:
            return session.sub

    middleware = {"exclude": ["/own"]}
    world, _ = world_of(mode, load_request_data=load, mount=mount, middleware=middleware)
    browser = await world.signed_in()
    world.time.advance(120)
    url = (await callback_url(browser, STEP_UP)).replace("/auth/callback", "/own")
    failing.append("the database")
    assert (await browser.get(url)).status_code == 500
    assert (await browser.get("/who")).json() == "alice"


async def test_the_use_of_a_session_refreshed_meanwhile_is_of_the_new_one(mode: str) -> None:
    world, _ = world_of(mode, settings={"idle_timeout": 3600})
    browser = await world.signed_in()
    party = world.oidc.runtime.party
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    read = await live_in(world, browser)
    assert isinstance(await refresh(party, await live_in(world, browser)), Live)
    touched = await party.sessions.touch(read)
    assert isinstance(touched, Live)
    assert touched.session.generation == touched.seen.row.generation == 1
    assert touched.session.last_seen_at == world.time()


async def test_a_sign_out_revokes_the_token_of_a_refresh_that_came_between(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, store = world_of(mode)
    there = another_process(world, **stores_of(mode, store))
    browser, revoked = await world.signed_in(), revoked_by(there, monkeypatch)
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    store.nth, store.gate = 1, Gate()
    leaving = begun(copy_of(browser, there).post("/auth/logout", data=LOCAL))
    await store.gate.until_reached()
    refreshed = copy_of(browser, world)
    assert await generation(refreshed) == 1
    newest = await live_in(world, refreshed)
    store.gate.opened.set()
    await leaving
    assert await user(refreshed) is None
    assert newest.session.tokens.refresh_token in revoked


async def test_sign_outs_at_once_are_one_write_that_outlives_both(mode: str) -> None:
    world, store = world_of(mode)
    there = another_process(world, **stores_of(mode, store))
    browser = await world.signed_in()
    tabs = [copy_of(browser, world) for _ in range(2)]
    store.nth, store.gate = 1, Gate()
    leaving = [begun(tab.post("/auth/logout", data=LOCAL)) for tab in tabs]
    await store.gate.until_reached()
    await others_have_run()
    steps = world.oidc.registrations.engine.last_steps
    assert len(steps.under_way()) == 1
    for request in leaving:
        request.cancel()
    await asyncio.wait(leaving)
    store.gate.opened.set()
    await steps.wait(PATIENCE)
    assert await generation(copy_of(browser, there)) is None


async def test_a_sign_out_during_a_refresh_that_cannot_be_judged_revokes_its_token(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    world, _ = world_of(mode)
    browser, held = await world.signed_in(), Held(first=True)

    async def verify(*_: object) -> None:
        raise ProviderError(Code.PROVIDER_UNREACHABLE, "the keys are unavailable")

    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, world).get("/me"))
    await held.gate.until_reached()
    await browser.post("/auth/logout", data=LOCAL)
    before = len(world.op.record.of(TokenRevoked))
    monkeypatch.setattr(world.oidc.runtime.party.provider, "verify", verify)
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert len(world.op.record.of(TokenRevoked)) == before + 1


async def test_a_refresh_that_a_login_overtook_revokes_nothing_that_they_share(mode: str) -> None:
    """Providers may end all tokens of a session at the provider with one of them (RFC 7009 2.1)."""
    world, _ = world_of(mode)
    browser, held = await world.signed_in(), Held(first=True)
    other_tab = copy_of(browser, world)
    world.op.faults.put("token", held)
    world.time.advance(AFTER_EXPIRY)
    refreshing = begun(other_tab.get("/me"))
    await held.gate.until_reached()
    await sign_in(browser, LOGIN_URL, user="alice")
    held.gate.opened.set()
    assert (await refreshing).status_code == 401
    assert not world.op.record.of(TokenRevoked)


async def test_a_token_for_an_api_is_never_that_of_another_attempt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where refresh tokens work many times, the response of an ordinary refresh may come first."""
    api = DownstreamAPI(grant="refresh_token", resource="https://x.test")
    world, store = world_of("store", downstream_apis=[api], settings={"fetch_userinfo": False})
    there = another_process(world, downstream_apis=[api], **stores_of("store", store))
    browser, sent, judged = await world.signed_in(), Gate(), Gate()

    def token_endpoint(gate: Gate | None) -> Any:
        async def refresh(_: str, *, target: object = None, **__: object) -> bytes:
            if gate is not None:
                await gate.passed()
            token = "for the API" if target else "the session's own"
            return json.dumps({"access_token": token, "token_type": "Bearer"}).encode()

        return refresh

    parties = [each.oidc.runtime.party for each in (world, there)]
    for party, gate in zip(parties, (sent, None), strict=True):
        monkeypatch.setattr(party.provider, "refresh", token_endpoint(gate))
    lives = [await live_in(each, browser) for each in (world, there)]
    mine = asyncio.create_task(refresh_for(parties[0], lives[0], api))
    await sent.until_reached()
    monkeypatch.setattr(rows, "WATCH_SECONDS", 0.0)
    world.time.advance(LEASE_SECONDS + 1)  # paused for so long that its row is taken
    store.nth, store.gate = 3, judged  # taken, answered, and then the next generation
    other = asyncio.create_task(refresh(parties[1], lives[1]))
    await judged.until_reached()
    sent.opened.set()
    _, answer = await mine
    assert answer is not None
    assert TokenResponse.read(answer.body).access_token == "for the API"
    judged.opened.set()
    await other


EIGHT_HOURS = 8 * 3600
AS_BOB = f"{LOGIN_URL}&prompt=login"


@dataclass(slots=True)
class Late:
    """Two tabs of one browser, and the response that the first one waits for."""

    world: World
    tab: httpx.AsyncClient
    other_tab: httpx.AsyncClient
    gate: Gate
    request: asyncio.Task[httpx.Response]

    async def arrives(self) -> httpx.Response:
        self.gate.opened.set()
        return await self.request


async def a_late_response(here: World, there: World, gate: Gate, seconds: int) -> Late:
    browser = await here.signed_in()
    here.time.advance(seconds)
    request = begun(browser.get("/slow"))
    await gate.until_reached()
    return Late(here, browser, same_browser(browser, there), gate, request)


@pytest.fixture(params=["one process", "two processes"])
def worlds(request: pytest.FixtureRequest, mode: str) -> tuple[World, World, Gate]:
    """Where the slow response is made, and where everything else happens."""
    gate = Gate()
    here, there = two_processes(mode, mount=with_gate(gate))
    return here, (here if request.param == "one process" else there), gate


@pytest.fixture
async def late(worlds: tuple[World, World, Gate]) -> Late:
    """A response whose request has refreshed the session."""
    return await a_late_response(*worlds, AFTER_EXPIRY)


async def test_response_after_a_sign_out_sets_no_cookie(late: Late) -> None:
    await late.other_tab.post("/auth/logout", data=LOCAL)
    assert "set-cookie" not in (await late.arrives()).headers
    assert await user(late.tab) is None
    late.world.time.advance(300)
    assert await user(late.other_tab) is None


async def test_response_after_a_login_of_another_user_sets_no_cookie(late: Late) -> None:
    await sign_in(late.other_tab, AS_BOB, user="bob")
    assert "set-cookie" not in (await late.arrives()).headers
    assert await user(late.tab) == "bob"


async def test_response_after_a_later_refresh_brings_the_newest_session(late: Late) -> None:
    late.world.time.advance(AFTER_EXPIRY)
    assert await generation(late.other_tab) == 2
    await late.arrives()
    late.world.time.advance(100)
    assert await generation(late.tab) == 2


async def test_response_of_an_expired_session_leaves_a_new_login_alone(
    worlds: tuple[World, World, Gate],
) -> None:
    late = await a_late_response(*worlds, EIGHT_HOURS)
    await sign_in(late.other_tab, AS_BOB, user="bob")
    assert "set-cookie" not in (await late.arrives()).headers
    assert await user(late.tab) == "bob"


async def test_cookie_is_left_alone_while_a_store_cannot_tell(mode: str) -> None:
    """The session is refreshed, and its next request finds the newest one."""
    gate = Gate()
    world, outage = fallible_world(mode, mount=with_gate(gate))
    late = await a_late_response(world, world, gate, AFTER_EXPIRY)
    outage.is_down = True
    answer = await late.arrives()
    assert (answer.status_code, "set-cookie" in answer.headers) == (200, False)
    outage.is_down = False
    assert await generation(late.tab) == 1
    names = world.event_names()
    assert ("session.cookie_withheld" in names) is (mode == "cookie"), "a reference stays the same"

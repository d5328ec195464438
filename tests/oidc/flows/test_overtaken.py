"""What was found before a wait has ended, moved on or failed after it."""

import asyncio
from collections.abc import Sequence
from typing import Any, get_args

import httpx
import pytest
from fastapi import FastAPI, Request
from starlette.background import BackgroundTask
from starlette.responses import RedirectResponse, Response

from fastapi_oidc import OIDC, Clock, MemoryStore, SignedIn, Store
from fastapi_oidc.errors import Code, ProtocolViolation
from fastapi_oidc.flows.endings import Ending, Endings
from fastapi_oidc.flows.resume import refresh_now
from fastapi_oidc.session import rows
from fastapi_oidc.session.model import EndReason
from fastapi_oidc.session.rows import Row
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import TokenRevoked, sign_in
from tests.oidc.flows.steps import (
    AFTER_EXPIRY,
    LEASE,
    LOCAL,
    SHORTLY_BEFORE_EXPIRY,
    callback_url,
    copy_of,
    generation,
    live_in,
    others_have_run,
    returned,
    signed_out,
    stores_of,
    two_processes,
    until,
    user,
)
from tests.oidc.flows.test_continued_sessions import silent_callback
from tests.oidc.flows.test_lost_moments import STEP_UP, world_of
from tests.oidc.interleaving import Gate, Held, another_process, begun, held_outage, same_browser
from tests.oidc.world import LOGIN_URL, Time, World, make_world


async def leave_amid(world: World, browser: httpx.AsyncClient, url: str) -> None:
    """The browser goes away while its code is exchanged, which goes on."""
    held = Held()
    world.op.faults.put("token", held)
    leaving = begun(browser.get(url))
    await held.gate.until_reached()
    leaving.cancel()
    held.gate.opened.set()
    await others_have_run()


@pytest.mark.parametrize("how", ["session", "user"])
async def test_a_login_that_ended_before_its_response_signs_nobody_in(mode: str, how: str) -> None:
    """The request that began it went away; the application is told of no login."""
    told: list[SignedIn[Any]] = []

    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        def on_success(_: Request, signed_in: SignedIn[Any]) -> None:
            told.append(signed_in)

        app.router.routes.clear()
        app.get("/auth/callback")(oidc.callback_handler(on_success=on_success))
        app.include_router(oidc.router, prefix="/auth")

    world, _ = world_of(mode, mount=mount)
    browser = world.browser()
    url = await callback_url(browser)
    await leave_amid(world, browser, url)
    assert world.event_names()[-1] == "login.succeeded"
    name = {"session_id": world.events[-1].session_id} if how == "session" else {"sub": "alice"}
    await world.oidc.revoke(**name)
    assert await returned(browser, url) is None
    assert not told


@pytest.mark.parametrize("login", ["silent", "step-up"])
@pytest.mark.parametrize("moment", ["sent", "judged"])
async def test_a_login_that_another_one_overtook_revokes_nothing_that_they_share(
    mode: str, login: str, moment: str
) -> None:
    """Providers may end all tokens of a session at the provider with one of them (RFC 7009 2.1)."""
    world, store = world_of(mode)
    browser, held = await world.signed_in(), Held(first=True)
    tab = copy_of(browser, world)
    url = await (silent_callback(tab) if login == "silent" else callback_url(tab, STEP_UP))
    if moment == "sent":
        world.op.faults.put("token", held)
    else:
        store.nth, store.gate = 1, held.gate
    late = begun(tab.get(url))
    await held.gate.until_reached()
    await sign_in(browser, LOGIN_URL, user="alice")
    held.gate.opened.set()
    await late
    assert not world.op.record.of(TokenRevoked)
    world.time.advance(AFTER_EXPIRY)
    assert await generation(browser) == 1


async def test_an_attempt_that_judges_otherwise_revokes_no_token_of_the_next_generation(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another process has made it of the same answer."""
    monkeypatch.setattr(rows, "WATCH_SECONDS", 0.0)
    here, there = two_processes(mode)
    browser, gate = await here.signed_in(), Gate()

    async def verify(*_: object) -> None:
        await gate.passed()
        raise ProtocolViolation(Code.ID_TOKEN_EXPIRED, "the clock of this process is wrong")

    monkeypatch.setattr(here.oidc.runtime.party.provider, "verify", verify)
    here.time.advance(SHORTLY_BEFORE_EXPIRY)
    refreshing, other = begun(copy_of(browser, here).get("/me")), copy_of(browser, there)
    await gate.until_reached()
    here.time.advance(LEASE)
    assert await generation(other) == 1
    gate.opened.set()
    await refreshing
    assert not here.op.record.of(TokenRevoked)
    here.time.advance(AFTER_EXPIRY)
    assert await generation(other) == 2


async def test_a_refresh_that_fails_after_a_sign_out_lets_nobody_in(mode: str) -> None:
    here, there = two_processes(mode)
    browser, outage = await here.signed_in(), held_outage()
    here.op.faults.put("token", outage)
    here.time.advance(SHORTLY_BEFORE_EXPIRY)
    late = begun(copy_of(browser, here).get("/me"))
    await outage.gate.until_reached()
    await signed_out(copy_of(browser, there), **LOCAL)
    outage.gate.opened.set()
    assert (await late).status_code == 401


async def test_a_use_that_finds_the_end_of_its_session_lets_nobody_in(mode: str) -> None:
    world, store = world_of(mode, settings={"idle_timeout": 1000})
    there = another_process(world, **stores_of(mode, store))
    browser = await world.signed_in()
    world.time.advance(150)
    store.nth, store.gate = 1, Gate()
    late = begun(copy_of(browser, world).get("/me"))
    await store.gate.until_reached()
    await signed_out(copy_of(browser, there), **LOCAL)
    store.gate.opened.set()
    assert (await late).status_code == 401


async def test_a_session_that_is_used_while_its_idle_end_is_written_keeps_its_cookie() -> None:
    world, store = world_of("store", settings={"idle_timeout": 1000})
    browser, sessions = await world.signed_in(), world.oidc.runtime.party.sessions
    world.time.advance(200)
    assert await generation(browser) == 0
    live = await live_in(world, browser)
    world.time.advance(1000)
    store.nth, store.gate = 1, Gate()
    idle = begun(browser.get("/me"))
    await store.gate.until_reached()
    await sessions.touch(live)
    store.gate.opened.set()
    assert "set-cookie" not in (await idle).headers
    assert await user(browser) == "alice"


async def test_a_step_up_does_not_fail_with_the_refresh_that_it_has_waited_for(mode: str) -> None:
    world, _ = world_of(mode)
    browser, outage = await world.signed_in(), held_outage()
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    url, tab = await callback_url(browser, STEP_UP), copy_of(browser, world)
    world.op.faults.put("token", outage)
    refreshing = begun(tab.get("/me"))
    await outage.gate.until_reached()
    stepping_up = begun(browser.get(url))
    await until(lambda: world.op.record.calls["token"] == 3)
    await others_have_run()
    outage.gate.opened.set()
    assert (await stepping_up).status_code == 200
    await refreshing
    assert await generation(browser) == 1


async def test_a_copy_from_before_a_step_up_ends_nothing_for_the_refresh_that_joins_it(
    mode: str,
) -> None:
    world, store = world_of(mode)
    there = another_process(world, **stores_of(mode, store))
    browser, party = await world.signed_in(), world.oidc.runtime.party
    copy = copy_of(browser, world)
    world.time.advance(SHORTLY_BEFORE_EXPIRY)
    url = await callback_url(browser, STEP_UP)
    store.nth, store.gate = 1, Gate()
    refused = begun(copy.get("/me"))
    await store.gate.until_reached()
    await same_browser(browser, there).get(url)
    joining = asyncio.create_task(refresh_now(party, dict(browser.cookies)))
    await others_have_run()
    store.gate.opened.set()
    assert (await refused).status_code == 401
    session = (await joining).session
    assert session is not None
    assert session.generation == 2


def test_an_end_whose_reply_is_lost_finds_the_row_that_it_has_ended() -> None:
    """A sign-out revokes the tokens of that row; the store repeats its command."""
    row, ending = Row(generation=1, content=b"session"), Ending("one", "signed_out", 2**31)
    ended = ending.end(row, 0.0)
    assert ending.end(ended, 0.0) == ended
    assert ending.before == row


def test_a_sign_out_that_only_this_process_knows_keeps_its_reason() -> None:
    """As in the row: no other response may change the cookie then."""
    endings = Endings(Clock(), are_recorded=True)
    for reason in get_args(EndReason):
        endings.end_here("one", "signed_out")
        endings.end_here("one", reason)
        assert endings.here["one"].ended == "signed_out"


async def test_a_sign_out_after_the_response_of_a_login_ends_it_everywhere(mode: str) -> None:
    def mount(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
        def on_success(request: Request, _: SignedIn[Any]) -> Response:
            async def clear() -> None:
                oidc.clear_session(request)

            return RedirectResponse("/me", background=BackgroundTask(clear))

        app.add_route("/own", oidc.callback_handler(on_success=on_success))

    here, there = two_processes(mode, mount=mount)
    browser = here.browser()
    url = (await callback_url(browser)).replace("/auth/callback", "/own")
    await browser.get(url, follow_redirects=False)
    await others_have_run()
    assert await user(copy_of(browser, here)) is None
    assert await user(copy_of(browser, there)) is None


class Watched(Store):
    """A process's connection to a store: `moment` follows each of its commands."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self.commands: list[str] = []

    async def moment(self, number: int) -> None:
        """After the command with this number, of which the process has the reply."""

    async def read(self, keys: Sequence[str], /) -> Sequence[bytes]:
        found = await self.store.read(keys)
        self.commands.append("read")
        await self.moment(len(self.commands))
        return found

    async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
        found = await self.store.swap(key, before, after)
        self.commands.append("swap")
        await self.moment(len(self.commands))
        return found


REFRESHING = ["read", "swap", "swap", "swap", "read"]
"""The commands of a refresh: judge, `take`, `record`, `finish` with the revocations."""


def watched_processes(mode: str) -> tuple[World, Watched, World]:
    """A process, its connection to the store, and another process."""
    time = Time()
    store = MemoryStore(clock=Clock(read=time))
    link = Watched(store)
    here = make_world(time=time, **stores_of(mode, link))
    return here, link, another_process(here, **stores_of(mode, store))


@pytest.mark.parametrize("after", range(9))
@pytest.mark.parametrize("place", ["here", "there"])
async def test_a_step_up_that_another_tab_overtakes_is_a_login(
    mode: str, place: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each command of the first one but the last, which decides its cookie."""
    here, link, there = watched_processes(mode)
    browser = await here.signed_in()
    here.time.advance(120)
    first, second = [await callback_url(browser, STEP_UP) for _ in range(2)]
    tab = same_browser(browser, here if place == "here" else there)
    overtaking: list[asyncio.Task[Any]] = []

    async def moment(number: int) -> None:
        if number == after:
            overtaking.append(begun(tab.get(second)))
            await others_have_run(300)

    link.commands.clear()
    monkeypatch.setattr(link, "moment", moment)
    await moment(0)
    assert (await browser.get(first)).status_code == 200
    for late in overtaking:
        assert (await late).status_code == 200
    assert overtaking
    assert await generation(browser) == 2


@pytest.mark.parametrize("lost", range(5, 9))
async def test_a_step_up_whose_session_is_stored_survives_a_lost_reply(
    mode: str, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its `sid` is another one, under whose key the revocations are. Earlier copies are refused."""
    here, link, _ = watched_processes(mode)
    browser = await here.signed_in()
    here.time.advance(120)
    url = await callback_url(browser, STEP_UP)
    here.op.edits.put("id_token", lambda said: said | {"sid": "another"})

    async def moment(number: int) -> None:
        if number == lost:
            raise ConnectionError("the reply is lost")

    link.commands.clear()
    monkeypatch.setattr(link, "moment", moment)
    assert "/me" in (await returned(browser, url), await returned(browser, url))
    assert await generation(browser) == 1


async def test_a_refresh_asks_for_revocations_with_its_last_command(mode: str) -> None:
    here, link, _ = watched_processes(mode)
    browser = await here.signed_in()
    here.time.advance(AFTER_EXPIRY)
    link.commands.clear()
    assert await generation(browser) == 1
    at_response = ["read"] if mode == "cookie" else []
    assert link.commands == REFRESHING + at_response


@pytest.mark.parametrize("how", ["sub", "sid", "session_id"])
@pytest.mark.parametrize("after", range(len(REFRESHING) + 1))
async def test_whoever_is_revoked_before_a_refresh_is_finished_gets_no_page(
    mode: str, how: str, after: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also after each command; the request that has all replies was there before."""
    here, link, there = watched_processes(mode)
    browser = await here.signed_in()
    live = await live_in(here, browser)
    named = {"session_id": live.session.id, "sub": live.session.sub, "sid": live.session.sid or ""}
    here.time.advance(AFTER_EXPIRY)

    async def moment(number: int) -> None:
        if number == after:
            await there.oidc.revoke(**{how: named[how]})

    link.commands.clear()
    monkeypatch.setattr(link, "moment", moment)
    await moment(0)
    # A session that has ended cannot be finished; revocations are read right after it.
    last = 3 if how == "session_id" else 4
    assert (await browser.get("/me")).status_code == (401 if after <= last else 200)
    assert await user(browser) is None


@pytest.mark.parametrize("lost", [2, 3, 4, 5])
async def test_a_revocation_beside_a_lost_reply_of_a_refresh_lets_nobody_in(
    mode: str, lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, link, there = watched_processes(mode)
    browser = await here.signed_in()
    here.time.advance(SHORTLY_BEFORE_EXPIRY)

    async def moment(number: int) -> None:
        if number == lost:
            await there.oidc.revoke(sub="alice")
            raise ConnectionError("the reply is lost")

    link.commands.clear()
    monkeypatch.setattr(link, "moment", moment)
    assert (await browser.get("/me")).status_code in (401, 503)
    assert await user(browser) is None
    assert await user(copy_of(browser, there)) is None


async def test_a_revocation_after_the_refresh_of_another_process_lets_nobody_in(
    mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, link, there = watched_processes(mode)
    browser, held = await here.signed_in(), Held()
    here.op.faults.put("token", held)
    here.time.advance(AFTER_EXPIRY)
    refreshing = begun(copy_of(browser, there).get("/me"))
    await held.gate.until_reached()
    waiting, was_told = begun(browser.get("/me")), asyncio.Event()

    async def moment(_: int) -> None:
        if held.gate.opened.is_set() and not was_told.is_set():
            was_told.set()
            assert (await refreshing).status_code == 200
            await there.oidc.revoke(sub="alice")

    monkeypatch.setattr(link, "moment", moment)
    await until(lambda: link.commands[-1] == "swap")
    held.gate.opened.set()
    assert (await waiting).status_code == 401
    assert was_told.is_set()

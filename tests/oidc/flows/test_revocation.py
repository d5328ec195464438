"""An ended session is over everywhere: for copies, in other processes; `idle_timeout`."""

from typing import Any

import pytest
from fastapi import FastAPI, Request

from fastapi_oidc import (
    OIDC,
    Clock,
    ConfigurationError,
    IdentityContext,
    MemoryStore,
    OIDCSession,
    PersistContext,
    StandardIdentity,
)
from fastapi_oidc.flows.refresh import refresh
from fastapi_oidc.flows.sessions import ANY_EPOCH, Live, list_key
from fastapi_oidc.session.revocations import user_key
from fastapi_oidc.session.session_cookie import Copy
from fastapi_oidc.session.store import Cell, Stored
from fastapi_oidc.testing import DevUser, Lifetimes, OAuthError
from tests.oidc.flows.fallible_stores import READ, fallible_world
from tests.oidc.flows.steps import (
    LOCAL,
    callback_url,
    connected,
    copy_of,
    generation,
    shared_stores,
    stores_of,
    two_processes,
    user,
    with_connection,
)
from tests.oidc.grants.test_tokens_of_sessions import mount
from tests.oidc.interleaving import Gate, Held, another_process, begun
from tests.oidc.world import Time, World, make_world, signed_in_world

HOUR = 3600


async def session_of(world: World) -> OIDCSession[Any]:
    """The newest session of alice, in a store."""
    return (await world.oidc.sessions_of("alice"))[0]


@pytest.mark.parametrize(
    ("named", "after"),
    [("sub", [None, None, 0]), ("sid", [None, 0, 0]), ("session_id", [None, 0, 0])],
)
async def test_revoke_ends_the_sessions_of_a_user_or_of_one_login_everywhere(
    processes: tuple[World, World], named: str, after: list[int | None]
) -> None:
    here, there = processes
    browsers = [await here.signed_in(), await there.signed_in(), await here.signed_in("bob")]
    began = next(event for event in here.events if event.name == "login.succeeded")
    await there.oidc.revoke(**{named: getattr(began, named)})
    for world in processes:
        assert [await generation(copy_of(browser, world)) for browser in browsers] == after


@pytest.mark.parametrize("skew", [-3600, -20, 20])
@pytest.mark.parametrize("named", ["sub", "sid"])
async def test_revoke_by_a_worker_whose_clock_is_wrong_ends_older_sessions_alone(
    mode: str, named: str, skew: int
) -> None:
    """20 seconds behind or ahead, or set back an hour: no two machines' clocks are compared."""
    here, there = skewed(mode, skew)
    old = await here.signed_in()
    sid = next(event.sid for event in here.events if event.sid)
    await there.oidc.revoke(**({"sub": "alice"} if named == "sub" else {"sid": sid}))
    assert [await generation(copy_of(old, world)) for world in (here, there)] == [None, None]
    later = [await world.signed_in() for world in (here, there)]
    for new in later:
        assert None not in [await generation(copy_of(new, world)) for world in (here, there)]
    await there.oidc.revoke(sub="alice")
    assert [await generation(new) for new in later] == [None, None], "the next one ends them"


def skewed(mode: str, skew: int) -> tuple[World, World]:
    """Two processes that share stores, the second of which reads a clock that is wrong."""
    time = Time()
    shared = shared_stores(mode, time)
    drift = 4000  # so that the second one accepts ID tokens at all
    here = make_world(time=time, settings={"clock_drift": 300}, **shared)
    clock = Clock(drift=drift, read=lambda: time() + skew)
    return here, another_process(here, clock=clock, **shared)


@pytest.mark.parametrize("callback", ["resolve_identity", "before_session_persist"])
async def test_revocation_during_a_login_ends_its_session(mode: str, callback: str) -> None:
    """The application has read what the user may do, and then that is taken back."""
    gate = Gate()

    async def resolve(context: IdentityContext) -> StandardIdentity:
        if callback == "resolve_identity":
            await gate.passed()
        return StandardIdentity(sub=str(context.id_token_claims["sub"]))

    async def persist(context: PersistContext[Any]) -> None:
        if callback == "before_session_persist":
            await gate.passed()

    here, there = two_processes(mode, resolve_identity=resolve, before_session_persist=persist)
    browser = here.browser()
    login = begun(browser.get(await callback_url(browser), follow_redirects=False))
    await gate.until_reached()
    await there.oidc.revoke(sub="alice")
    gate.opened.set()
    await login
    assert await generation(browser) is None
    assert await generation(await here.signed_in()) == 0, "a later login sees what is new"


async def test_session_whose_end_the_application_shortened_stays_ended(mode: str) -> None:
    """A copy of the cookie from before has the later end."""

    def shorten(context: PersistContext[Any]) -> Any:
        if context.reason == "refresh":
            return context.session.model_copy(update={"expires_at": int(time.now) + HOUR})
        return None

    time = Time()
    settings = {"session_lifetime": 100 * HOUR}
    options = {"settings": settings, "lifetimes": Lifetimes(access_token=100 * HOUR)}
    here, there = two_processes(
        mode, time=time, before_session_persist=shorten, mount=mount, **options
    )
    browser = await here.signed_in()
    copies = [copy_of(browser, world) for world in (here, there)]
    await browser.get("/refreshed")
    assert await generation(browser) == 1
    await browser.post("/auth/logout", data=LOCAL)
    for hours in (0, 1, 1, 24, 73):
        time.advance(hours * HOUR)
        assert [await generation(copy) for copy in copies] == [None, None]


async def test_revoke_takes_exactly_one_name(world: World) -> None:
    for names in ({}, {"sub": "alice", "sid": "s"}, {"sub": ""}, {"sid": ""}, {"session_id": ""}):
        with pytest.raises(ValueError, match="one of"):
            await world.oidc.revoke(**names)


async def test_revoke_needs_a_store() -> None:
    world = make_world(back_channel_logout_store=None)
    with pytest.raises(ConfigurationError) as caught:
        await world.oidc.revoke(sub="alice")
    assert caught.value.code == "configuration.store_missing"


async def test_sessions_of_lists_what_is_active_newest_first() -> None:
    world = make_world(session_store="memory", settings={"idle_timeout": 3000})
    one = await world.signed_in()
    first = (await session_of(world)).id
    world.time.advance(10)
    other = await world.signed_in()
    await world.signed_in("bob")
    listed = await world.oidc.sessions_of("alice")
    assert [session.id == first for session in listed] == [False, True]
    await other.post("/auth/logout", data=LOCAL)
    assert [session.id for session in await world.oidc.sessions_of("alice")] == [first]
    assert await generation(one) == 0
    world.time.advance(3000)
    assert await world.oidc.sessions_of("alice") == []


async def test_a_list_that_cannot_be_read_stops_no_revocation() -> None:
    """It is read for advice on a `sub` that looks like an e-mail address."""
    world, outage = fallible_world("store", provider={"users": [DevUser("alice@example.com")]})
    browser = await world.signed_in("alice@example.com")
    outage.is_down, outage.failing = True, READ
    await world.oidc.revoke(sub="alice@example.com")
    outage.is_down = False
    assert await generation(browser) is None


async def test_sessions_of_lists_no_session_of_another_user_whoever_wrote_the_list() -> None:
    time = Time()
    store = MemoryStore(clock=Clock(read=time))
    world = make_world(time=time, session_store=store)
    await world.signed_in()
    await world.signed_in("bob")
    of_alice, of_bob = (
        "oidc:" + list_key(user_key(world.op.issuer, "app", sub)) for sub in ("alice", "bob")
    )
    mine, others = await store.read([of_alice, of_bob])
    await store.swap(of_alice, mine, Cell(others, int(time()) + HOUR))
    assert await world.oidc.sessions_of("alice") == []


async def test_revoked_session_stays_ended_after_session_lifetime_was_short(mode: str) -> None:
    """A deployment with a wrong `session_lifetime` ends the session, and the next one is right."""
    time = Time()
    stores = shared_stores(mode, time)
    world = make_world(time=time, settings={"session_lifetime": 100 * HOUR}, **stores)
    shorter = world.oidc.settings.model_copy(update={"session_lifetime": HOUR})
    browser = await world.signed_in()
    id = next(event.session_id for event in world.events if event.session_id)
    await another_process(world, settings=shorter, **stores).oidc.revoke(session_id=id)
    time.advance(24 * HOUR)
    assert await generation(browser) is None


async def test_a_user_signs_in_again_after_the_secret_was_replaced(mode: str) -> None:
    """Whatever the store has of sessions that nobody can open any more."""
    time = Time()
    stores = shared_stores(mode, time)
    before = make_world(time=time, **stores)
    await before.signed_in()
    await before.oidc.revoke(sub="alice")
    after = make_world(time=time, **stores)  # with a secret of its own
    assert await user(await after.signed_in()) == "alice"
    assert len(await after.oidc.sessions_of("alice")) == 1 if mode == "store" else True


IDLE = 600
SETTINGS: dict[str, Any] = {
    "settings": {"idle_timeout": IDLE, "refresh_margin": 0},
    "lifetimes": Lifetimes(access_token=100 * IDLE),
}


@pytest.fixture
def idle(mode: str) -> World:
    store = "memory" if mode == "store" else None
    return make_world(session_store=store, mount=with_pages, **SETTINGS)


@pytest.fixture
def idle_processes(mode: str) -> tuple[World, World]:
    return two_processes(mode, mount=with_pages, **SETTINGS)


def with_pages(app: FastAPI, oidc: OIDC[Any, Any]) -> None:
    with_connection(app, oidc)

    @app.get("/refresh")
    async def refresh(request: Request) -> object:
        return {"generation": (await oidc.refresh(request)).generation}


async def test_unused_session_is_over(idle: World) -> None:
    browser = await idle.signed_in()
    idle.time.advance(IDLE - 1)
    assert await generation(browser) == 0
    idle.time.advance(IDLE)
    answer = await browser.get("/me")
    assert (answer.status_code, answer.json()["ended"]) == (401, "expired")


async def test_a_session_that_was_unused_stays_over_when_the_timeout_grows(
    idle_processes: tuple[World, World], mode: str
) -> None:
    here, there = idle_processes
    browser = await here.signed_in()
    patient = there.oidc.settings.model_copy(update={"idle_timeout": 10 * IDLE})
    store = here.oidc.registrations.engine.store
    later = another_process(here, settings=patient, mount=with_pages, **stores_of(mode, store))
    copy = copy_of(browser, later)
    here.time.advance(IDLE)
    assert await generation(browser) is None
    assert await generation(copy) is None
    if mode == "store":
        [session] = await later.oidc.sessions_of("alice")
        party = later.oidc.runtime.party
        live = await party.sessions.judge(Copy(session.id, (), ANY_EPOCH, 0))
        assert isinstance(live, Live)
        assert isinstance(await refresh(party, live), Live), "what a job may do lasts"
        assert await generation(copy) is None


async def test_request_shortly_after_another_counts_as_much(idle: World) -> None:
    browser = await idle.signed_in()
    idle.time.advance(IDLE // 2)
    assert await generation(browser) == 0
    idle.time.advance(IDLE // 10 - 1)
    assert await generation(browser) == 0
    idle.time.advance(IDLE - IDLE // 10)
    assert await generation(browser) == 0, "off by a tenth at most"


async def test_store_is_written_ten_times_in_a_timeout_at_most(mode: str) -> None:
    class Counting(MemoryStore):
        writes = 0

        async def swap(self, key: str, before: bytes | None, after: Cell, /) -> Stored | None:
            self.writes += before is not None
            return await super().swap(key, before, after)

    time = Time()
    store = Counting(clock=Clock(read=time))
    _, browser = await signed_in_world(time=time, **stores_of(mode, store), **SETTINGS)
    store.writes = 0
    for _ in range(60):
        time.advance(IDLE / 60)
        assert (await browser.get("/")).status_code == 200
    assert store.writes == 10


async def test_request_during_a_refresh_counts(idle: World) -> None:
    browser, held = await idle.signed_in(), Held()
    idle.op.faults.put("token", held)
    refreshing = begun(copy_of(browser, idle).get("/refresh"))
    await held.gate.until_reached()
    idle.time.advance(IDLE - 100)
    assert await generation(browser) == 0
    held.gate.opened.set()
    await refreshing
    idle.time.advance(IDLE - 100)
    assert await generation(browser) == 1


async def test_session_used_in_one_process_goes_on_in_the_other(
    idle_processes: tuple[World, World],
) -> None:
    """For an open connection, and for a cookie whose response was lost."""
    here, there = idle_processes
    browser = await here.signed_in()
    before = copy_of(browser, here)
    connection = await connected(here, copy_of(browser, here))
    used = copy_of(browser, there)
    for _ in range(3):
        here.time.advance(IDLE - 1)
        assert await generation(used) == 0
        assert await here.oidc.is_still_signed_in(connection)
    here.time.advance(IDLE - 1)
    assert await generation(before) == 0
    here.time.advance(IDLE)
    assert not await here.oidc.is_still_signed_in(connection)


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

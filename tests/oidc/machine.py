"""Processes, browsers, a provider and stores in one virtual time, and the faults between them."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from itertools import chain
from typing import Any, Final
from urllib.parse import parse_qs

import httpx
from fastapi import FastAPI, Request
from starlette.responses import JSONResponse

from fastapi_oidc import (
    OIDC,
    Clock,
    MemoryRefreshLock,
    MemoryRevocationStore,
    MemorySessionStore,
    OIDCMiddleware,
    OIDCSettings,
    SessionError,
)
from fastapi_oidc.session.records import Advance, Phase, RefreshRecords
from fastapi_oidc.session.revocations import RevocationRecord, RevocationStore
from fastapi_oidc.session.stores import SessionStore
from fastapi_oidc.testing import DevClient, DevProvider, DevUser, Lifetimes, sign_in
from fastapi_oidc.testing.record import LogoutDelivered
from tests.oidc.session.examples import SECRET
from tests.oidc.virtual_time import VirtualTimeLoop
from tests.oidc.world import BASE_URL

EPOCH: Final = 1_800_000_000
STORE_TIMEOUT: Final = 5.0
RESPONSE_SECONDS: Final = 60.0
"""For so long a process awaits the response to a refresh token."""
SLOWEST_ANSWER: Final = 2 * (30 + 20) + 12 * STORE_TIMEOUT
"""Seconds: two refreshes in a row, each of which starts late and takes long, and slow stores."""
SESSION_SECONDS: Final = 8 * 3600
IDLE_SECONDS: Final = 3600
CLIENT_SECRET: Final = SECRET[::-1]
SKEWS: Final = (0, 20, -20)
"""Seconds by which the clocks of the processes differ from the provider's; 30 are tolerated."""


class Fault(Enum):
    """What becomes of one request to a store or to the provider."""

    DOWN = "it is not sent"
    REPLY_LOST = "it takes effect, and its reply does not arrive"
    LATE = "it takes effect when the gate opens, maybe after its sender gave up"
    LATE_REPLY = "its reply comes when the gate opens"
    PAUSED = "it takes effect, and its sender stands still until the gate opens"


@dataclass(frozen=True)
class Mode:
    """Where an application keeps its sessions."""

    processes: int = 2
    records: bool = False
    revocations: bool = False
    store: bool = False
    idle_timeout: int | None = None

    @property
    def is_shared(self) -> bool:
        return self.records or self.store

    @property
    def ends_everywhere(self) -> bool:
        return self.revocations or self.store


@dataclass(eq=False)
class Presentation:
    """One refresh token on its way to the provider."""

    process: Process
    at: float
    used: bool = False
    """The provider gave the next token for it."""
    arrived: bool = False
    """The process has the response."""
    over: bool = False
    """Nothing can arrive any more."""
    secured: bool = False
    """The response, or what was made of it, is where other processes find it."""
    hindered: bool = False
    """A fault kept the response from being secured."""
    repeated: bool = False
    overtaken: bool = False
    """A dead process sent it, and it may reach the provider after the same token of another."""

    @property
    def is_lost(self) -> bool:
        """Whether the decision says that the session is lost: nobody has the next token."""
        if self.overtaken:
            return True
        if not self.used or self.secured:
            return False
        if not self.arrived:
            return self.over or self.process.is_dead
        return self.hindered and (self.repeated or self.process.is_dead)


@dataclass(eq=False)
class KnownSession:
    """What a session has to be, by what happened to it."""

    id: str
    user: str
    began: float
    grant: str = ""
    sid: str | None = None
    ended_in: set[Process] = field(default_factory=set)
    ended_everywhere: bool = False
    may_be_over: bool = False
    generation_at_end: int | None = None


class Process:
    """One process of the application: an `OIDC` object, and what it asks over the network."""

    def __init__(self, world: MachineWorld, number: int) -> None:
        self.world, self.is_dead = world, False
        self.clock_error: float = SKEWS[number % len(SKEWS)]
        self.faults: defaultdict[str, deque[Fault]] = defaultdict(deque)
        mode = world.mode
        clock = Clock(read=lambda: EPOCH + world.loop.seconds + self.clock_error)
        self.oidc: OIDC[Any, Any] = OIDC(
            world.settings,
            clock=clock,
            transport=_ToProvider(self),
            session_store=_Store(self, world.store) if mode.store else None,
            back_channel_logout_store=(
                _Revocations(self, world.revocations) if mode.revocations else None
            ),
            refresh_lock=_Records(self, world.records) if mode.records else None,
        )
        self.app = _application(self.oidc, world)

    async def ask(
        self, name: str, operation: Callable[[], Awaitable[Any]], args: tuple[Any, ...]
    ) -> Any:
        """The reply of a store, with the next fault of this name."""
        world, fault = self.world, await self.next_fault(name)
        if fault is not None and name in ("advance", "replace"):
            world.hinder(self)

        async def effect() -> Any:
            if fault is Fault.LATE:
                await world.gate.wait()
            result = await operation()
            world.note(self, name, args, result)
            if fault is Fault.LATE_REPLY:
                await world.gate.wait()
            return result

        if fault is Fault.DOWN:
            raise ConnectionError("down")
        if fault in (None, Fault.PAUSED):
            result = await effect()
            if fault is Fault.PAUSED:
                await world.stand_still()
        else:
            async with asyncio.timeout(STORE_TIMEOUT):
                result = await asyncio.shield(world.spawn(effect()))
        await self.require_alive()
        if fault is Fault.REPLY_LOST:
            raise ConnectionError("the reply was lost")
        return result

    async def next_fault(self, name: str) -> Fault | None:
        await self.require_alive()
        return self.faults[name].popleft() if self.faults[name] else None

    async def require_alive(self) -> None:
        """A dead process does nothing any more."""
        if self.world.is_closing:
            raise ConnectionError("the world ends")
        if self.is_dead:
            await asyncio.get_running_loop().create_future()


def _asks(name: str) -> Any:
    async def method(self: Any, *args: Any, **options: Any) -> Any:
        operation = partial(getattr(self.inner, name), *args, **options)
        return await self.process.ask(name, operation, args)

    return method


class _Remote:
    def __init__(self, process: Process, inner: Any) -> None:
        self.process, self.inner = process, inner


class _Records(_Remote, RefreshRecords):
    take, advance, look = map(_asks, ("take", "advance", "look"))


class _Revocations(_Remote, RevocationStore):
    revoke, ended_by, stamps = map(_asks, ("revoke", "ended_by", "stamps"))


class _Store(_Remote, SessionStore[Any]):
    records_last_use = returns_copies = True
    get, set, delete = map(_asks, ("get", "set", "delete"))
    replace, touch, find = map(_asks, ("replace", "touch", "find"))

    def bind(self, *args: Any) -> None:
        self.inner.bind(*args)

    @property
    def revocations(self) -> RevocationStore:
        return _Revocations(self.process, self.inner.revocations)

    @property
    def records(self) -> RefreshRecords:
        return _Records(self.process, self.inner.records)


class _ToProvider(httpx.AsyncBaseTransport):
    """The network between a process and the provider; refresh tokens that pass are written down."""

    def __init__(self, process: Process) -> None:
        self.process, self.world = process, process.world
        self.provider = httpx.ASGITransport(self.world.op.app)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        form = parse_qs((await request.aread()).decode())
        if form.get("grant_type") != ["refresh_token"]:
            return await self._reply(request, await self.process.next_fault("provider"), None)
        fault = await self.process.next_fault("token")
        if fault is Fault.DOWN:
            raise httpx.ConnectError("down")
        presentation = self.world.present(self.process, form["refresh_token"][0])
        try:
            return await self._reply(request, fault, presentation)
        finally:
            presentation.over = not self.process.is_dead

    async def _reply(
        self, request: httpx.Request, fault: Fault | None, presentation: Presentation | None
    ) -> httpx.Response:
        if fault is Fault.DOWN:
            raise httpx.ConnectError("down")
        if fault is Fault.LATE:
            await self.world.gate.wait()
        response = await self.provider.handle_async_request(request)
        is_good = response.status_code == 200
        if presentation is not None:
            presentation.used = is_good
        if fault is Fault.LATE_REPLY:
            await self.world.gate.wait()
        await self.process.require_alive()
        if fault is Fault.REPLY_LOST:
            raise httpx.ReadError("the reply was lost")
        if presentation is not None:
            presentation.arrived = is_good
        return response


def _application(oidc: OIDC[Any, Any], world: MachineWorld) -> FastAPI:
    async def me(request: Request) -> JSONResponse:
        return _described(await oidc.require_auth(request))

    async def long(request: Request) -> JSONResponse:
        """A connection that stays open until it gets an order."""
        await oidc.require_auth(request)
        if await world.orders[request.path_params["number"]] == "ask":
            return JSONResponse({"is_signed_in": await oidc.is_still_signed_in(request)})
        return _described(await oidc.refresh(request))

    async def refused(request: Request, error: Exception) -> JSONResponse:
        assert isinstance(error, SessionError)
        return JSONResponse({"code": error.code}, error.status)

    app = FastAPI(openapi_url=None, exception_handlers={SessionError: refused})
    app.add_middleware(OIDCMiddleware, oidc=oidc)
    app.include_router(oidc.router, prefix="/auth")
    app.add_route("/me", me)
    app.add_route("/long/{number:int}", long)
    return app


def _described(session: Any) -> JSONResponse:
    grant = session.tokens.refresh_token.partition(".")[0]
    names = ("sub", "id", "sid", "generation")
    return JSONResponse({"grant": grant, **{name: getattr(session, name) for name in names}})


@dataclass(eq=False)
class Browser:
    """A cookie jar of one person."""

    user: str
    client: httpx.AsyncClient


@dataclass(eq=False)
class Pending:
    """A request under way."""

    kind: str
    browser: Browser
    process: Process
    session_id: str | None
    at: float
    was_over: bool
    task: asyncio.Task[httpx.Response]
    logouts: int
    ended_at: float = 0.0

    def note_end(self, task: asyncio.Task[httpx.Response]) -> None:
        self.ended_at = task.get_loop().time()


class MachineWorld:
    """Everything, and what is known of it."""

    def __init__(self, mode: Mode) -> None:
        self.mode, self.loop, self.is_closing = mode, VirtualTimeLoop(), False
        self.gate, self.opened_at, self.standing_still = asyncio.Event(), 0.0, 0
        self.clock_error, self.clocks_were_set = 0.0, False
        clock = Clock(read=lambda: EPOCH + self.loop.seconds)
        stores = Clock(read=lambda: EPOCH + self.loop.seconds + self.clock_error)
        client = DevClient(
            client_id="app",
            client_secret=CLIENT_SECRET,
            redirect_uris=[f"{BASE_URL}/auth/callback"],
            backchannel_logout_uri=f"{BASE_URL}/auth/backchannel-logout",
        )
        users = [DevUser("alice", "Alice"), DevUser("bob", "Bob")]
        lifetimes = Lifetimes(access_token=60)
        self.op = DevProvider(users=users, clients=[client], clock=clock, lifetimes=lifetimes)
        self.settings = OIDCSettings(
            issuer=self.op.issuer,
            client_id="app",
            client_secret=CLIENT_SECRET,
            cookie_secret=SECRET,
            base_url=BASE_URL,
            scope=["openid", "offline_access"],
            session_lifetime=SESSION_SECONDS,
            idle_timeout=mode.idle_timeout,
        )
        self.records, self.revocations = (
            MemoryRefreshLock(clock=stores),
            MemoryRevocationStore(clock=stores),
        )
        self.store = MemorySessionStore[Any](clock=stores)
        self.sessions: dict[str, KnownSession] = {}
        self.rows: dict[str, str] = {}
        self.presented: defaultdict[str, list[Presentation]] = defaultdict(list)
        self.orders: dict[int, asyncio.Future[str]] = {}
        self.logouts: defaultdict[str, int] = defaultdict(int)
        self.uncertain: set[str] = set()
        self.last_status = 0
        self.faults_found: list[str] = []
        self.pending: list[Pending] = []
        self.requests: list[asyncio.Task[Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.dead: list[Process] = []
        self.processes = [Process(self, number) for number in range(mode.processes)]
        self.op.back_channel_transport = httpx.ASGITransport(self._balanced)
        self.browsers = [self.browser(user) for user in ("alice", "bob")]

    # What happens

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return task

    def browser(self, user: str, like: Browser | None = None) -> Browser:
        client = self.op.browser(self._balanced, base_url=BASE_URL)
        if like is not None:
            client.cookies = httpx.Cookies(like.client.cookies)
        return Browser(user, client)

    def copy(self, browser: Browser) -> Browser:
        """The same cookies, to be brought later."""
        self.browsers.append(self.browser(browser.user, browser))
        return self.browsers[-1]

    async def _balanced(self, scope: Any, receive: Any, send: Any) -> None:
        """The load balancer: the browser's request says which process gets it."""
        number = next((int(v) for k, v in scope["headers"] if k == b"x-process"), 0)
        await self.processes[number].app(scope, receive, send)

    def begin(self, kind: str, browser: Browser, number: int) -> Pending:
        """A request, which has gone as far as it can without time."""
        process, id = self.processes[number], self.session_id(browser)
        known = None if id is None else self.known(id, browser.user)
        if known is not None and kind in ("login", "logout"):
            known.may_be_over = True
        task = self.loop.create_task(self._request(kind, browser, {"x-process": str(number)}))
        self.requests.append(task)
        now, logouts = self.loop.seconds, self.logouts[browser.user]
        pending = Pending(kind, browser, process, id, now, False, task, logouts)
        pending.was_over = self.is_over(pending)
        task.add_done_callback(pending.note_end)
        self.pending.append(pending)
        self.wait(0.001)
        return pending

    async def _request(
        self, kind: str, browser: Browser, headers: dict[str, str]
    ) -> httpx.Response:
        browser.client.headers.update(headers)
        match kind:
            case "login":
                url = "/auth/login?return_to=/me"
                return await sign_in(browser.client, url, user=browser.user)
            case "logout":
                form = {"local": "1"}
                return await browser.client.post("/auth/logout", data=form, follow_redirects=False)
            case "long":
                number = len(self.orders)
                self.orders[number] = self.loop.create_future()
                return await browser.client.get(f"/long/{number}", timeout=None)
            case _:
                return await browser.client.get("/me")

    def ask_everywhere(self) -> None:
        for browser in self.browsers:
            for number in range(self.mode.processes):
                self.begin("me", browser, number)

    def order(self, what: str) -> None:
        """The connections that are open ask for something."""
        for pending in self.pending:
            if pending.kind == "long":
                pending.kind, pending.at = what, self.loop.seconds
                pending.was_over = self.is_over(pending)
        for order in self.orders.values():
            if not order.done():
                order.set_result(what)
        self.wait(0.001)

    def is_over(self, pending: Pending) -> bool:
        """Whether the session of this request has ended for its process."""
        known = self.sessions.get(pending.session_id or "")
        if known is None:
            return False
        is_asked = pending.kind == "ask" and known.generation_at_end is not None
        return known.ended_everywhere or pending.process in known.ended_in or is_asked

    def revoke(self, user: str, number: int) -> None:
        """`oidc.revoke` ends every session of the user, also one that just begins."""
        over = self._begin_ending(user)
        try:
            self.run(self.processes[number].oidc.revoke(sub=user))
        except SessionError:
            self.uncertain.add(user)  # it may take effect until the gate opens
            return
        for known in over:
            known.ended_everywhere = True

    def log_out_at_provider(self, user: str) -> None:
        """The provider ends its sessions of the user, and sends logout tokens."""
        over, events = self._begin_ending(user), len(self.op.record.events)
        sids = {s.sids.get("app") for s in self.op._state.sessions.of_user(user)}
        self.run(self.op.log_out(user))
        sent = [e for e in self.op.record.events[events:] if isinstance(e, LogoutDelivered)]
        for known in over:
            if all(each.status == 200 for each in sent) and known.sid in sids:
                known.ended_everywhere = True
        self.wait(1.5)  # a login in the same second may be one before

    def _begin_ending(self, user: str) -> list[KnownSession]:
        over = [known for known in self.sessions.values() if known.user == user]
        for known in over:
            known.may_be_over = True
        self.logouts[user] += 1
        return over

    async def stand_still(self) -> None:
        self.standing_still += 1
        await self.gate.wait()
        self.standing_still -= 1

    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        for pending in [each for each in self.pending if each.task.done()]:
            self.pending.remove(pending)
            self.judge(pending)

    def kill(self, number: int) -> None:
        """The process is gone, with what it knew; another one takes its place."""
        process = self.processes[number]
        process.is_dead = True
        self.dead.append(process)  # or its tasks are collected while they are under way
        self.pending = [each for each in self.pending if each.process is not process]
        if not self.mode.is_shared:
            self.hinder(process)
            self._note_what_only_it_knew()
        self.processes[number] = Process(self, number)

    def fail(self, number: int, name: str, *faults: Fault) -> None:
        """The next requests of this name fail so."""
        self.processes[number].faults[name].extend(faults)

    def set_clock(self, number: int, error: float) -> None:
        """From now on the clock of the process is wrong by `error` seconds."""
        self.clocks_were_set = True
        self.processes[number].clock_error = error

    def set_back_clock_of_stores(self, seconds: float) -> None:
        """From now on the clock by which the stores keep their times is behind."""
        self.clocks_were_set = True
        self.clock_error -= seconds

    def repair(self) -> None:
        """Nothing fails any more; the clock of the stores goes on, behind as it may be."""
        for number, process in enumerate(self.processes):
            process.faults.clear()
            process.clock_error = SKEWS[number % len(SKEWS)]

    def open_gate(self) -> None:
        """What was held back goes on."""
        gate, self.gate = self.gate, asyncio.Event()
        gate.set()
        for user in self.uncertain:
            self._begin_ending(user)
        self.uncertain.clear()
        self.opened_at = self.loop.seconds
        self.wait(0.001)

    def recover(self) -> None:
        """After the faults every browser whose session goes on is signed in, by every process."""
        self.repair()
        self.open_gate()
        self.order("refresh")
        for _ in range(2 if self.clocks_were_set else 0):  # what was noted by them is over then
            self.ask_everywhere()
            self.wait(200)
        for _ in range(2):
            self.wait(200)
            for browser in self.browsers:
                for number in range(self.mode.processes):
                    self.begin("me", browser, number)
                    assert not self.pending, "no answer although nothing fails"
                    assert self.last_status != 503, "no session although nothing fails"
            self.require()

    def end(self) -> None:
        self.is_closing = True
        self.loop.end()

    # What is written down

    def session_id(self, browser: Browser) -> str | None:
        """The session that the browser's cookie names."""
        hint = self._hint(browser)
        return None if hint is None else hint.previous.id

    def _hint(self, browser: Browser) -> Any:
        backend = self.processes[0].oidc.runtime.party.backend
        return backend.hint(dict(browser.client.cookies), self.op.issuer, "app")

    def known(self, id: str, user: str) -> KnownSession:
        if id not in self.sessions:
            self.sessions[id] = KnownSession(id, user, self.loop.seconds)
        return self.sessions[id]

    def present(self, process: Process, token: str) -> Presentation:
        """No token is presented twice while, or after, a response to it can come."""
        now, grant = self.loop.seconds, token.partition(".")[0]
        for earlier in self.presented[token]:
            is_over = not self.mode.is_shared or now >= earlier.at + RESPONSE_SECONDS
            nobody_knows = earlier.process is not process and not earlier.secured and is_over
            if (earlier.arrived or not earlier.over) and not nobody_knows:
                self.faults_found.append("a refresh token was presented again")
            earlier.repeated = True
            earlier.overtaken |= earlier.process.is_dead and now < earlier.at + RESPONSE_SECONDS
        presentation = Presentation(process, now)
        self.presented[token].append(presentation)
        self._by_grant(grant).append(presentation)
        return presentation

    def _by_grant(self, grant: str) -> list[Presentation]:
        return self.presented[f"grant {grant}"]

    def note(self, process: Process, name: str, args: tuple[Any, ...], result: Any) -> None:
        """A store has done what it was asked."""
        match name, args, result:
            case "advance", (id, Advance(phase=Phase.ENDED), *_), True:
                self._note_end_of_record(id)
            case "advance", (id, Advance(phase=Phase.ANSWERED | Phase.IDLE) as change, *_), True:
                if change.data or change.to_generation > change.generation:
                    self._secure(id, process)
            case "set", (row, session, *_), _:
                self.rows[row] = session.id
            case "replace", (_, session, *_), True:
                self._secure(session.id, process)
            case "delete", (row, *_), _:
                self._end_everywhere(self.rows.get(row))
            case "revoke", (RevocationRecord(session_id=id), *_), _:
                self._end_everywhere(id)

    def hinder(self, process: Process) -> None:
        """The process cannot write down what the provider returned."""
        for presentation in chain.from_iterable(self.presented.values()):
            if presentation.process is process and not presentation.secured:
                presentation.hindered = True

    def _secure(self, id: str, process: Process) -> None:
        if id in self.sessions:
            for presentation in self._by_grant(self.sessions[id].grant):
                presentation.secured |= presentation.used and presentation.process is process

    def _end_everywhere(self, id: str | None) -> None:
        if id is not None:
            known = self.known(id, "")
            known.ended_everywhere = known.may_be_over = True

    def _note_end_of_record(self, id: str) -> None:
        known = self.sessions.get(id)
        if known is not None and known.generation_at_end is None:
            known.generation_at_end = self._generation(known)

    def _generation(self, known: KnownSession) -> int:
        return sum(each.used for each in self._by_grant(known.grant))

    def _note_what_only_it_knew(self) -> None:
        """Without anything shared, a browser whose cookie is not the newest loses its session."""
        for browser in self.browsers:
            hint = self._hint(browser)
            known = None if hint is None else self.sessions.get(hint.previous.id)
            if known and hint.stored.session.generation != self._generation(known):
                known.may_be_over = True

    # What has to be true

    def may_be_over(self, known: KnownSession) -> bool:
        """Whether the session has ended, or was lost in a way that the decision names."""
        age = self.loop.seconds - known.began
        # The idle timeout counts from a use that a store may not have been told of.
        has_expired = age > (self.mode.idle_timeout or SESSION_SECONDS) - 100
        lost = any(each.is_lost for each in self._by_grant(known.grant))
        return known.may_be_over or has_expired or lost

    def judge(self, pending: Pending) -> None:
        """The answer to a request."""
        if pending.task.cancelled():
            return
        seconds = pending.ended_at - max(pending.at, self.opened_at)
        if seconds > SLOWEST_ANSWER:
            self.faults_found.append(f"an answer took {seconds:g} seconds")
        if (error := pending.task.exception()) is not None:
            self.faults_found.append(f"a request failed: {error!r}")
            return
        response = pending.task.result()
        self.last_status = response.status_code
        document = response.json() if response.status_code == 200 else {}
        if response.status_code == 500:
            self.faults_found.append(f"{pending.kind}: {response.status_code} {response.text}")
        elif pending.kind == "login":
            self._judge_login(pending, document)
        elif pending.kind == "logout":
            assert response.status_code == 302, response.text
            self._judge_logout(pending)
        elif pending.session_id is not None and response.status_code != 503:
            known = self.known(pending.session_id, pending.browser.user)
            self._judge_session(pending, known, document)

    def _judge_login(self, pending: Pending, document: dict[str, Any]) -> None:
        if "id" not in document:
            return
        known = self.known(document["id"], pending.browser.user)
        is_alone = not any(each.kind == "login" for each in self.pending)
        before = self.sessions.get(pending.session_id or "")
        if before is not None and before is not known:
            before.ended_in.add(pending.process)
        if self.logouts[pending.browser.user] != pending.logouts or not is_alone:
            known.may_be_over = True
        if pending.browser.user in self.uncertain:
            known.may_be_over = True
        self._judge_session(pending, known, document)

    def _judge_logout(self, pending: Pending) -> None:
        known = self.sessions.get(pending.session_id or "")
        if known is not None:
            known.ended_in.add(pending.process)

    def _judge_session(
        self, pending: Pending, known: KnownSession, document: dict[str, Any]
    ) -> None:
        is_signed_in = bool(document) and document.get("is_signed_in") is not False
        if not is_signed_in and not self.may_be_over(known):
            self.faults_found.append("a session was lost")
        if not is_signed_in:
            return
        if pending.was_over and pending.kind != "login":
            self.faults_found.append("a session that had ended was accepted")
        if "id" not in document:
            return
        known.grant, known.sid = document["grant"], document["sid"]
        limit = known.generation_at_end
        if limit is not None and document["generation"] > limit:
            self.faults_found.append("a session that had ended was refreshed")
        if (document["id"], document["sub"]) != (known.id, pending.browser.user):
            self.faults_found.append("a session of somebody else was given")

    def require(self) -> None:
        for pending in self.pending:
            seconds = self.loop.seconds - max(pending.at, self.opened_at)
            if pending.kind != "long" and not self.standing_still and seconds > SLOWEST_ANSWER:
                self.faults_found.append(f"no answer after {seconds:g} seconds")
        assert not self.faults_found, self.faults_found

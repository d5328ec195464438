"""Processes, browsers, a provider and stores in one virtual time, and what happens to them."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeAlias

import httpx

from fastapi_oidc import Clock, MemoryStore, OIDCSettings, SessionError
from fastapi_oidc.flows.refresh import VALID_TOKEN_PATIENCE
from fastapi_oidc.testing import DevClient, DevProvider, DevResource, DevUser, Lifetimes, sign_in
from fastapi_oidc.testing.record import LogoutDelivered
from tests.oidc.machine.ledger import SESSION_SECONDS, Browser, Ledger, Pending
from tests.oidc.machine.processes import EPOCH, RESOURCES, SKEWS, Fault, Mode, Process
from tests.oidc.session.examples import SECRET
from tests.oidc.virtual_time import VirtualTimeLoop
from tests.oidc.world import BASE_URL, client_at, settings_of

Story: TypeAlias = Callable[["MachineWorld", Browser], None]
IFRAME: Final = {"sec-fetch-site": "same-origin", "sec-fetch-dest": "iframe"}


def _provider(clock: Clock, client: DevClient) -> DevProvider:
    return DevProvider(
        users=[DevUser("alice", "Alice"), DevUser("bob", "Bob")],
        clients=[client],
        resources=[DevResource(resource) for resource in RESOURCES.values()],
        clock=clock,
        lifetimes=Lifetimes(access_token=60),
    )


def _settings(mode: Mode, client: DevClient, op: DevProvider) -> OIDCSettings:
    return settings_of(
        client,
        op,
        cookie_secret=SECRET,
        scope=["openid", "offline_access"],
        session_lifetime=SESSION_SECONDS,
        idle_timeout=mode.idle_timeout,
        dpop=mode.dpop,
    )


class MachineWorld:
    """Everything, and what is known of it."""

    def __init__(self, mode: Mode) -> None:
        self.mode, self.loop, self.is_closing = mode, VirtualTimeLoop(), False
        self.gate, self.standing_still = asyncio.Event(), 0
        self.clock_error, self.clocks_were_set = 0.0, False
        clock = Clock(read=lambda: EPOCH + self.loop.seconds)
        stores = Clock(read=lambda: EPOCH + self.loop.seconds + self.clock_error)
        client = client_at(dpop_bound_access_tokens=mode.dpop)
        self.op = _provider(clock, client)
        self.settings = _settings(mode, client, self.op)
        self.ledger = Ledger(mode, self.loop, self.op)
        self.store = MemoryStore(clock=stores)
        self.orders: dict[int, asyncio.Future[str]] = {}
        self.pending: list[Pending] = []
        self.requests: list[asyncio.Task[Any]] = []
        self._tasks: set[asyncio.Task[Any]] = set()
        self.dead: list[Process] = []
        self.processes = [Process(self, number) for number in range(mode.processes)]
        self.op.back_channel_transport = httpx.ASGITransport(self._balanced)
        self.browsers = [self.browser(user) for user in ("alice", "bob")]

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run_until_complete(work)

    def spawn(self, work: Coroutine[Any, Any, Any]) -> asyncio.Task[Any]:
        task = self.loop.create_task(work)
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
        known = None if id is None else self.ledger.known(id, browser.user)
        if known is not None:
            known.may_be_over |= kind in ("login", "logout")
            known.checks += kind == "silent"
        if not self.mode.in_store:
            kind = kind.replace("job", "call")
        task = self.loop.create_task(self._request(kind, browser, {"x-process": str(number)}))
        self.requests.append(task)
        now, logouts = self.loop.seconds, self.ledger.logouts[browser.user]
        pending = Pending(kind, browser, process, id, now, False, task, logouts)
        pending.was_over = self.ledger.is_over(pending)
        task.add_done_callback(pending.note_end)
        self.pending.append(pending)
        self.wait(0.001)
        return pending

    async def _request(
        self, kind: str, browser: Browser, headers: dict[str, str]
    ) -> httpx.Response:
        browser.client.headers.update(headers)
        match kind.split():
            case ["login"]:
                url = "/auth/login?return_to=/me"
                return await sign_in(browser.client, url, user=browser.user)
            case ["logout"]:
                form = {"local": "1"}
                return await browser.client.post("/auth/logout", data=form, follow_redirects=False)
            case ["silent"]:
                return await browser.client.get("/auth/login?silent=1", headers=IFRAME)
            case ["call", api]:
                return await browser.client.get(f"/call/{api}")
            case ["job", api]:
                url = f"/job/{self.session_id(browser)}/{browser.user}/{api}"
                return await self.browser("").client.get(url, headers=headers)
            case ["long"]:
                number = len(self.orders)
                self.orders[number] = self.loop.create_future()
                return await browser.client.get(f"/long/{number}", timeout=None)
            case _:
                return await browser.client.get("/me")

    def asked(self, kind: str, browser: Browser, number: int) -> int:
        """The status of a request, for which time passes as long as it takes."""
        pending = self.begin(kind, browser, number)
        while not pending.task.done():
            self.wait(1)
        return pending.task.result().status_code

    def ask_everywhere(self) -> None:
        for browser in self.browsers:
            for number in range(self.mode.processes):
                self.begin("me", browser, number)

    def order(self, what: str) -> None:
        """The connections that are open ask for something."""
        for pending in self.pending:
            if pending.kind == "long":
                pending.kind, pending.at = what, self.loop.seconds
                pending.was_over = self.ledger.is_over(pending)
        for order in self.orders.values():
            if not order.done():
                order.set_result(what)
        self.wait(0.001)

    def revoke(self, user: str, number: int) -> None:
        """`oidc.revoke` ends every session of the user, also one that just begins."""
        over = self.ledger.begin_ending(user)
        try:
            self.run(self.processes[number].oidc.revoke(sub=user))
        except SessionError:
            self.ledger.uncertain.add(user)  # it may take effect until the gate opens
            return
        for known in over:
            known.ended_everywhere = True

    def log_out_at_provider(self, user: str) -> None:
        """The provider ends its sessions of the user, and sends logout tokens."""
        over, events = self.ledger.begin_ending(user), len(self.op.record.events)
        sids = {s.sids.get("app") for s in self.op._state.sessions.of_user(user)}
        self.run(self.op.log_out(user))
        sent = [e for e in self.op.record.events[events:] if isinstance(e, LogoutDelivered)]
        for known in over:
            if all(each.status == 200 for each in sent) and known.sid in sids:
                known.ended_everywhere = True
        self.wait(1.5)  # a login in the same second may be one before

    async def stand_still(self) -> None:
        self.standing_still += 1
        await self.gate.wait()
        self.standing_still -= 1

    def wait(self, seconds: float) -> None:
        self.run(asyncio.sleep(seconds))
        for pending in [each for each in self.pending if each.task.done()]:
            self.pending.remove(pending)
            self.ledger.judge(pending, self.pending)

    def kill(self, number: int) -> None:
        """The process is gone, with what it knew; another one takes its place."""
        process = self.processes[number]
        process.is_dead = True
        self.dead.append(process)  # or its tasks are collected while they are under way
        self.pending = [each for each in self.pending if each.process is not process]
        if not self.mode.is_shared:
            self.ledger.hinder(process)
            self._note_what_only_it_knew()
        self.processes[number] = Process(self, number)

    def pause(self, number: int) -> None:
        """The process stands still until the gate opens."""
        self.processes[number].is_paused = True
        self.ledger.hinder(self.processes[number])

    def fail(self, number: int, name: str, *faults: Fault | None) -> None:
        """The next requests of this name fail so; None is one that does not."""
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
        for process in self.processes:
            process.is_paused = False
        gate.set()
        for user in self.ledger.uncertain:
            self.ledger.begin_ending(user)
        self.ledger.uncertain.clear()
        self.ledger.opened_at = self.loop.seconds
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
                    self.wait(VALID_TOKEN_PATIENCE)  # an attempt whose reply was lost owns a row
                    assert not self.pending, "no answer although nothing fails"
                    assert self.ledger.last_status < 500, "no session although nothing fails"
            self.require()

    def end(self) -> None:
        self.is_closing = True
        self.loop.end()

    def session_id(self, browser: Browser) -> str | None:
        """The session that the browser's cookie names."""
        copy = self._copy(browser)
        return None if copy is None else copy.id

    def _copy(self, browser: Browser) -> Any:
        sessions = self.processes[0].oidc.runtime.party.sessions
        return sessions.copy_in(dict(browser.client.cookies))

    def _note_what_only_it_knew(self) -> None:
        """Without a store, a browser whose cookie is not the newest loses its session."""
        for browser in self.browsers:
            copy = self._copy(browser)
            known = None if copy is None else self.ledger.sessions.get(copy.id)
            if known and copy.session.generation != self.ledger.generation(known):
                known.may_be_over = True

    def require(self) -> None:
        for pending in self.pending:
            seconds = self.loop.seconds - max(pending.at, self.ledger.opened_at)
            if pending.kind != "long" and not self.standing_still and seconds > pending.patience:
                self.ledger.faults_found.append(f"no answer after {seconds:g} seconds")
        assert not self.ledger.faults_found, self.ledger.faults_found


def play_story(mode: Mode, story: Story) -> None:
    """The story, with a session whose tokens are due, and what has to be true after it."""
    world = MachineWorld(mode)
    try:
        for browser in world.browsers:
            world.begin("login", browser, 0)
        assert len(world.ledger.sessions) == len(world.browsers)
        world.begin("me", world.browsers[0], mode.processes - 1)
        world.wait(35)
        story(world, world.browsers[0])
        world.require()
        world.recover()
    finally:
        world.end()

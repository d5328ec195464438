"""Control planes as real processes on one Redis: some serve guests, this one ends their access."""

import asyncio
import json
import os
import secrets
import signal
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from fastapi_oidc import OIDC, OIDCSession, OIDCSettings
from fastapi_oidc.broker import Access, Approval, Broker, Route
from fastapi_oidc.testing import DevProvider, DevResource, DevUser, sign_in
from tests.oidc.broker.apis import Answer, Api, Received, says, serving
from tests.oidc.broker.guests import NAME, PATIENCE, Guest
from tests.oidc.broker.rig import APIS, RESOURCE, TWO_HOURS
from tests.oidc.broker.streams import Stream, is_cut, streaming
from tests.oidc.broker.test_approvals import pressed
from tests.oidc.world import BASE_URL, application, client_at
from tests.redis_server import redis_url as redis_url

GUESTS, CALLS = 50, 4


@dataclass(slots=True)
class Process:
    """Another process, which serves accesses."""

    running: asyncio.subprocess.Process

    async def tell(self, line: str) -> None:
        assert self.running.stdin is not None
        assert self.running.stdout is not None
        self.running.stdin.write(f"{line}\n".encode())
        async with asyncio.timeout(PATIENCE):
            assert await self.running.stdout.readline() == b"done\n"

    async def killed(self) -> None:
        self.running.kill()
        async with asyncio.timeout(PATIENCE):
            await self.running.wait()


@dataclass(slots=True)
class Plane:
    """This process, and what another one needs."""

    op: DevProvider
    oidc: OIDC[Any, Any]
    app: FastAPI
    broker: Broker
    api: Api
    told: dict[str, Any]

    def browser(self) -> httpx.AsyncClient:
        mounts = {BASE_URL: httpx.ASGITransport(self.app)}
        return httpx.AsyncClient(
            base_url=BASE_URL, mounts=mounts, follow_redirects=True, timeout=PATIENCE
        )

    async def signed_in(self, browser: httpx.AsyncClient, user: str) -> OIDCSession[Any]:
        await sign_in(browser, "/auth/login?return_to=/me", user=user)
        [session] = await self.oidc.sessions_of(user)
        return session

    async def given(self, session: OIDCSession[Any]) -> Access:
        """The access of a new machine."""
        machine = secrets.token_hex(8)
        return await self.broker.give(session, to=machine, routes=[NAME], until=TWO_HOURS)

    @asynccontextmanager
    async def elsewhere(self, served: Mapping[Path, Access]) -> AsyncIterator[Process]:
        """Another process, which serves an access at each path."""
        running = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tests.oidc.broker.control_plane",
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
        )
        try:
            accesses = {str(path): access.model_dump() for path, access in served.items()}
            process = Process(running)
            await process.tell(json.dumps(self.told | {"accesses": accesses}))
            yield process
        finally:
            assert running.stdin is not None
            running.stdin.close()
            async with asyncio.timeout(PATIENCE):
                await running.wait()
            running._transport.close()  # type: ignore[attr-defined]


@pytest.fixture
async def plane(redis_url: str) -> AsyncIterator[Plane]:
    secret = secrets.token_urlsafe(32)
    op = DevProvider(
        users=[DevUser("alice"), *(DevUser(f"user{number}") for number in range(GUESTS))],
        clients=[client_at(client_secret=secret)],
        resources=[DevResource(RESOURCE)],
    )
    with op.serve() as issuer:
        settings: dict[str, Any] = {
            "issuer": issuer,
            "client_id": "app",
            "client_secret": secret,
            "cookie_secret": secrets.token_urlsafe(32),
            "base_url": BASE_URL,
            "allow_insecure_http": True,
            "provider_timeout": PATIENCE,
        }
        oidc = OIDC(OIDCSettings(**settings), session_store=redis_url, downstream_apis=APIS)
        app = application(oidc, None, {})
        op.back_channel_transport = httpx.ASGITransport(app)
        async with serving(Api()) as api:
            route: dict[str, Any] = {
                "url": api.url,
                "allow": ["GET /events", "POST /events"],
                "approve": ["POST /events"],
                "resource": RESOURCE,
            }
            broker = Broker(oidc, {NAME: Route(**route)})
            app.include_router(broker.router)
            told = {"settings": settings, "store": redis_url, "routes": {NAME: route}}
            yield Plane(op, oidc, app, broker, api, told | {"resource": RESOURCE})
        await oidc.aclose()


@dataclass(slots=True)
class Served:
    """Alice's access, which another process serves."""

    plane: Plane
    browser: httpx.AsyncClient
    access: Access
    guest: Guest
    process: Process


@pytest.fixture
async def served(plane: Plane, tmp_path: Path) -> AsyncIterator[Served]:
    path = tmp_path / "vsock_8080"
    async with plane.browser() as browser:
        access = await plane.given(await plane.signed_in(browser, "alice"))
        async with plane.elsewhere({path: access}) as process:
            yield Served(plane, browser, access, Guest(str(path)), process)


End = Callable[[Served], Awaitable[object]]


async def signed_out(served: Served) -> None:
    home = await served.browser.post("/auth/logout")
    assert home.json() == {"is_authenticated": False}


async def expired(served: Served) -> None:
    await served.process.tell(str(TWO_HOURS.total_seconds()))


ENDS: dict[str, tuple[End, str]] = {
    "withdrawal": (lambda each: each.plane.broker.withdraw(each.access), "broker.withdrawn"),
    "sign-out": (signed_out, "broker.signed_out"),
    "oidc.revoke": (lambda each: each.plane.oidc.revoke(sub="alice"), "broker.signed_out"),
    "the provider's logout": (lambda each: each.plane.op.log_out("alice"), "broker.signed_out"),
    "its time": (expired, "broker.expired"),
}


@asynccontextmanager
async def waiting(
    served: Served, body: bytes = b"lunch"
) -> AsyncIterator[tuple[asyncio.Task[httpx.Response], Approval]]:
    """A call that waits in the other process, once that has stored it."""
    call, found = asyncio.create_task(served.guest.call("POST", content=body)), list[Approval]()
    async with asyncio.timeout(PATIENCE):
        while not found:  # another process stores it
            access = await served.plane.broker.check(served.access)
            found = [each for each in access.waiting if each.body == body]
    yield call, found[0]
    call.cancel()
    await asyncio.wait([call])


async def approve(served: Served, asked: Approval, page: httpx.Response | None = None) -> int:
    """The status of what the page's button sends."""
    page = page or await served.browser.get(f"/approvals/{asked.id}")
    return await pressed(served.browser, asked.id, page) if page.is_success else page.status_code


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS.keys())
async def test_an_end_is_one_for_streams_approvals_and_new_calls_in_another_process(
    served: Served, end: End, code: str
) -> None:
    served.plane.api.answer = Stream()
    async with streaming(served.guest) as parts, waiting(served) as (call, asked):
        page = await served.browser.get(f"/approvals/{asked.id}")
        await end(served)
        for refused in (await served.guest.get(), await call):
            assert (refused.status_code, refused.text.partition(":")[0]) == (401, code)
        assert await is_cut(parts)
        if end is not expired:  # in the other process alone
            assert await approve(served, asked, page) in (401, 403)
    assert [each.method for each in served.plane.api.received] == ["GET"]


@pytest.mark.parametrize("meanwhile", ["nothing", "an approval", "a sign-out"])
async def test_access_survives_a_process_that_is_killed_and_calls_that_wait_there_do_not(
    served: Served, meanwhile: str
) -> None:
    """The next process of the access asks anew, and the person decides about the new call."""
    path = Path(served.guest.path)
    async with waiting(served) as (call, asked):
        served.process.running.send_signal(signal.SIGSTOP)
        if meanwhile == "an approval":
            assert await approve(served, asked) == 200
        elif meanwhile == "a sign-out":
            await signed_out(served)
        await served.process.killed()
        await asyncio.wait([call])
        assert isinstance(call.exception(), httpx.TransportError)
    assert path.name in os.listdir(path.parent), "it was killed"
    found = await served.plane.broker.access_of(served.access.machine)
    assert found is not None
    async with served.plane.elsewhere({path: found.settled(asked.id)}):
        if meanwhile == "a sign-out":
            assert (await served.guest.get()).status_code == 401
            return
        assert (await served.guest.get()).status_code == 200
        assert await approve(served, asked) == (403 if meanwhile == "an approval" else 200)
        async with waiting(served, b"dinner") as (call, another):
            assert await approve(served, another) == 200
            assert (await call).status_code == 200
    assert [each.body for each in served.plane.api.received] == [b"", b"dinner"]


def tells_who(op: DevProvider) -> Answer:
    """An API that answers with the `sub` of the token."""

    async def answer(request: Received, writer: asyncio.StreamWriter) -> None:
        token = op._state.credentials.access_token(request.token)
        assert token is not None
        await says(str(token.claims["sub"]).encode())(request, writer)

    return answer


async def test_guests_of_two_processes_call_as_their_own_people_until_those_end_it(
    plane: Plane, tmp_path: Path
) -> None:
    plane.api.answer = tells_who(plane.op)
    people = [f"user{number}" for number in range(GUESTS)]
    guests = {each: Guest(str(tmp_path / each)) for each in people}
    accesses = dict[str, Access]()
    for each in people:
        async with plane.browser() as browser:
            accesses[each] = await plane.given(await plane.signed_in(browser, each))

    turns = asyncio.Semaphore(10)  # of all at once, the last would be answered after a minute

    async def storm(number: int, person: str) -> None:
        async with turns, guests[person].client() as client:
            first = await asyncio.gather(*(client.get("/events") for _ in range(CALLS)))
            assert {each.text for each in first} == {person}
            if number % 4 == 1:
                await plane.broker.withdraw(accesses[person])
            if number % 4 == 3:
                await plane.oidc.revoke(sub=person)
            after = await asyncio.gather(*(client.get("/events") for _ in range(CALLS)))
            assert {each.status_code for each in after} == {401 if number % 2 else 200}

    def half(of: list[str]) -> dict[Path, Access]:
        return {Path(guests[each].path): accesses[each] for each in of}

    middle = GUESTS // 2
    async with plane.elsewhere(half(people[:middle])), plane.elsewhere(half(people[middle:])):
        await asyncio.gather(*(storm(number, each) for number, each in enumerate(people)))
    assert len(plane.api.received) == GUESTS * CALLS * 3 // 2
    for each in people[::2]:
        assert (await plane.broker.check(accesses[each])).use.calls == 2 * CALLS

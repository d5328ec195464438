"""What somebody who ends and starts parts of the fleet sees."""

import asyncio
import csv
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeAlias

import httpx
import pytest

from examples.fleet.__main__ import _serve
from examples.fleet.commands import HELP, carried_out, status
from examples.fleet.fleet import Fleet, socket_in
from examples.fleet.program import Program
from examples.fleet.status import SESSION_PATH, SessionSeen
from fastapi_oidc.testing import LogoutDelivered, sign_in
from tests.fleet.conftest import PATIENCE

LOGIN = "/auth/login?return_to=/whoami"


async def workers_that_answer(browser: httpx.AsyncClient, path: str = "/fleet/health") -> set[str]:
    """Those of several requests in a row, each of which nginx gives to the next worker."""
    answers = [await browser.get(path) for _ in range(6)]
    assert {answer.status_code for answer in answers} == {200}
    return {answer.headers["X-Worker"] for answer in answers}


async def test_any_worker_answers_for_a_session(browser: httpx.AsyncClient) -> None:
    page = await sign_in(browser, LOGIN, user="alice")
    assert page.json()["sub"] == "alice"
    assert await workers_that_answer(browser, "/whoami") == {"1", "2"}
    assert await workers_that_answer(browser, "/") == {"1", "2"}


async def test_all_workers_have_one_trail_with_the_address_that_nginx_sees(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    browser.headers["X-Forwarded-For"] = "192.0.2.66"
    await sign_in(browser, LOGIN, user="carol")
    refused = await browser.post("/machines/demo/setup", headers={"Origin": fleet.url})
    assert refused.status_code == 403
    url = "/events/export?refused=true&person=carol"
    exports = {(await browser.get(url)).text for _ in range(4)}
    [found] = csv.DictReader(exports.pop().splitlines())
    assert not exports, "the workers say different things"
    what = "Tried to call POST /machines/demo/setup."
    assert (found["what"], found["address"]) == (what, "127.0.0.1")


async def test_a_logout_at_the_provider_comes_through_nginx(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    await sign_in(browser, LOGIN, user="bob")
    await fleet.op.log_out("bob")
    [delivered] = fleet.op.record.of(LogoutDelivered)
    assert (delivered.uri, delivered.status) == (f"{fleet.url}/auth/backchannel-logout", 200)
    for _ in range(2):
        assert (await browser.get("/whoami")).status_code == 401


@pytest.mark.parametrize("verb", ["kill", "stop"])
async def test_the_other_machine_answers_for_one_that_is_gone(
    fleet: Fleet, browser: httpx.AsyncClient, verb: str
) -> None:
    await sign_in(browser, LOGIN, user="alice")
    said = carried_out(f"{verb} machine 1", fleet.parts)
    assert said.startswith("machine 1: worker 1 ended")
    assert await workers_that_answer(browser, "/whoami") == {"2"}
    assert "pid" in carried_out("restart machine 1", fleet.parts)


async def test_the_page_is_there_while_redis_is_not(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    await sign_in(browser, LOGIN, user="alice")
    carried_out("kill redis", fleet.parts)
    assert (await browser.get("/fleet")).status_code == 200
    assert (await browser.get("/fleet/health")).json()["redis_milliseconds"] is None
    refused = await browser.get("/whoami")
    assert refused.status_code == 503
    assert int(refused.headers["Retry-After"]) > 0
    assert "set-cookie" not in refused.headers

    carried_out("start redis", fleet.parts)
    assert (await browser.get("/fleet/health")).json()["redis_milliseconds"] > 0
    assert (await browser.get("/whoami")).json()["sub"] == "alice"


async def test_nginx_reloads_and_the_provider_goes_away_without_a_session_lost(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    await sign_in(browser, LOGIN, user="alice")
    assert carried_out("stop provider", fleet.parts) == "provider: away"
    assert (await browser.get("/whoami")).status_code == 200
    assert carried_out("start provider", fleet.parts) == f"provider: at {fleet.op.issuer}"
    await browser.aclose()  # what nginx closes when it reloads is no longer in use
    before = children_of(fleet.proxy.pid)
    assert before
    carried_out("reload nginx", fleet.parts)
    async with httpx.AsyncClient(
        verify=fleet.trust, cookies=browser.cookies, timeout=PATIENCE
    ) as again:
        assert (await again.get(f"{fleet.url}/whoami")).json()["sub"] == "alice"
    async with asyncio.timeout(PATIENCE):  # an old process closes connections of later tests
        while before & children_of(fleet.proxy.pid):  # noqa: ASYNC110 - of another program
            await asyncio.sleep(0.02)


def children_of(pid: int | None) -> set[str]:
    """The processes that a process has started."""
    return set(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


def test_status_has_a_line_for_each_part(fleet: Fleet) -> None:
    said = carried_out("status", fleet.parts)
    assert said == status(fleet.parts)
    assert len(said.splitlines()) == len(fleet.parts) == 9
    assert f"  worker 1         pid {fleet.workers[0].pid}\n" in said


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("help", HELP),
        ("restart", "There is no such command"),
        ("restart worker 9", "There is no worker 9"),
        ("reload redis", "redis can start, stop, restart, kill, pause, resume."),
        ("kill provider", "provider can start, stop, restart."),
    ],
)
def test_a_line_that_makes_no_sense_changes_nothing(fleet: Fleet, line: str, said: str) -> None:
    before = status(fleet.parts)
    assert carried_out(line, fleet.parts).startswith(said)
    assert status(fleet.parts) == before


def test_what_is_started_twice_goes_on_as_it_was(fleet: Fleet) -> None:
    pid = fleet.redis.pid
    assert carried_out("  start   redis ", fleet.parts) == f"redis: pid {pid}"


def test_the_prompt_carries_out_lines_until_quit(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = iter(["restart worker 9", " quit "])
    monkeypatch.setattr("builtins.input", lambda prompt: next(lines))
    _serve(fleet)
    assert capsys.readouterr().out.endswith("There is no worker 9. Type help for the commands.\n")


# A monitor that is mute or killed while people look at it: what they see, and their sessions


NO_ANSWER = "The monitor does not respond"


async def test_its_page_says_that_it_does_not_answer_and_no_session_is_touched(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    first = await sign_in(browser, LOGIN, user="alice")
    cookies = dict(browser.cookies)
    for verb in ("pause", "kill", "start"):
        carried_out(f"{verb} monitor demo", fleet.parts)
        for _ in fleet.workers:
            for path, says_so in (("/", False), ("/machines/demo", verb != "start")):
                page = await browser.get(path)
                assert (page.status_code, "set-cookie" in page.headers) == (200, False)
                assert (NO_ANSWER in page.text) is says_so
        assert seen_by_nobody(await browser.get(SESSION_PATH)) == seen_by_nobody(first)
    assert dict(browser.cookies) == cookies


def seen_by_nobody(answer: httpx.Response) -> SessionSeen:
    """The session, whichever worker told of it."""
    return SessionSeen.model_validate(answer.json()).model_copy(update={"worker": ""})


# A worker that is killed with a request in its hands, as people see it through nginx


Ask: TypeAlias = Callable[[], Coroutine[Any, Any, httpx.Response]]


def connections_of(worker: Program) -> int:
    """How many there are to its socket, those that it has not taken yet included."""
    address = str(socket_in(worker))
    lines = Path("/proc/net/unix").read_text().splitlines()
    return sum(line.endswith(address) for line in lines)


async def until_nginx_has_sent_it(fleet: Fleet) -> None:
    """nginx is one process: what it began before it answers this by itself, it has done."""
    async with httpx.AsyncClient(timeout=PATIENCE) as stranger:
        answer = await stranger.get(fleet.url.replace("https://", "http://"))
    assert (answer.status_code, "X-Worker" in answer.headers) == (400, False)


async def answers_around_a_kill(fleet: Fleet, ask: Ask) -> list[httpx.Response]:
    """Of requests one after the other; a worker is killed when it has the last of them."""
    [killed, _], requests = fleet.workers, list[asyncio.Task[httpx.Response]]()
    killed.pause()
    idle = connections_of(killed)
    async with asyncio.timeout(PATIENCE):
        while connections_of(killed) == idle:
            if not requests or requests[-1].done():
                requests.append(asyncio.create_task(ask()))
            await asyncio.sleep(0.01)
    await until_nginx_has_sent_it(fleet)
    killed.kill()
    return [await request for request in requests]


async def test_a_request_to_look_is_answered_by_the_next_worker(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    await sign_in(browser, LOGIN, user="alice")
    answers = await answers_around_a_kill(fleet, lambda: browser.get(SESSION_PATH))
    assert {answer.status_code for answer in answers} == {200}
    assert {answer.headers["X-Worker"] for answer in answers} == {"2"}
    assert {answer.json()["sub"] for answer in answers} == {"alice"}


async def test_a_form_is_not_sent_twice_and_its_session_lives(
    fleet: Fleet, browser: httpx.AsyncClient
) -> None:
    """What such a request does may be done already: nginx answers 502 in the worker's place."""
    await sign_in(browser, LOGIN, user="alice")
    answers = await answers_around_a_kill(fleet, lambda: browser.post(SESSION_PATH))
    *others, last = [answer.status_code for answer in answers]
    assert (set(others) <= {405}, last) == (True, 502)
    assert (await browser.get(SESSION_PATH)).json()["sub"] == "alice"

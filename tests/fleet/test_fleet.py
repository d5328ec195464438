"""What somebody who ends and starts parts of the fleet sees."""

from __future__ import annotations

import json

import httpx
import pytest

from examples.fleet.__main__ import _serve
from examples.fleet.commands import HELP, carried_out, status
from examples.fleet.fleet import Fleet
from fastapi_oidc.testing import LogoutDelivered, sign_in

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
    url = "/events/export?form=jsonl&refused=true&person=carol"
    exports = {(await browser.get(url)).text for _ in range(4)}
    [found] = [json.loads(line) for line in exports.pop().splitlines()]
    assert not exports, "the workers say different things"
    assert (found["what"], found["address"]) == ("Tried to change the setup.", "127.0.0.1")


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
    assert "pid" in carried_out("start machine 1", fleet.parts)


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
    carried_out("reload nginx", fleet.parts)
    async with httpx.AsyncClient(verify=fleet.trust, cookies=browser.cookies) as again:
        assert (await again.get(f"{fleet.url}/whoami")).json()["sub"] == "alice"


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

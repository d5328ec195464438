"""A monitor that is mute or killed while people look at it: what they see, and their sessions."""

from __future__ import annotations

import httpx

from examples.fleet.commands import carried_out
from examples.fleet.fleet import Fleet
from examples.fleet.status import SESSION_PATH, SessionSeen
from fastapi_oidc.testing import sign_in
from tests.fleet.test_fleet import LOGIN

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

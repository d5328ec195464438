"""examples/broker runs: an agent's tool and a worker read the calendar until the user signs out."""

from __future__ import annotations

import re
import time

import httpx

from fastapi_oidc.testing import sign_in_sync
from tests.examples.programs import lines_of, started

PAGE = {"Accept": "text/html"}
PATIENCE = 20


def test_an_agent_and_a_worker_use_a_persons_rights_and_hold_no_token() -> None:
    with started("examples.broker") as process, httpx.Client(headers=PAGE) as browser:
        [home] = re.findall(r"http://\S+", lines_of(process, 1)[0])
        page = sign_in_sync(browser, home, user="alice")
        [token, _] = re.findall(r'name="csrf_token" value="([^"]*)"', page.text)
        asked = browser.post(f"{home}ask", data={"csrf_token": token})
        assert "200" in asked.text
        assert "Lunch with Bob" in asked.text
        browser.post(f"{home}watch", data={"csrf_token": token})
        assert "looked 0 times" not in until(browser, home, "looked [1-9]")
        browser.post(f"{home}auth/logout")
        sign_in_sync(browser, home, user="alice")
        assert "broker.signed_out" in until(browser, home, "broker")


def until(browser: httpx.Client, url: str, pattern: str) -> str:
    """The page, as soon as it has the pattern."""
    deadline = time.monotonic() + PATIENCE
    while not re.search(pattern, text := browser.get(url, follow_redirects=True).text):
        assert time.monotonic() < deadline, text
        time.sleep(0.1)
    return text

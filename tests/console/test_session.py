"""The session in the console: who, until when, and when it is over elsewhere."""

from __future__ import annotations

import asyncio
import re

import httpx
import pytest

from tests.console.browser import Browser
from tests.console.running import RunningConsole

PAGES = ("overview", "devices", "metadata", "snapshots", "configuration")


def test_the_page_says_who_and_until_when(alice: Browser) -> None:
    assert re.search(r"Alice Admin Roles: admin Signed in until \d\d:\d\d UTC", alice.text)


@pytest.mark.parametrize("tab", PAGES)
def test_every_page_asks_to_sign_in(console: RunningConsole, tab: str) -> None:
    answer = httpx.get(f"{console.url}/machines/demo/{tab}", headers={"Accept": "text/html"})
    assert answer.status_code == 302
    assert answer.headers["Location"].startswith("/auth/login?return_to=")


@pytest.mark.parametrize("path", ["/states", "/machines/demo/state", "/machines/demo/charts"])
def test_what_pages_fetch_is_refused_without_a_session(console: RunningConsole, path: str) -> None:
    answer = httpx.get(f"{console.url}{path}", headers={"Accept": "application/json"})
    assert answer.status_code == 401


@pytest.mark.parametrize("tab", PAGES)
def test_pages_run_the_consoles_own_files_alone(alice: Browser, tab: str) -> None:
    alice.open(f"/machines/demo/{tab}")
    policy = alice.headers["Content-Security-Policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert alice.headers["Cache-Control"] == "no-store"


def test_a_logout_at_the_provider_ends_the_session_here(
    alice: Browser, console: RunningConsole
) -> None:
    assert console.parts.provider is not None
    asyncio.run(console.parts.provider.log_out("alice"))
    alice.click("Save setup")
    assert alice.status == 401
    assert "Your session has ended" in alice.text
    assert not console.machine().definition.can_boot

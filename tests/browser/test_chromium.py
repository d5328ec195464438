"""Profiles are closed, and a browser that closes none fails one test and no later file."""

from __future__ import annotations

import asyncio
import os
import signal

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse
from starlette.routing import Route

from tests import chromium as limits
from tests.chromium import Chromium, browser_processes, close_context
from tests.oidc.real_op.serving import free_socket, serving

RESTLESS = """<!doctype html><title>Restless</title><iframe src="/frame"></iframe>
<script>
  setInterval(() => fetch("/other"), 20)
  setTimeout(() => { location = "/next" }, 30)
</script>
"""


async def restless(request: Request) -> HTMLResponse:
    """A page that asks all the time, and leaves before it has the answers."""
    await asyncio.sleep(0.1)
    return HTMLResponse(RESTLESS)


def test_pages_that_navigate_all_the_time_are_closed(one_chromium: Chromium) -> None:
    app = Starlette(routes=[Route("/{path:path}", restless)])
    with (
        free_socket() as (listener, origin),
        serving(app, listener),
        one_chromium.used() as browser,
    ):
        for _ in range(5):
            context = browser.new_context()
            for _ in range(3):
                context.new_page().goto(origin, wait_until="commit")
            close_context(context)
        assert browser.contexts == []


def test_a_browser_that_closes_no_profile_is_killed_and_started_anew(
    one_chromium: Chromium, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "LONGEST_END", 0.5)
    with one_chromium.used() as first:
        context = first.new_context()
        page = context.new_page()
        for process in browser_processes():
            os.kill(process, signal.SIGSTOP)
        with pytest.raises(pytest.fail.Exception, match="did not close a page"):
            close_context(context)
        assert page.is_closed()
    with one_chromium.used() as second:
        context = second.new_context()
        assert context.new_page().evaluate("1 + 1") == 2
        close_context(context)

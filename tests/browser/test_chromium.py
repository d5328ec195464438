"""A browser that closes no profile fails one test and no later file."""

from __future__ import annotations

import os
import signal

import pytest

from tests import chromium as limits
from tests.chromium import Chromium, browser_processes, close_context


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

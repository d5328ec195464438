"""The session in the console: who, until when, and when it is over elsewhere."""

from __future__ import annotations

import asyncio
import re

from tests.console.browser import Browser
from tests.console.running import RunningConsole


def test_the_page_says_who_and_until_when(alice: Browser) -> None:
    assert re.search(r"Alice Admin Roles: admin Signed in until \d\d:\d\d UTC", alice.text)


def test_a_logout_at_the_provider_ends_the_session_here(
    alice: Browser, console: RunningConsole
) -> None:
    assert console.parts.provider is not None
    asyncio.run(console.parts.provider.log_out("alice"))
    alice.click("Save setup")
    assert alice.status == 401
    assert "Your session has ended" in alice.text
    assert not console.machine().definition.can_boot

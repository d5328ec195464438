"""Chromium, and people who sign in to the console with it."""

from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from playwright.sync_api import Browser, Page

from tests.chromium import profile
from tests.console.in_chromium.pages import Scheme, Visit, complaints_of
from tests.console.running import RunningConsole


@pytest.fixture
def visit(chromium: Browser, console: RunningConsole) -> Iterator[Visit]:
    """Signs a person in, in a profile of their own; pages that complain fail the test."""
    complaints: list[list[str]] = []
    with ExitStack() as stack:

        def sign_in(name: str = "alice", *, width: int = 1280, scheme: Scheme = "light") -> Page:
            looks: dict[str, Any] = {"viewport": {"width": width, "height": 900}}
            looks |= {"color_scheme": scheme, "base_url": console.url}
            context = stack.enter_context(profile(chromium, **looks))
            complaints.append(complaints_of(context))
            page = context.new_page()
            page.goto("/")
            page.click(f"button[value={name}]")
            page.wait_for_url("**/")
            page.goto("/machines/demo")
            return page

        yield sign_in
        found = [text for of_one in complaints for text in of_one]
    assert found == []

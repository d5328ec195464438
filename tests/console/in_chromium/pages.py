"""What tests do with a page, and what they ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal, TypeAlias

from playwright.sync_api import Browser, Page, expect

from tests.chromium import close_context
from tests.console.running import RunningConsole

PATIENCE = 30_000
"""Milliseconds: a busy computer is no fault of the console."""

Scheme: TypeAlias = Literal["light", "dark"]
Visit: TypeAlias = Callable[..., Page]


@contextmanager
def alice_at(chromium: Browser, host: RunningConsole, **options: Any) -> Iterator[Page]:
    """The list of machines as an admin sees it, one of which runs."""
    context = chromium.new_context(base_url=host.url, **options)
    page = context.new_page()
    page.goto("/")
    page.click("button[value=alice]")
    expect(page.get_by_role("listitem").filter(has_text="demo")).to_contain_text("Running")
    try:
        yield page
    finally:
        close_context(context)


def press(page: Page, label: str) -> None:
    page.get_by_role("button", name=label, exact=True).click()


def unfold(page: Page, title: str) -> None:
    page.locator("summary", has_text=title).first.click()


def unfold_all(page: Page) -> None:
    page.eval_on_selector_all("main details", "all => all.forEach(one => { one.open = true })")


def set_up(page: Page) -> None:
    press(page, "Save setup")
    expect(page.get_by_role("status")).to_have_text("Setup saved.")
